"""What a field lies on, and so how it is drawn.

Values are one sample's. On a grid they are (*grid) or (components, *grid), on nodes (nodes,), (nodes, components) or
(components, nodes). Of a grid without names the first axis counts components where it is short and all others long,
(2, 64, 64); `coords` leaves no doubt: it names the axes of the grid, whatever comes before counts components.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import numpy as np

from pcarann.backend.arrays import to_host

__all__ = ["Kind", "Layout", "Place", "Values"]

Values = np.ndarray[Any, np.dtype[Any]]
Kind = Literal["curve", "image", "volume", "triangles", "surface", "cloud"]

_FEW, _MANY = 4, 8  # as many components a field may have, and as many points at least an axis, where nobody says


class Place(TypedDict, total=False):
    """What the values of a field belong to; nothing, where they lie on a grid that has no coordinates."""

    points: Any
    """Coordinates of nodes, (nodes, dimensions)"""
    triangles: Any
    """Three nodes each, (triangles, 3)"""
    coords: Mapping[str, Any] | None
    """Of a grid: the points along each axis, by the name of the axis and in the order of the axes"""


@dataclass(frozen=True)
class Layout:
    """A place that was checked, and where in an array of values the components stand."""

    kind: Kind
    components: int
    """0 for a scalar field"""
    axis: int
    """That counts the components; without meaning for a scalar field"""
    points: Values | None = None
    triangles: Values | None = None
    coords: tuple[tuple[str, Values | None], ...] = ()
    """Name and points of each axis of a grid; None where there are none"""

    @classmethod
    def of(
        cls, shape: tuple[int, ...], points: Any = None, triangles: Any = None, coords: Mapping[str, Any] | None = None
    ) -> Layout:
        """Find the layout of values of this shape at a place."""
        if points is not None:
            return _on_nodes(shape, to_host(points), None if triangles is None else to_host(triangles))
        if triangles is not None:
            raise ValueError("triangles need points: the coordinates of the nodes that they name.")
        return _on_grid(shape, {name: to_host(axis) for name, axis in (coords or {}).items()})

    def parts(self, values: Any) -> list[Values]:
        """The components of a field, one of them where it is a scalar: on a grid or on nodes."""
        array = to_host(values)
        chosen = list(np.moveaxis(array, self.axis, 0)) if self.components else [array]
        return [_without_leading(part, len(self.coords)) if self.points is None else part for part in chosen]


def _on_nodes(shape: tuple[int, ...], points: Values, triangles: Values | None) -> Layout:
    points = points[:, None] if points.ndim == 1 else points
    if points.ndim != 2 or not 1 <= points.shape[1] <= 3:
        raise ValueError(f"points must be (nodes, dimensions) with 1 to 3 dimensions, found shape {points.shape}.")
    if len(points) not in shape or len(shape) > 2:
        raise ValueError(f"values must be (nodes,) or (nodes, components) for {len(points)} nodes, found {shape}.")
    points, axis = _seen(points), -1 if shape[0] == len(points) else 0
    components = shape[axis] if len(shape) == 2 else 0
    if triangles is not None and len(triangles):
        if triangles.ndim != 2 or triangles.shape[1] != 3 or triangles.min() < 0 or triangles.max() >= len(points):
            raise ValueError(
                f"triangles must be (triangles, 3) numbers of {len(points)} nodes, found shape {triangles.shape} "
                f"from {triangles.min()} to {triangles.max()}."
            )
        if points.shape[1] > 1:
            kind: Kind = "triangles" if points.shape[1] == 2 else "surface"
            return Layout(kind, components, axis, points, triangles)
    return Layout("curve" if points.shape[1] == 1 else "cloud", components, axis, points)


def _seen(points: Values) -> Values:
    """Points without a last coordinate that is the same everywhere, as files write those of plane meshes."""
    while points.shape[1] > 1 and np.ptp(points[:, -1]) == 0:
        points = points[:, :-1]
    return points


def _on_grid(shape: tuple[int, ...], coords: dict[str, Values]) -> Layout:
    named = len(coords) or len(shape) - (len(shape) > 1 and shape[0] <= _FEW and min(shape[1:]) >= _MANY)
    grid = shape[len(shape) - named :]
    for (name, axis), length in zip(coords.items(), grid, strict=False):
        if axis.shape != (length,):
            raise ValueError(
                f"coords[{name!r}] must have {length} points, as values of shape {shape}, not {axis.shape}."
            )
    if not len(shape) - 1 <= named <= len(shape):
        raise ValueError(f"coords name {named} axes, but values have shape {shape}: components may be one axis more.")
    axes: list[tuple[str, Values | None]] = [*coords.items()] or [(name, None) for name in _names(len(grid))]
    shown = tuple(axes[-3:])
    kind: Kind = ("curve", "curve", "image", "volume")[len(shown)]
    return Layout(kind, shape[0] if len(shape) > named else 0, 0, coords=shown)


def _names(count: int) -> list[str]:
    return ["grid point"] if count == 1 else [f"axis {axis}" for axis in range(count)]


def _without_leading(values: Values, shown: int) -> Values:
    """The last three axes at the middle of those before; a number alone as one point."""
    while values.ndim > max(shown, 1):
        values = values[len(values) // 2]
    return np.atleast_1d(values)
