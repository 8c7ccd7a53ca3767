"""Parts by name as components of one array on the outputs' grid, for stages that see space.

A number becomes a constant field, a field on another grid of the same domain is interpolated, one that lacks leading
axes is repeated along them. On a mesh the nodes are the last axis. Points without values take that of the nearest point
that has one; what is predicted there is left out again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, place_of
from pcarann.containers.coding import is_table
from pcarann.containers.filling import filled, filled_adjoint
from pcarann.containers.parts import Part
from pcarann.containers.scaling import matrix_of, scale_of
from pcarann.mesh.mesh import Mesh

__all__ = ["FEWEST_POINTS", "InputStack", "OutputStack", "space_of"]

Values = np.ndarray[Any, np.dtype[Any]]
FEWEST_POINTS = 8
"""Of an axis of space"""


@dataclass(frozen=True, eq=False)
class InputStack:
    """Input parts as components on a grid or mesh."""

    parts: tuple[Part, ...]
    tables: tuple[bool, ...]
    """Whether a part is a number or a table"""
    space: tuple[int, ...]
    mesh: Mesh | None = None

    @classmethod
    def of(cls, parts: Sequence[Part], arrays: Mapping[str, Array], outputs: OutputStack, place: Place) -> InputStack:
        """Parts that go with these outputs."""
        tables = tuple(_is_table(part, arrays[part.name], outputs, place) for part in parts)
        return cls(tuple(parts), tables, outputs.space, outputs.mesh)

    def __call__(self, arrays: Mapping[str, Array], place: Place) -> Array:
        """(samples, components, *space)"""
        xp = place.xp
        found = []
        for part, table in zip(self.parts, self.tables, strict=True):
            matrix = matrix_of(arrays[part.name], part, "X", place)
            if table:
                shape = (*matrix.shape, *(1 for _ in self.space))
                fields = xp.broadcast_to(xp.reshape(matrix, shape), (*matrix.shape, *self.space))
            else:
                fields = self._on_space(filled(matrix, part, self.mesh), part)
            found.append(fields)
        return xp.concat(found, axis=1)

    def push(self, rows: Array) -> Array:
        """Changes of all points of all parts side by side, as those of (samples, values): the map itself is linear."""
        place = place_of(rows)
        ends = np.cumsum([0, *(math.prod(part.grid) for part in self.parts)])
        pieces = zip(self.parts, pairwise(ends), strict=True)
        arrays = {
            part.name: place.xp.reshape(rows[:, int(a) : int(b)], (rows.shape[0], *part.grid))
            for part, (a, b) in pieces
        }
        return place.xp.reshape(self(arrays, place), (rows.shape[0], -1))

    def pull(self, flat: Array) -> Array:
        """The adjoint of `push`."""
        xp = place_of(flat).xp
        whole = xp.reshape(flat, (flat.shape[0], *self.grid))
        found, start = [], 0
        for part, table, count in zip(self.parts, self.tables, self.counts, strict=True):
            fields = whole[:, start : start + count, ...]
            start += count
            if table:
                found.append(_summed(fields, 2))
            else:
                found.append(filled_adjoint(self._off_space(fields, part), part, self.mesh))
        return xp.concat(found, axis=1)

    @property
    def counts(self) -> list[int]:
        """Components of each part"""
        nodes = 1 if self.mesh is None else self.mesh.nodes
        sizes = [math.prod(part.grid) for part in self.parts]
        return [
            size if table else size // nodes if self.mesh is not None else math.prod(part.grid[: -len(self.space)])
            for part, table, size in zip(self.parts, self.tables, sizes, strict=True)
        ]

    @property
    def grid(self) -> tuple[int, ...]:
        """Shape of one sample of the array that is made"""
        return (sum(self.counts), *self.space)

    def _on_space(self, matrix: Array, part: Part) -> Array:
        """(samples, components, *space) of a field, wherever it lives."""
        xp = place_of(matrix).xp
        if self.mesh is not None:
            return _nodes_last(matrix, part, self.mesh)
        grid, axes = part.grid, len(self.space)
        fields = xp.reshape(matrix, (matrix.shape[0], *grid))
        if len(grid) < axes:
            fields = xp.reshape(matrix, (matrix.shape[0], *(1 for _ in range(axes - len(grid))), *grid))
        fields = xp.reshape(fields, (fields.shape[0], -1, *fields.shape[-axes:]))
        for axis, size in zip(range(-axes, 0), self.space, strict=True):
            if fields.shape[axis] not in (1, size):
                fields = _interpolated(fields, axis, size)
        return xp.broadcast_to(fields, (*fields.shape[:2], *self.space))

    def _off_space(self, fields: Array, part: Part) -> Array:
        """The adjoint of `_on_space`: (samples, points)"""
        xp = place_of(fields).xp
        if self.mesh is not None:
            return _nodes_back(fields, part, self.mesh)
        axes = len(self.space)
        own = (*(1 for _ in range(axes - len(part.grid))), *part.grid)[-axes:]
        for axis, have in zip(range(-axes, 0), own, strict=True):
            if have == 1:
                fields = xp.sum(fields, axis=axis, keepdims=True)
            elif fields.shape[axis] != have:
                fields = _interpolated_adjoint(fields, axis, have)
        return xp.reshape(fields, (fields.shape[0], -1))


@dataclass(frozen=True, eq=False)
class OutputStack:
    """Output parts as components on a grid or mesh, each divided by its spread."""

    parts: tuple[Part, ...]
    scales: tuple[float, ...]
    mesh: Mesh | None = None

    @classmethod
    def fit(cls, parts: Sequence[Part], arrays: Mapping[str, Array], place: Place, mesh: Mesh | None) -> OutputStack:
        """Measure every part; parts on different grids are refused."""
        if mesh is None and (len({space_of(part.grid) for part in parts}) > 1 or not space_of(parts[0].grid)):
            said = ", ".join(f"{part.name or 'y'} {part.grid}" for part in parts)
            raise ValueError(f"Stages need outputs on one grid, found {said}: use PCARaNN.")
        if mesh is not None:
            for part in parts:
                mesh.node_axis(part.grid)
        matrices = (matrix_of(arrays[part.name], part, "y", place) for part in parts)
        scales = tuple(scale_of(one) if len(parts) > 1 else 1.0 for one in matrices)  # one alone has nothing beside it
        return cls(tuple(parts), scales, mesh)

    @property
    def space(self) -> tuple[int, ...]:
        """The shape that components share"""
        return (self.mesh.nodes,) if self.mesh is not None else space_of(self.parts[0].grid)

    @property
    def grid(self) -> tuple[int, ...]:
        """Shape of one sample of the array that is made"""
        return self.space if self.alone else (sum(self.counts), *self.space)

    @property
    def counts(self) -> list[int]:
        """Components of each part"""
        return [math.prod(part.grid) // math.prod(self.space) for part in self.parts]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Values of each part"""
        return tuple(math.prod(part.grid) for part in self.parts)

    @property
    def alone(self) -> bool:
        """Whether there is one component, which needs no axis"""
        return sum(self.counts) == 1

    def __call__(self, arrays: Mapping[str, Array], place: Place) -> Array:
        """(samples, components, *space), or (samples, *space) of one component"""
        found = []
        for part, scale in zip(self.parts, self.scales, strict=True):
            matrix = filled(matrix_of(arrays[part.name], part, "y", place) / scale, part, self.mesh)
            if self.mesh is not None:
                found.append(_nodes_last(matrix, part, self.mesh))
            else:
                found.append(place.xp.reshape(matrix, (matrix.shape[0], -1, *self.space)))
        whole = place.xp.concat(found, axis=1)
        return whole[:, 0, ...] if self.alone else whole

    def push(self, flat: Array) -> Array:
        """Changes of (samples, values), as those of all points of all parts side by side: `apart`, which is linear."""
        xp = place_of(flat).xp
        return xp.concat([xp.reshape(one, (one.shape[0], -1)) for _, one in self.apart(flat)], axis=1)

    def pull(self, rows: Array) -> Array:
        """The adjoint of `push`: points without values are not looked at."""
        place = place_of(rows)
        xp = place.xp
        found, start = [], 0
        for part, scale in zip(self.parts, self.scales, strict=True):
            size = math.prod(part.grid)
            values = rows[:, start : start + size] * scale
            start += size
            if part.holes is not None:
                holes = xp.asarray(part.holes.reshape(-1), device=place.device)
                values = xp.where(holes, xp.zeros_like(values), values)
            values = values if self.mesh is None else _nodes_last(values, part, self.mesh)
            found.append(xp.reshape(values, (values.shape[0], -1)))
        return xp.concat(found, axis=1)

    def apart(self, flat: Array) -> Iterator[tuple[str, Array]]:
        """Undo it for (samples, values)."""
        place = place_of(flat)
        xp = place.xp
        whole = xp.reshape(flat, (flat.shape[0], sum(self.counts), *self.space))
        start = 0
        for part, scale, count in zip(self.parts, self.scales, self.counts, strict=True):
            values = whole[:, start : start + count, ...] * scale
            start += count
            if self.mesh is not None:
                axis = self.mesh.node_axis(part.grid)
                others = (n for i, n in enumerate(part.grid) if i != axis)
                values = xp.moveaxis(xp.reshape(values, (values.shape[0], *others, self.mesh.nodes)), -1, axis + 1)
            values = xp.reshape(values, (values.shape[0], *part.grid))
            if part.holes is not None:
                holes = xp.asarray(part.holes, device=place.device)
                values = xp.where(holes, xp.nan * xp.ones_like(values[:1, ...]), values)
            yield part.name, values


