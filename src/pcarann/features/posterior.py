"""Posterior variance of a kernel, given some of its training samples.

    v(x) = k(x, x) + ν − ‖L⁻¹ k(Z, x)‖²,   L Lᵀ = k(Z, Z) + ν I

It is that of a Gaussian process with this kernel and noise of variance ν: small near the samples Z, and k(x, x) + ν far
from all of them. With a linear term beside the kernel, k is the sum of both. Z are the at most 256 training samples
that a pivoted Cholesky factorisation of the kernel chooses one by one, each where v is largest; it ends where the rest
is far below ν. ν is the ridge of the readout, but at least 1e-8 of k(x, x), so that v keeps its digits for long
lengths.

Only the shape of v is used: it is divided by its mean at left-out samples, each given Z without that sample, and their
residuals give the scale (`pcarann.ensemble.residual_spread`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pcarann.backend.arrays import Array, place_of, taken
from pcarann.backend.concurrency import single_threaded
from pcarann.backend.linalg import cholesky, solve_cholesky, solve_lower
from pcarann.backend.random import spread
from pcarann.features.kernel import matern52, squared_distances
from pcarann.latent.weighting import Weighting

__all__ = ["MOST_PIVOTS", "KernelPosterior"]

MOST_PIVOTS = 256
_CANDIDATES = 2000  # training rows among which pivots are chosen
_LEAST_NUGGET = 1e-8  # of k(x, x)
_ENDS = 0.01  # of ν: what pivots leave of k(x, x) where no further one is chosen
_ENOUGH = 10  # left-out samples that are no pivots, which then give the unit alone


@dataclass(frozen=True)
class KernelPosterior:
    """v of latents, divided by its mean at left-out samples."""

    points: Array
    """Z, (pivots, latent), as latents"""
    length: float
    """ℓ"""
    weighting: Weighting
    nugget: float
    """ν"""
    unit: float = 1.0

    @classmethod
    def of(
        cls, x: Array, length: float, weighting: Weighting, ridge: float, left_out: Sequence[Sequence[int]]
    ) -> KernelPosterior:
        """Choose pivots among (rows, latent) training rows.

        Each group of `left_out` rows is a sample, first, and those that were left out together with it.
        """
        candidates = spread(int(x.shape[0]), _CANDIDATES)
        rows = taken(x, candidates)
        found = cls(rows, length, weighting, 0.0)
        own = found.own(rows)
        nugget = max(ridge, _LEAST_NUGGET * float(place_of(x).xp.mean(own)))
        chosen = found.pivots(own, _ENDS * nugget)
        found = replace(found, points=taken(rows, chosen), nugget=nugget)
        return replace(found, unit=found.mean_left_out(x, [candidates[i] for i in chosen], left_out))

    @cached_property
    def lower(self) -> Array:
        """L, (pivots, pivots)"""
        place = place_of(self.points)
        with single_threaded(place):
            found = cholesky(self.kernel(self.points) + self.nugget * place.eye(int(self.points.shape[0])))
        if found is None:
            raise ValueError("the kernel of its pivots is not finite, or not positive")
        return found

    def __call__(self, latents: Array) -> Array:
        """Return v of (rows, latent) latents, (rows,)."""
        lower = self.lower
        with single_threaded(place_of(latents)):  # the same bytes on any number of threads
            return self._given_pivots(latents, solve_lower(lower, self.kernel(latents))) / self.unit

    def _given_pivots(self, latents: Array, solved: Array) -> Array:
        xp = place_of(latents).xp
        return xp.clip(self.own(latents) - xp.sum(solved**2, axis=0), min=0.0) + self.nugget

    def own(self, latents: Array) -> Array:
        """k(x, x), (rows,)"""
        xp, linear = place_of(latents).xp, self.weighting.linear
        return xp.ones_like(latents[:, 0]) + (0.0 if linear is None else xp.sum((latents * linear) ** 2, axis=1))

    def kernel(self, latents: Array) -> Array:
        """k(Z, x), (pivots, rows)"""
        landmarks, weighted = (self.weighting.weighted(one) for one in (self.points, latents))
        found = matern52(squared_distances(landmarks, weighted), self.length)
        linear = self.weighting.linear
        return found if linear is None else found + (self.points * linear) @ (latents * linear).T

    def pivots(self, own: Array, least: float) -> list[int]:
        """Which of the rows of `points` are chosen, the first where k(x, x) is largest."""
        place, rest = place_of(own), own
        count = min(MOST_PIVOTS, int(own.shape[0]))
        factor = place.zeros(count, int(own.shape[0]))
        chosen: list[int] = []
        for j in range(count):
            at = int(place.xp.argmax(rest))
            left = float(rest[at])
            if j and not left > least:
                break
            column = replace(self, points=self.points[at : at + 1, :]).kernel(self.points)[0, :]
            column = (column - factor[:j, at] @ factor[:j, :]) / max(left, 1e-300) ** 0.5
            factor[j, :] = column
            rest = place.xp.clip(rest - column**2, min=0.0)
            chosen.append(at)
        return chosen

    def mean_left_out(self, x: Array, pivots: list[int], left_out: Sequence[Sequence[int]]) -> float:
        """The mean of v at samples, each given the pivots that were not left out together with it."""
        mine = {row: i for i, row in enumerate(pivots)}
        free = [group for group in left_out if group[0] not in mine]
        groups = free if len(free) >= _ENOUGH else list(left_out) or [[row] for row in pivots]
        place, count = place_of(x), len(pivots)
        latents = taken(x, [group[0] for group in groups])
        columns = self.kernel(latents)
        variances = self._given_pivots(latents, solve_lower(self.lower, columns))
        inverse, weights = (solve_cholesky(self.lower, one) for one in (place.eye(count), columns))
        total = 0.0
        for i, group in enumerate(groups):
            without = [mine[row] for row in group if row in mine]
            if group[0] in mine:  # its own pivot: v given the others, with the noise of its own observation
                total += float(place.xp.linalg.inv(_block(inverse, without))[0, 0])
                continue
            total += float(variances[i])
            if without:
                some = taken(weights, without)[:, i : i + 1]
                total += float((some.T @ place.xp.linalg.solve(_block(inverse, without), some))[0, 0])
        return total / len(groups)


def _block(matrix: Array, rows: list[int]) -> Array:
    return taken(taken(matrix, rows).T, rows)
