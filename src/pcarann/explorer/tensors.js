/* Arrays as {shape, data}, rows one after another, and the inputs that sliders make of them. */

const KINDS = { FP64: Float64Array, FP32: Float32Array, INT32: Int32Array };

/** VALUES of a portrait as {shape, data}. */
export function decoded(values) {
  return { shape: values.shape, data: new KINDS[values.datatype](bytesOf(values.base64).buffer) };
}

/** The bytes of a text in base64. */
export function bytesOf(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/** The number of values of a shape. */
export function sizeOf(shape) {
  return shape.reduce((product, n) => product * n, 1);
}

/** An input of a portrait at these places of its sliders: start + Σ (s − s̄) mode, or the places themselves. */
export function composed(input, places, start = input.start.data) {
  if (!input.modes) return Float64Array.from(places);
  const data = Float64Array.from(start);
  input.sliders.forEach((slider, k) => {
    const by = places[k] - slider.start;
    if (by === 0) return;
    const mode = input.modes.data.subarray(k * data.length, (k + 1) * data.length);
    for (let i = 0; i < data.length; i++) data[i] += by * mode[i];
  });
  return data;
}

/** Values of a tensor's sample where all axes but those of `free` stand at the places of `at`: {shape, data, index}. */
export function cut(shape, data, free, at) {
  const strides = shape.map((_, i) => sizeOf(shape.slice(i + 1)));
  const base = shape.reduce((sum, _, i) => (free.includes(i) ? sum : sum + at[i] * strides[i]), 0);
  const own = free.map((i) => shape[i]);
  const count = sizeOf(own);
  const index = new Int32Array(count);
  for (let n = 0; n < count; n++) {
    let rest = n;
    let where = base;
    for (let k = free.length - 1; k >= 0; k--) {
      where += (rest % own[k]) * strides[free[k]];
      rest = Math.floor(rest / own[k]);
    }
    index[n] = where;
  }
  return { shape: own, index, data: Float64Array.from(index, (i) => data[i]) };
}

/** Least and largest finite value of some arrays. */
export function extent(...arrays) {
  let low = Infinity;
  let high = -Infinity;
  for (const data of arrays) {
    for (const value of data) {
      if (!Number.isFinite(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : [0, 1];
}
