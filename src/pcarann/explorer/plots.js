/* Pictures of one field: a curve with its band, a map of a grid, triangles or dots of a mesh.

   Each is drawn by a function of a canvas and what is to be seen, and gives back where its points are:
   {place(i), nearest(x, y), step(i, key)}, with i counting the values that were drawn. */
import { along, axes, boxOf, colourBar, heightFor, mark, paperOf, roomFor, stroke } from "./paper.js";
import { extent } from "./tensors.js";

const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

/** Curves over one axis: {x, lines: [{data, colour, dashed}], band: [lower, upper], names, limits, probe}. */
export function drawCurve(canvas, { x, lines, band, names, limits, probe }) {
  canvas.style.removeProperty("--fitting");
  const paper = paperOf(canvas);
  const { pen, colour } = paper;
  const up = limits ?? padded(extent(...lines.map((line) => line.data), ...(band ?? [])));
  const left = roomFor(paper, up);
  const box = { left, top: 16, width: paper.width - left - 16, height: paper.height - 60 };
  const at = axes(paper, box, [x[0], x[x.length - 1]], up, names, { grid: true });
  pen.save();
  pen.beginPath();
  pen.rect(box.left, box.top - 1, box.width, box.height + 2);
  pen.clip();
  if (band) {
    pen.fillStyle = colour("band");
    pen.beginPath();
    for (let i = 0; i < x.length; i++) pen.lineTo(at.x(x[i]), at.y(band[1][i]));
    for (let i = x.length - 1; i >= 0; i--) pen.lineTo(at.x(x[i]), at.y(band[0][i]));
    pen.fill();
  }
  for (const line of lines) {
    pen.strokeStyle = colour(line.colour);
    pen.lineWidth = 1.8;
    pen.setLineDash(line.dashed ? [5, 4] : []);
    curve(pen, x, line.data, at);
  }
  pen.setLineDash([]);
  pen.restore();
  if (probe !== undefined) {
    pen.lineWidth = 1;
    pen.strokeStyle = colour("faint");
    stroke(pen, [at.x(x[probe]), box.top], [at.x(x[probe]), box.top + box.height]);
    const value = lines[0].data[probe];
    if (Number.isFinite(value)) mark(paper, [at.x(x[probe]), at.y(value)]);
  }
  return {
    place: (i) => [at.x(x[i]), at.y(lines[0].data[i])],
    nearest: (px) => nearestOf(x, at.x.back(px)),
    step: (i, key) => Math.max(0, Math.min(x.length - 1, i + (KEYS[key]?.[0] || KEYS[key]?.[1] || 0))),
  };
}

function curve(pen, x, data, at) {
  pen.beginPath();
  let down = false;
  for (let i = 0; i < x.length; i++) {
    if (Number.isFinite(data[i])) pen[down ? "lineTo" : "moveTo"](at.x(x[i]), at.y(data[i]));
    down = Number.isFinite(data[i]);
  }
  pen.stroke();
}

function padded([low, high]) {
  const by = 0.05 * (high - low) || 0.05 * Math.abs(high) || 1;
  return [low - by, high + by];
}

/** A grid: {rows, columns (coordinates), data, scale, names, units, probe}; rows run upwards, columns to the right. */
export function drawMap(canvas, { rows, columns, data, scale, names, units, probe }) {
  const across = [columns[0], columns[columns.length - 1]];
  const up = [rows[0], rows[rows.length - 1]];
  const paper = paperFor(canvas, across, up);
  const box = boxOf(paper, across, up, margins(paper, up));
  const x = along(across, box.left, box.left + box.width);
  const y = along(up, box.top + box.height, box.top);
  const right = between(columns, x, box.left, Math.round(box.width * paper.ratio), paper.ratio);
  const high = between(rows, y, box.top, Math.round(box.height * paper.ratio), paper.ratio);
  const n = columns.length;
  paint(paper, box, (bytes, width) => {
    high.forEach(([i, s], row) => {
      const below = i * n;
      const above = Math.min(i + 1, rows.length - 1) * n;
      right.forEach(([j, t], column) => {
        const k = Math.min(j + 1, n - 1);
        const first = (1 - t) * data[below + j] + t * data[below + k];
        const second = (1 - t) * data[above + j] + t * data[above + k];
        scale.put(bytes, 4 * (row * width + column), (1 - s) * first + s * second);
      });
    });
  });
  axes(paper, box, across, up, names);
  colourBar(paper, box, scale, units);
  const place = (index) => [x(columns[index % n]), y(rows[Math.floor(index / n)])];
  if (probe !== undefined) mark(paper, place(probe));
  return {
    place,
    nearest: (px, py) => nearestOf(rows, y.back(py)) * n + nearestOf(columns, x.back(px)),
    step(index, key) {
      const [dx, dy] = KEYS[key] ?? [0, 0];
      const j = Math.max(0, Math.min(n - 1, (index % n) + dx));
      return Math.max(0, Math.min(rows.length - 1, Math.floor(index / n) + dy)) * n + j;
    },
  };
}

