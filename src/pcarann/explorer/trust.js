/* How far an input lies from the training data, as a gauge and in words. */
import { said } from "./words.js";

const WORDS = ["Like the training data", "At the edge of the training data", "Outside the training data"];

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
  const zone = least > 0.1 ? 0 : least > 0.01 ? 1 : 2;
  needle.style.left = `${25 * depth}%`;
  const step = p.findIndex((one) => one <= 0.01);
  const from = p.length > 1 && zone === 2 ? ` from step ${step + 1} on` : "";
  gauge.setAttribute("aria-valuenow", depth.toFixed(2));
  gauge.setAttribute("aria-valuetext", `${WORDS[zone]}${from}`);
  novelty.dataset.zone = String(zone);
  const strong = document.createElement("b");
  strong.textContent = WORDS[zone] + from;
  novelty.replaceChildren(strong, `, p ${least < 1e-4 ? "< 0.0001" : `= ${said(least, 2)}`}`);
}
