"""Fields with points that have no values, made whole: such a point takes the value of the nearest one that has one."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of
from pcarann.backend.gathers import gather_adjoint
from pcarann.containers.parts import Part
from pcarann.mesh.mesh import Mesh

__all__ = ["filled", "filled_adjoint"]

Values = np.ndarray[Any, np.dtype[Any]]


def filled(matrix: Array, part: Part, mesh: Mesh | None) -> Array:
    """The values of all points, those without any taken from the nearest point that has one."""
    if part.holes is None:
        return matrix
    place = place_of(matrix)
    return place.xp.take(matrix, place.xp.asarray(_fillers(part, mesh), device=place.device), axis=1)


def filled_adjoint(fields: Array, part: Part, mesh: Mesh | None) -> Array:
    """The adjoint of `filled` after points without values were left out: 0 there."""
    if part.holes is None:
        return fields
    kept = np.flatnonzero(~part.holes.reshape(-1))
    return gather_adjoint(fields, kept[_fillers(part, mesh)], part.holes.size)


def _fillers(part: Part, mesh: Mesh | None) -> Values:
    """For each point the one whose value it takes, counted among those that have one."""
    assert part.holes is not None
    kept = np.flatnonzero(~part.holes.reshape(-1))
    if mesh is None:
        from scipy.ndimage import distance_transform_edt

        nearest = distance_transform_edt(part.holes, return_distances=False, return_indices=True)
        numbers = np.ravel_multi_index(tuple(nearest), part.grid).reshape(-1)
    else:
        numbers = _nearest_nodes(part, mesh)
    return np.asarray(np.searchsorted(kept, numbers))


def _nearest_nodes(part: Part, mesh: Mesh) -> Values:
    """For every value of a field on a mesh the number of that of the nearest node that has one."""
    from scipy.spatial import KDTree

    assert part.holes is not None
    axis = mesh.node_axis(part.grid) if len(part.grid) > 1 else 0
    numbers = np.moveaxis(np.arange(part.holes.size).reshape(part.grid), axis, 0).reshape(mesh.nodes, -1)
    holes = np.moveaxis(part.holes, axis, 0).reshape(mesh.nodes, -1)
    for component in range(holes.shape[1]):
        there = np.flatnonzero(~holes[:, component])
        if not len(there):
            raise ValueError(f"Component {component} of {part.name or 'y'} has no value at any node.")
        nearest = there[KDTree(mesh.points[there]).query(mesh.points)[1]]
        numbers[:, component] = numbers[nearest, component]
    shape = (mesh.nodes, *(n for i, n in enumerate(part.grid) if i != axis))
    found: Values = np.moveaxis(numbers.reshape(shape), 0, axis).reshape(-1)
    return found
