"""A graph for single precision: what comes in and goes out is float32, and so is what was written loosely.

The rest stays in float64: sums of nearly dependent features, distances and tails amplify rounding beyond what single
precision leaves. Values are cast where one meets the other. Constants that are `rough` are kept in float32 all the
same, which halves a file, and are cast before they are used.
"""

from __future__ import annotations

import numpy as np

from pcarann.export.graph import DOUBLE, Graph, Node, Values

__all__ = ["SINGLE", "in_single"]

SINGLE = 1
"""The number that ONNX has for float32"""
_DECISIONS = frozenset({"Greater", "Less"})
_MOVES = frozenset({"Concat", "Gather", "Identity", "Reshape", "Transpose", "Unsqueeze"})


def in_single(graph: Graph) -> Graph:
    """The same graph with float32 inputs and outputs."""
    return _Casting(graph).graph()


class _Casting:
    """Goes through a graph once and knows the precision of every value: SINGLE, DOUBLE, or 0 for no real numbers."""

    def __init__(self, graph: Graph):
        self._of = graph
        self._kinds = dict.fromkeys((port.name for port in graph.inputs), SINGLE)
        self._nodes: list[Node] = []
        self._constants: dict[str, Values] = {}
        self._cast: dict[tuple[str, int], str] = {}  # constants in single precision by 0
        self._taken = {*self._kinds, *graph.constants, *(node.output for node in graph.nodes)}

    def graph(self) -> Graph:
        outputs = {port.name for port in self._of.outputs}
        for node in self._of.nodes:
            kind = SINGLE if node.output in outputs else self._kind(node)
            names = tuple(self._as(name, kind) for name in node.inputs)
            decides = node.operator in _DECISIONS or not self._real(node)
            self._kinds[node.output] = 0 if decides else kind
            attributes = node.attributes
            if node.operator == "Cast" and attributes["to"] == DOUBLE:  # of a decision
                attributes, self._kinds[node.output] = {"to": kind}, kind
            self._nodes.append(Node(node.operator, names, node.output, attributes, node.loose))
        return Graph(self._of.inputs, self._of.outputs, tuple(self._nodes), self._constants)

    def _kind(self, node: Node) -> int:
        """The precision in which a node is done: what only moves numbers leaves them as they are."""
        if node.operator in _MOVES:
            kinds = {self._kinds.get(name, 0) for name in node.inputs} - {0}
            if kinds:  # constants alone are as exact as what they are for
                return SINGLE if kinds == {SINGLE} else DOUBLE
        return SINGLE if node.loose else DOUBLE

    def _real(self, node: Node) -> bool:
        return any(self._kinds.get(name) or self._is_real_constant(name) for name in node.inputs)

    def _is_real_constant(self, name: str) -> bool:
        return name in self._of.constants and self._of.constants[name].dtype == np.float64

    def _as(self, name: str, kind: int) -> str:
        """A value in a precision: itself, or what a cast makes of it."""
        if name in self._of.constants:
            values = self._of.constants[name]
            if values.dtype != np.float64 or (kind == DOUBLE and name not in self._of.rough):
                self._constants[name] = values
                return name
            if (name, 0) not in self._cast:
                self._cast[name, 0] = self._free(f"{name}.single")
                self._constants[self._cast[name, 0]] = _rounded(values)
            single = self._cast[name, 0]
            return single if kind == SINGLE else self._casted(single, kind)
        return name if self._kinds[name] in (0, kind) else self._casted(name, kind)

    def _casted(self, name: str, kind: int) -> str:
        if (name, kind) not in self._cast:
            self._cast[name, kind] = self._free(f"{name}.{'single' if kind == SINGLE else 'double'}")
            self._nodes.append(Node("Cast", (name,), self._cast[name, kind], {"to": kind}))
        return self._cast[name, kind]

    def _free(self, name: str) -> str:
        """A name that nothing has; users may call a tensor anything."""
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _rounded(values: Values) -> Values:
    """Numbers in single precision, or a refusal where they are too large or too small for it."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    limits = np.finfo(np.float32)
    if sizes.size and (sizes.max() > limits.max or sizes.max() < limits.tiny):
        raise ValueError(f"Numbers of size {sizes.max():.1g} do not fit into single precision: export in double.")
    with np.errstate(under="ignore"):
        return values.astype(np.float32)
