"""The kernel limit: features of a Matérn kernel, centred at training samples.

    k(x, z) = (1 + √5 r + 5r²/3) exp(−√5 r),   r = ‖w ⊙ (x − z)‖ / ℓ
    φ(x) = L⁻¹ k(Z, x),   L Lᵀ = k(Z, Z)

Random features approach a kernel as their number grows; these features have one at once. Ridge regression on φ,
which `readout` does as for any features, is kernel ridge regression: φ(x)·φ(z) = k(x, z) wherever one of the two
is a landmark of Z. Each member takes its own random landmarks among the training samples, so that the spread over
members tells where these are sparse. A linear term may stand beside φ as it does beside the layers (`random_layers`).

Predictions need no factor: with V the readout of φ,

    û(x) = φ(x)ᵀV = k(x, Z) α,   α = L⁻ᵀV.

L is nearly singular for long lengths and comes out differently on another machine, while Z and α mean one function
everywhere: they are what a member keeps and what a file holds, and L is made where features are asked for. For long
lengths α is huge, k is nearly 1, and k α would be all cancellation. There, with s = √5 r and g the rest of k behind its
first terms,

    k = 1 − s²/6 + g(s),   g(s) = s⁴/24 − s⁵/45 + …,   s² = 5 ‖x − z‖² / ℓ²,

the first two make a polynomial of degree two in x, whose coefficients Σα, Σαz and Σα‖z‖² are summed once and kept; what
is left to be summed for each x is small. So it is done for x whose mean s² is below 1; for others k α itself is summed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from pcarann.backend.arrays import Array, place_of, taken
from pcarann.backend.concurrency import least_seconds, single_threaded
from pcarann.backend.linalg import cholesky, rounded, solve_lower
from pcarann.backend.linearized import Linearized
from pcarann.backend.random import permutation, spread
from pcarann.latent.weighting import Weighting
from pcarann.readout.ridge import choose_ridge, spectrum_of_gram

__all__ = [
    "REST",
    "KernelFeatures",
    "choose_length",
    "landmark_features",
    "matern52",
    "median_distance",
    "squared_distances",
]

SHARE = 0.9
"""Of the training samples, each member's landmarks"""
MOST_LANDMARKS = 3000
LENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0)
"""Tried where none is given"""
_TUNED_ROWS = 2000
_STREAM = -5
_MEDIAN_ROWS = 500
_PER_KERNEL = 500  # multiplications that take as long as one value of k, with its roots and exponentials
_EPS = 2.0**-52
_NEAR_ROUNDING = 1e3 * _EPS
REST = [(-1) ** n * (1 - n + n * (n - 1) / 3) / math.factorial(n) for n in range(4, 16)]
"""Coefficients of s⁴, s⁵, … in k"""


