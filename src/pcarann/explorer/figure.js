/* The card of the prediction: what of an answer is shown, beside what it is compared with, the probe and its section. */
import { axisSlider, check, choice, made, segments } from "./controls.js";
import { drawCurve } from "./plots.js";
import { extent } from "./tensors.js";
import { View } from "./view.js";
import { said } from "./words.js";

const CALIBRATED = { mean: "Prediction", lower: "Lower", upper: "Upper", half: "Half-width" };
const SPREAD = { mean: "Prediction", lower: "− 1 std", upper: "+ 1 std", half: "std" };
const COMPARED = { now: "Now", pinned: "Pinned", difference: "Difference" };
const part = (id) => document.getElementById(id);

/** The card; `changed(what)` hears of "level", "output" and "pin". An answer is {name: {mean, lower, upper, half}}. */
export class Figure {
  constructor(portrait, meshes, changed) {
    Object.assign(this, { portrait, changed, output: 0, show: "mean", compare: "now", held: false });
    this.alpha = portrait.alpha;
    this.views = portrait.outputs.map((tensor) => new View(part("canvas"), tensor, meshes));
    this.follow(part("plot"));
    this.choices();
  }

  get view() {
    return this.views[this.output];
  }

  get tensor() {
    return this.view.tensor;
  }

  /** Whether a list stands in place of a picture. */
  get listed() {
    return this.view.layout.kind === "list";
  }

  /** Take in an answer, and what is pinned beside it, if anything. */
  take(answer, pinned) {
    if (!pinned) this.compare = "now";
    else if (pinned !== this.pinned) this.choicesLater = true;
    const news = (pinned === undefined) !== (this.pinned === undefined) || this.choicesLater;
    Object.assign(this, { answer, pinned, choicesLater: false });
    if (news) this.choices();
    this.draw();
  }

  /** The buttons above the picture, and sliders of axes below it. */
  choices() {
    const { portrait, view } = this;
    const again = (name) => (value) => {
      this[name] = value;
      this.limits = undefined;
      if (name === "output") this.choices();
      this.draw();
      if (name === "output" || name === "alpha") this.changed(name === "alpha" ? "level" : "output");
    };
    const found = [];
    if (this.views.length > 1)
      found.push(segments("Output", portrait.outputs.map(({ name }, i) => [i, name]), this.output, again("output")));
    const { short, long } = axisControls(view, () => {
      this.limits = undefined;
      this.draw();
    });
    found.push(...short);
    const bands = portrait.alphas.length || portrait.spread;
    const shown = portrait.alphas.length ? CALIBRATED : SPREAD;
    if (bands && !this.listed) found.push(segments("Show", Object.entries(shown), this.show, again("show")));
    if (portrait.alphas.length)
      found.push(choice("Interval", portrait.alphas.map((a) => [a, `${said(100 * (1 - a))} %`]), this.alpha, again("alpha")));
    const pin = made("button", { type: "button", id: "pin", "aria-pressed": String(Boolean(this.pinned)) }, this.pinned ? "Unpin" : "Pin");
    pin.title = this.pinned ? "Compare no more" : "Keep this prediction, to compare others with it";
    pin.addEventListener("click", () => this.changed("pin"));
    found.push(pin);
    if (this.pinned && !this.listed) found.push(segments("Compare", Object.entries(COMPARED), this.compare, again("compare")));
    if (!this.listed)
      found.push(check("Hold scale", this.held, (on) => {
        this.held = on;
        this.draw();
      }));
    const focus = document.activeElement?.id;
    part("choices").replaceChildren(...found);
    part("held").replaceChildren(...long);
    if (focus === "pin") part("pin").focus();
    part("plot").hidden = this.listed;
    part("list").hidden = !this.listed;
    for (const id of ["readout", "plot-words", "plot-keys"]) part(id).hidden = this.listed;
    const words = view.layout.mesh?.words;
    part("note").hidden = !words || this.listed;
    part("note").textContent = words ? `Shown: ${words}.` : "";
  }

  /** Draw what there is. */
  draw() {
    if (!this.answer) return;
    if (this.listed) return this.list();
    const { view, tensor } = this;
    const now = this.answer[tensor.name];
    const then = this.pinned?.[tensor.name];
    const diverging = this.compare === "difference";
    const data = this.chosen(now, then);
    const limits = (this.held && this.limits) || this.limitsOf(now, then);
    this.limits = limits;
    const dark = document.documentElement.dataset.theme === "dark";
    const band = this.show === "mean" && this.compare !== "difference" ? this.bandOf(this.compare === "now" ? now : then) : undefined;
    const other = this.compare === "now" && then ? then[this.show] : undefined;
    const label = `${diverging ? "now − pinned, " : ""}${this.worded(view.title)}`;
    view.draw(data, { limits, held: this.held, diverging, dark, band, other, label });
    this.tell(data, limits);
    this.section(now, then, data, band, label);
  }

  /** What is shown of a field of this name. */
  worded(name) {
    const ends = { mean: name, lower: `lower end of ${name}`, upper: `upper end of ${name}`, half: `half-width of ${name}` };
    const spread = { mean: name, lower: `${name} − 1 std`, upper: `${name} + 1 std`, half: `std of ${name}` };
    return (this.portrait.alphas.length ? ends : spread)[this.show];
  }

  /** What its interval is. */
  get level() {
    const { alphas, spread } = this.portrait;
    return alphas.length ? `${said(100 * (1 - this.alpha))} % interval` : spread ? "standard deviation, uncalibrated" : "";
  }

  /** The sample that is shown: of now, of what is pinned, or the difference. */
  chosen(now, then) {
    if (this.compare === "pinned") return then[this.show];
    if (this.compare === "now") return now[this.show];
    return now[this.show].map((value, i) => value - then[this.show][i]);
  }

