"""Mean and modes of a PCA on another grid of the same domain.

Grids are points i/(n − 1) of the unit box, both ends among them. Mean and modes are interpolated once, by a cubic
spline along every axis (linearly where it has fewer than 4 points), so that predictions come on the new grid, or at
points, at the price of a decoding there. Interpolated modes are no longer orthonormal: fields on the new grid have
the latents

    x = (Φ W Φᵀ)⁻¹ Φ W (a − ā),

those of least squares with the weights W of the trapezoidal rule, which sum to those of the training. What modes miss
of a field is measured by the same weights, so that it can be compared with what they missed of training fields.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from scipy.interpolate import make_interp_spline

from pcarann.backend.arrays import Array, cuts, place_of, to_host
from pcarann.latent.pca import PCA

__all__ = ["Resampled", "Target", "resampled", "spline_matrix"]

Values = np.ndarray[Any, np.dtype[np.float64]]

_POINTS_AT_ONCE = 1 << 22  # values of modes, partly interpolated to points
_ROUNDING = 1e-12  # outside the box
_RESOLVED = 1e-10  # of the largest eigenvalue of Φ W Φᵀ: below, modes cannot be told apart on the grid


@dataclass(frozen=True, eq=False)
class Target:
    """Where fields are wanted: a shape of the last axes of a grid, or points of them."""

    shape: tuple[int, ...] = ()
    points: Values | None = None
    """(n, axes), in the unit box"""

    @classmethod
    def of(cls, wanted: Any, grid: tuple[int, ...], name: str = "target") -> Target:
        """What a user asked for on this grid, or a refusal.

        >>> Target.of((5, 5), (3, 9, 9)).grid((3, 9, 9))
        (3, 5, 5)
        >>> Target.of([[0.5, 0.5], [0.1, 1.0]], (9, 9)).grid((9, 9))
        (2,)
        """
        if isinstance(wanted, Target):
            return wanted
        if isinstance(wanted, Integral) and not isinstance(wanted, bool):
            wanted = (wanted,)
        if isinstance(wanted, Sequence) and wanted and all(isinstance(n, Integral) for n in wanted):
            shape = tuple(int(n) for n in wanted)
            if len(shape) > len(grid) or any(n < min(2, o) for n, o in zip(shape, grid[-len(shape) :], strict=True)):
                raise ValueError(
                    f"{name} must be at least 2 points on each of the last axes of {grid}, got {wanted!r}."
                )
            return cls(shape)
        try:
            points = np.asarray(to_host(wanted) if hasattr(wanted, "shape") else wanted, dtype=np.float64)
        except (TypeError, ValueError):
            points = np.empty(0)
        if points.ndim != 2 or not points.shape[0] or not 0 < points.shape[1] <= len(grid):
            raise ValueError(
                f"{name} must be a tuple of whole numbers, the shape of another grid, or an array (n, axes) of points, "
                f"got {f'an array of shape {points.shape}' if points.size else repr(wanted)}."
            )
        return cls(points=_in_box(points, name))

    @property
    def axes(self) -> int:
        """How many of the last axes change"""
        return len(self.shape) if self.points is None else int(self.points.shape[1])

    def grid(self, old: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a field that had this one."""
        return (*old[: -self.axes], *(self.shape if self.points is None else (len(self.points),)))

    def __call__(self, fields: Values, grid: tuple[int, ...]) -> Values:
        """(fields, values) on this grid, interpolated to (fields, values) on that of the target."""
        sizes = grid[-self.axes :]
        found = fields.reshape(-1, *sizes)
        if self.points is None:
            for i, (old, new) in enumerate(zip(sizes, self.shape, strict=True), start=1):
                if old != new:
                    matrix = spline_matrix(old, np.linspace(0, 1, new))
                    found = np.moveaxis(np.tensordot(matrix, found, axes=(1, i)), 0, i)
            return np.ascontiguousarray(found.reshape(len(fields), -1))
        matrices = [spline_matrix(n, place) for n, place in zip(sizes, self.points.T, strict=True)]
        some = max(1, _POINTS_AT_ONCE // max(1, found.size // sizes[-1]))
        parts = [_at_points(found, [matrix[rows] for matrix in matrices]) for rows in cuts(len(self.points), some)]
        return np.concatenate(parts, axis=1).reshape(len(fields), -1)


@dataclass(frozen=True)
class Resampled(PCA):
    """A PCA whose mean and modes stand on another grid than that of the fields it was fitted to."""

    trained_grid: tuple[int, ...] = ()
    """The shape of those fields"""

    def encode(self, fields: Array) -> Array:
        """Latents of least squares: (samples, values) fields to (samples, components)."""
        return super().encode(fields) @ self._inverse

    def encode_change(self, fields: Array) -> Array:
        """F′: changes of (samples, values) fields to those of their latents."""
        return super().encode_change(fields) @ self._inverse

    def encode_adjoint(self, latents: Array) -> Array:
        """F′ᵀ: (samples, components) to (samples, values)."""
        return super().encode_adjoint(latents @ self._inverse.T)

    def residual(self, fields: Array, latents: Array) -> Array:
        """Norm of what the modes miss of each field, (samples,), as at the training but for the quadrature."""
        missed = (fields - self.decode(latents)) ** 2
        return place_of(fields).xp.sqrt((missed if self.weights is None else missed * self.weights).sum(axis=1))

    @cached_property
    def _inverse(self) -> Array:
        """(Φ W Φᵀ)⁻¹, (components, components), without what the grid cannot tell apart"""
        modes = to_host(self.modes)
        weighted = modes if self.weights is None else modes * to_host(self.weights)
        return place_of(self.modes).put(np.linalg.pinv(weighted @ modes.T, rcond=_RESOLVED, hermitian=True))


def resampled(pca: PCA, target: Target) -> PCA:
    """The same modes elsewhere; with the weights of a quadrature where that is a grid."""
    if isinstance(pca, Resampled):
        raise ValueError("This model is on another grid already: call `on` of the one that it came from.")
    place, grid = place_of(pca.mean), target.grid(pca.grid)
    if target.points is None and grid == pca.grid:
        return pca
    if target.points is None and math.prod(grid) < pca.n_components:
        raise ValueError(
            f"A grid {grid} has fewer values than the {pca.n_components} modes that are to be found on it."
        )
    mean, modes = (target(to_host(part), pca.grid) for part in (pca.mean[None, :], pca.modes))
    weights = None if target.points is not None else place.put(_weights(pca, grid))
    return Resampled(
        place.put(mean[0]), place.put(modes), pca.singular_values, pca.energy, grid, weights, trained_grid=pca.grid
    )


def spline_matrix(points: int, places: Values) -> Values:
    """(places, points): values at places in [0, 1] from those at i/(points − 1), by a cubic spline where that can be.

    >>> spline_matrix(3, np.array([0.25, 1.0]))
    array([[0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    """
    if points == 1:
        return np.ones((len(places), 1))
    spline = make_interp_spline(np.linspace(0, 1, points), np.eye(points), k=3 if points >= 4 else 1)
    found: Values = spline(places)
    found[np.abs(found) < np.finfo(float).eps] = 0.0
    return found


def _at_points(fields: Values, matrices: Sequence[Values]) -> Values:
    """(fields, points) of (fields, *sizes), one axis after another."""
    found = fields @ matrices[-1].T
    for matrix in reversed(matrices[:-1]):
        found = np.einsum("...ap,pa->...p", found, matrix)
    return found


def _weights(pca: PCA, grid: tuple[int, ...]) -> Values:
    """Of the trapezoidal rule on the axes that change, those of the training times a density; their sum stays."""
    density = np.ones(pca.grid) if pca.weights is None else to_host(pca.weights).reshape(pca.grid)
    total = density.sum()
    for i, (old, new) in enumerate(zip(pca.grid, grid, strict=True)):
        if old != new:
            if pca.weights is not None:
                density = density / _along(_trapezoid(old), i, len(grid))
            matrix = make_interp_spline(np.linspace(0, 1, old), np.eye(old), k=1)(np.linspace(0, 1, new))
            density = np.moveaxis(np.tensordot(matrix, density, axes=(1, i)), 0, i) * _along(
                _trapezoid(new), i, len(grid)
            )
    found: Values = density.reshape(-1) * (total / density.sum())
    return found


def _trapezoid(points: int) -> Values:
    """Weights that sum to 1."""
    weights = np.full(points, 1.0 / (points - 1))
    weights[[0, -1]] /= 2
    return weights


def _along(line: Values, axis: int, axes: int) -> Values:
    return line.reshape([-1 if i == axis else 1 for i in range(axes)])


def _in_box(points: Values, name: str) -> Values:
    outside = ~((points >= -_ROUNDING) & (points <= 1 + _ROUNDING)).all(axis=1)
    if outside.any():
        first = int(np.flatnonzero(outside)[0])
        raise ValueError(
            f"{name} must lie in the unit box of the grid, but {int(outside.sum())} of {len(points)} points do not, "
            f"such as {points[first].tolist()}."
        )
    return np.clip(points, 0.0, 1.0)
