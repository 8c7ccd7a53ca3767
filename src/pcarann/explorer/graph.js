// A graph of operators of ONNX, evaluated in double precision.
//
//     const evaluate = compile(graph, tensors);
//     const { u } = evaluate({ inputs: { shape: [1, 40], data } });
//
// A tensor is {kind, shape, data}: kind is "float64", "int64" or "bool", data a Float64Array in the order of C, whatever
// the kind (whole numbers are indices and lengths here, far below 2^53). A graph is what `pcarann.explorer.packed` writes:
// {inputs, outputs, nodes: [{operator, inputs, output, attributes}]}, its nodes in an order in which they can be evaluated.
//
// What runs over several axes is one sweep: neighbouring axes along which all operands run on in step are one axis, and a
// kernel, each with a loop of its own, gets the longest runs that remain. Memory that nothing needs any more is used again.

const KINDS = { 1: "float32", 6: "int64", 7: "int64", 9: "bool", 11: "float64" }; // as ONNX numbers them
const COLUMNS = 512; // of a product at a time: a few rows of them stay in the first cache
const FEW = 8; // columns of a product up to which sums run along rows

/** Make a function of inputs by name, each {shape, data}, that returns the outputs of a graph, all or those named. */
export function compile(graph, tensors) {
  const known = new Map(Object.entries(tensors));
  const changing = new Set(graph.inputs.map((port) => port.name));
  const nodes = [];
  for (const node of graph.nodes) {
    if (!(node.operator in OPERATORS)) throw new Error(`${node.operator} is no operator that this page knows.`);
    if (node.inputs.some((name) => changing.has(name))) {
      changing.add(node.output);
      nodes.push(node);
    } else {
      known.set(node.output, applied(node, known, new Pool())); // the same for all inputs
    }
  }
  const names = graph.outputs.map((port) => port.name);
  const plans = new Map();
  const pool = new Pool();
  return (inputs, wanted = names) => {
    const key = wanted.join("\n");
    if (!plans.has(key)) plans.set(key, planned(nodes, wanted));
    return run(plans.get(key), new Map([...known, ...checked(graph.inputs, inputs)]), wanted, pool);
  };
}

/** Inputs as tensors, in memory that is not written to. */
function checked(ports, inputs) {
  return ports.map(({ name, shape }) => {
    const given = inputs[name];
    if (!given) throw new Error(`The input ${name} is missing.`);
    if (given.shape.length !== shape.length + 1 || shape.some((n, axis) => n !== given.shape[axis + 1]))
      throw new Error(`${name} has shape (${given.shape}), expected (samples, ${shape}).`);
    if (given.data.length !== product(given.shape))
      throw new Error(`${name} has ${given.data.length} values, expected ${product(given.shape)}.`);
    return [name, { kind: "float64", shape: [...given.shape], data: new Float64Array(given.data) }];
  });
}

/** The nodes that outputs need, each with the values whose memory is free after it. */
function planned(nodes, wanted) {
  const needed = new Set(wanted);
  const kept = [];
  for (const node of [...nodes].reverse()) {
    if (!needed.has(node.output)) continue;
    node.inputs.forEach((name) => needed.add(name));
    kept.push(node);
  }
  kept.reverse();
  const owner = new Map(); // of the memory of a value, which a reshaped one shares
  const last = new Map();
  kept.forEach((node, step) => {
    const shared = SHARING.has(node.operator);
    owner.set(node.output, shared ? owner.get(node.inputs[0]) : node.output);
    for (const name of [node.output, ...node.inputs]) if (owner.get(name)) last.set(owner.get(name), step);
  });
  wanted.forEach((name) => last.delete(owner.get(name)));
  const steps = kept.map((node) => ({ node, free: [] }));
  last.forEach((step, name) => steps[step].free.push(name));
  return steps;
}

function run(steps, values, wanted, pool) {
  for (const { node, free } of steps) {
    values.set(node.output, applied(node, values, pool));
    free.forEach((name) => pool.give(values.get(name).data));
  }
  return Object.fromEntries(
    wanted.map((name) => {
      const { kind, shape, data } = values.get(name);
      return [name, { kind, shape, data: data.slice() }];
    }),
  );
}

function applied(node, values, pool) {
  const operands = node.inputs.map((name) => values.get(name));
  return OPERATORS[node.operator](operands, node.attributes ?? {}, pool);
}

