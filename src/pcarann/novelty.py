"""How far inputs lie from the training data: a surrogate should not extrapolate in silence.

Two distances, each in units of the farthest training sample:

    residual   ‖a − G(F(a))‖, what the input modes miss of the field
    distance   √mean_j (x_j / s_j)² of the latents x = F(a), with s_j the size of coordinate j in the training set
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from pcarann.arrays import Array, cuts, place_of
from pcarann.pca import PCA

__all__ = ["Novelty", "Reach"]

_FAR = 3.0  # times the farthest training sample
_ROWS, _VALUES, _GPU_VALUES = (
    128,
    1 << 21,
    1 << 27,
)  # samples and values at a time: of large fields no whole copy is made
_REAL_RESIDUAL = 1e-3  # share of a field that its modes may miss before it counts as new


@dataclass(frozen=True)
class Novelty:
    """Distance of inputs from the training data, (samples,) each, in units of the farthest training sample."""

    residual: Array
    """What the input modes miss of the field, ‖a − G(F(a))‖"""
    distance: Array
    """Distance of the latents from their centre, each coordinate in units of its spread"""


@dataclass(frozen=True)
class Reach:
    """The largest residual and latent distance of the training inputs."""

    residual: float
    distance: float

    @classmethod
    def of(cls, pca: PCA, inputs: Array, x: Array, order: Sequence[int]) -> Reach:
        """Measure training inputs, (samples, values), whose latents x are in this order of the samples."""
        place = place_of(x)
        farthest = 0.0
        size = (
            max(1, min(_ROWS, _VALUES // inputs.shape[1])) if place.on_host else max(1, _GPU_VALUES // inputs.shape[1])
        )
        for part in cuts(len(order), size):
            rows = place.xp.asarray(list(order[part]), device=place.device)
            residual = pca.residual(place.xp.take(inputs, rows, axis=0), x[part, :])
            farthest = max(farthest, float(place.xp.max(residual)))
        return cls(farthest, float(place.xp.max(_latent_distance(x, x))))

    def novelty(self, pca: PCA, training: Array, inputs: Array, x: Array) -> Novelty:
        """Measure (samples, values) inputs with latents x against the training latents."""
        # A training set that its modes hold entirely has a residual of rounding alone: compare with its size too.
        floor = _REAL_RESIDUAL * math.sqrt(pca.energy / training.shape[0])
        residual = place_of(x).empty(x.shape[0])
        for rows in cuts(x.shape[0], _ROWS):
            residual[rows] = pca.residual(inputs[rows, :], x[rows, :])
        residual /= max(self.residual, floor) or 1.0
        return Novelty(residual, _latent_distance(x, training) / (self.distance or 1.0))

    def warn_if_far(self, pca: PCA, training: Array, inputs: Array, x: Array) -> None:
        """Warn, at the caller of the caller, where inputs lie far outside the training data."""
        found = self.novelty(pca, training, inputs, x)
        xp = place_of(x).xp
        far = int(xp.sum(xp.astype((found.residual > _FAR) | (found.distance > _FAR), xp.int64)))
        if far:
            warnings.warn(
                f"{far} of {x.shape[0]} inputs lie more than {_FAR:g} times as far from the training data as any "
                "training sample: these predictions are extrapolations (see novelty).",
                stacklevel=4,
            )


def _latent_distance(x: Array, training: Array) -> Array:
    """Root mean square of latents in units of the training latents' size, (samples,): about 1 inside the data."""
    xp = place_of(x).xp
    size = xp.sqrt(xp.mean(training**2, axis=0))
    return xp.sqrt(xp.mean((x / xp.where(size > 0, size, xp.ones_like(size))) ** 2, axis=1))
