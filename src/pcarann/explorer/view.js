/* One tensor on one canvas: which of its axes are seen, where the others stand, and the probe. */
import { scale } from "./colours.js";
import { drawCurve, drawMap, drawMesh } from "./plots.js";
import { cut, extent } from "./tensors.js";
import { isConstant, said } from "./words.js";

const XYZ = ["x", "y", "z"];

/** How a tensor is seen: {kind: "list", "curve", "map" or "mesh", free: axes that are drawn, held: axes that stand}. */
export function layoutOf(tensor, meshes) {
  const every = tensor.axes.map((_, i) => i);
  if (tensor.kind !== "field") return { kind: "list", free: every, held: [] };
  const node = tensor.axes.findIndex((axis) => axis.role === "node");
  const mesh = node < 0 ? null : meshes[tensor.mesh];
  let free = [node];
  if (!mesh) {
    const space = every.filter((i) => tensor.axes[i].role === "space");
    free = (space.length ? space : every.slice(-1)).slice(-2);
    if (free.length === 2 && tensor.axes[free[0]].name === "x") free.reverse();
  }
  const flat = mesh ? mesh.seen.shape[1] === 1 : free.length === 1;
  const kind = flat ? "curve" : mesh ? "mesh" : "map";
  return { kind, mesh, free, held: every.filter((i) => !free.includes(i)) };
}

/** A tensor on a canvas; `draw` shows values, `probe` is the number of one of them in the sample, undefined for none. */
export class View {
  constructor(canvas, tensor, meshes) {
    this.canvas = canvas;
    this.tensor = tensor;
    this.layout = layoutOf(tensor, meshes);
    this.at = tensor.axes.map((axis) => (axis.role === "time" ? axis.size - 1 : 0));
    this.order = this.layout.mesh && this.layout.kind === "curve" ? sortedNodes(this.layout.mesh) : null;
    this.local = undefined;
  }

  /** What is seen of a sample: values in the order in which they are drawn, and their numbers in it. */
  part(data) {
    const found = cut(this.tensor.shape, data, this.layout.free, this.at);
    if (!this.order) return found;
    return { ...found, index: this.order.map((i) => found.index[i]), data: Float64Array.from(this.order, (i) => found.data[i]) };
  }

  /** Values over all snapshots of a flow, so that colours stay as time goes on. */
  overTime(data) {
    const time = this.tensor.axes.findIndex((axis) => axis.role === "time");
    if (time < 0) return this.part(data).data;
    return cut(this.tensor.shape, data, [time, ...this.layout.free], this.at).data;
  }

  /** Draw a sample; `look` has limits, diverging, dark, band, other (another sample, dashed), label and colour. */
  draw(data, look = {}) {
    const here = this.part(data).data;
    const [low, high] = look.limits ?? extent(this.overTime(data));
    const colours = scale(low, high, look);
    const common = { data: here, scale: colours, units: this.tensor.units, probe: this.local };
    if (this.layout.kind === "map") {
      const [rows, columns] = this.layout.free.map((axis) => this.coords(axis));
      const names = [this.nameOf(this.layout.free[1]), this.nameOf(this.layout.free[0])];
      this.frame = drawMap(this.canvas, { ...common, rows, columns, names });
    } else if (this.layout.kind === "mesh") {
      this.frame = drawMesh(this.canvas, { ...common, mesh: this.layout.mesh });
    } else {
      const lines = [{ data: here, colour: look.diverging ? "other" : "accent" }];
      if (look.other) lines.push({ data: this.part(look.other).data, colour: "other", dashed: true });
      const band = look.band?.map((one) => this.part(one).data);
      const names = [this.nameOf(this.layout.free[0]), look.label ?? this.title];
      const limits = look.held ? look.limits : undefined;
      this.frame = drawCurve(this.canvas, { x: this.coords(this.layout.free[0]), lines, band, names, limits, probe: this.local });
    }
  }

  /** The values of a sample in a few words. */
  told(data) {
    const [low, high] = extent(this.part(data).data);
    return isConstant(low, high) ? `constant ${said(low)}` : `values from ${said(low)} to ${said(high)}`;
  }

