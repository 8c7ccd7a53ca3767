/* The inputs of a model on the page: groups of sliders, samples from files, and what they make together. */
import { made, numberSlider } from "./controls.js";
import { readSample } from "./files.js";
import { composed, decoded, sizeOf } from "./tensors.js";
import { shapeSaid } from "./words.js";

/** All inputs of a portrait, whose VALUES are decoded here; `changed` is told of every move. */
export class Inputs {
  constructor(portrait, place, changed) {
    this.changed = changed;
    this.sources = Object.create(null);
    this.all = portrait.inputs;
    for (const input of this.all) {
      input.start = decoded(input.start);
      input.modes &&= decoded(input.modes);
    }
    this.places = Object.fromEntries(this.all.map((one) => [one.name, firstPlaces(one)]));
    this.rows = Object.create(null);
    place.replaceChildren(...this.all.map((input) => this.group(input)));
    this.show();
  }

  group(input) {
    this.rows[input.name] = input.sliders.map((slider, k) =>
      numberSlider(slider, (value) => {
        this.places[input.name][k] = value;
        this.changed();
      }),
    );
    const about = input.kind === "field" ? ` ${shapeSaid(input.shape)}, ${input.unit}` : input.units ? ` ${input.units}` : "";
    const alone = input.kind === "number" && input.sliders[0].label === input.part;
    const legend = made("legend", alone && !about ? { class: "unseen" } : {}, input.name, made("span", {}, about));
    return made("fieldset", { class: "group" }, legend, made("div", { class: "rows" }, ...this.rows[input.name].map(({ row }) => row)));
  }

  /** The tensors that sliders and files make: {name: {shape, data}}, one sample of each, or of other places. */
  tensors(places = this.places) {
    return Object.fromEntries(
      this.all.map((one) => [one.name, { shape: [1, ...one.shape], data: composed(one, places[one.name], this.sources[one.name]?.start) }]),
    );
  }

  /** Every slider moved alone by a thousandth of its range: {tensors, moves: [{label, by, row}]}; null where none is. */
  moved() {
    const moves = [];
    for (const input of this.all)
      input.sliders.forEach((slider, k) => {
        const by = 1e-3 * (slider.high - slider.low);
        const label = this.all.length > 1 && input.part && slider.label !== input.part ? `${slider.label} of ${input.part}` : slider.label;
        if (by > 0) moves.push({ input, k, by, label, row: this.rows[input.name][k] });
      });
    if (!moves.length) return null;
    const here = this.tensors();
    const tensors = Object.create(null);
    for (const input of this.all) {
      const size = sizeOf(input.shape);
      const data = new Float64Array((moves.length + 1) * size);
      for (let i = 0; i <= moves.length; i++) data.set(here[input.name].data, i * size);
      moves.forEach((move, i) => {
        if (move.input !== input) return;
        const places = Float64Array.from(this.places[input.name]);
        places[move.k] += move.by;
        data.set(composed(input, places, this.sources[input.name]?.start), (i + 1) * size);
      });
      tensors[input.name] = { shape: [moves.length + 1, ...input.shape], data };
    }
    return { tensors, moves };
  }

  /** All sliders back to where they stood at first, samples of files forgotten. */
  reset() {
    this.forget();
    for (const one of this.all) this.places[one.name] = firstPlaces(one);
    this.show();
    this.changed();
  }

  forget() {
    this.sources = Object.create(null);
    this.opened = undefined;
  }

  /** Sliders anywhere, samples of files forgotten: of modes as they are distributed, within the ends of the training,
      others evenly between these. */
  shuffle() {
    this.forget();
    for (const one of this.all)
      one.sliders.forEach(({ low, high }, k) => {
        const drawn = one.unit === "standard deviations" ? normal() : low + (high - low) * Math.random();
        this.places[one.name][k] = Number(Math.max(low, Math.min(high, drawn)).toPrecision(4));
      });
    this.show();
    this.changed();
  }

  show() {
    for (const one of this.all) this.rows[one.name].forEach((row, k) => row.show(this.places[one.name][k]));
  }

  /** Take the first sample of a file: {samples, moved: whether sliders move it from there}; or throw one sentence. */
  async open(file) {
    this.opened = await readSample(file, this.all);
    this.take(0);
    return { samples: Math.max(...this.opened.map((one) => one.samples)), moved: Object.keys(this.sources).length > 0 };
  }

  /** Take another sample of the same file. */
  take(sample) {
    this.sources = Object.create(null);
    for (const { name, data, samples, python } of this.opened) {
      const input = this.all.find((one) => one.name === name);
      const size = sizeOf(input.shape);
      const at = Math.min(sample, samples - 1); // one sample stands beside all others
      const start = data.slice(at * size, (at + 1) * size);
      this.places[name] = input.modes ? firstPlaces(input) : start;
      if (input.modes) this.sources[name] = { python, samples, sample: at, start };
    }
    this.show();
    this.changed();
  }
}

function firstPlaces(input) {
  return Float64Array.from(input.sliders, (slider) => slider.start);
}

function normal() {
  return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
}
