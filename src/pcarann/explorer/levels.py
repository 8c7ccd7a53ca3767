"""Graphs of one model for several levels of its intervals as one graph, in which all that they share is there once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from pcarann.export.graph import Graph, Node, Port

__all__ = ["joined"]

Values = np.ndarray[Any, np.dtype[Any]]


class _Once:
    """Nodes and constants, each written once however often it comes."""

    def __init__(self) -> None:
        self.constants: dict[str, Values] = {}
        self.nodes: list[Node] = []
        self._names: dict[Any, str] = {}

    def read(self, graph: Graph) -> dict[str, str]:
        """The names here of the outputs of a graph."""
        names = {port.name: f"i{i}" for i, port in enumerate(graph.inputs)}
        names |= {name: self._constant(values) for name, values in graph.constants.items()}
        for node in graph.nodes:
            inputs = tuple(names[name] for name in node.inputs)
            names[node.output] = inputs[0] if node.operator == "Identity" else self._node(node, inputs)
        return {port.name: names[port.name] for port in graph.outputs}

    def _constant(self, values: Values) -> str:
        content = np.ascontiguousarray(values)
        key = values.dtype.str, values.shape, hashlib.sha256(content.data if content.size else b"").digest()
        if key not in self._names:
            self._names[key] = f"c{len(self.constants)}"
            self.constants[self._names[key]] = values
        return self._names[key]

    def _node(self, node: Node, inputs: tuple[str, ...]) -> str:
        key = node.operator, inputs, repr(sorted(node.attributes.items()))
        if key not in self._names:
            self._names[key] = f"v{len(self.nodes)}"
            self.nodes.append(Node(node.operator, inputs, self._names[key], node.attributes))
        return self._names[key]


def joined(graphs: Mapping[str, Graph]) -> tuple[Graph, dict[str, dict[str, str]]]:
    """One graph of several with the same inputs, and for each of them the names of its outputs there by their own.

    Inputs and outputs are called i0, i1, …, o0, o1, … there, in the order of the first graph's inputs.
    """
    once = _Once()
    values = {key: once.read(graph) for key, graph in graphs.items()}
    shapes = {values[key][port.name]: port.shape for key, graph in graphs.items() for port in graph.outputs}
    outputs = {value: f"o{i}" for i, value in enumerate(shapes)}
    ends = [Node("Identity", (value,), name) for value, name in outputs.items()]
    first = next(iter(graphs.values()))
    whole = Graph(
        tuple(Port(f"i{i}", port.shape) for i, port in enumerate(first.inputs)),
        tuple(Port(outputs[value], shape) for value, shape in shapes.items()),
        (*once.nodes, *ends),
        once.constants,
    )
    return whole, {key: {name: outputs[value] for name, value in found.items()} for key, found in values.items()}
