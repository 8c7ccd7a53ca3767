"""Which axes of inputs and outputs are space, and how they become (samples, *space, columns) and back.

Axes are counted from the last: the axis −1 of the inputs is the axis −1 of the outputs. An axis of the outputs is space
where the inputs have as many points on it, one, or no such axis at all (they are repeated along it then), and where it
has 8 points or more. On a mesh, the last axis of both counts its nodes. What is left are components. A period whose
last point repeats the first is computed with without that point.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of
from pcarann.spatial.axis import Axis, Boundary
from pcarann.spatial.domain import Domain
from pcarann.spatial.mesh_domain import MeshDomain, Space

__all__ = ["Layout"]

_FEWEST = 8


@dataclass(frozen=True)
class Layout:
    """How fields lie in arrays.

    >>> layout = Layout.of((3, 16, 16), (16, 16))
    >>> layout.space, layout.n_inputs, layout.n_outputs
    ((-2, -1), 3, 1)
    """

    input_grid: tuple[int, ...]
    output_grid: tuple[int, ...]
    space: tuple[int, ...]
    """Axes, counted from the last, in ascending order"""
    boundaries: tuple[Boundary, ...]
    closed: tuple[bool, ...]
    """Whether the last point of a period repeats the first"""
    mesh: MeshDomain | None = None
    """Where the last axis counts its nodes"""
    trained: tuple[int, ...] = ()
    """Points of each axis of space at the training, where predictions come on another grid than its own"""

    @classmethod
    def of(cls, input_grid: tuple[int, ...], output_grid: tuple[int, ...], axes: Sequence[int] | None = None) -> Layout:
        """Find the axes of space, or take those given, with free ends; a ValueError where there is no space to see."""
        if axes is None:
            space = tuple(i for i in range(-len(output_grid), 0) if _shared(input_grid, output_grid, i))
        else:
            space = _given(axes, input_grid, output_grid)
        if not any(_size(input_grid, i) > 1 for i in space):
            raise ValueError(_nothing_shared(input_grid, output_grid))
        if axes is None:
            _refuse_misplaced(input_grid, output_grid, space)
        free: Boundary = "free"
        return cls(input_grid, output_grid, space, (free,) * len(space), (False,) * len(space))

    @classmethod
    def on_mesh(cls, input_grid: tuple[int, ...], output_grid: tuple[int, ...], mesh: MeshDomain) -> Layout:
        """Fields at the nodes of a mesh, which the last axis counts; others are refused."""
        for grid in (input_grid, output_grid):
            if grid[-1] != mesh.points:
                raise ValueError(
                    f"Stages need nodes on the last axis, found shape {grid} on a mesh of {mesh.points} nodes."
                )
        return cls(input_grid, output_grid, (-1,), ("free",), (False,), mesh)

    def ending(self, boundaries: Sequence[Boundary], closed: Sequence[bool]) -> Layout:
        """The same with other ends."""
        return replace(self, boundaries=tuple(boundaries), closed=tuple(closed))

    def on(self, shape: Sequence[int]) -> Layout:
        """The same on axes of space with so many points, trained where it is now."""
        points = dict(zip(self.space, shape, strict=True))

        def grid(old: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(points[i] if i in points and n > 1 else n for i, n in _numbered(old))

        trained = self.trained or tuple(self.output_grid[i] for i in self.space)
        inputs, outputs, trained = (
            grid(self.input_grid),
            grid(self.output_grid),
            () if tuple(shape) == trained else trained,
        )
        return replace(self, input_grid=inputs, output_grid=outputs, trained=trained)

    @property
    def at_training(self) -> Layout:
        """The same on the grid of the training"""
        return self.on(self.trained) if self.trained else self

    @cached_property
    def domain(self) -> Space:
        """The space that is computed with"""
        if self.mesh is not None:
            return self.mesh
        now = tuple(self.output_grid[i] for i in self.space)
        sizes = zip(now, self.trained or now, self.boundaries, self.closed, strict=True)
        return Domain(tuple(_axis(n, old, boundary, closed) for n, old, boundary, closed in sizes))

    @property
    def n_inputs(self) -> int:
        """Components of the inputs"""
        return math.prod(n for i, n in _numbered(self.input_grid) if i not in self.space)

    @property
    def n_outputs(self) -> int:
        """Components of the outputs"""
        return math.prod(n for i, n in _numbered(self.output_grid) if i not in self.space)

    @property
    def is_evolution(self) -> bool:
        """Whether inputs hold a field of the outputs' shape, alone or as the first of several: a state of a flow"""
        return self.output_grid in (self.input_grid, self.input_grid[1:])

    def inputs(self, flat: Array) -> Array:
        """(samples, values) inputs as (samples, *space, components), repeated along axes that they lack."""
        fields = self._spatial(flat, self.input_grid)
        place = place_of(flat)
        return place.xp.broadcast_to(fields, (fields.shape[0], *self.domain.shape, fields.shape[-1]))

    def outputs(self, flat: Array) -> Array:
        """(samples, values) outputs as (samples, *space, components)."""
        return self._spatial(flat, self.output_grid)

    def flat(self, fields: Array) -> Array:
        """Undo `outputs`, repeated points included."""
        xp = place_of(fields).xp
        for at, closed in enumerate(self.closed, start=1):
            if closed:
                first = fields[(slice(None),) * at + (slice(0, 1),)]
                fields = xp.concat([fields, first], axis=at)
        others = [i for i, _ in _numbered(self.output_grid) if i not in self.space]
        samples = fields.shape[0]
        fields = xp.reshape(fields, (*fields.shape[:-1], *(self.output_grid[i] for i in others)))
        places = [*self.space, *others]
        order = [places.index(i) + 1 for i, _ in _numbered(self.output_grid)]
        return xp.reshape(xp.permute_dims(fields, (0, *order)), (samples, -1))

    def inputs_adjoint(self, fields: Array) -> Array:
        """Adjoint of `inputs`: what they were repeated along is summed over."""
        xp = place_of(fields).xp
        for at, i in enumerate(self.space, start=1):
            if _size(self.input_grid, i) == 1 and fields.shape[at] > 1:
                fields = xp.sum(fields, axis=at, keepdims=True)
        return self._gathered(fields, self.input_grid)

    def outputs_adjoint(self, fields: Array) -> Array:
        """Adjoint of `outputs`: the point that is left out counts for nothing."""
        return self._gathered(fields, self.output_grid)

    def flat_adjoint(self, flat: Array) -> Array:
        """Adjoint of `flat`: both points that are one count together."""
        fields = replace(self, closed=(False,) * len(self.closed)).outputs(flat)
        xp = place_of(fields).xp
        for at, closed in enumerate(self.closed, start=1):
            if closed:
                before = (slice(None),) * at
                first = fields[(*before, slice(0, 1))] + fields[(*before, slice(-1, None))]
                fields = xp.concat([first, fields[(*before, slice(1, -1))]], axis=at)
        return fields

    def _gathered(self, fields: Array, grid: tuple[int, ...]) -> Array:
        """Adjoint of `_spatial`."""
        xp, samples = place_of(fields).xp, int(fields.shape[0])
        for at, (closed, i) in enumerate(zip(self.closed, self.space, strict=True), start=1):
            if closed and _size(grid, i) > 1:
                nothing = xp.zeros_like(fields[(slice(None),) * at + (slice(0, 1),)])
                fields = xp.concat([fields, nothing], axis=at)
        axes = max(len(grid), -min(self.space))
        others = [i for i in range(-axes, 0) if i not in self.space]
        shape = [_size(grid, i) for i in (*self.space, *others)]
        places = [*self.space, *others]
        order = [places.index(i) + 1 for i in range(-axes, 0)]
        return xp.reshape(xp.permute_dims(xp.reshape(fields, (samples, *shape)), (0, *order)), (samples, -1))

    def ends(self, flat: Array, grid: tuple[int, ...], axis: int) -> Array | None:
        """(samples, points, rest): fields with one axis of space in the middle; None where they do not have it."""
        if _size(grid, axis) < 2:
            return None
        xp = place_of(flat).xp
        fields = xp.moveaxis(xp.reshape(flat, (flat.shape[0], *grid)), axis, 1)
        return xp.reshape(fields, (fields.shape[0], fields.shape[1], -1))

    def _spatial(self, flat: Array, grid: tuple[int, ...]) -> Array:
        xp = place_of(flat).xp
        samples = int(flat.shape[0])
        fields = xp.reshape(flat, (samples, *grid))
        missing = [i for i in self.space if -i > len(grid)]
        fields = xp.reshape(fields, (samples, *(1 for _ in missing), *grid))
        axes = len(missing) + len(grid)
        others = [i for i in range(-axes, 0) if i not in self.space]
        order = [i + axes + 1 for i in (*self.space, *others)]
        fields = xp.permute_dims(fields, (0, *order))
        sizes = tuple(int(n) for n in fields.shape[1 : 1 + len(self.space)])
        fields = xp.reshape(fields, (samples, *sizes, math.prod(fields.shape[1 + len(self.space) :])))
        for at, closed in enumerate(self.closed, start=1):
            if closed and fields.shape[at] > 1:
                fields = fields[(slice(None),) * at + (slice(0, -1),)]
        return fields


