/* Columns of files by name: tables as CSV, and records as JSON, brought to the numbers of a model. */

/** The text of a table: {mark, names: null or [name, …], shape, data}. */
export function csv(text) {
  const lines = text.trim().split(/\r?\n/);
  const mark = separator(lines[0]);
  const rows = lines.map((line) => cells(line, mark));
  const numbers = rows.map((row) => row.map((cell) => (cell === "" ? NaN : Number(cell))));
  const headed = numbers[0].some(Number.isNaN) && numbers.length > 1;
  const body = headed ? numbers.slice(1) : numbers;
  const width = rows[0].length;
  if (headed && new Set(rows[0]).size < width) throw new Error("two of its columns have the same name");
  if (body.some((row) => row.length !== width)) throw new Error("its rows differ in length");
  if (body.some((row) => row.some(Number.isNaN))) throw new Error("some cells are no numbers");
  return { mark, names: headed ? rows[0] : null, shape: [body.length, width], data: Float64Array.from(body.flat()) };
}

/** What parts the cells of a line: the one of , ; and tab that is there most often. */
function separator(line) {
  const counts = [",", ";", "\t"].map((mark) => [cells(line, mark).length, mark]);
  return counts.reduce((best, one) => (one[0] > best[0] ? one : best))[1];
}

function cells(line, mark) {
  const found = [""];
  let quoted = false;
  for (const letter of line) {
    if (letter === '"') quoted = !quoted;
    else if (letter === mark && !quoted) found.push("");
    else found[found.length - 1] += letter;
  }
  return found.map((cell) => cell.trim());
}

/** The names of the numbers of an input that has one slider for each: of its columns, or its own. */
export function namesOf(input) {
  if (input.modes) return [];
  return input.kind === "number" ? [input.part || input.name] : input.sliders.map((slider) => slider.label);
}

/** Columns {name: values}, put together to the inputs that they belong to: [{name, data, samples}]; throws one sentence. */
export function byName(file, columns, inputs) {
  const given = new Map(Object.entries(columns));
  const known = inputs.flatMap(namesOf);
  const called = [...given.keys()];
  const strange = called.find((name) => !known.includes(name));
  if (strange !== undefined) throw new Error(`${file} has ${strange || "a column without a name"}, but the inputs are ${listed(inputs)}.`);
  const twice = called.find((name) => known.indexOf(name) !== known.lastIndexOf(name));
  if (twice !== undefined) throw new Error(`${file} has ${twice}, which several inputs have: give arrays by the names of inputs.`);
  return inputs.filter((one) => namesOf(one).some((name) => given.has(name))).map((input) => {
    const names = namesOf(input);
    const missing = names.find((name) => !given.has(name));
    if (missing !== undefined) throw new Error(`${file} has no ${missing}, but ${names.join(", ")} belong together.`);
    const samples = given.get(names[0]).length;
    if (names.some((name) => given.get(name).length !== samples)) throw new Error(`${file} has columns of different lengths.`);
    const data = new Float64Array(samples * names.length);
    names.forEach((name, k) => given.get(name).forEach((value, i) => (data[i * names.length + k] = value)));
    return { name: input.name, data, samples };
  });
}

/** The names that a file may use. */
export function listed(inputs) {
  const names = inputs.flatMap((one) => (one.modes || one.kind === "number" ? [one.name] : [...(one.part ? [one.part] : []), ...namesOf(one)]));
  return names.join(", ");
}
