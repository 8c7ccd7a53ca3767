/* Colours of values: viridis, even in lightness, and two maps that part at zero, one for paper and one for the dark. */

const STOPS = {
  values: "440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c 1fa088 28ae80 3fbc73 5ec962 84d44b addc30 d8e219 fde725",
  light: "053061 1c5c9f 3783bb 6bacd1 a7d0e4 d7e8f1 f7f6f6 fcdfcf f7b799 e48066 c94741 a51429 67001f",
  dark: "9eb0ff 6ca9e6 3e90bc 286886 1a4256 11212a 190c09 310f00 501803 7d341e a85a4a d2837a ffadad",
};
const STEPS = 512;
const tables = {};

/** A table of STEPS colours, red, green and blue in a row. */
function tableOf(name) {
  if (tables[name]) return tables[name];
  const stops = STOPS[name].split(" ").map((hex) => [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16)));
  const table = new Uint8ClampedArray(3 * STEPS);
  for (let n = 0; n < STEPS; n++) {
    const at = (n / (STEPS - 1)) * (stops.length - 1);
    const k = Math.min(Math.floor(at), stops.length - 2);
    for (let c = 0; c < 3; c++) table[3 * n + c] = stops[k][c] + (at - k) * (stops[k + 1][c] - stops[k][c]);
  }
  return (tables[name] = table);
}

/** A scale between two values: `put(bytes, i, value)` paints four bytes, `css(value)` names a colour. */
export function scale(low, high, { diverging = false, dark = false } = {}) {
  const table = tableOf(diverging ? (dark ? "dark" : "light") : "values");
  const by = high > low ? (STEPS - 1) / (high - low) : 0;
  const at = (value) => 3 * Math.max(0, Math.min(STEPS - 1, Math.round((value - low) * by)));
  return {
    low,
    high,
    put(bytes, i, value) {
      if (Number.isNaN(value)) return;
      const from = at(value);
      bytes[i] = table[from];
      bytes[i + 1] = table[from + 1];
      bytes[i + 2] = table[from + 2];
      bytes[i + 3] = 255;
    },
    css(value) {
      const from = at(value);
      return `rgb(${table[from]} ${table[from + 1]} ${table[from + 2]})`;
    },
  };
}
