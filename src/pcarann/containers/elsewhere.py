"""Outputs on a mesh, wanted at other points or on another mesh: their modes are interpolated once, cell by cell."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.latent.resampled import Target
from pcarann.mesh.mesh import Mesh
from pcarann.mesh.stencil import Stencil

__all__ = ["AtPoints"]

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
                f"mesh, got {wanted!r}."
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
