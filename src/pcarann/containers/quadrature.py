"""Weights of the values of a field in inner products, where its grid is known not to be uniform."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcarann.containers.parts import Part
from pcarann.mesh.mesh import Mesh

__all__ = ["quadrature_of"]

_UNIFORM = 1e-6  # of a step

Values = np.ndarray[Any, np.dtype[np.float64]]


def quadrature_of(part: Part, mesh: Mesh | None) -> Values | None:
    """Weights of one field, of its grid's shape, 1 on average: a mesh's, or the trapezoidal rule along coordinates.

    None where nothing is known, or all weights are alike.
    """
    if mesh is not None:
        if mesh.nodes not in part.grid:
            return None
        axis = mesh.node_axis(part.grid)
        shape = [mesh.nodes if i == axis else 1 for i in range(len(part.grid))]
        return np.array(np.broadcast_to(_relative(mesh.weights).reshape(shape), part.grid))
    if part.label is None:
        return None
    weights, told = np.ones(part.grid), False
    for axis, coords in enumerate(part.label.axes):
        along = None if coords is None else _trapezoidal(coords.astype(np.float64))
        if along is not None:
            told = True
            weights = weights * along.reshape([-1 if i == axis else 1 for i in range(len(part.grid))])
    return _relative(weights) if told else None


def _trapezoidal(coords: Values) -> Values | None:
    steps = np.abs(np.diff(coords))
    if len(steps) < 2 or np.ptp(steps) <= _UNIFORM * steps.mean():
        return None
    found: Values = (np.concatenate([steps[:1], steps]) + np.concatenate([steps, steps[-1:]])) / 2
    return found


def _relative(weights: Values) -> Values:
    found: Values = weights / weights.mean()
    return found
