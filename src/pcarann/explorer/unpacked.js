// Constants of a graph, as `pcarann.explorer.packed` writes them, back as tensors.

import { uniform } from "./random.js";
import { bytesOf } from "./tensors.js";

const ARRAYS = { float64: Float64Array, float32: Float32Array, int32: Int32Array, uint8: Uint8Array };

/** {name: {kind, shape, data}} of packed constants. */
export function unpacked(constants) {
  return Object.fromEntries(Object.entries(constants).map(([name, one]) => [name, tensor(one)]));
}

function tensor({ kind, shape, draws, stored, data }) {
  return { kind, shape, data: draws ? drawn(draws) : decoded(data, stored) };
}

/** Matrices of random numbers, one after another. */
function drawn(draws) {
  const data = new Float64Array(draws.reduce((all, { shape }) => all + shape[0] * shape[1], 0));
  let offset = 0;
  for (const { key, shape, low, high, turned } of draws) {
    const [rows, columns] = shape;
    const numbers = uniform(rows * columns, key, low, high);
    if (!turned) data.set(numbers, offset);
    else
      for (let i = 0; i < rows; i++)
        for (let j = 0; j < columns; j++) data[offset + j * rows + i] = numbers[i * columns + j];
    offset += numbers.length;
  }
  return data;
}

function decoded(text, stored) {
  const bytes = bytesOf(text);
  if (stored === "float48") return new Float64Array(lengthened(bytes).buffer);
  return new Float64Array(new ARRAYS[stored](bytes.buffer));
}

/** The upper six bytes of each number, with two lower ones of zeros. */
function lengthened(bytes) {
  const whole = new Uint8Array((bytes.length / 6) * 8);
  for (let i = 0, o = 0; i < bytes.length; i += 6, o += 8) for (let k = 0; k < 6; k++) whole[o + 2 + k] = bytes[i + k];
  return whole;
}
