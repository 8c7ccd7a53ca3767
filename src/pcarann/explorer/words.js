/* Numbers and shapes as people read them. */

/** A number with so many digits, with a real minus and a power of ten where it is very large or small. */
export function said(value, digits = 4) {
  if (Number.isNaN(value)) return "no value";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-4)) {
    const [front, power] = value.toExponential(Math.max(0, digits - 2)).split("e");
    return `${trimmed(front)}e${Number(power)}`.replaceAll("-", "−");
  }
  const text = value.toPrecision(digits);
  return trimmed(text.includes("e") ? value.toFixed(0) : text).replace("-", "−"); // 99.6 is rounded to 100, not to 1.0e+2
}

/** The same as an input field takes it. */
export function plain(value, digits = 4) {
  return String(Number(value.toPrecision(digits)));
}

function trimmed(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Whether values between two ends are the same but for rounding. */
export function isConstant(low, high) {
  return high - low <= 1e-12 * Math.max(Math.abs(low), Math.abs(high));
}

/** (29, 29) */
export function shapeSaid(shape) {
  return shape.length ? `(${shape.join(", ")})` : "one number";
}

/** Round numbers between two ends, about as many as asked for. */
export function ticks(low, high, about = 5) {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [low];
  const rough = span / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((n) => n * power >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * span; k++) found.push(k * step);
  return found;
}

/** Labels of ticks, all with the digits that tell them apart. */
export function tickLabels(values) {
  const step = values.length > 1 ? Math.abs(values[1] - values[0]) : Math.abs(values[0]) || 1;
  const largest = Math.max(...values.map(Math.abs), step);
  if (largest >= 1e5 || largest < 1e-3) {
    const power = Math.floor(Math.log10(step) + 1e-9);
    const front = step / 10 ** power; // 2.5 needs a digit more than 2
    const digits = Math.floor(Math.log10(largest) + 1e-9) - power + (Math.abs(front - Math.round(front)) > 1e-6 ? 1 : 0);
    return values.map((v) => (Math.abs(v) < step / 1e6 ? "0" : said(v, digits + 2)));
  }
  let decimals = 0;
  while (decimals < 8 && Math.abs(step * 10 ** decimals - Math.round(step * 10 ** decimals)) > 1e-6) decimals++;
  return values.map((v) => (v === 0 ? "0" : v.toFixed(decimals).replace(/^-(0\.?0*)$/, "$1").replace("-", "−")));
}
