/* What the page shows, as lines of Python that compute the same. */

/** The lines: `places` and `sources` are by input, `alpha` undefined where there are no intervals. */
export function asPython({ portrait, places, sources, alpha }) {
  const plain = portrait.inputs.every((one) => !one.modes && !sources[one.name]);
  const lines = plain ? numbers(portrait, places) : settings(portrait, places, sources);
  const extra = portrait.inputs.some((one) => one.name === "controls") && portrait.kind === "Marching";
  const how = extra ? ", controls=controls" : "";
  const spread = portrait.spread ? `prediction, std = model.predict(X, return_std=True${how})` : `prediction = model.predict(X${how})`;
  const call = alpha === undefined ? spread : `band = model.predict_interval(X, alpha=${alpha}${how})`;
  const needed = new Set(["import pcarann"]);
  if (lines.some((line) => line.includes("np."))) needed.add("import numpy as np");
  if (lines.some((line) => line.includes("json."))) needed.add("import json");
  if (!plain) needed.add("from pcarann.explorer import inputs_at");
  const imports = [...needed].sort((a, b) => a.startsWith("from") - b.startsWith("from") || (a < b ? -1 : 1));
  return [...imports, "", `model = pcarann.load(${quoted(portrait.file)})`, ...lines, call, ""].join("\n");
}

/** Tables and numbers alone are written out. */
function numbers(portrait, places) {
  const arrays = portrait.inputs.map((one) => {
    const values = `[${Array.from(places[one.name], number).join(", ")}]`;
    return { key: one.part, text: `np.array(${one.kind === "number" ? values : `[${values}]`})` };
  });
  if (arrays.length === 1 && !arrays[0].key) return [`X = ${arrays[0].text}`];
  return [`X = {${arrays.map(({ key, text }) => `${quoted(key)}: ${text}`).join(", ")}}`];
}

/** Fields are made by their sliders. */
function settings(portrait, places, sources) {
  const parts = portrait.inputs.map((input) => {
    const source = sources[input.name];
    const moved = input.sliders
      .map((slider, k) => [slider.label, places[input.name][k], slider.start])
      .filter(([, at, start]) => at !== start)
      .map(([label, at]) => `${quoted(label)}: ${number(at)}`);
    const sample = source ? [`"sample": ${loaded(source)}`] : [];
    const alone = input.kind === "number" && moved.length === 1;
    return [input.name, alone ? number(places[input.name][0]) : [...sample, ...moved]];
  });
  const rows = parts.filter(([, moved]) => moved.length).map(([name, moved]) => `    ${quoted(name)}: ${laidOut(moved)},`);
  const left = portrait.inputs.some((one) => one.name === "controls") && portrait.kind === "Marching" ? "X, controls" : "X";
  if (!rows.length) return [`${left} = inputs_at(model)`];
  return [`${left} = inputs_at(model, {`, ...rows, "})"];
}

/** A number as it is, settings in one line where that is short, else one in each. */
function laidOut(moved) {
  if (typeof moved === "string") return moved;
  const whole = moved.join(", ");
  return whole.length < 40 ? `{${whole}}` : `{\n${moved.map((one) => `        ${one},`).join("\n")}\n    }`;
}

function loaded({ python, sample, samples }) {
  return samples > 1 ? `${python}[${sample}]` : python;
}

function number(value) {
  return Object.is(value, -0) ? "0" : String(value);
}

function quoted(text) {
  return JSON.stringify(text);
}
