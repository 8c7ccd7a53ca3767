"""Arithmetic written down instead of done: a graph of operators of ONNX, from which files are made.

    sheet = Sheet()
    x = sheet.input("inputs", (40,))
    h = sheet.tanh((x - mean) @ modes.T)          # values combine with one another and with NumPy arrays
    graph = sheet.graph({"outputs": (h @ V, (100,))})

Every operator is one of ONNX with its meaning there, so that a graph goes into an ONNX file as it is (`onnx_file`), and
into a page whose script knows the same few operators (`pcarann.explorer`). The first axis of every input counts
samples, and its length is not known.

Everything is float64. What is written inside `sheet.loosely()` may be done in single precision where a file is made for
that (`precision`): the rest is not, since rounding is amplified there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

__all__ = ["DOUBLE", "OPERATORS", "Graph", "Node", "Port", "Sheet", "Value"]

Values = np.ndarray[Any, np.dtype[Any]]

OPERATORS = frozenset(
    {
        "Abs",
        "Add",
        "Cast",
        "Concat",
        "Cos",
        "Div",
        "Exp",
        "Gather",
        "Greater",
        "Identity",
        "Less",
        "Log",
        "MatMul",
        "Max",
        "Min",
        "Mul",
        "Neg",
        "Pow",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceSum",
        "Reshape",
        "Sin",
        "Sqrt",
        "Sub",
        "Tanh",
        "Transpose",
        "Unsqueeze",
        "Where",
    }
)
"""All that graphs are made of"""
DOUBLE = 11
"""The number that ONNX has for float64"""
_SMALL = 64  # values of constants that are compared as they are, others by their digests


@dataclass(frozen=True)
class Port:
    """A value that goes in or comes out, by name."""

    name: str
    shape: tuple[int, ...]
    """Without the first axis, that of the samples"""


@dataclass(frozen=True)
class Node:
    """One operator."""

    operator: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    loose: bool = False
    """Whether single precision is enough for it"""


@dataclass(frozen=True, eq=False)
class Graph:
    """Operators in the order in which they can be evaluated."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Values]
    """float64, int64 or bool; float32 too in a graph for single precision"""
    rough: frozenset[str] = frozenset()
    """Constants that may be kept in single precision, whatever is done with them"""


class Value:
    """A value on a sheet; it combines with others there, with numbers and with arrays."""

    __array_ufunc__ = None  # array @ value comes here

    def __init__(self, sheet: Sheet, name: str):
        self.sheet, self.name = sheet, name

    def __add__(self, other: Any) -> Value:
        return self.sheet("Add", self, _real(other))

    def __radd__(self, other: Any) -> Value:
        return self.sheet("Add", _real(other), self)

    def __sub__(self, other: Any) -> Value:
        return self.sheet("Sub", self, _real(other))

    def __rsub__(self, other: Any) -> Value:
        return self.sheet("Sub", _real(other), self)

    def __mul__(self, other: Any) -> Value:
        return self.sheet("Mul", self, _real(other))

    def __rmul__(self, other: Any) -> Value:
        return self.sheet("Mul", _real(other), self)

    def __truediv__(self, other: Any) -> Value:
        return self.sheet("Div", self, _real(other))

    def __rtruediv__(self, other: Any) -> Value:
        return self.sheet("Div", _real(other), self)

    def __matmul__(self, other: Any) -> Value:
        return self.sheet("MatMul", self, _real(other))

    def __rmatmul__(self, other: Any) -> Value:
        return self.sheet("MatMul", _real(other), self)

    def __neg__(self) -> Value:
        return self.sheet("Neg", self)


