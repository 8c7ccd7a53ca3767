/* A model on the page. All that is known of it comes through one seam:

     model.describe()                                  the portrait (pcarann.explorer.portrait)
     model.infer(inputs, {outputs, alpha, signal, warn})   {name: {shape, data}} for {name: {shape, data}}

   over HTTP in a page of a server (remote.js), or by a graph in a page that stands alone (local.js). */
import { Asking } from "./asking.js";
import { made, segments, theme } from "./controls.js";
import { axisControls, Figure } from "./figure.js";
import { Inputs } from "./inputs.js";
import { asPython } from "./python.js";
import { decoded, sizeOf } from "./tensors.js";
import { beyond, LEVEL, showTrust } from "./trust.js";
import { View } from "./view.js";
import { said } from "./words.js";

const part = (id) => document.getElementById(id);
const AGAIN = 2000; // milliseconds after which a server that did not answer is asked again
const MOST = 1 << 22; // values of an answer by which sliders are compared

/** Show a model; resolves when its first answer is on the page, rejects where it cannot be described. */
export async function explore(model) {
  const portrait = await model.describe();
  return new Explorer(model, portrait).first;
}

class Explorer {
  constructor(model, portrait) {
    Object.assign(this, { model, portrait, fileWords: part("sample-words").textContent });
    const meshes = portrait.meshes.map((mesh) => mapped(mesh, (value) => (typeof value === "string" ? value : decoded(value))));
    document.title = `${portrait.name} – pcarann explorer`;
    part("name").textContent = portrait.name;
    part("about").textContent = `${portrait.kind}, ${portrait.about}`;
    part("main").hidden = false;
    this.first = new Promise((resolve) => (this.ready = resolve));
    this.asking = new Asking((question, signal) => this.predicted(question, signal), {
      wait: 15,
      began: () => this.waits(),
      done: (answer, seconds) => this.arrived(answer, seconds),
      failed: (error) => this.fails(error),
    });
    this.pulls = new Asking((question, signal) => this.compared(question, signal), {
      wait: 150,
      done: (found) => this.pulled(found),
      failed: (error) => error.changed && this.fails(error), // bars may be missing, but a change is told by whoever hears of it
    });
    this.inputs = new Inputs(portrait, part("sliders"), () => this.ask());
    this.figure = new Figure(portrait, meshes, (what) => this.chosen(what));
    this.given = portrait.inputs.filter((one) => one.kind === "field").map((one) => new View(part("given-canvas"), one, meshes));
    this.shownInput = 0;
    this.choicesOfGiven();
    this.listen();
    this.lays();
    theme(part("theme"), () => this.draw());
    new ResizeObserver(() => requestAnimationFrame(() => this.draw())).observe(part("main"));
    this.ask();
  }

  /** Ask the model about the inputs as they are now. */
  ask() {
    clearTimeout(this.retry);
    this.pulls.drop();
    this.asking.ask({ places: mapped(this.inputs.places, (one) => Float64Array.from(one)), tensors: this.inputs.tensors(), sources: { ...this.inputs.sources } });
    this.writePython();
  }

  async predicted({ places, tensors, sources }, signal) {
    const { outputs, alphas, spread, novelty } = this.portrait;
    const bands = alphas.length ? [".lower", ".upper"] : spread ? [".std"] : [];
    const names = outputs.flatMap(({ name }) => ["", ...bands].map((end) => name + end));
    const warnings = [];
    const options = { outputs: novelty ? [...names, "novelty"] : names, signal, warn: (text) => warnings.push(text) };
    const found = await this.model.infer(tensors, alphas.length ? { ...options, alpha: this.figure.alpha } : options);
    const fields = Object.fromEntries(outputs.map(({ name }) => [name, banded(found, name)]));
    const p = found.novelty?.data;
    return { places, tensors, found, fields, p, warning: this.warned({ places, tensors, sources, p }, warnings.join(" ")) };
  }