def space_of(grid: tuple[int, ...]) -> tuple[int, ...]:
    """The last axes of a grid that are space: those of 8 points or more; what stands before them counts components.

    >>> space_of((3, 32, 32)), space_of((32,)), space_of((32, 2))
    ((32, 32), (32,), ())
    """
    first = len(grid)
    while first and grid[first - 1] >= FEWEST_POINTS:
        first -= 1
    return grid[first:]


def _is_table(part: Part, array: Array, outputs: OutputStack, place: Place) -> bool:
    """Whether it is a number or a table; or a refusal where it is a field that cannot come onto the outputs' grid."""
    grid, space = part.grid, outputs.space
    if len(grid) < 2 and (not grid or grid[0] == 1 or part.columns):
        return True
    if outputs.mesh is not None:
        if outputs.mesh.nodes in grid:
            outputs.mesh.node_axis(grid)
            return False
    elif grid[-len(space) :] == space or grid == space[-len(grid) :]:
        return False
    if is_table(part, matrix_of(array, part, "X", place)):
        return True
    if outputs.mesh is None and len(space_of(grid)) == len(space):
        return False
    where = f"the mesh's {space[0]} nodes" if outputs.mesh is not None else f"the outputs' grid {space}"
    raise ValueError(f"X[{part.name!r}] has the grid {grid}, which cannot be brought onto {where}: use PCARaNN.")


