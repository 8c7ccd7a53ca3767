/* Samples from files: .npy, .csv and .json, each an array or several by name; what does not fit is refused in one sentence. */
import { sizeOf } from "./tensors.js";
import { shapeSaid } from "./words.js";

const KINDS = {
  f8: Float64Array, f4: Float32Array, i8: BigInt64Array, i4: Int32Array, i2: Int16Array, i1: Int8Array,
  u8: BigUint64Array, u4: Uint32Array, u2: Uint16Array, u1: Uint8Array, b1: Uint8Array,
};

/** Read a file for a model with these inputs: [{name, shape, data, samples}], data holding all of its samples. */
export async function readSample(file, inputs) {
  const kind = file.name.split(".").pop().toLowerCase();
  const readers = { npy: async () => npy(await file.arrayBuffer()), csv: async () => csv(await file.text()) };
  readers.json = async () => json(await file.text());
  if (!readers[kind]) throw new Error(`${file.name} is no .npy, .csv or .json file.`);
  let found;
  try {
    found = await readers[kind]();
  } catch (error) {
    throw new Error(`${file.name} cannot be read: ${error.message}.`);
  }
  const stem = file.name.slice(0, -kind.length - 1);
  const arrays = found.data ? { [stem]: found } : found;
  return Object.entries(arrays).map(([name, array]) => placed(file.name, name, array, inputs, !found.data));
}

function placed(file, name, array, inputs, named) {
  const fits = inputs.filter((one) => samplesIn(array.shape, one) > 0);
  const called = inputs.find((one) => one.name === name);
  if (named && !called) throw new Error(`${file} has ${name}, but the inputs are ${inputs.map((i) => i.name).join(", ")}.`);
  const input = called ? (fits.includes(called) ? called : null) : fits[0];
  if (!input) {
    const wanted = (called ? [called] : inputs).map((one) => `${one.name} ${shapeSaid(one.shape)}`).join(", ");
    throw new Error(`${file} holds an array of shape ${shapeSaid(array.shape)}, but a sample is ${wanted}.`);
  }
  if (array.data.some((value) => !Number.isFinite(value)) && input.start.data.every(Number.isFinite))
    throw new Error(`${file} holds values that are not finite numbers.`);
  const { data, header = false } = array;
  return { name: input.name, data, samples: samplesIn(array.shape, input), named, header };
}

/** How many samples of an input an array of this shape holds; 0 where it does not fit. */
function samplesIn(shape, input) {
  const own = input.shape;
  const tail = shape.slice(shape.length - own.length);
  if (shape.length >= own.length && tail.every((n, i) => n === own[i])) {
    const front = shape.slice(0, shape.length - own.length);
    return front.length < 2 ? sizeOf(front) : 0;
  }
  const filled = (list) => list.filter((n) => n !== 1).join();
  return filled(shape) === filled(own) ? 1 : 0;
}

/** The format of NumPy: a magic word, a header that is a Python literal, and the values. */
export function npy(buffer) {
  const bytes = new DataView(buffer);
  const magic = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59];
  if (buffer.byteLength < 12 || magic.some((byte, i) => bytes.getUint8(i) !== byte)) throw new Error("it is no .npy file");
  const wide = bytes.getUint8(6) > 1;
  const length = wide ? bytes.getUint32(8, true) : bytes.getUint16(8, true);
  const start = wide ? 12 : 10;
  const header = new TextDecoder().decode(buffer.slice(start, start + length));
  const descr = /'descr':\s*'([<>|=])(\w+)'/.exec(header);
  const order = /'fortran_order':\s*(True|False)/.exec(header);
  const dims = /'shape':\s*\(([^)]*)\)/.exec(header);
  if (!descr || !order || !dims || !KINDS[descr[2]]) throw new Error("it holds no plain numbers");
  const shape = dims[1].split(",").map((n) => n.trim()).filter(Boolean).map(Number);
  const Kind = KINDS[descr[2]];
  const body = buffer.slice(start + length);
  if (body.byteLength !== sizeOf(shape) * Kind.BYTES_PER_ELEMENT) throw new Error("its length does not fit its shape");
  if (descr[1] === ">") swapped(body, Kind.BYTES_PER_ELEMENT);
  const data = Float64Array.from(new Kind(body), Number);
  return { shape, data: order[1] === "True" ? rowMajor(shape, data) : data };
}

function swapped(buffer, width) {
  const bytes = new Uint8Array(buffer);
  for (let i = 0; i < bytes.length; i += width) bytes.subarray(i, i + width).reverse();
}

function rowMajor(shape, data) {
  const found = new Float64Array(data.length);
  for (let n = 0; n < data.length; n++) {
    let rest = n;
    let from = 0;
    let stride = data.length;
    for (let k = shape.length - 1; k >= 0; k--) {
      stride /= shape[k];
      from += (rest % shape[k]) * stride;
      rest = Math.floor(rest / shape[k]);
    }
    found[n] = data[from];
  }
  return found;
}

function csv(text) {
  const rows = text.trim().split(/\r?\n/).map((line) => line.split(/[,;\t]/).map((cell) => cell.trim()));
  const numbers = rows.map((row) => row.map((cell) => (cell === "" ? NaN : Number(cell))));
  const header = numbers[0].some(Number.isNaN) && numbers.length > 1; // a line of names
  const body = header ? numbers.slice(1) : numbers;
  const width = body[0].length;
  if (body.some((row) => row.length !== width)) throw new Error("its rows differ in length");
  if (body.some((row) => row.some(Number.isNaN))) throw new Error("some cells are no numbers");
  return { shape: [body.length, width], data: Float64Array.from(body.flat()), header };
}

function json(text) {
  const found = JSON.parse(text);
  if (Array.isArray(found) || typeof found === "number") return nested(found);
  if (!found || typeof found !== "object") throw new Error("it holds no arrays");
  return Object.fromEntries(Object.entries(found).map(([name, one]) => [name, nested(one)]));
}

function nested(value) {
  const shape = [];
  for (let one = value; Array.isArray(one); one = one[0]) shape.push(one.length);
  const flat = Array.isArray(value) ? value.flat(shape.length) : [value];
  if (flat.length !== sizeOf(shape) || flat.some((one) => typeof one !== "number")) throw new Error("its lists are no array of numbers");
  return { shape, data: Float64Array.from(flat) };
}
