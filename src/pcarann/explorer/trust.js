/* How far an input lies from the training data, as a gauge and in words. */
import { extent } from "./tensors.js";
import { said } from "./words.js";

const WORDS = ["Like the training data", "At the edge of the training data", "Outside the training data"];

/** Inputs of a p-value up to this lie outside the training data. */
export const LEVEL = 0.01;

/** What of an input lies farthest beyond the training data by the ranges of a portrait, in words; null for nothing.

    Numbers are compared by their sliders; fields by the least and the largest value where these are known, else by
    their sliders, as long as these start at the mean and not at a sample of a file. */
export function beyond(inputs, places, sources, tensors) {
  let [most, words] = [0, null];
  const compare = (name, value, { low, high }, margin) => {
    const by = Math.max(low - value, value - high) / (high - low || Math.abs(low) || 1);
    if (by > margin && by > most) [most, words] = [by, `${name} is ${said(value)}, training range ${said(low)} to ${said(high)}`];
  };
  for (const input of inputs) {
    const { range, modes, sliders, part, margin } = input;
    if (modes && range) for (const end of extent(tensors[input.name].data)) compare(`a value of ${part || "the input"}`, end, range, margin);
    else if (!modes || !sources[input.name])
      sliders.forEach((slider, k) => {
        const name = part && part !== slider.label ? `${slider.label} of ${part}` : slider.label;
        compare(name, places[input.name][k], slider, margin);
      });
  }
  return words;
}

/** Show p-values, one, or one for each step of a flow; undefined where the model has none. */
export function showTrust(parts, p, warning) {
  const { card, gauge, needle, novelty, warned } = parts;
  const known = p !== undefined && p.length > 0;
  card.hidden = !known && !warning;
  gauge.hidden = !known;
  novelty.hidden = !known;
  warned.hidden = !warning;
  warned.textContent = warning ?? "";
  if (!known) return;
  const least = Math.min(...p);
  const depth = Math.max(0, Math.min(4, -Math.log10(Math.max(least, 1e-4))));
  const zone = least > 0.1 ? 0 : least > LEVEL ? 1 : 2;
  needle.style.left = `${25 * depth}%`;
  const step = p.findIndex((one) => one <= LEVEL);
  const from = p.length > 1 && zone === 2 ? ` from step ${step + 1} on` : "";
  gauge.setAttribute("aria-valuenow", depth.toFixed(2));
  gauge.setAttribute("aria-valuetext", `${WORDS[zone]}${from}`);
  novelty.dataset.zone = String(zone);
  const strong = document.createElement("b");
  strong.textContent = WORDS[zone] + from;
  novelty.replaceChildren(strong, `, p ${least < 1e-4 ? "< 0.0001" : `= ${said(least, 2)}`}`);
}