  /** What to say of an input outside the training data: what the ranges of the training say, else what the model does. */
  warned({ places, tensors, sources, p }, said) {
    const { kind, inputs } = this.portrait;
    const why = beyond(inputs, places, sources, tensors);
    if ((kind === "Marching" && said) || !why || (p && Math.min(...p) > LEVEL)) return said;
    return `This input lies outside the training data: ${why}. ${p ? "Its prediction is an extrapolation." : "Do not trust its prediction."}`;
  }

  waits() {
    part("field").dataset.state = "waiting";
  }

  arrived(answer, seconds) {
    this.answer = answer;
    part("trouble").hidden = true;
    part("field").dataset.state = "shown";
    part("timing").textContent = `answered in ${said(1000 * seconds, 2)} ms`;
    window.pcarann = { last: { inputs: answer.tensors, outputs: answer.found, seconds } };
    this.draw();
    this.askPulls();
    this.ready();
  }

  fails(error) {
    this.tellTrouble(error.message, ...(error.changed ? [reloading()] : []));
    part("field").dataset.state = "failed";
    this.ready();
    clearTimeout(this.retry);
    if (error.status === undefined || error.status >= 500) this.retry = setTimeout(() => this.ask(), AGAIN);
  }

  tellTrouble(...words) {
    part("trouble").replaceChildren(...words);
    part("trouble").hidden = false;
  }

  /** Draw all that depends on the last answer. */
  draw() {
    if (!this.answer) return;
    this.figure.take(this.answer.fields, this.pinned?.fields);
    const view = this.given[this.shownInput];
    if (view) {
      view.draw(this.answer.tensors[view.tensor.name].data);
      part("given-canvas").setAttribute("aria-label", `The input ${view.tensor.name}: ${view.told(this.answer.tensors[view.tensor.name].data)}`);
    }
    const parts = { card: part("trust"), gauge: part("gauge"), needle: part("needle"), novelty: part("novelty"), warned: part("warning") };
    showTrust(parts, this.answer.p, this.answer.warning);
  }

  /** Something was chosen above the picture. */
  chosen(what) {
    if (what === "level") this.ask();
    if (what === "output" && this.answer) this.askPulls();
    if (what === "layout") this.lays();
    if (what === "pin" && this.answer) {
      this.pinned = this.pinned ? undefined : this.answer;
      this.draw();
    }
  }

  lays() {
    part("main").classList.toggle("no-cross", part("cross").hidden);
    part("main").classList.toggle("no-given", part("given").hidden);
  }

  /** Which slider moves the output most: each is moved alone, by one batch. */
  askPulls() {
    const moved = this.inputs.moved();
    const { tensor } = this.figure;
    if (moved && moved.moves.length * sizeOf(tensor.shape) < MOST) this.pulls.ask({ ...moved, tensor });
  }

  async compared({ tensors, moves, tensor }, signal) {
    const { data } = (await this.model.infer(tensors, { outputs: [tensor.name], signal }))[tensor.name];
    const size = sizeOf(tensor.shape);
    return { effects: moves.map((_, i) => distance(data, 0, (i + 1) * size, size)), moves, tensor };
  }

  pulled({ effects, moves, tensor }) {
    const most = Math.max(...effects);
    moves.forEach(({ row }, i) => row.pull(most > 0 ? effects[i] / most : 0));
    const strongest = effects.indexOf(most);
    part("strongest").textContent =
      most > 0 && moves.length > 1
        ? `Thin bars say how much a slider moves ${tensor.name} here: ${moves[strongest].label} most, by ${said(100 * most, 2)} (rms) over a tenth of its range.`
        : "";
  }

  choicesOfGiven() {
    const views = this.given;
    part("given").hidden = !views.length;
    if (!views.length) return;
    const choices = [];
    if (views.length > 1)
      choices.push(segments("Input", views.map(({ tensor }, i) => [i, tensor.name]), this.shownInput, (i) => {
        this.shownInput = i;
        this.choicesOfGiven();
        this.draw();
      }));
    const { part: name } = views[this.shownInput].tensor;
    part("given-title").textContent = name ? `Input field ${name}` : "Input field";
    const { short, long } = axisControls(views[this.shownInput], () => this.draw());
    part("given-choices").replaceChildren(...choices, ...short, ...long);
  }

