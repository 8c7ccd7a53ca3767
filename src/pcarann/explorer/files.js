/* Samples from files: .npy, .npz, .csv and .json, an array or several by name; what does not fit is refused in one sentence. */
import { unzipped } from "./archive.js";
import { byName, csv, listed, namesOf } from "./tables.js";
import { sizeOf } from "./tensors.js";
import { shapeSaid } from "./words.js";

const KINDS = {
  f8: Float64Array, f4: Float32Array, i8: BigInt64Array, i4: Int32Array, i2: Int16Array, i1: Int8Array,
  u8: BigUint64Array, u4: Uint32Array, u2: Uint16Array, u1: Uint8Array, b1: Uint8Array,
};
const READERS = { npy: fromNpy, npz: fromNpz, csv: fromCsv, json: fromJson };

/** Read a file for a model with these inputs: [{name, data, samples, python}], data holding all of its samples, and
    `python` what reads them, for inputs that are fields. */
export async function readSample(file, inputs) {
  const reader = READERS[file.name.split(".").pop().toLowerCase()];
  if (!reader) throw new Error(`${file.name} is no .npy, .npz, .csv or .json file.`);
  let found;
  try {
    found = await reader(file);
  } catch (error) {
    throw new Error(`${file.name} cannot be read: ${error.message}.`);
  }
  const parts = found(inputs);
  for (const { name, data } of parts) {
    const input = inputs.find((one) => one.name === name);
    if (data.some((value) => !Number.isFinite(value)) && input.start.data.every(Number.isFinite))
      throw new Error(`${file.name} holds values that are not finite numbers.`);
  }
  const counts = [...new Set(parts.map((one) => one.samples))].filter((count) => count > 1);
  if (counts.length > 1) throw new Error(`${file.name} holds ${counts.join(" and ")} samples of its inputs: these must be as many.`);
  return parts;
}

async function fromNpy(file) {
  const array = npy(await file.arrayBuffer());
  return (inputs) => [placed(file.name, array, inputs, `np.load(${quoted(file.name)})`)];
}

async function fromNpz(file) {
  const entries = Object.entries(await unzipped(await file.arrayBuffer())).filter(([name]) => name.endsWith(".npy"));
  if (!entries.length) throw new Error("it holds no arrays");
  const arrays = Object.fromEntries(entries.map(([name, bytes]) => [name.slice(0, -4), npy(bytes)]));
  return (inputs) => named(file.name, arrays, inputs, (name) => `np.load(${quoted(file.name)})[${quoted(name)}]`);
}

async function fromCsv(file) {
  const { mark, names, shape, data } = csv(await file.text());
  return (inputs) => {
    const known = inputs.flatMap(namesOf);
    const unnamed = inputs.filter((one) => one.modes || (one.kind === "table" && !one.columns.length));
    if (names && (names.some((name) => known.includes(name)) || !unnamed.some((one) => samplesIn(shape, one))))
      return byName(file.name, Object.fromEntries(names.map((name, k) => [name, data.filter((_, i) => i % shape[1] === k)])), inputs);
    const skipped = names ? ", skip_header=1" : "";
    return [placed(file.name, { shape, data }, names ? unnamed : inputs, `np.genfromtxt(${quoted(file.name)}, delimiter=${quoted(mark)}${skipped})`)];
  };
}

async function fromJson(file) {
  const found = JSON.parse(await file.text());
  const read = `json.load(open(${quoted(file.name)}))`;
  const isRecord = (one) => one !== null && typeof one === "object" && !Array.isArray(one);
  if (isRecord(found)) {
    const arrays = Object.fromEntries(Object.entries(found).map(([name, one]) => [name, nested(one)]));
    return (inputs) => named(file.name, arrays, inputs, (name) => `np.array(${read}[${quoted(name)}])`);
  }
  if (!Array.isArray(found) || !found.length || !found.every(isRecord)) {
    const array = nested(found);
    return (inputs) => [placed(file.name, array, inputs, `np.array(${read})`)];
  }
  const names = Object.keys(found[0]);
  if (found.some((one) => Object.keys(one).sort().join() !== [...names].sort().join())) throw new Error("its records have different names");
  const arrays = Object.fromEntries(names.map((name) => [name, nested(found.map((one) => one[name]))]));
  return (inputs) => named(file.name, arrays, inputs, (name) => `np.array([one[${quoted(name)}] for one in ${read}])`);
}

/** Arrays by the names of inputs, and columns by their own. */
function named(file, arrays, inputs, python) {
  const found = [];
  const columns = Object.create(null);
  for (const [name, array] of Object.entries(arrays)) {
    const input = inputs.find((one) => one.name === name) ?? inputs.find((one) => one.part && one.part === name);
    if (input) found.push(placed(file, array, [input], python(name)));
    else if (array.shape.length > 1 || !inputs.flatMap(namesOf).includes(name)) throw new Error(`${file} has ${name}, but the inputs are ${listed(inputs)}.`);
    else columns[name] = array.data;
  }
  return [...found, ...byName(file, columns, inputs)];
}

/** An array as samples of the input that the file is called by, or else of the first that it fits. */
function placed(file, { shape, data }, inputs, python) {
  const called = inputs.filter((one) => file.startsWith(`${one.name}.`));
  const possible = called.length ? called : inputs;
  const input = possible.find((one) => samplesIn(shape, one) > 0);
  if (!input) {
    const wanted = possible.map((one) => `${one.name} ${shapeSaid(one.shape)}`).join(", ");
    throw new Error(`${file} holds an array of shape ${shapeSaid(shape)}, but a sample is ${wanted}.`);
  }
  return { name: input.name, data, samples: samplesIn(shape, input), python };
}

function quoted(text) {
  return JSON.stringify(text);
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

function nested(value) {
  const shape = [];
  for (let one = value; Array.isArray(one); one = one[0]) shape.push(one.length);
  const flat = Array.isArray(value) ? value.flat(shape.length) : [value];
  if (flat.length !== sizeOf(shape) || flat.some((one) => typeof one !== "number")) throw new Error("its lists are no array of numbers");
  return { shape, data: Float64Array.from(flat) };
}