@dataclass(frozen=True)
class KernelFeatures:
    """The feature map φ of one member, ready to be evaluated."""

    member: int
    rows: tuple[int, ...]
    """Which of the training rows are landmarks"""
    landmarks: Array
    """w ⊙ Z, (landmarks, latent)"""
    length: float
    """ℓ"""
    weighting: Weighting

    @cached_property
    def lower(self) -> Array:
        """L, (landmarks, landmarks)"""
        gram = matern52(squared_distances(self.landmarks, self.landmarks), self.length)
        # With the least jitter that lets it be factored: the rounding of the factorisation itself, which would
        # otherwise fail where landmarks coincide.
        identity = place_of(gram).eye(int(gram.shape[0]))
        jitter = 4 * int(gram.shape[0]) * _EPS
        while jitter < 1.0:
            lower = cholesky(gram + jitter * identity)
            if lower is not None:
                return lower
            jitter *= 10
        raise ValueError(
            "the kernel of the input latents is not finite: are the inputs far above 1e100, or the length 0?"
        )

    def __call__(self, latents: Array) -> Array:
        """Return φ of (samples, latent) rows, the linear term behind it, as (samples, features)."""
        squared = squared_distances(self.landmarks, self.weighting.weighted(latents))
        features = solve_lower(self.lower, matern52(squared, self.length))
        if self.weighting.linear is None:
            return features.T
        return place_of(latents).xp.concat([features, (latents * self.weighting.linear).T], axis=0).T

    def predictors(self, latents: Array) -> Array:
        """Return what predictions are combinations of, (samples, terms): g, the polynomial's terms, the linear term.

        Where s² is not small they are k, zeros, the linear term: the same function.
        """
        return self._terms(latents, *self._seen(latents))

    def linearized(self, latents: Array) -> Linearized:
        """`predictors` of (samples, latent) rows with their derivative: dk/d(s²) = −(1 + s) exp(−s) / 6.

        That of g is 1/6 more. Slopes by (x − z)·dx are kept, (samples, landmarks).
        """
        xp, linear, Z = place_of(latents).xp, self.weighting.linear, self.landmarks
        x, squares, near = self._seen(latents)
        slopes = _matern52_slope(squares, near) * (10.0 / self.length**2)
        count, terms = int(Z.shape[0]), int(Z.shape[0]) + 2 + int(Z.shape[1])

        def push(tangents: Array) -> Array:
            t = self.weighting.weighted(tangents)
            along = xp.sum(x * t, axis=1)[:, None]
            polynomial = xp.concat([xp.zeros_like(along), 2.0 * along, t], axis=1)
            parts = [slopes * (along - t @ Z.T), xp.where(near, polynomial, xp.zeros_like(polynomial))]
            return xp.concat(parts + ([] if linear is None else [tangents * linear]), axis=1)

        def pull(cotangents: Array) -> Array:
            C, c = slopes * cotangents[:, :count], cotangents[:, count + 1 : terms]
            polynomial = 2.0 * x * c[:, :1] + c[:, 1:]
            found = xp.sum(C, axis=1)[:, None] * x - C @ Z + xp.where(near, polynomial, xp.zeros_like(polynomial))
            found = self.weighting.weighted_back(found)
            return found if linear is None else found + cotangents[:, terms:] * linear

        return Linearized(self._terms(latents, x, squares, near), push, pull)

    def _seen(self, latents: Array) -> tuple[Array, Array, Array]:
        """Weighted (samples, latent) rows x, their s², (samples, landmarks), and which of them have small ones."""
        x = self.weighting.weighted(latents)
        squares = squared_distances(x, self.landmarks)
        squares *= 5.0 / self.length**2
        return x, squares, place_of(x).xp.mean(squares, axis=1)[:, None] < 1.0

    def _terms(self, latents: Array, x: Array, squares: Array, near: Array) -> Array:
        place = place_of(latents)
        terms = place.xp.concat([place.zeros(x.shape[0], 1) + 1.0, place.xp.sum(x**2, axis=1)[:, None], x], axis=1)
        parts = [_matern52_rest(squares, near), place.xp.where(near, terms, 0.0)]
        parts += [] if self.weighting.linear is None else [latents * self.weighting.linear]
        return place.xp.concat(parts, axis=1)

    def coefficients(self, readout: Array) -> Array:
        """Of the predictors, for a readout V of φ: α, those of the polynomial, the linear term's rows as they are."""
        xp = place_of(readout).xp
        count, Z, a = int(self.landmarks.shape[0]), self.landmarks, 5.0 / (6.0 * self.length**2)
        alpha = solve_lower(self.lower, readout[:count, :], transposed=True)
        total = xp.sum(alpha, axis=0)[None, :]
        constant = total - a * (xp.sum(Z**2, axis=1)[None, :] @ alpha)
        return xp.concat([alpha, constant, -a * total, 2 * a * (Z.T @ alpha), readout[count:, :]], axis=0)

    def readout(self, coefficients: Array) -> Array:
        """V of coefficients α: the inverse of `coefficients`."""
        count, terms = int(self.landmarks.shape[0]), 2 + int(self.landmarks.shape[1])
        linear = coefficients[count + terms :, :]
        return place_of(coefficients).xp.concat([self.lower.T @ coefficients[:count, :], linear], axis=0)

    @property
    def terms(self) -> int:
        """The number of predictors."""
        return self.count + 2 + int(self.landmarks.shape[1])

    @property
    def count(self) -> int:
        """The number of features, p."""
        extra = 0 if self.weighting.linear is None else int(self.landmarks.shape[1])
        return int(self.landmarks.shape[0]) + extra

    def working_bytes(self, samples: int) -> int:
        """Memory of one member at work: its triangle, its features and seven copies of their size."""
        return 8 * int(self.landmarks.shape[0]) ** 2 + 8 * 8 * samples * self.count

    def seconds(self, samples: int) -> float:
        """What distances and kernel for so many samples take on one core at best."""
        count = int(self.landmarks.shape[0]) * int(self.landmarks.shape[1])
        return least_seconds(count * samples + _PER_KERNEL * samples * int(self.landmarks.shape[0]), 8 * count)


