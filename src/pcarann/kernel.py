"""The kernel limit: features of a Matérn kernel, centred at training samples.

    k(x, z) = (1 + √5 r + 5r²/3) exp(−√5 r),   r = ‖w ⊙ (x − z)‖ / ℓ
    φ(x) = L⁻¹ k(Z, x),   L Lᵀ = k(Z, Z)

Random features approach a kernel as their number grows; these features have one at once. Ridge regression on φ,
which `readout` does as for any features, is kernel ridge regression: φ(x)·φ(z) = k(x, z) wherever one of the two
is a landmark of Z. Each member takes its own random landmarks among the training samples, so that the spread over
members tells where these are sparse. A linear term may stand beside φ as it does beside the layers (`features`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pcarann.arrays import Array, cholesky, place_of, single_threaded, solve_lower
from pcarann.features import Latent
from pcarann.random import permutation
from pcarann.ridge import choose_ridge, spectrum_of_gram

__all__ = ["KernelFeatures", "choose_length", "landmark_features", "matern52", "median_distance", "squared_distances"]

SHARE = 0.9
"""Of the training samples, each member's landmarks"""
MOST_LANDMARKS = 3000
LENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0)
"""Tried where none is given"""
_TUNED_ROWS = 2000
_STREAM = -5
_MEDIAN_ROWS = 500
_EPS = 2.0**-52
_NEAR_ROUNDING = 1e3 * _EPS


@dataclass(frozen=True)
class KernelFeatures:
    """The feature map φ of one member, ready to be evaluated."""

    member: int
    landmarks: Array
    """w ⊙ Z, (landmarks, latent)"""
    length: float
    """ℓ"""
    lower: Array
    """L, (landmarks, landmarks)"""
    latent: Latent

    def __call__(self, latents: Array) -> Array:
        """Return φ of (samples, latent) rows, the linear term behind it, as (samples, features)."""
        values = matern52(squared_distances(self.landmarks, self.latent.weighted(latents)), self.length)
        features = solve_lower(self.lower, values)
        if self.latent.linear is not None:
            xp = place_of(latents).xp
            features = xp.concat([features, (latents * self.latent.linear).T], axis=0)
        return features.T

    @property
    def count(self) -> int:
        """The number of features, p."""
        extra = 0 if self.latent.linear is None else int(self.landmarks.shape[1])
        return int(self.landmarks.shape[0]) + extra

    def working_bytes(self, samples: int) -> int:
        """Memory of one member at work: its triangle, its features and three copies of their size."""
        return 8 * int(self.landmarks.shape[0]) ** 2 + 4 * 8 * samples * self.count


def landmark_features(
    x: Array, length: float, *, member: int, seed: int, latent: Latent | None = None
) -> KernelFeatures:
    """Choose a member's landmarks among (samples, latent) training latents; `length` is in medians of the distance."""
    place = place_of(x)
    latent = latent or Latent()
    count = min(max(1, round(SHARE * x.shape[0])), MOST_LANDMARKS)
    rows = sorted(permutation(int(x.shape[0]), seed=seed, stream=(member, _STREAM))[:count])
    # Landmarks are not stored but made again on loading: on one thread they round alike wherever that is.
    with single_threaded(place):
        weighted = latent.weighted(x)
        landmarks = place.xp.take(weighted, place.xp.asarray(rows, device=place.device), axis=0)
        unit = length * median_distance(weighted)
        lower = _factor(matern52(squared_distances(landmarks, landmarks), unit))
    return KernelFeatures(member, landmarks, unit, lower, latent)


def _factor(gram: Array) -> Array:
    """L of k(Z, Z) plus the least jitter that lets it be factored."""
    place, count = place_of(gram), int(gram.shape[0])
    # The rounding of the factorisation itself; landmarks that coincide would otherwise make it fail.
    jitter = 4 * count * _EPS
    while jitter < 1.0:
        lower = cholesky(gram + jitter * place.eye(count))
        if lower is not None:
            return lower
        jitter *= 10
    raise ValueError("the kernel of the input latents is not finite: are the inputs far above 1e100, or the length 0?")


def choose_length(x: Array, y: Array, latent: Latent, ridge: float = 0.0) -> tuple[float, float, float]:
    """Return the length, in medians of the distance, at which leaving samples out errs least, its ridge and error.

    A ridge that is given is used with every length, since long lengths need a small one; 0 chooses it too.
    """
    rows = min(int(x.shape[0]), _TUNED_ROWS)
    weighted, targets = latent.weighted(x[:rows, :]), y[:rows, :]
    squared, unit = squared_distances(weighted, weighted), median_distance(weighted)

    least, best = math.inf, (LENGTHS[0], ridge, math.inf)
    with single_threaded(place_of(x)):  # eigenvalues of such matrices gain little from a second thread
        for length in LENGTHS:
            spectrum = spectrum_of_gram(matern52(squared + 0.0, length * unit), targets)
            chosen = ridge or choose_ridge(spectrum, "gcv")
            # So near to the rounding of k, a small gain over a shorter length would be one of rounding.
            error = spectrum.loo(chosen)
            handicapped = error * (1.01 if chosen < _NEAR_ROUNDING * rows else 1.0)
            if handicapped < least:
                least, best = error, (length, chosen, error)
    return best


def matern52(squared: Array, length: float) -> Array:
    """k of squared distances, in their memory.

    >>> import numpy as np
    >>> print(matern52(np.array([0.0, 5.0]), 5.0).round(6))
    [1.       0.858385]
    """
    xp = place_of(squared).xp
    squared *= 5.0 / length**2
    root = xp.sqrt(squared)
    squared /= 3.0
    squared += root
    squared += 1.0
    root *= -1.0
    squared *= xp.exp(root)
    return squared


def squared_distances(x: Array, z: Array) -> Array:
    """‖xᵢ − zⱼ‖² of (samples, latent) rows.

    From one product: what it loses by cancellation near 0 is lost on k too, which is flat there.
    """
    xp = place_of(x).xp
    squared = x @ z.T
    squared *= -2.0
    squared += xp.sum(x**2, axis=1)[:, None]
    squared += xp.sum(z**2, axis=1)
    return xp.clip(squared, min=0.0)


def median_distance(x: Array) -> float:
    """Median distance between (samples, latent) rows, the unit of the length; 1 where they coincide."""
    xp = place_of(x).xp
    few = x[: min(int(x.shape[0]), _MEDIAN_ROWS), :]
    ordered = xp.sort(xp.reshape(squared_distances(few, few), (-1,)), stable=False)
    return math.sqrt(float(ordered[ordered.shape[0] // 2])) or 1.0
