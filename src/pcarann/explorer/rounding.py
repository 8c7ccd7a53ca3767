"""How many bytes the constants of a graph need, found by trying.

    float32    4 bytes, 7 digits
    float48    the upper 6 bytes of a float64, 11 digits
    float64    8 bytes, 16 digits

Where all constants together are few, none is rounded. Fewer bytes are enough for a constant where they change the
outputs for some inputs by less than a tolerance of their greatest value. All large constants are tried together first;
where that is too much, as where the coefficients of a kernel are large and of both signs, each is tried by itself, and
those that change little are tried together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import numpy as np

from pcarann.explorer.arithmetic import evaluated
from pcarann.export.graph import Graph

__all__ = ["TOLERANCE", "deviation", "rounded", "stored_kinds"]

Values = np.ndarray[Any, np.dtype[Any]]

TOLERANCE = 2e-7
"""Of the greatest value of an output: a fifth of what a page may differ from `predict` by"""
_KINDS = ("float32", "float48")
_FEW = 1 << 20  # values of all constants, which make a page of 11 MB
_SHARE = 1 / 32  # of all values, from which on a constant is worth trials
_LOWER = 16  # bits of a float64 that a float48 has not


def rounded(values: Values, kind: str) -> Values:
    """Numbers as they are after they were stored so."""
    if kind == "float32":
        with np.errstate(over="ignore"):  # what becomes infinite is found in the outputs
            return values.astype(np.float32).astype(np.float64)
    if kind == "float48":
        bits = np.ascontiguousarray(values).view(np.uint64) + np.uint64(1 << _LOWER - 1)
        return (bits >> np.uint64(_LOWER) << np.uint64(_LOWER)).view(np.float64)
    return values


def stored_kinds(
    graph: Graph, inputs: Mapping[str, Values], without: Collection[str] = (), few: int = _FEW
) -> dict[str, str]:
    """Kinds of large constants that may be stored in fewer bytes, by name, but for some that are not in question.

    None where there are no more values than `few`.
    """
    reals = {name: one.size for name, one in graph.constants.items() if one.dtype == np.float64 and name not in without}
    if sum(reals.values()) <= few:
        return {}
    large = [name for name, size in reals.items() if size >= _SHARE * sum(reals.values())]
    exact = evaluated(graph, inputs)
    found: dict[str, str] = {}

    def change(kinds: Mapping[str, str]) -> float:
        other = {name: rounded(graph.constants[name], kind) for name, kind in kinds.items()}
        return deviation(evaluated(graph, inputs, other), exact)

    for number, kind in enumerate(_KINDS, start=1):
        names = [name for name in large if name not in found]
        limit = TOLERANCE * number / len(_KINDS)  # each kind adds its share
        found |= _together(names, partial(_changed, change, found, kind), kind, limit)
    return found


def _changed(change: Callable[[Mapping[str, str]], float], found: dict[str, str], kind: str, names: list[str]) -> float:
    return change(found | dict.fromkeys(names, kind))


def _together(names: list[str], change: Callable[[list[str]], float], kind: str, tolerance: float) -> dict[str, str]:
    """Those of the names that may be of a kind together."""
    for limit in (np.inf, tolerance, tolerance / max(1, len(names))):
        chosen = names if np.isinf(limit) else [name for name in names if change([name]) < limit]
        if chosen and change(chosen) < tolerance:
            return dict.fromkeys(chosen, kind)
    return {}


def deviation(found: Mapping[str, Values], wanted: Mapping[str, Values]) -> float:
    """The greatest difference of an output, beside its greatest value in the same sample; holes are to be the same."""
    most = 0.0
    for name, values in wanted.items():
        rows = values.reshape(len(values), -1).astype(np.float64)
        other = found[name].reshape(rows.shape)
        with np.errstate(invalid="ignore"):
            difference = np.where(np.isfinite(rows) & np.isfinite(other), np.abs(other - rows), np.inf)
        difference[(other == rows) | np.isnan(other) & np.isnan(rows)] = 0.0
        scale = np.nanmax(np.abs(rows), axis=1, initial=1e-300)
        most = max(most, float(np.max(np.max(difference, axis=1, initial=0.0) / scale, initial=0.0)))
    return most