def landmark_features(
    x: Array, length: float, *, member: int, seed: int, weighting: Weighting | None = None
) -> KernelFeatures:
    """Choose a member's landmarks among (samples, latent) training latents; `length` is in medians of the distance."""
    weighting = weighting or Weighting()
    count = min(max(1, round(SHARE * x.shape[0])), MOST_LANDMARKS)
    rows = sorted(permutation(int(x.shape[0]), seed=seed, stream=(member, _STREAM))[:count])
    weighted = weighting.weighted(x)
    return KernelFeatures(member, tuple(rows), taken(weighted, rows), length * median_distance(weighted), weighting)


def choose_length(x: Array, y: Array, weighting: Weighting, ridge: float | None = None) -> tuple[float, float, float]:
    """Return the length, in medians of the distance, at which leaving samples out errs least, its ridge and error.

    A ridge that is given is used with every length, since long lengths need a small one; None chooses it too. One
    of 0 is judged at the rounding of the kernel matrix, which is what it comes to.
    """
    chosen_rows = spread(int(x.shape[0]), _TUNED_ROWS)
    rows = len(chosen_rows)
    weighted, targets = weighting.weighted(taken(x, chosen_rows)), taken(y, chosen_rows)
    unit = median_distance(weighted)
    given = None if ridge is None else max(ridge, 4 * rows * _EPS)
    least, best = math.inf, (LENGTHS[0], 0.0, math.inf)
    with single_threaded(place_of(x)):  # eigenvalues of such matrices gain little from a second thread
        squared = squared_distances(weighted, weighted)
        for length in LENGTHS:
            spectrum = spectrum_of_gram(matern52(squared + 0.0, length * unit), targets)
            chosen = choose_ridge(spectrum) if given is None else given
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


def _matern52_rest(squares: Array, near: Array) -> Array:
    """g(s) of s², (samples, landmarks), in their memory, for rows that are `near`; k(s) for the others."""
    place = place_of(squares)
    xp = place.xp
    root = xp.sqrt(squares)
    whole = (1.0 + root + squares / 3.0) * xp.exp(-root)
    if place.on_host and not bool(xp.any(near)):
        return whole
    # The series is exact to rounding up to s = ½, where the difference k − 1 + s²/6 has lost three digits.
    series: Array = 0.0
    for coefficient in reversed(REST):
        series = series * root + coefficient
    series *= squares * squares
    rest = xp.where(root < 0.5, series, whole - 1.0 + squares / 6.0)
    return xp.where(near, rest, whole)


def _matern52_slope(squares: Array, near: Array) -> Array:
    """dg/d(s²) of s², (samples, landmarks), for rows that are `near`; dk/d(s²) for the others."""
    xp = place_of(squares).xp
    root = xp.sqrt(squares)
    whole = (1.0 + root) * xp.exp(-root) / -6.0
    series: Array = 0.0
    for power, coefficient in reversed(list(enumerate(REST, start=4))):
        series = series * root + coefficient * power / 2
    series *= squares
    return xp.where(near, xp.where(root < 0.5, series, whole + 1.0 / 6.0), whole)


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
    """Median distance between (samples, latent) rows, the unit of the length; 1 where they coincide.

    Of digits that rounding leaves alone.
    """
    place = place_of(x)
    few = taken(x, spread(int(x.shape[0]), _MEDIAN_ROWS))
    with single_threaded(place):
        ordered = place.xp.sort(place.xp.reshape(squared_distances(few, few), (-1,)), stable=False)
    return rounded(math.sqrt(float(ordered[ordered.shape[0] // 2]))) or 1.0