  writePython() {
    const { portrait, inputs } = this;
    const alpha = portrait.alphas.length ? this.figure?.alpha : undefined;
    part("python").textContent = asPython({ portrait, places: inputs.places, sources: inputs.sources, alpha });
    part("copied").textContent = "";
    part("copy").textContent = "Copy";
  }

  /** Buttons and files. */
  listen() {
    part("mean").addEventListener("click", () => this.forget(() => this.inputs.reset()));
    part("random").addEventListener("click", () => this.forget(() => this.inputs.shuffle()));
    part("file").addEventListener("change", () => this.open(part("file").files[0], false));
    part("sample-number").addEventListener("input", () => {
      const number = part("sample-number").valueAsNumber;
      if (!Number.isInteger(number) || number < 0 || number >= this.samples) return;
      this.sample = number;
      this.inputs.take(number);
    });
    part("sample-number").addEventListener("change", () => (part("sample-number").value = String(this.sample)));
    part("copy").addEventListener("click", () => this.copy());
    document.addEventListener("dragover", (event) => {
      event.preventDefault();
      document.body.classList.add("dropping");
    });
    document.addEventListener("dragleave", () => document.body.classList.remove("dropping"));
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      document.body.classList.remove("dropping");
      this.open(event.dataTransfer.files[0], true);
    });
  }

  forget(then) {
    part("file").value = "";
    part("sample-which").hidden = true;
    part("sample-words").textContent = this.fileWords;
    then();
  }

  /** Take a sample from a file, dropped or chosen; one that is refused leaves all as it was. */
  async open(file, dropped) {
    if (!file) return;
    if (dropped) part("file").value = "";
    try {
      const { samples, moved } = await this.inputs.open(file);
      Object.assign(this, { samples, sample: 0 });
      part("sample-words").textContent = moved ? `${file.name} is shown; sliders move it from there.` : `Sliders were set from ${file.name}.`;
      part("sample-which").hidden = samples < 2;
      part("sample-number").value = "0";
      part("sample-number").max = String(samples - 1);
      part("sample-count").textContent = `of ${samples}, counted from 0`;
    } catch (error) {
      part("file").value = "";
      this.tellTrouble(error.message);
    }
  }

  async copy() {
    const text = part("python").textContent;
    let words = "Copied";
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      getSelection().selectAllChildren(part("python"));
      words = "Selected: copy it";
    }
    part("copied").textContent = words;
    part("copy").textContent = words;
    setTimeout(() => (part("copy").textContent = "Copy"), 1500);
  }
}

function reloading() {
  const button = made("button", { type: "button", id: "reload" }, "Reload");
  button.addEventListener("click", () => location.reload());
  return button;
}

/** What was found of one output: its mean, and its band by ends and half-width. */
function banded(found, name) {
  const mean = found[name].data;
  if (found[`${name}.lower`]) {
    const [lower, upper] = [found[`${name}.lower`].data, found[`${name}.upper`].data];
    return { mean, lower, upper, half: upper.map((value, i) => (value - lower[i]) / 2) };
  }
  const half = found[`${name}.std`]?.data;
  if (!half) return { mean };
  return { mean, half, lower: mean.map((value, i) => value - half[i]), upper: mean.map((value, i) => value + half[i]) };
}

/** Root mean square of the difference of two stretches of an array, over the values that are there. */
function distance(data, first, second, size) {
  let sum = 0;
  let count = 0;
  for (let i = 0; i < size; i++) {
    const by = data[second + i] - data[first + i];
    if (Number.isNaN(by)) continue;
    sum += by * by;
    count++;
  }
  return Math.sqrt(sum / Math.max(count, 1));
}

function mapped(object, change) {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value)]));
}
