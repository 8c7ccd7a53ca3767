"""Which constants of a graph may be in single precision, found by trying.

Single precision is enough for a constant where it changes the outputs for some inputs by less than a tolerance of
their greatest value. All large constants are tried together first; where that is too much, as where the coefficients of
a kernel are large and of both signs, each is tried by itself, and those that change little are tried together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pcarann.explorer.arithmetic import evaluated
from pcarann.export.graph import Graph

__all__ = ["TOLERANCE", "deviation", "single_enough"]

Values = np.ndarray[Any, np.dtype[Any]]

TOLERANCE = 2e-7
"""Of the greatest value of an output: a fifth of what a page may differ from `predict` by"""
_LARGE = 1 << 10  # values of a constant that is worth it


def single_enough(
    graph: Graph, inputs: Mapping[str, Values], without: Iterable[str] = (), tolerance: float = TOLERANCE
) -> frozenset[str]:
    """Names of constants that may be rounded together, none of those that are not in question."""
    sizes = {name: one.size for name, one in graph.constants.items() if one.dtype == np.float64 and one.size >= _LARGE}
    names = sorted(set(sizes) - set(without), key=lambda name: -sizes[name])
    exact = evaluated(graph, inputs)

    def change(chosen: Iterable[str]) -> float:
        with np.errstate(over="ignore"):  # what becomes infinite is found in the outputs
            rounded = {name: graph.constants[name].astype(np.float32).astype(np.float64) for name in chosen}
        return deviation(evaluated(graph, inputs, rounded), exact)

    for limit in (np.inf, tolerance, tolerance / max(1, len(names))):
        chosen = names if np.isinf(limit) else [name for name in names if change([name]) < limit]
        if change(chosen) < tolerance:
            return frozenset(chosen)
    return frozenset()


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
