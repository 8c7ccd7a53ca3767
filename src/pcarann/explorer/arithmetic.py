"""A graph evaluated with NumPy, operator by operator: what a page will say, before there is a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from pcarann.export.graph import Graph

__all__ = ["evaluated"]

Values = np.ndarray[Any, np.dtype[Any]]

_TYPES = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 11: np.float64}  # as ONNX numbers them


def evaluated(graph: Graph, inputs: Mapping[str, Values], constants: Mapping[str, Values] | None = None) -> Any:
    """Outputs by name of inputs by name, (samples, *shape) each; some constants may be replaced."""
    values = {**graph.constants, **(constants or {}), **inputs}
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            values[node.output] = _OPERATORS[node.operator](*(values[name] for name in node.inputs), **node.attributes)
    return {port.name: values[port.name] for port in graph.outputs}


def _divided(a: Values, b: Values) -> Values:
    return a / b if a.dtype.kind == "f" else np.trunc(a / b).astype(a.dtype)


def _reduction(how: Callable[..., Values]) -> Callable[..., Values]:
    def reduced(a: Values, axes: Any = (), keepdims: int = 1) -> Values:
        return np.asarray(how(a, axis=tuple(map(int, axes)) or None, keepdims=bool(keepdims)))

    return reduced


def _reshaped(a: Values, shape: Values, allowzero: int = 0) -> Values:
    kept = [a.shape[axis] if n == 0 and not allowzero else int(n) for axis, n in enumerate(shape)]
    return a.reshape(kept)


_OPERATORS: dict[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "Add": np.add,
    "Cast": lambda a, to: a.astype(_TYPES[to]),
    "Concat": lambda *parts, axis: np.concatenate(parts, axis=axis),
    "Cos": np.cos,
    "Div": _divided,
    "Exp": np.exp,
    "Gather": lambda a, indices, axis=0: np.take(a, indices, axis=axis),
    "Greater": np.greater,
    "Identity": lambda a: a,
    "Less": np.less,
    "Log": np.log,
    "MatMul": np.matmul,
    "Max": lambda *parts: reduce(np.maximum, parts),
    "Min": lambda *parts: reduce(np.minimum, parts),
    "Mul": np.multiply,
    "Neg": np.negative,
    "Pow": np.power,
    "ReduceMax": _reduction(np.max),
    "ReduceMean": _reduction(np.mean),
    "ReduceMin": _reduction(np.min),
    "ReduceSum": _reduction(np.sum),
    "Reshape": _reshaped,
    "Sin": np.sin,
    "Sqrt": np.sqrt,
    "Sub": np.subtract,
    "Tanh": np.tanh,
    "Transpose": lambda a, perm=None: np.transpose(a, perm),
    "Unsqueeze": lambda a, axes: np.expand_dims(a, tuple(map(int, axes))),
    "Where": np.where,
}