def _axis(points: int, trained: int, boundary: Boundary, closed: bool) -> Axis:
    """An axis whose operators keep the stencils of the training, all of whose points it must have."""
    ends = int(closed or boundary != "periodic")
    times, rest = divmod(points - ends, trained - ends)
    if rest or not times:
        nested = max(1, times + bool(rest)) * (trained - ends) + ends
        raise ValueError(
            f"An axis of {points} points does not hold the {trained} of the training, as one of {nested} does: "
            "slopes would be others; go there, and interpolate inputs and predictions."
        )
    return Axis(points - closed, boundary, times)


def _numbered(grid: tuple[int, ...]) -> list[tuple[int, int]]:
    """Axes counted from the last, with their points."""
    return [(i - len(grid), n) for i, n in enumerate(grid)]


def _size(grid: tuple[int, ...], axis: int) -> int:
    """Points on an axis; 1 where there is no such axis"""
    return grid[axis] if -axis <= len(grid) else 1


def _shared(input_grid: tuple[int, ...], output_grid: tuple[int, ...], axis: int) -> bool:
    return output_grid[axis] >= _FEWEST and _size(input_grid, axis) in (1, output_grid[axis])


def _given(axes: Sequence[int], input_grid: tuple[int, ...], output_grid: tuple[int, ...]) -> tuple[int, ...]:
    """Axes that a user gave, counted from the last, or a refusal."""
    count = len(output_grid)
    listed = tuple(axes) if isinstance(axes, Iterable) else ()
    if not listed or not all(_is_axis(i, count) for i in listed):
        raise ValueError(f"axes must be numbers of axes of the outputs, which have {count}, got {axes!r}.")
    space = tuple(sorted({int(i) if i < 0 else int(i) - count for i in listed}))
    for i in space:
        if _size(input_grid, i) not in (1, output_grid[i]):
            raise ValueError(
                f"Axis {i} is to be space, but the inputs have {_size(input_grid, i)} points on it and the outputs "
                f"{output_grid[i]}: grids {input_grid} and {output_grid}."
            )
        if output_grid[i] < 4:
            raise ValueError(f"Axis {i} is to be space, but the outputs have only {output_grid[i]} points on it.")
    return space


def _refuse_misplaced(input_grid: tuple[int, ...], output_grid: tuple[int, ...], space: tuple[int, ...]) -> None:
    """Refuse axes of the outputs that inputs have, but elsewhere: components would be taken for points."""
    others = [n for i, n in _numbered(input_grid) if i not in space]
    for i, n in _numbered(output_grid):
        if i not in space and n >= _FEWEST and n in others:
            raise ValueError(
                f"The grids of inputs and outputs are not aligned, found {input_grid} and {output_grid}: axes are "
                "counted from the last, so move components to the front (np.moveaxis), or say Grid(axes=…)."
            )


def _is_axis(number: Any, count: int) -> bool:
    whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    return whole and bool(-count <= number < count)


def _nothing_shared(input_grid: tuple[int, ...], output_grid: tuple[int, ...]) -> str:
    if len(input_grid) == 1:
        return (
            f"The inputs are a table of {input_grid[0]} values a sample, none of which lies on the outputs' grid "
            f"{output_grid}: there is nothing to see in space, so use PCARaNN."
        )
    return (
        f"The grids of inputs and outputs do not match, found {input_grid} and {output_grid}: stages need an axis of "
        f"{_FEWEST} points or more that both share, counted from the last axis."
    )
