"""Smoothing of rough inputs: a ← G a along the last one or two axes of their grid.

    G_ij ∝ exp(−(i − j)² / (2 σ² n²)),   Σ_j G_ij = 1,

with σ the width as a share of the n points of the axis. Solution operators smooth, so that the fine scales of a
rough input move the output little; with few samples the PCA cannot know that, since its modes mix the scales. On a
parameter table, or along an axis of channels, smoothing has no meaning: a third axis from the end is left alone.

Where the fields go on across the end of an axis, i − j is taken around it: they do if the step from the last value
to the first is no larger than the steps between neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pcarann.backend.arrays import Array, Place, cuts, place_of

__all__ = ["Smoothing"]

_BLOCK_BYTES = 1 << 26
_STEP = 2.0  # times the mean square step inside, up to which the step across the end counts as one of them


@dataclass(frozen=True)
class Smoothing:
    """A Gaussian along the last axes of a grid; a width of 0 does nothing."""

    width: float = 0.0
    """σ, a share of each axis"""
    periodic: tuple[bool, ...] = ()
    """Which of the last one or two axes go on across their end"""

    @classmethod
    def of(cls, fields: Array, grid: tuple[int, ...], width: float) -> Smoothing:
        """Find out from (samples, values) fields on this grid which axes are periodic."""
        if not width:
            return cls()
        xp = place_of(fields).xp
        whole = xp.reshape(fields, (-1, *grid[-2:]))
        return cls(width, tuple(_is_periodic(xp.moveaxis(whole, axis, -1)) for axis in range(1, whole.ndim)))

    def __call__(self, fields: Array, grid: tuple[int, ...]) -> Array:
        """Return (samples, values) fields on this grid, smoothed.

        >>> import numpy as np
        >>> rough = np.array([[1.0, -1.0, 1.0, -1.0, 1.0, -1.0]])
        >>> bool(np.abs(Smoothing(0.2, (True,))(rough, (6,))).max() < 0.2)
        True
        """
        return self._applied(fields, grid, transposed=False)

    def adjoint(self, fields: Array, grid: tuple[int, ...]) -> Array:
        """Return (samples, values) fields on this grid, times Gᵀ."""
        return self._applied(fields, grid, transposed=True)

    def _applied(self, fields: Array, grid: tuple[int, ...], transposed: bool) -> Array:
        if not self.width:
            return fields
        place = place_of(fields)
        points = grid[-2:]
        kernels = [_kernel(n, self.width, around, place) for n, around in zip(points, self.periodic, strict=True)]
        kernels = [kernel.T for kernel in kernels] if transposed else kernels
        smoothed = place.empty(*fields.shape)
        rows = max(1, _BLOCK_BYTES // (8 * fields.shape[1]))
        for some in cuts(fields.shape[0], rows):
            block = place.xp.reshape(fields[some, :], (-1, *points)) @ kernels[-1].T
            if len(points) == 2:
                block = kernels[0] @ block
            smoothed[some, :] = place.xp.reshape(block, (-1, fields.shape[1]))
        return smoothed


def _is_periodic(fields: Array) -> bool:
    """Whether fields, (…, points), go on across the end of their last axis."""
    xp = place_of(fields).xp
    if fields.shape[-1] < 3:
        return False
    inside = float(xp.mean((fields[..., 1:] - fields[..., :-1]) ** 2))
    return float(xp.mean((fields[..., 0] - fields[..., -1]) ** 2)) <= _STEP * inside


def _kernel(n: int, width: float, around: bool, place: Place) -> Array:
    """G, (n, n)"""
    xp = place.xp
    index = xp.arange(n, dtype=xp.float64, device=place.device)
    apart = xp.abs(index[:, None] - index[None, :])
    if around:
        apart = xp.minimum(apart, n - apart)
    # A width far below a step leaves every value alone; its square must not vanish.
    weights = xp.exp(-(apart**2) / (2 * math.pow(max(width * n, 1e-3), 2)))
    return weights / xp.sum(weights, axis=1)[:, None]