class Sheet:
    """What a graph is written on."""

    def __init__(self) -> None:
        self._inputs: list[Port] = []
        self._nodes: list[Node] = []
        self._constants: dict[str, Values] = {}
        self._known: dict[tuple[Any, ...], str] = {}  # every constant is written once
        self._fixed: set[str] = set()  # constants, and what is made of them alone: that is written once too
        self._made: dict[tuple[Any, ...] | None, str] = {}
        self._loose = False
        self._rough: set[str] = set()

    def input(self, name: str, shape: Sequence[int]) -> Value:
        """An input, (samples, *shape)."""
        self._inputs.append(Port(name, tuple(int(n) for n in shape)))
        return Value(self, f"i{len(self._inputs) - 1}")

    def constant(self, array: Any) -> Value:
        """An array or a number; numbers that are not whole are float64."""
        values = np.asarray(array, order="C")
        kind = {"f": np.float64, "i": np.int64, "u": np.int64, "b": np.bool_}[values.dtype.kind]
        values = values.astype(kind, copy=False)
        whole = values.tobytes() if values.size <= _SMALL else hashlib.sha256(values.data).digest()
        key = (values.dtype.str, values.shape, whole)
        if key not in self._known:
            self._known[key] = f"c{len(self._constants)}"
            self._constants[self._known[key]] = values
            self._fixed.add(self._known[key])
        return Value(self, self._known[key])

    def rough(self, array: Any) -> Value:
        """A constant that may be kept in single precision."""
        found = self.constant(array)
        self._rough.add(found.name)
        return found

    def __call__(self, operator: str, *inputs: Any, **attributes: Any) -> Value:
        """Write an operator down; what it works on may be values, numbers and arrays."""
        if operator not in OPERATORS:
            raise ValueError(f"{operator} is no operator of these graphs.")
        names = tuple(one.name if isinstance(one, Value) else self.constant(one).name for one in inputs)
        fixed = (operator, names, str(attributes), self._loose) if self._fixed.issuperset(names) else None
        if fixed in self._made:
            return Value(self, self._made[fixed])
        self._nodes.append(Node(operator, names, f"v{len(self._nodes)}", attributes, self._loose))
        if fixed is not None:
            self._made[fixed] = self._nodes[-1].output
            self._fixed.add(self._nodes[-1].output)
        return Value(self, self._nodes[-1].output)

    @contextmanager
    def loosely(self, loose: bool = True) -> Iterator[None]:
        """What is written inside may be done in single precision."""
        before, self._loose = self._loose, loose
        try:
            yield
        finally:
            self._loose = before

    def tanh(self, x: Value) -> Value:
        """Of every number."""
        return self("Tanh", x)

    def sqrt(self, x: Value) -> Value:
        """Of every number."""
        return self("Sqrt", x)

    def maximum(self, x: Any, y: Any) -> Value:
        """The greater of two numbers each."""
        return self("Max", _real(x), _real(y))

    def minimum(self, x: Any, y: Any) -> Value:
        """The smaller of two numbers each."""
        return self("Min", _real(x), _real(y))

    def where(self, condition: Any, x: Any, y: Any) -> Value:
        """Numbers of x where a condition holds, those of y elsewhere."""
        return self("Where", condition, _real(x), _real(y))

    def less(self, x: Any, y: Any) -> Value:
        """Whether x < y."""
        return self("Less", _real(x), _real(y))

    def counted(self, x: Value) -> Value:
        """1 where a condition holds, 0 elsewhere."""
        return self("Cast", x, to=DOUBLE)

    def gathered(self, x: Value, indices: Values, axis: int = 1) -> Value:
        """Entries along an axis, by their indices."""
        return self("Gather", x, np.asarray(indices, dtype=np.int64), axis=axis)

    def one_of(self, x: Value, index: int, axis: int = 1) -> Value:
        """One entry along an axis, which is gone then."""
        return self("Gather", x, np.int64(index), axis=axis)

    def reshaped(self, x: Value, shape: Sequence[int]) -> Value:
        """Of another shape (samples, *shape)."""
        return self("Reshape", x, np.asarray([-1, *shape], dtype=np.int64))

    def folded(self, x: Value, shape: Sequence[int]) -> Value:
        """Each sample of another shape; runtimes load large files faster where they know that samples stay as many."""
        return self("Reshape", x, np.asarray([0, *shape], dtype=np.int64))

    def transposed(self, x: Value, order: Sequence[int]) -> Value:
        """With its axes in another order."""
        return self("Transpose", x, perm=list(order))

    def applied(self, matrix: Any, x: Value) -> Value:
        """A constant (m, n) matrix applied to each of (rows, n) vectors: (rows, m).

        The matrix stands on the left: runtimes read it once there, where they would copy it on the right.
        """
        return self.transposed(matrix @ self.transposed(x, (1, 0)), (1, 0))

    def joined(self, parts: Sequence[Value], axis: int = 1) -> Value:
        """One after another along an axis."""
        return parts[0] if len(parts) == 1 else self("Concat", *parts, axis=axis)

    def summed(self, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
        """The sum over some axes."""
        return self("ReduceSum", x, np.asarray(axes, dtype=np.int64), keepdims=int(keep))

    def averaged(self, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
        """The mean over some axes."""
        return self("ReduceMean", x, np.asarray(axes, dtype=np.int64), keepdims=int(keep))

    def greatest(self, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
        """The greatest number along some axes."""
        return self("ReduceMax", x, np.asarray(axes, dtype=np.int64), keepdims=int(keep))

    def least(self, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
        """The least number along some axes."""
        return self("ReduceMin", x, np.asarray(axes, dtype=np.int64), keepdims=int(keep))

    def repeated(self, constant: Values, like: Value) -> Value:
        """A constant (1, …) for as many samples as another finite value with as many axes has.

        0 of each sample is added: runtimes take long to load a file with hundreds of shapes that depend on inputs.
        """
        nothing = self.greatest(like, range(1, constant.ndim), keep=True) * 0.0
        return self("Add", nothing, constant)

    def copied(self, graph: Graph, *inputs: Value) -> list[Value]:
        """What another graph makes of values in the place of its inputs; its constants are shared by all copies."""
        known = {port.name: value for port, value in zip(graph.inputs, inputs, strict=True)}
        for name, values in graph.constants.items():
            known[name] = self.rough(values) if name in graph.rough else self.constant(values)
        for node in graph.nodes:
            with self.loosely(node.loose):
                known[node.output] = self(node.operator, *(known[name] for name in node.inputs), **node.attributes)
        return [known[port.name] for port in graph.outputs]

    def graph(self, outputs: Mapping[str, tuple[Value, Sequence[int]]]) -> Graph:
        """What was written, with these outputs by name, each with its shape; what none of them needs is left out."""
        ends = [Node("Identity", (value.name,), f"o{k}") for k, (value, _) in enumerate(outputs.values())]
        needed, nodes = {node.output for node in ends}, []
        for node in reversed([*self._nodes, *ends]):
            if node.output in needed:
                needed.update(node.inputs)
                nodes.append(node)
        constants = {name: values for name, values in self._constants.items() if name in needed}
        ports = tuple(Port(name, tuple(int(n) for n in shape)) for name, (_, shape) in outputs.items())
        rough = frozenset(self._rough.intersection(constants))
        return _named(Graph(tuple(self._inputs), ports, tuple(reversed(nodes)), constants, rough))


def _named(graph: Graph) -> Graph:
    """A graph in which inputs i0, … and outputs o0, … have their own names, whatever these are."""
    names = {f"i{k}": port.name for k, port in enumerate(graph.inputs)}
    names |= {f"o{k}": port.name for k, port in enumerate(graph.outputs)}
    inner = [*graph.constants, *(node.output for node in graph.nodes if node.output not in names)]
    mark = ""
    while {mark + name for name in inner} & set(names.values()):
        mark += "_"
    names |= {name: mark + name for name in inner}
    nodes = [replace(x, inputs=tuple(names[one] for one in x.inputs), output=names[x.output]) for x in graph.nodes]
    constants = {names[name]: values for name, values in graph.constants.items()}
    rough = frozenset(names[name] for name in graph.rough)
    return replace(graph, nodes=tuple(nodes), constants=constants, rough=rough)


def _real(value: Any) -> Any:
    """A number or an array as reals, which do not mix with whole numbers."""
    return value if isinstance(value, Value) else np.asarray(value, dtype=np.float64) if np.ndim(value) == 0 else value