def _nodes_last(matrix: Array, part: Part, mesh: Mesh) -> Array:
    """(samples, components, nodes)"""
    xp = place_of(matrix).xp
    fields = xp.reshape(matrix, (matrix.shape[0], *part.grid))
    return xp.reshape(xp.moveaxis(fields, mesh.node_axis(part.grid) + 1, -1), (matrix.shape[0], -1, mesh.nodes))


def _nodes_back(fields: Array, part: Part, mesh: Mesh) -> Array:
    """The adjoint of `_nodes_last`, which only moves values: (samples, points)"""
    xp, axis = place_of(fields).xp, mesh.node_axis(part.grid)
    others = (n for i, n in enumerate(part.grid) if i != axis)
    moved = xp.moveaxis(xp.reshape(fields, (fields.shape[0], *others, mesh.nodes)), -1, axis + 1)
    return xp.reshape(moved, (fields.shape[0], -1))


def _summed(fields: Array, first: int) -> Array:
    """The sum over all axes from this one on."""
    return place_of(fields).xp.sum(fields, axis=tuple(range(first, fields.ndim)))


def _interpolated_adjoint(fields: Array, axis: int, have: int) -> Array:
    """The adjoint of `_interpolated` from so many points, by its matrix: axes are short."""
    place = place_of(fields)
    low, share = _between(have, int(fields.shape[axis]))
    matrix = np.zeros((len(low), have))
    matrix[np.arange(len(low)), low] = 1 - share
    matrix[np.arange(len(low)), low + 1] += share
    xp = place.xp
    return xp.moveaxis(xp.moveaxis(fields, axis, -1) @ place.put(matrix), -1, axis)


def _between(have: int, size: int) -> tuple[Values, Values]:
    """For each of so many points the one of those at hand on its left, and the share of the one on its right."""
    at = np.linspace(0, have - 1, size)
    low = np.minimum(at.astype(np.int64), have - 2)
    return low, at - low


def _interpolated(fields: Array, axis: int, size: int) -> Array:
    """Linear interpolation along an axis onto so many points of the same extent."""
    place = place_of(fields)
    xp = place.xp
    low, right_share = _between(int(fields.shape[axis]), size)
    share = place.put(right_share.reshape([-1 if i == fields.ndim + axis else 1 for i in range(fields.ndim)]))
    left, right = (xp.take(fields, xp.asarray(low + by, device=place.device), axis=axis) for by in (0, 1))
    return left * (1 - share) + right * share