/** Memory that was used before, by its length. */
class Pool {
  constructor() {
    this.free = new Map();
  }

  take(size) {
    return this.free.get(size)?.pop() ?? new Float64Array(size);
  }

  give(data) {
    if (!this.free.has(data.length)) this.free.set(data.length, []);
    this.free.get(data.length).push(data);
  }
}

// Shapes and sweeps

const product = (shape) => shape.reduce((all, n) => all * n, 1);

/** Where an axis is that may be counted from the end. */
const axisOf = (axis, rank) => (axis < 0 ? axis + rank : axis);

function stridesOf(shape) {
  const strides = new Array(shape.length);
  for (let axis = shape.length - 1, step = 1; axis >= 0; step *= shape[axis--]) strides[axis] = step;
  return strides;
}

/** The shape that shapes have in common, axes of length 1 being as long as others want. */
function broadcast(shapes) {
  const rank = Math.max(0, ...shapes.map((shape) => shape.length));
  return Array.from({ length: rank }, (_, axis) => {
    const lengths = shapes.map((shape) => shape[axis - rank + shape.length] ?? 1);
    const length = lengths.find((n) => n !== 1) ?? 1;
    if (lengths.some((n) => n !== 1 && n !== length)) throw new Error(`Shapes (${shapes.join(") and (")}) do not fit.`);
    return length;
  });
}

/** Steps through a tensor along the axes of a shape that it is broadcast to: 0 where it is the same all along. */
function stretched(own, shape) {
  const strides = stridesOf(own);
  return shape.map((_, axis) => {
    const at = axis - shape.length + own.length;
    return at < 0 || own[at] === 1 ? 0 : strides[at];
  });
}

/** Call kernel(length, offsets, steps) for the longest runs through operands with these strides. */
function sweep(shape, strides, kernel) {
  if (product(shape) === 0) return;
  const axes = []; // lengths and steps, the innermost last
  shape.forEach((length, axis) => {
    if (length === 1) return;
    const steps = strides.map((one) => one[axis]);
    const outer = axes[axes.length - 1];
    if (outer && outer.steps.every((step, i) => step === steps[i] * length)) {
      outer.length *= length;
      outer.steps = steps;
    } else axes.push({ length, steps, at: 0 });
  });
  const inner = axes.pop() ?? { length: 1, steps: strides.map(() => 0) };
  const place = strides.map(() => 0);
  for (;;) {
    kernel(inner.length, place, inner.steps);
    let axis = axes.length - 1;
    for (; axis >= 0; axis--) {
      const { length, steps } = axes[axis];
      for (let i = 0; i < place.length; i++) place[i] += steps[i];
      if (++axes[axis].at < length) break;
      for (let i = 0; i < place.length; i++) place[i] -= steps[i] * length;
      axes[axis].at = 0;
    }
    if (axis < 0) return;
  }
}

// Every number by itself: kernel(out, a) for one operand, kernel(n, out, o, a, i, di, b, j, dj) for two.

const unary = (kernel) => ([a], _, pool) => {
  const data = pool.take(a.data.length);
  kernel(data, a.data);
  return { kind: a.kind, shape: a.shape, data };
};

const binary = (kernel, kind) => (operands, _, pool) => {
  if (operands.length === 1) return copy(operands[0].shape, stridesOf(operands[0].shape), operands[0], pool);
  return operands.reduce((a, b) => {
    const shape = broadcast([a.shape, b.shape]);
    const data = pool.take(product(shape));
    const strides = [stridesOf(shape), stretched(a.shape, shape), stretched(b.shape, shape)];
    sweep(shape, strides, (n, [o, i, j], [, di, dj]) => kernel(n, data, o, a.data, i, di, b.data, j, dj));
    return { kind: kind ?? a.kind, shape, data };
  });
};

function where([choice, a, b], _, pool) {
  const shape = broadcast([choice.shape, a.shape, b.shape]);
  const data = pool.take(product(shape));
  const strides = [stridesOf(shape), ...[choice, a, b].map((one) => stretched(one.shape, shape))];
  sweep(shape, strides, (n, [o, c, i, j], [, dc, di, dj]) => {
    for (let k = 0; k < n; k++, c += dc, i += di, j += dj) data[o + k] = choice.data[c] ? a.data[i] : b.data[j];
  });
  return { kind: a.kind, shape, data };
}