  /** The section through the probe, along the axis that runs to the right: {x, index, name}; null where there is none. */
  section(data) {
    if (this.layout.kind !== "map" || this.local === undefined) return null;
    const [rows, columns] = this.layout.free;
    const at = [...this.at];
    at[rows] = Math.floor(this.local / this.tensor.shape[columns]);
    const found = cut(this.tensor.shape, data, [columns], at);
    const where = `${this.nameOf(rows)} = ${said(this.coords(rows)[at[rows]])}`;
    return { x: this.coords(columns), index: found.index, name: this.nameOf(columns), where, local: this.local % this.tensor.shape[columns] };
  }

  /** Move the probe to a place on the canvas, or by a key; whether it moved. */
  moveTo(x, y) {
    return this.frame ? this.moved(this.frame.nearest(x, y)) : false;
  }

  moveBy(key) {
    if (!this.frame) return false;
    return this.moved(this.local === undefined ? this.middle() : this.frame.step(this.local, key));
  }

  moved(to) {
    const news = to !== this.local;
    this.local = to;
    return news;
  }

  /** The number of the value in the middle of what is seen. */
  middle() {
    if (this.layout.kind === "mesh") return this.layout.mesh.nodes.data[Math.floor(this.layout.mesh.nodes.data.length / 2)];
    const shape = this.layout.free.map((axis) => this.tensor.shape[axis]);
    return shape.length === 1 ? Math.floor(shape[0] / 2) : Math.floor(shape[0] / 2) * shape[1] + Math.floor(shape[1] / 2);
  }

  /** The number of the probe in the sample. */
  probed(data) {
    return this.local === undefined ? undefined : this.part(data).index[this.local];
  }

  /** Where the probe is, in words. */
  whereabouts() {
    if (this.local === undefined) return "";
    const { kind, mesh, free } = this.layout;
    if (mesh) {
      const node = this.order ? this.order[this.local] : this.local;
      const many = mesh.points.shape[1];
      const at = Array.from(mesh.points.data.subarray(node * many, (node + 1) * many));
      return at.map((value, k) => `${XYZ[k]} = ${said(value)}`).join(", ");
    }
    const places = kind === "curve" ? [this.local] : [Math.floor(this.local / this.tensor.shape[free[1]]), this.local % this.tensor.shape[free[1]]];
    const words = free.map((axis, k) => `${this.nameOf(axis)} = ${said(this.coords(axis)[places[k]])}`);
    return (kind === "map" ? words.reverse() : words).join(", ");
  }

  /** The component that is seen, where there are several: "[x]". */
  standing() {
    const held = this.layout.held.filter((axis) => this.tensor.axes[axis].role === "component" && this.tensor.axes[axis].size > 1);
    return held.map((axis) => `[${this.entry(axis, this.at[axis])}]`).join("");
  }

  /** What an entry of an axis is called: its coordinate, x, y or z of a vector, or its number. */
  entry(axis, i) {
    const { coords, size } = this.tensor.axes[axis];
    if (coords) return said(coords[i]);
    return this.layout.mesh && size === this.layout.mesh.points.shape[1] ? XYZ[i] : String(i);
  }

  coords(axis) {
    const { mesh } = this.layout;
    if (mesh && axis === this.layout.free[0]) return this.order.map((i) => mesh.points.data[i]);
    const { coords, size } = this.tensor.axes[axis];
    return coords ?? Array.from({ length: size }, (_, i) => i);
  }

  nameOf(axis) {
    const { name } = this.tensor.axes[axis];
    if (name) return name;
    if (this.layout.mesh) return "x";
    return this.layout.kind === "map" ? (axis === this.layout.free[1] ? "column" : "row") : "index";
  }

  get title() {
    const { name, units } = this.tensor;
    return units ? `${name} (${units})` : name;
  }
}

function sortedNodes(mesh) {
  return Array.from(mesh.points.data.keys()).sort((a, b) => mesh.points.data[a] - mesh.points.data[b]);
}
