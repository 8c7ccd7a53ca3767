/* A canvas as sharp as the screen, with the colours of the page, and what all pictures share: axes and colour bars. */
import { isConstant, said, tickLabels, ticks } from "./words.js";

const LONG = 4; // sides of a picture may differ by this; beyond, it fills its room instead of being to scale

/** Prepare a canvas for drawing at the size that the page gives it. */
export function paperOf(canvas) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const style = getComputedStyle(canvas);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  pen.font = `12px ${style.fontFamily}`;
  pen.lineJoin = "round";
  return { pen, width, height, ratio, colour };
}

/** The height at which a picture to scale fills the width; null where it is not to scale. */
export function heightFor(paper, across, up, { left, right, top, bottom }) {
  const shape = Math.abs((up[1] - up[0]) / (across[1] - across[0]));
  return shape >= 1 / LONG && shape <= LONG ? Math.max(40, paper.width - left - right) * shape + top + bottom : null;
}

/** The room of a picture: to scale where its sides are alike, else all there is. */
export function boxOf(paper, across, up, { left, right, top, bottom }) {
  let width = Math.max(40, paper.width - left - right);
  let height = Math.max(40, paper.height - top - bottom);
  const shape = Math.abs((up[1] - up[0]) / (across[1] - across[0]));
  if (shape >= 1 / LONG && shape <= LONG) {
    const fitting = Math.min(width, height / shape);
    left += (width - fitting) / 2;
    top += (height - fitting * shape) / 2;
    width = fitting;
    height = fitting * shape;
  }
  return { left, top, width, height };
}

/** From values to places on a canvas along one side, and back. */
export function along([low, high], from, to) {
  const by = (to - from) / (high - low || 1);
  return Object.assign((value) => from + (value - low) * by, { back: (place) => low + (place - from) / by });
}

/** Pixels left of a box that numbers between these ends and the name of their axis need. */
export function roomFor({ pen, height }, up) {
  const labels = tickLabels(ticks(Math.min(...up), Math.max(...up), few(height - 60, 44)));
  return Math.max(48, Math.ceil(Math.max(...labels.map((text) => pen.measureText(text).width))) + 34);
}

function few(length, each) {
  return Math.max(2, Math.min(6, Math.floor(length / each)));
}

/** Ticks, their numbers and the names of both axes around a box. */
export function axes(paper, box, across, up, names, { grid = false } = {}) {
  const { pen, colour } = paper;
  const bottom = box.top + box.height;
  const x = along(across, box.left, box.left + box.width);
  const y = along(up, bottom, box.top);
  const rights = ticks(Math.min(...across), Math.max(...across), few(box.width, 56));
  const ups = ticks(Math.min(...up), Math.max(...up), few(box.height, 44));
  pen.lineWidth = 1;
  pen.strokeStyle = colour("line");
  if (grid) for (const value of ups) stroke(pen, [box.left, crisp(y(value))], [box.left + box.width, crisp(y(value))]);
  pen.strokeStyle = colour("faint");
  stroke(pen, [box.left, crisp(bottom)], [box.left + box.width, crisp(bottom)]);
  if (!grid) stroke(pen, [crisp(box.left), box.top], [crisp(box.left), bottom]);
  pen.fillStyle = colour("muted");
  pen.textAlign = "center";
  pen.textBaseline = "top";
  tickLabels(rights).forEach((text, i) => {
    stroke(pen, [crisp(x(rights[i])), bottom], [crisp(x(rights[i])), bottom + 4]);
    pen.fillText(text, x(rights[i]), bottom + 7);
  });
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  const labels = tickLabels(ups);
  labels.forEach((text, i) => pen.fillText(text, box.left - 8, y(ups[i])));
  named(paper, box, names, Math.max(...labels.map((text) => pen.measureText(text).width)));
  return { x, y };
}

function named({ pen, colour }, box, [right, up], room) {
  pen.fillStyle = colour("ink");
  pen.textAlign = "center";
  pen.textBaseline = "top";
  pen.fillText(right, box.left + box.width / 2, box.top + box.height + 24);
  pen.save();
  pen.translate(box.left - room - 18, box.top + box.height / 2);
  pen.rotate(-Math.PI / 2);
  pen.textBaseline = "bottom";
  pen.fillText(up, 0, 4);
  pen.restore();
}

/** A bar of colours right of a box, with ticks, both ends where there is room for few, and the units above. */
export function colourBar(paper, box, scale, units) {
  const { pen, colour } = paper;
  const left = box.left + box.width + 16;
  pen.fillStyle = colour("ink");
  pen.textAlign = "left";
  pen.textBaseline = "bottom";
  if (units) pen.fillText(units, left, box.top - 5);
  if (isConstant(scale.low, scale.high)) {
    pen.fillText("constant", left, box.top + box.height / 2);
    pen.textBaseline = "top";
    pen.fillText(said(scale.low), left, box.top + box.height / 2 + 3);
    return;
  }
  const y = along([scale.low, scale.high], box.top + box.height, box.top);
  const steps = Math.ceil(box.height);
  for (let i = 0; i < steps; i++) {
    pen.fillStyle = scale.css(y.back(box.top + i + 0.5));
    pen.fillRect(left, box.top + i, 12, Math.min(1.5, box.height - i));
  }
  const round = ticks(scale.low, scale.high, few(box.height, 44));
  const values = round.length > 2 ? round : [scale.low, scale.high];
  const labels = round.length > 2 ? tickLabels(round) : values.map((value) => said(value, 3));
  pen.strokeStyle = colour("faint");
  pen.fillStyle = colour("muted");
  pen.textBaseline = "middle";
  labels.forEach((text, i) => {
    stroke(pen, [left + 12, crisp(y(values[i]))], [left + 16, crisp(y(values[i]))]);
    pen.fillText(text, left + 20, y(values[i]));
  });
}

/** A cross with a ring that can be seen on any colour. */
export function mark(paper, [x, y]) {
  const { pen } = paper;
  for (const [width, colour] of [[4, "rgb(0 0 0 / 0.65)"], [2, "#fff"]]) {
    pen.lineWidth = width;
    pen.strokeStyle = colour;
    pen.beginPath();
    pen.arc(x, y, 6, 0, 2 * Math.PI);
    pen.stroke();
  }
}

/** A line through points. */
export function stroke(pen, ...points) {
  pen.beginPath();
  points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
}

function crisp(place) {
  return Math.round(place) + 0.5;
}