function divided(operands, attributes, pool) {
  const found = quotient(operands, attributes, pool);
  if (found.kind === "int64") found.data.forEach((x, i) => (found.data[i] = Math.trunc(x)));
  return found;
}

function cast([a], { to }, pool) {
  const kind = KINDS[to];
  if (!kind) throw new Error(`Values of ONNX's kind ${to} are none that this page knows.`);
  const data = pool.take(a.data.length);
  const change = { float32: Math.fround, float64: (x) => x, int64: Math.trunc, bool: (x) => (x ? 1 : 0) }[kind];
  for (let k = 0; k < data.length; k++) data[k] = change(a.data[k]);
  return { kind: kind === "float32" ? "float64" : kind, shape: a.shape, data };
}

// Sums and the like over some axes: kernel(n, out, o, step of out, a, i, step of a)

const reduction = (kernel, start, mean = false) => ([a, chosen], { keepdims = 1, axes = [] }, pool) => {
  const rank = a.shape.length;
  const named = [...(chosen?.data ?? axes)];
  const over = new Set(named.length ? named.map((axis) => axisOf(axis, rank)) : a.shape.keys());
  const kept = a.shape.map((n, axis) => (over.has(axis) ? 1 : n));
  const data = pool.take(product(kept)).fill(start);
  const strides = [stretched(kept, a.shape), stridesOf(a.shape)];
  sweep(a.shape, strides, (n, [o, i], [dout, di]) => kernel(n, data, o, dout, a.data, i, di));
  if (mean) for (let k = 0, n = a.data.length / data.length; k < data.length; k++) data[k] /= n;
  return { kind: a.kind, shape: keepdims ? kept : kept.filter((_, axis) => !over.has(axis)), data };
};

// The same numbers elsewhere

function copy(shape, strides, source, pool) {
  const data = pool.take(product(shape));
  const kernel = (n, [o, i], [, di]) => {
    for (let k = 0; k < n; k++, i += di) data[o + k] = source.data[i];
  };
  sweep(shape, [stridesOf(shape), strides], kernel);
  return { kind: source.kind, shape, data };
}

function transposed([a], { perm }, pool) {
  const order = perm ?? [...a.shape.keys()].reverse();
  const strides = stridesOf(a.shape);
  return copy(order.map((axis) => a.shape[axis]), order.map((axis) => strides[axis]), a, pool);
}

function concatenated(operands, { axis }, pool) {
  const at = axisOf(axis, operands[0].shape.length);
  const shape = operands[0].shape.map((n, i) => (i === at ? operands.reduce((all, one) => all + one.shape[i], 0) : n));
  const data = pool.take(product(shape));
  const row = product(shape.slice(at));
  let offset = 0;
  for (const one of operands) {
    const width = product(one.shape.slice(at));
    const rows = product(one.shape.slice(0, at));
    for (let i = 0; i < rows; i++) data.set(one.data.subarray(i * width, (i + 1) * width), i * row + offset);
    offset += width;
  }
  return { kind: operands[0].kind, shape, data };
}

function gathered([a, indices], { axis = 0 }, pool) {
  const at = axisOf(axis, a.shape.length);
  const shape = [...a.shape.slice(0, at), ...indices.shape, ...a.shape.slice(at + 1)];
  const data = pool.take(product(shape));
  const [rows, length, width] = [product(a.shape.slice(0, at)), a.shape[at], product(a.shape.slice(at + 1))];
  let o = 0;
  for (let row = 0; row < rows; row++) {
    for (const index of indices.data) {
      const i = (row * length + axisOf(index, length)) * width;
      for (let k = 0; k < width; k++) data[o++] = a.data[i + k];
    }
  }
  return { kind: a.kind, shape, data };
}

function reshaped([a, wanted], { allowzero = 0 }) {
  const shape = [...wanted.data].map((n, axis) => (n === 0 && !allowzero ? a.shape[axis] : n));
  const open = shape.indexOf(-1);
  if (open >= 0) shape[open] = a.data.length / (-product(shape) || 1);
  if (product(shape) !== a.data.length) throw new Error(`${a.data.length} values do not fill (${shape}).`);
  return { kind: a.kind, shape, data: a.data };
}

function unsqueezed([a, axes], attributes) {
  const added = [...(axes?.data ?? attributes.axes)];
  const rank = a.shape.length + added.length;
  const places = new Set(added.map((axis) => axisOf(axis, rank)));
  let next = 0;
  const shape = Array.from({ length: rank }, (_, axis) => (places.has(axis) ? 1 : a.shape[next++]));
  return { kind: a.kind, shape, data: a.data };
}