  bandOf(one) {
    return one.lower ? [one.lower, one.upper] : undefined;
  }

  /** Limits of colours that hold for all that can be switched between. */
  limitsOf(now, then) {
    const { view, show } = this;
    const over = (one, name) => (one?.[name] ? [view.overTime(one[name])] : []);
    if (this.compare === "difference") {
      const [low, high] = extent(view.overTime(this.chosen(now, then)));
      const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
      return [-most, most];
    }
    const names = show === "lower" || show === "upper" ? ["lower", "upper"] : [show];
    const [low, high] = extent(...names.flatMap((name) => [...over(now, name), ...over(then, name)]));
    return show === "half" ? [0, high || 1] : high > low ? [low, high] : [low - 0.5, high + 0.5];
  }

  /** The description of the picture, and the value at the probe. */
  tell(data, [low, high]) {
    const { view, tensor } = this;
    const kind = this.show === "mean" ? `prediction of ${tensor.name}` : `${this.worded(tensor.name)}, ${this.level}`;
    const what = this.compare === "difference" ? `Difference, ${kind}` : kind[0].toUpperCase() + kind.slice(1);
    part("canvas").setAttribute("aria-label", `${what}: values from ${said(low)} to ${said(high)}`);
    part("plot-words").textContent = `${what}, with a probe`;
    const at = view.probed(data);
    if (at === undefined) return;
    const one = this.compare === "pinned" ? this.pinned[tensor.name] : this.answer[tensor.name];
    const half = this.compare !== "difference" && this.show === "mean" && one.half ? ` ± ${said(one.half[at], 2)}` : "";
    const units = tensor.units ? ` ${tensor.units}` : "";
    const level = half || this.show !== "mean" ? `, ${this.level}` : "";
    const name = `${this.compare === "difference" ? "Δ " : ""}${this.worded(tensor.name + view.standing())}`;
    part("value").replaceChildren(`${name} = `, made("b", {}, `${said(data[at])}${half}${units}`), " ", made("span", { class: "where" }, `at ${view.whereabouts()}${level}`));
    part("value").dataset.value = String(data[at]);
    part("value").dataset.half = half ? String(one.half[at]) : "";
    part("value").dataset.index = String(at);
  }

  /** Values along the line through the probe, with their band. */
  section(now, then, data, band, label) {
    const found = this.view.section(data);
    const card = part("cross");
    const before = card.hidden;
    card.hidden = !found;
    if (before !== card.hidden) this.changed("layout");
    if (!found) return;
    part("cross-where").textContent = `at ${found.where}`;
    const along = (one) => Float64Array.from(found.index, (i) => one[i]);
    const lines = [{ data: along(data), colour: this.compare === "difference" ? "other" : "accent" }];
    if (this.compare === "now" && then) lines.push({ data: along(then[this.show]), colour: "other", dashed: true });
    drawCurve(part("cross-canvas"), { x: found.x, lines, band: band?.map(along), names: [found.name, label], probe: found.local });
  }

  /** Outputs that are numbers, one in a row. */
  list() {
    const { tensor } = this;
    const { mean, half } = this.answer[tensor.name];
    const then = this.pinned?.[tensor.name].mean;
    const names = tensor.columns.length ? tensor.columns : Array.from(mean, (_, i) => (mean.length > 1 ? `${tensor.name} ${i}` : tensor.name));
    const rows = Array.from(mean, (value, i) => {
      const cells = [made("td", {}, `${said(value)}${half ? ` ± ${said(half[i], 2)}` : ""} ${tensor.units}`)];
      if (then) cells.push(made("td", {}, said(then[i])), made("td", {}, said(value - then[i])));
      return made("tr", {}, made("th", { scope: "row" }, names[i]), ...cells);
    });
    const heads = ["Output", "Now", ...(then ? ["Pinned", "Difference"] : [])].map((text) => made("th", { scope: "col" }, text));
    if (half) heads[1].append(made("span", { class: "quiet" }, ` ± ${this.level}`));
    part("list").replaceChildren(made("table", {}, made("thead", {}, made("tr", {}, ...heads)), made("tbody", {}, ...rows)));
    part("cross").hidden = true;
  }

  /** Let the probe follow pointer and keys. */
  follow(plot) {
    const canvas = part("canvas");
    const to = (event) => {
      const box = canvas.getBoundingClientRect();
      if (this.view.moveTo(event.clientX - box.left, event.clientY - box.top)) this.draw();
    };
    plot.addEventListener("pointermove", to);
    plot.addEventListener("pointerdown", to);
    plot.addEventListener("keydown", (event) => {
      if (!event.key.startsWith("Arrow") || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      let moved = false;
      for (let n = event.shiftKey ? 10 : 1; n > 0; n--) moved = this.view.moveBy(event.key) || moved;
      if (moved) this.draw();
    });
  }
}

/** Controls of axes that are not drawn: few entries as buttons, many as a slider. */
export function axisControls(view, changed) {
  const short = [];
  const long = [];
  for (const axis of view.layout.held) {
    const { role, name, size } = view.tensor.axes[axis];
    if (size < 2) continue;
    const title = name || (role === "time" ? "Step" : role === "component" ? "Component" : `Axis ${axis + 1}`);
    const set = (value) => {
      view.at[axis] = value;
      changed();
    };
    const coords = view.coords(axis);
    if (role !== "time" && size <= 6) {
      short.push(segments(title, coords.map((_, i) => [i, view.entry(axis, i)]), view.at[axis], set));
    } else {
      long.push(axisSlider(title, view.tensor.axes[axis].coords ?? coords.map((i) => i + (role === "time" ? 1 : 0)), view.at[axis], set));
    }
  }
  return { short, long };
}
