"""A graph as one JSON document, for the interpreter in a page (`graph.js`, `unpacked.js`).

    {"inputs": [{"name", "shape"}], "outputs": [{"name", "shape"}],
     "nodes": [{"operator", "inputs", "output", "attributes"}],
     "constants": {name: {"kind", "shape", "stored", "data"}    float64, float48, float32, int32 or uint8 in base64
                       | {"kind", "shape", "draws"}}}           numbers that are drawn again

Hidden weights are a function of the seed (`pcarann.backend.random`), which a page can evaluate as well: of those it has
the key of the stream. Other constants have fewer bytes than 8 where that was found to be enough (`rounding`).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from pcarann.backend.arrays import place_of
from pcarann.backend.random import key_of, uniform
from pcarann.explorer.rounding import rounded
from pcarann.export.graph import Graph
from pcarann.features.random_layers import HiddenLayers

__all__ = ["Draw", "Known", "draws_in", "packed"]

Values = np.ndarray[Any, np.dtype[Any]]

_LEAST_DRAWN = 64  # values that are not worth a search


@dataclass(frozen=True)
class Draw:
    """A matrix of uniform numbers."""

    seed: int
    stream: tuple[int, ...]
    shape: tuple[int, ...]
    low: float
    high: float

    def values(self, shape: tuple[int, ...] | None = None) -> Values:
        """All of them, or the first of another shape."""
        shape = self.shape if shape is None else shape
        how = {"seed": self.seed, "stream": self.stream, "low": self.low, "high": self.high}
        return np.asarray(uniform(shape, place=place_of(None), **how))  # type: ignore[arg-type]

    def told(self, turned: bool) -> dict[str, Any]:
        """How a page draws them; `turned` for the transpose."""
        key = key_of(self.seed, self.stream)
        halves = [key >> 32, key & (1 << 32) - 1]
        return {"key": halves, "shape": self.shape, "low": self.low, "high": self.high, "turned": turned}


class Known:
    """Draws by their first number, so that constants which are one are found."""

    def __init__(self, draws: Iterable[Draw]):
        self._draws = {float(draw.values((1,))[0]): draw for draw in draws}

    def among(self, constant: Values) -> list[dict[str, Any]] | None:
        """The draws that a matrix, or a stack of matrices, is made of; None where it is something else."""
        if constant.ndim < 2 or constant.size < _LEAST_DRAWN or not self._draws:
            return None
        found = []
        for matrix in constant.reshape(-1, *constant.shape[-2:]):
            draw = self._draws.get(float(matrix[0, 0]))
            if draw is None or matrix.shape not in (draw.shape, draw.shape[::-1]):
                return None
            values = draw.values()
            turned = not np.array_equal(values, matrix) if matrix.shape == draw.shape else True
            if turned and not np.array_equal(values.T, matrix):
                return None
            found.append(draw.told(turned))
        return found


def draws_in(record: Any) -> Iterator[Draw]:
    """The hidden weights of all random layers that a fitted record holds, however deep."""
    if isinstance(record, HiddenLayers):
        for layer in (1, 2):
            shape = record.sizes[layer], record.sizes[layer - 1]
            yield Draw(record.seed, (record.member, layer), shape, -1.0, 1.0)
    elif is_dataclass(record) and not isinstance(record, type):
        for one in fields(record):
            yield from draws_in(getattr(record, one.name))
    elif isinstance(record, tuple | list):
        for one in record:
            yield from draws_in(one)
    elif isinstance(record, Mapping):
        yield from draws_in(list(record.values()))


def packed(graph: Graph, draws: Iterable[Draw] = (), kinds: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The document of a graph; constants that are one of the draws are drawn again, others may be stored as a kind."""
    known = Known(draws)
    return {
        "inputs": [{"name": port.name, "shape": port.shape} for port in graph.inputs],
        "outputs": [{"name": port.name, "shape": port.shape} for port in graph.outputs],
        "nodes": [
            {"operator": node.operator, "inputs": node.inputs, "output": node.output, "attributes": {**node.attributes}}
            for node in graph.nodes
        ],
        "constants": {
            name: _constant(values, known, (kinds or {}).get(name)) for name, values in graph.constants.items()
        },
    }


def _constant(values: Values, known: Known, kind: str | None) -> dict[str, Any]:
    about: dict[str, Any] = {"kind": values.dtype.name, "shape": values.shape}
    draws = known.among(values)
    if draws is not None:
        return {**about, "draws": draws}
    stored = kind or {"float64": "float64", "int64": "int32", "bool": "uint8"}[values.dtype.name]
    return {**about, "stored": stored, "data": base64.b64encode(_content(values, stored)).decode("ascii")}


def _content(values: Values, stored: str) -> bytes:
    """The bytes of numbers, the least first."""
    if stored == "int32":  # the ends of slices may be as far as there are numbers
        values = np.clip(values, -(1 << 31), (1 << 31) - 1)
    if stored == "float48":
        whole = np.ascontiguousarray(rounded(values, stored), dtype="<f8")
        return whole.reshape(-1).view(np.uint8).reshape(-1, 8)[:, 2:].tobytes()
    return np.ascontiguousarray(values, dtype=np.dtype(stored).newbyteorder("<")).tobytes()