// Products of matrices

function multiplied([a, b], _, pool) {
  const first = a.shape.length === 1 ? [1, ...a.shape] : a.shape;
  const second = b.shape.length === 1 ? [...b.shape, 1] : b.shape;
  const [k, n] = [first[first.length - 1], second[second.length - 1]];
  if (second[second.length - 2] !== k) throw new Error(`Matrices (${a.shape}) and (${b.shape}) do not fit.`);
  const outer = broadcast([first.slice(0, -2), second.slice(0, -2)]);
  const rows = first[first.length - 2];
  const data = pool.take(product(outer) * rows * n).fill(0);
  const one = product(second.slice(0, -2)) === 1; // for all matrices of the first operand: they are one, of more rows
  const [own, m] = one ? [[], product(outer) * rows] : [first.slice(0, -2), rows];
  const over = one ? [] : outer;
  const columns = n <= FEW ? new Float64Array(n * k) : null;
  const strides = [stridesOf(over), stretched(own, over), stretched(second.slice(0, -2), over)];
  sweep(over, strides, (count, [o, i, j], [dout, di, dj]) => {
    for (let c = 0; c < count; c++, o += dout, i += di, j += dj) {
      if (columns) alongRows(data, o * m * n, a.data, i * m * k, turned(columns, b.data, j * k * n, k, n), m, k, n);
      else byColumns(data, o * m * n, a.data, i * m * k, b.data, j * k * n, m, k, n);
    }
  });
  const shape = [...outer, ...(a.shape.length === 1 ? [] : [rows]), ...(b.shape.length === 1 ? [] : [n])];
  return { kind: a.kind, shape, data };
}

/** A matrix of few columns as rows. */
function turned(columns, b, j, k, n) {
  for (let p = 0; p < k; p++) for (let c = 0; c < n; c++) columns[c * k + p] = b[j + p * n + c];
  return columns;
}

/** Every value is one sum along a row of A and a row of Bᵀ. */
function alongRows(out, o, a, i, columns, m, k, n) {
  for (let row = 0; row < m; row++) {
    for (let c = 0; c < n; c++) {
      const [u, v] = [i + row * k, c * k];
      let [s0, s1, s2, s3, p] = [0, 0, 0, 0, 0];
      for (; p + 3 < k; p += 4) {
        s0 += a[u + p] * columns[v + p];
        s1 += a[u + p + 1] * columns[v + p + 1];
        s2 += a[u + p + 2] * columns[v + p + 2];
        s3 += a[u + p + 3] * columns[v + p + 3];
      }
      for (; p < k; p++) s0 += a[u + p] * columns[v + p];
      out[o + row * n + c] = s0 + s1 + (s2 + s3);
    }
  }
}

/** Rows of the product are sums of rows of B, four at a time for two rows of A, by blocks of columns. */
function byColumns(out, o, a, i, b, j, m, k, n) {
  for (let start = 0; start < n; start += COLUMNS) {
    const width = Math.min(COLUMNS, n - start);
    let p = 0;
    for (; p + 3 < k; p += 4) {
      const v = j + p * n + start;
      let row = 0;
      for (; row + 1 < m; row += 2) fourForTwo(out, o + row * n + start, a, i + row * k + p, b, v, width, k, n);
      if (row < m) four(out, o + row * n + start, a, i + row * k + p, b, v, width, n);
    }
    for (; p < k; p++) {
      for (let row = 0; row < m; row++) {
        const [x, t, v] = [a[i + row * k + p], o + row * n + start, j + p * n + start];
        for (let c = 0; c < width; c++) out[t + c] += x * b[v + c];
      }
    }
  }
}

function four(out, t, a, u, b, v, width, n) {
  const [x, y, z, w] = [a[u], a[u + 1], a[u + 2], a[u + 3]];
  for (let c = 0; c < width; c++)
    out[t + c] += x * b[v + c] + y * b[v + n + c] + (z * b[v + 2 * n + c] + w * b[v + 3 * n + c]);
}

