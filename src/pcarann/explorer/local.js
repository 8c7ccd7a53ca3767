// A model that is in the page itself: what `remote.js` asks a server for, evaluated here.

import { compile } from "./graph.js";
import { unpacked } from "./unpacked.js";

/** {describe, infer} of a portrait and a document that `pcarann.explorer.offline` wrote. */
export function local(portrait, { graph, inputs, outputs }) {
  let evaluate = null; // compiled when it is needed for the first time

  async function infer(given, { outputs: wanted, alpha } = {}) {
    evaluate ??= compile(graph, unpacked(graph.constants));
    const names = outputs[alpha] ?? Object.values(outputs)[0];
    const asked = wanted ?? Object.keys(names);
    const missing = asked.find((name) => !(name in names));
    if (missing !== undefined) throw new Error(`This page has no output ${missing}.`);
    const renamed = Object.entries(inputs).map(([name, inside]) => [inside, given[name]]);
    const found = evaluate(Object.fromEntries(renamed), [...new Set(asked.map((name) => names[name]))]);
    return Object.fromEntries(asked.map((name) => [name, found[names[name]]]));
  }

  return { describe: async () => portrait, infer };
}