/** A canvas no higher than a picture to scale needs. */
function paperFor(canvas, across, up) {
  const paper = paperOf(canvas);
  const height = heightFor(paper, across, up, margins(paper, up));
  const fitting = height === null ? "" : `${Math.ceil(height)}px`;
  if (canvas.style.getPropertyValue("--fitting").trim() === fitting) return paper;
  canvas.style.setProperty("--fitting", fitting);
  return paperOf(canvas);
}

function margins(paper, up) {
  return { left: roomFor(paper, up), right: 92, top: 24, bottom: 46 };
}

/** For every pixel of a side the coordinate before it, and the share of the one behind. */
function between(coords, place, from, count, ratio) {
  const rising = coords[coords.length - 1] >= coords[0];
  const last = Math.max(coords.length - 2, 0);
  let k = 0;
  const found = [];
  const forwards = place.back(from + count / ratio) >= place.back(from) === rising;
  for (let p = 0; p < count; p++) {
    const pixel = forwards ? p : count - 1 - p;
    const value = place.back(from + (pixel + 0.5) / ratio);
    while (k < last && (rising ? value > coords[k + 1] : value < coords[k + 1])) k++;
    const share = coords.length > 1 ? (value - coords[k]) / (coords[k + 1] - coords[k]) : 0;
    found[pixel] = [k, Math.max(0, Math.min(1, share))];
  }
  return found;
}

function paint(paper, box, fill) {
  const width = Math.max(1, Math.round(box.width * paper.ratio));
  const height = Math.max(1, Math.round(box.height * paper.ratio));
  const image = paper.pen.createImageData(width, height);
  fill(image.data, width, height);
  paper.pen.putImageData(image, Math.round(box.left * paper.ratio), Math.round(box.top * paper.ratio));
}

/** Where coordinates, which rise or fall, are nearest to a value. */
function nearestOf(coords, value) {
  let best = 0;
  for (let i = 1; i < coords.length; i++) if (Math.abs(coords[i] - value) < Math.abs(coords[best] - value)) best = i;
  return best;
}

/** Values at the nodes of a mesh of a portrait: {mesh, data, scale, units, probe}. */
export function drawMesh(canvas, { mesh, data, scale, units, probe }) {
  const seen = mesh.seen.data;
  const shown = mesh.nodes.data;
  const across = extent(Float64Array.from(shown, (i) => seen[2 * i]));
  const up = extent(Float64Array.from(shown, (i) => seen[2 * i + 1]));
  const paper = paperFor(canvas, across, up);
  const box = boxOf(paper, across, up, margins(paper, up));
  const x = along(across, box.left, box.left + box.width);
  const y = along(up, box.top + box.height, box.top);
  const place = (i) => [x(seen[2 * i]), y(seen[2 * i + 1])];
  let reached = shown;
  if (mesh.triangles.data.length) {
    const seen = shaded(paper, box, mesh, data, scale, place);
    if (mesh.points.shape[1] === 3) reached = seen;
  } else dots(paper, shown, data, scale, place, box);
  if (mesh.points.shape[1] === 2) axes(paper, box, across, up, ["x", "y"]);
  colourBar(paper, box, scale, units);
  if (probe !== undefined) mark(paper, place(probe));
  return { place, nearest: (px, py) => nearestNode(reached, place, px, py), step: (i, key) => beside(reached, place, i, key) };
}