function fourForTwo(out, t, a, u, b, v, width, k, n) {
  const [x, y, z, w] = [a[u], a[u + 1], a[u + 2], a[u + 3]];
  const [X, Y, Z, W] = [a[u + k], a[u + k + 1], a[u + k + 2], a[u + k + 3]];
  for (let c = 0; c < width; c++) {
    const q = b[v + c];
    const r = b[v + n + c];
    const s = b[v + 2 * n + c];
    const l = b[v + 3 * n + c];
    out[t + c] += x * q + y * r + (z * s + w * l);
    out[t + n + c] += X * q + Y * r + (Z * s + W * l);
  }
}

// All operators

const quotient = binary((n, out, o, a, i, di, b, j, dj) => {
  for (let k = 0; k < n; k++, i += di, j += dj) out[o + k] = a[i] / b[j];
});

const SHARING = new Set(["Identity", "Reshape", "Unsqueeze"]);

const OPERATORS = {
  Abs: unary((out, a) => {
    for (let k = 0; k < a.length; k++) out[k] = Math.abs(a[k]);
  }),
  Add: binary((n, out, o, a, i, di, b, j, dj) => {
    for (let k = 0; k < n; k++, i += di, j += dj) out[o + k] = a[i] + b[j];
  }),
  Cast: cast,
  Concat: concatenated,
  Cos: unary((out, a) => {
    for (let k = 0; k < a.length; k++) out[k] = Math.cos(a[k]);
  }),
  Div: divided,
  Exp: unary((out, a) => {
    for (let k = 0; k < a.length; k++) out[k] = Math.exp(a[k]);
  }),
  Gather: gathered,
  Greater: binary((n, out, o, a, i, di, b, j, dj) => {
    for (let k = 0; k < n; k++, i += di, j += dj) out[o + k] = a[i] > b[j] ? 1 : 0;
  }, "bool"),
  Identity: ([a]) => a,
  Less: binary((n, out, o, a, i, di, b, j, dj) => {
    for (let k = 0; k < n; k++, i += di, j += dj) out[o + k] = a[i] < b[j] ? 1 : 0;
  }, "bool"),
  Log: unary((out, a) => {
    for (let k = 0; k < a.length; k++) out[k] = Math.log(a[k]);
  }),
  MatMul: multiplied,
  Max: binary((n, out, o, a, i, di, b, j, dj) => {
    for (let k = 0; k < n; k++, i += di, j += dj) out[o + k] = Math.max(a[i], b[j]);
  }),
  Min: binary((n, out, o, a, i, di, b, j, dj) => {
    for (let k = 0; k < n; k++, i += di, j += dj) out[o + k] = Math.min(a[i], b[j]);
  }),
  Mul: binary((n, out, o, a, i, di, b, j, dj) => {
    for (let k = 0; k < n; k++, i += di, j += dj) out[o + k] = a[i] * b[j];
  }),
  Neg: unary((out, a) => {
    for (let k = 0; k < a.length; k++) out[k] = -a[k];
  }),
  Pow: binary((n, out, o, a, i, di, b, j, dj) => {
    for (let k = 0; k < n; k++, i += di, j += dj) out[o + k] = b[j] === 2 ? a[i] * a[i] : a[i] ** b[j];
  }),
  ReduceMax: reduction((n, out, o, dout, a, i, di) => {
    for (let k = 0; k < n; k++, o += dout, i += di) out[o] = Math.max(out[o], a[i]);
  }, -Infinity),
  ReduceMean: reduction(summed, 0, true),
  ReduceMin: reduction((n, out, o, dout, a, i, di) => {
    for (let k = 0; k < n; k++, o += dout, i += di) out[o] = Math.min(out[o], a[i]);
  }, Infinity),
  ReduceSum: reduction(summed, 0),
  Reshape: reshaped,
  Sin: unary((out, a) => {
    for (let k = 0; k < a.length; k++) out[k] = Math.sin(a[k]);
  }),
  Sqrt: unary((out, a) => {
    for (let k = 0; k < a.length; k++) out[k] = Math.sqrt(a[k]);
  }),
  Sub: binary((n, out, o, a, i, di, b, j, dj) => {
    for (let k = 0; k < n; k++, i += di, j += dj) out[o + k] = a[i] - b[j];
  }),
  Tanh: unary((out, a) => {
    for (let k = 0; k < a.length; k++) out[k] = Math.tanh(a[k]);
  }),
  Transpose: transposed,
  Unsqueeze: unsqueezed,
  Where: where,
};

function summed(n, out, o, dout, a, i, di) {
  for (let k = 0; k < n; k++, o += dout, i += di) out[o] += a[i];
}
