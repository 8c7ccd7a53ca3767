/* Small pieces of the page: one of several, a check, a slider with its number, the theme. */
import { plain, said } from "./words.js";

/** An element with attributes and children. */
export function made(kind, attributes = {}, ...children) {
  const found = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in found && typeof value !== "string") found[name] = value;
    else found.setAttribute(name, value);
  }
  found.append(...children);
  return found;
}

let count = 0;

/** One of several by radio buttons: options are [value, words]. */
export function segments(title, options, chosen, changed) {
  const group = `choice-${count++}`;
  const labels = options.map(([value, words]) => {
    const input = made("input", { type: "radio", name: group, value: String(value) });
    input.checked = value === chosen;
    input.addEventListener("change", () => changed(value));
    return made("label", {}, input, made("span", {}, words));
  });
  return made("fieldset", { class: "segments" }, made("legend", { class: "unseen" }, title), ...labels);
}

/** One of several in a list. */
export function choice(title, options, chosen, changed) {
  const select = made("select", {}, ...options.map(([value, words]) => made("option", { value: String(value) }, words)));
  select.value = String(chosen);
  select.addEventListener("change", () => changed(options[select.selectedIndex][0]));
  return made("label", { class: "check" }, `${title} `, select);
}

/** A box to tick. */
export function check(words, on, changed) {
  const input = made("input", { type: "checkbox" });
  input.checked = on;
  input.addEventListener("change", () => changed(input.checked));
  return made("label", { class: "check" }, input, words);
}

/** A slider over the entries of an axis, with the coordinate beside it. */
export function axisSlider(name, coords, at, changed) {
  const input = made("input", { type: "range", min: "0", max: String(coords.length - 1), step: "1" });
  input.value = String(at);
  const words = made("output", {}, said(coords[at]));
  const tell = () => input.setAttribute("aria-valuetext", said(coords[Number(input.value)]));
  tell();
  input.addEventListener("input", () => {
    words.textContent = said(coords[Number(input.value)]);
    tell();
    changed(Number(input.value));
  });
  return made("label", {}, name, input, words);
}

/** A slider of an input with its number, which may go beyond the ends: {row, show(value), pull(share)}. */
export function numberSlider({ label, low, high }, changed) {
  const id = `slider-${count++}`;
  const step = 10 ** Math.floor(Math.log10((high - low) / 100 || 1));
  const digits = Math.max(0, -Math.round(Math.log10(step)));
  const ends = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)].map((n) => (n * step).toFixed(digits));
  const range = made("input", { type: "range", id, min: ends[0], max: ends[1], step: step.toFixed(digits) });
  const number = made("input", { type: "number", step: "any", "aria-label": `${label}, as a number` });
  range.addEventListener("input", () => {
    number.value = range.value;
    changed(Number(range.value));
  });
  number.addEventListener("input", () => {
    if (number.value === "" || !Number.isFinite(number.valueAsNumber)) return;
    range.value = number.value;
    changed(number.valueAsNumber);
  });
  const bar = made("i");
  const row = made("div", { class: "slider" }, made("label", { for: id }, label), range, number, made("div", { class: "pull", "aria-hidden": "true" }, bar));
  return {
    row,
    show(value) {
      range.value = String(value);
      number.value = plain(value);
    },
    pull(share) {
      bar.style.transform = `scaleX(${share})`;
      range.title = share ? `moves the output by ${Math.round(100 * share)} % of what the strongest does` : "";
    },
  };
}

/** Light or dark: what the system prefers until the button is pressed, which is remembered where that is allowed. */
export function theme(button, changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = remembered();
  const show = () => {
    const dark = (chosen ?? (system.matches ? "dark" : "light")) === "dark";
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    button.textContent = dark ? "Light" : "Dark";
    button.setAttribute("aria-label", dark ? "Light colours" : "Dark colours");
    changed();
  };
  button.addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    remembered(chosen);
    show();
  });
  system.addEventListener("change", show);
  show();
}

function remembered(value) {
  try {
    if (value) localStorage.setItem("pcarann-theme", value);
    return localStorage.getItem("pcarann-theme");
  } catch {
    return value ?? null; // a page from a file may have no memory
  }
}
