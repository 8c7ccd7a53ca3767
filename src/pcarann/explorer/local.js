/* A model that is in the page itself: {describe, infer} as in remote.js, evaluated here. */

import { compile } from "./graph.js";
import { unpacked } from "./unpacked.js";

/** The model of a portrait and a document that `pcarann.explorer.offline` wrote. */
export function localModel(portrait, { graph, inputs, outputs }) {
  let evaluate = null; // compiled when it is needed for the first time

  function answered(given, wanted, alpha) {
    evaluate ??= compile(graph, unpacked(graph.constants));
    const names = new Map(Object.entries(outputs[alpha] ?? Object.values(outputs)[0]));
    const asked = wanted ?? [...names.keys()];
    const missing = asked.find((name) => !names.has(name));
    if (missing !== undefined) throw new Error(`This page has no output ${missing}.`);
    const renamed = Object.entries(inputs).map(([name, inside]) => [inside, given[name]]);
    const found = evaluate(Object.fromEntries(renamed), [...new Set(asked.map((name) => names.get(name)))]);
    return Object.fromEntries(asked.map((name) => [name, found[names.get(name)]]));
  }

  async function infer(given, { outputs: wanted, alpha } = {}) {
    try {
      return answered(given, wanted, alpha);
    } catch (error) {
      throw Object.assign(error, { status: 400 }); // the same again is of no use
    }
  }

  return { describe: async () => portrait, infer };
}
