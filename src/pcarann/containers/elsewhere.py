"""Outputs wanted elsewhere: at points of a mesh or on another one, and several outputs side by side.

On a mesh modes are interpolated once, cell by cell. Of several outputs each goes for itself, and numbers stay.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.containers.scaling import OutputCode
from pcarann.latent.resampled import Target
from pcarann.mesh.mesh import Mesh
from pcarann.mesh.stencil import Stencil
from pcarann.validation import shown

__all__ = ["AtPoints", "OfParts"]

Values = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class AtPoints(Target):
    """Points in the coordinates of a mesh, in the place of its nodes."""

    axis: int = 0
    """Of a field, which counts the nodes"""
    stencil: Stencil | None = None

    @classmethod
    def within(cls, mesh: Mesh, grid: tuple[int, ...], wanted: Any) -> tuple[AtPoints, Mesh | None]:
        """Another mesh, or points, inside a mesh on which fields have this grid; and that mesh, if it is one."""
        other = Mesh.of(wanted) if hasattr(wanted, "points") or isinstance(wanted, str | os.PathLike) else None
        try:
            points = np.asarray(to_host(wanted) if hasattr(wanted, "shape") else wanted, dtype=np.float64)
        except (TypeError, ValueError):
            points = np.empty(0)
        points = points if other is None else other.points
        if points.ndim != 2 or points.shape[1] != mesh.points.shape[1] or not len(points):
            raise ValueError(
                f"target must be a mesh, or an array (n, {mesh.points.shape[1]}) of points in the coordinates of the "
                f"mesh, got {shown(wanted)}."
            )
        return cls(points=points, axis=mesh.node_axis(grid), stencil=mesh.interpolation(points)), other

    def grid(self, old: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a field that had this one."""
        assert self.points is not None
        return tuple(len(self.points) if i == self.axis else n for i, n in enumerate(old))

    def __call__(self, fields: Values, grid: tuple[int, ...]) -> Values:
        """(fields, values) at the nodes to (fields, values) at the points."""
        assert self.stencil is not None
        found = self.stencil(fields.reshape(len(fields), *grid), axis=self.axis + 1)
        return np.ascontiguousarray(to_host(found).reshape(len(fields), -1))


@dataclass(frozen=True, eq=False)
class OfParts(Target):
    """Several outputs side by side, each elsewhere or where it was."""

    moves: tuple[tuple[tuple[int, ...], Target | None], ...] = ()
    """The grid of each, and where it goes"""

    @classmethod
    def each(cls, code: OutputCode, wanted: Any, mesh: Mesh | None) -> tuple[OfParts, OutputCode, Mesh | None]:
        """Move every output that lies on the mesh, or that is no number; the code of what is found there."""
        if any(part.holes is not None for part in code.parts):
            raise ValueError("Outputs with points without values stay on their own grids.")
        moves: list[tuple[tuple[int, ...], Target | None]] = []
        other = mesh
        for part in code.parts:
            target: Target | None = None
            if mesh is not None and mesh.nodes in part.grid:
                target, other = AtPoints.within(mesh, part.grid, wanted)
            elif mesh is None and part.grid not in ((), (1,)):
                target = Target.of(wanted, part.grid)
            moves.append((part.grid, target))
        sides = zip(code.parts, moves, strict=True)
        parts = (part if to is None else replace(part, grid=to.grid(grid), label=None) for part, (grid, to) in sides)
        return cls(points=np.empty((0, 1)), moves=tuple(moves)), OutputCode(tuple(parts), code.scales), other

    def grid(self, old: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of all of them side by side."""
        return (sum(math.prod(grid if to is None else to.grid(grid)) for grid, to in self.moves),)

    def __call__(self, fields: Values, grid: tuple[int, ...]) -> Values:
        """(fields, values) of all, side by side."""
        found, start = [], 0
        for own, to in self.moves:
            part = fields[:, start : start + math.prod(own)]
            start += math.prod(own)
            found.append(part if to is None else to(np.ascontiguousarray(part), own))
        return np.concatenate(found, axis=1)