/** Triangles one after another, values linear in each; gives the nodes of those that can be seen. */
function shaded(paper, box, mesh, data, scale, place) {
  let seen;
  paint(paper, box, (bytes, width, height) => {
    const { corners, shares, reached } = coverOf(mesh, box, paper.ratio, width, height, place);
    seen = reached;
    const nodes = mesh.triangles.data;
    for (let p = 0; p < corners.length; p++) {
      const t = corners[p];
      if (t < 0) continue;
      const [a, b] = [shares[2 * p], shares[2 * p + 1]];
      const value = a * data[nodes[t]] + b * data[nodes[t + 1]] + (1 - a - b) * data[nodes[t + 2]];
      scale.put(bytes, 4 * p, value);
    }
  });
  return seen;
}

const covers = new WeakMap();
const SIZES = 4; // of pictures of a mesh that are kept

/** Which pixel lies in which triangle, found once for a size, and the nodes of triangles that have one. */
function coverOf(mesh, box, ratio, width, height, place) {
  const key = [width, height].join();
  if (covers.get(mesh)?.[key]) return covers.get(mesh)[key];
  const corners = new Int32Array(width * height).fill(-1);
  const shares = new Float32Array(2 * width * height);
  const nodes = mesh.triangles.data;
  const [left, top] = [Math.round(box.left * ratio), Math.round(box.top * ratio)];
  const at = (i) => {
    const [x, y] = place(i);
    return [x * ratio - left, y * ratio - top];
  };
  for (let t = 0; t < nodes.length; t += 3) {
    const [p, q, r] = [at(nodes[t]), at(nodes[t + 1]), at(nodes[t + 2])];
    const area = (q[1] - r[1]) * (p[0] - r[0]) + (r[0] - q[0]) * (p[1] - r[1]);
    if (Math.abs(area) < 1e-9) continue;
    const clip = (value, most) => Math.max(0, Math.min(most, value));
    const first = clip(Math.floor(Math.min(p[1], q[1], r[1])), height - 1);
    const last = clip(Math.ceil(Math.max(p[1], q[1], r[1])), height - 1);
    const start = clip(Math.floor(Math.min(p[0], q[0], r[0])), width - 1);
    const end = clip(Math.ceil(Math.max(p[0], q[0], r[0])), width - 1);
    for (let i = first; i <= last; i++) {
      for (let j = start; j <= end; j++) {
        const [dx, dy] = [j + 0.5 - r[0], i + 0.5 - r[1]];
        const a = ((q[1] - r[1]) * dx + (r[0] - q[0]) * dy) / area;
        const b = ((r[1] - p[1]) * dx + (p[0] - r[0]) * dy) / area;
        if (a < -1e-6 || b < -1e-6 || a + b > 1 + 1e-6) continue;
        const pixel = i * width + j;
        corners[pixel] = t;
        shares[2 * pixel] = a;
        shares[2 * pixel + 1] = b;
      }
    }
  }
  const reached = new Set();
  for (const t of new Set(corners)) if (t >= 0) for (let k = 0; k < 3; k++) reached.add(nodes[t + k]);
  const kept = Object.entries(covers.get(mesh) ?? {}).slice(1 - SIZES);
  covers.set(mesh, { ...Object.fromEntries(kept), [key]: { corners, shares, reached: Int32Array.from(reached).sort() } });
  return covers.get(mesh)[key];
}

function dots({ pen, colour }, shown, data, scale, place, box) {
  const size = Math.max(1.5, Math.min(6, 0.4 * Math.sqrt((box.width * box.height) / shown.length)));
  pen.lineWidth = 0.5;
  pen.strokeStyle = colour("faint");
  for (const i of shown) {
    if (!Number.isFinite(data[i])) continue;
    pen.fillStyle = scale.css(data[i]);
    pen.beginPath();
    pen.arc(...place(i), size, 0, 2 * Math.PI);
    pen.fill();
    pen.stroke();
  }
}

function nearestNode(shown, place, px, py) {
  let best = shown[0];
  let least = Infinity;
  for (const i of shown) {
    const [x, y] = place(i);
    const distance = (x - px) ** 2 + (y - py) ** 2;
    if (distance < least) [best, least] = [i, distance];
  }
  return best;
}

/** The nearest node in the direction of an arrow key. */
function beside(shown, place, from, key) {
  const [dx, dy] = KEYS[key] ?? [0, 0];
  const [x, y] = place(from);
  let best = from;
  let least = Infinity;
  for (const i of shown) {
    const [px, py] = place(i);
    const ahead = (px - x) * dx - (py - y) * dy;
    const aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
    if (ahead > 1e-6 && aside <= ahead && ahead + 2 * aside < least) [best, least] = [i, ahead + 2 * aside];
  }
  return best;
}
