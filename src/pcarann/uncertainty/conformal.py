"""Split conformal prediction: scores, quantile, intervals.

With ensemble mean μ and standard deviation σ, and true fields u of N calibration samples on M grid points,

    scores     sᵢⱼ = |uᵢ(xⱼ) − μᵢ(xⱼ)| / max{σᵢ(xⱼ), ε}
    interval   μ(x) ± q max{σ(x), ε}

where q is the k-th smallest score, and +∞ where k exceeds their number. Four choices of k, four guarantees for
a new sample exchangeable with the calibration samples:

    pooled         k = ⌈(NM + 1)(1 − α)⌉ of all scores. The paper's rule. It treats grid points as if they were
                   independent, and covers less than 1 − α on average where N is small.
    sample         k = ⌈(N + 1)M(1 − α)⌉ of all scores: the new sample counts as M scores at +∞. On average over
                   samples, at least a share 1 − α of the grid points is covered (conformal risk control of the
                   share missed). Needs N ≥ 1/α − 1.
    simultaneous   k = ⌈(N + 1)(1 − α)⌉ of the largest score of each sample: with probability at least 1 − α the
                   whole field lies inside. Needs N ≥ 1/α − 1.
    local          k = ⌈(N + 1)(1 − α)⌉ of the scores at each point, which then has a q of its own: every point is
                   covered with probability at least 1 − α. Needs N ≥ 1/α − 1.

Outside the training data a possible error δ of the prediction (`extrapolation`) stands beside the spread: the interval
is μ ± √(q² max{σ, ε}² + δ²), and the score the least q for which it holds u.

Along a stream samples are not exchangeable: once one has been observed, q is that of `adaptive`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import accumulate, pairwise
from numbers import Real
from typing import Any, Literal, Self, get_args

import numpy as np

from pcarann.backend.arrays import Array, place_of, taken, to_host
from pcarann.uncertainty.adaptive import LEVELS, Followed, Values
from pcarann.uncertainty.local import Local

__all__ = ["ALPHA", "Calibration", "Method", "PartsCalibration", "conformal_rank", "kept_ranks", "nonconformity_scores"]

Method = Literal["sample", "pooled", "simultaneous", "local"]

ALPHA = 0.05
"""Intervals are of level 1 − α, unless another α is asked for"""
# ε relative to the size of the output fields. Paper: ε = 1e-8 outright, which is large or nothing in other units.
RELATIVE_FLOOR = 1e-8
_HIGH = 0.9  # level of the quantile by which outputs are compared
_STARTED_FROM = 1024  # points of an output from which its stream begins
_KEPT_WHOLE, _KEPT_TAIL = 1 << 15, 1 << 13  # scores that are kept: all of so few; so many towards each end of more


@dataclass(frozen=True)
class Calibration:
    """The scores of a calibration set, as far as quantiles need them, so that any level can be asked for."""

    ranks: np.ndarray[tuple[int], np.dtype[np.int64]]
    """Which of all scores in ascending order are kept, from 1 on, (kept,)"""
    scores: Array
    """Those, (kept,)"""
    points: int
    """Scores of one sample, M"""
    largest: Array
    """The largest score of each sample, ascending, (samples,)"""
    floor: float
    """ε"""
    followed: Followed | None = field(default=None, kw_only=True)
    """What samples observed since have told; None before the first"""
    local: Local | None = field(default=None, kw_only=True)
    """Those of every point by itself; None where they were not kept, as of scores that were only counted"""

    @classmethod
    def of(cls, scores: Array, floor: float, *, local: bool = True) -> Self:
        """Keep what quantiles need of (samples, points) scores, `local` ones among them."""
        place = place_of(scores)
        xp = place.xp
        samples, points = (int(n) for n in scores.shape)
        ranks = kept_ranks(samples, points)
        ordered = xp.sort(xp.reshape(scores, (-1,)))
        kept = taken(ordered[:, None], (ranks - 1).tolist())[:, 0]
        largest = xp.sort(xp.max(scores, axis=1))
        return cls(ranks, kept, points, largest, floor, local=Local.of(scores) if local else None)

    @property
    def n_samples(self) -> int:
        """The number N of calibration samples."""
        return int(self.largest.shape[0])

    def quantile(self, alpha: float, method: Method = "sample") -> float:
        """q for intervals of level 1 − α; +∞ where the calibration set is too small for α.

        Where a stream is followed, what its samples are too few for is taken from the tail of the calibration.
        """
        return self._quantile(alpha, method) if self.followed is None else self._along(self.followed, alpha, method)

    def _along(self, followed: Followed, alpha: float, method: Method) -> float:
        follower = followed.of(method == "simultaneous")
        if alpha >= follower.least:
            return follower.factor(alpha)
        within, beyond = (self._quantile(level, method) for level in (follower.least, alpha))
        return follower.factor(follower.least) * (beyond / within if math.isfinite(within) and within else math.inf)

    def observed(self, scores: Array, sized: Values | None = None) -> tuple[Self, Values]:
        """After these (samples, points) scores of a stream; and the share of points missed, (samples, levels).

        Samples that come together are judged together, by what was known before them. Scores of those that are not
        `sized`, as of inputs outside the data, say nothing of the size of others.
        """
        local = self.missed_locally(scores, [int(scores.shape[1])])
        followed, missed = self.followed_by(scores, sized, None if local is None else local[0])
        return replace(self, followed=followed), missed

    def followed_by(
        self, scores: Array, sized: Values | None, missed_locally: Values | None = None
    ) -> tuple[Followed, Values]:
        """What these (samples, points) scores make of the stream, and the share missed at each level."""
        ordered = to_host(place_of(scores).xp.sort(scores, axis=1))
        return (self.followed or self._begun).observed(ordered, sized, missed_locally)

    def missed_locally(self, scores: Array, sizes: Sequence[int]) -> Values | None:
        """Share of points outside intervals of single points, (parts, samples, levels), NaN where these are infinite.

        Each part of a sample has so many values. None where the calibration holds no scores of single points.
        """
        if self.local is None or int(scores.shape[1]) != self.points:
            return None
        place = place_of(scores)
        xp, changes = place.xp, self.changes(LEVELS)
        found = np.full((len(sizes), int(scores.shape[0]), len(LEVELS)), np.nan)
        for i, level in enumerate(LEVELS):
            rank = conformal_rank(level, self.n_samples, self.points, "local")
            if rank > self.n_samples:
                continue
            missed = xp.astype(scores > self.local.quantile(rank) * place.put(changes[i, :]), xp.float64)
            for part, (a, b) in zip(found, _ends(sizes), strict=True):
                part[:, i] = to_host(xp.mean(missed[:, a:b], axis=1))
        return found

    @cached_property
    def _begun(self) -> Followed:
        return Followed.start(to_host(self.scores), self.ranks, to_host(self.largest))

    def _quantile(self, alpha: float, method: Method) -> float:
        k = conformal_rank(alpha, self.n_samples, self.points, method)
        if method == "simultaneous":
            return float(self.largest[k - 1]) if k <= self.n_samples else math.inf
        # Between ranks that were kept, the higher one: it covers more, never less.
        at = int(np.searchsorted(self.ranks, k))
        return float(self.scores[at]) if at < len(self.ranks) else math.inf

    def factor(self, alpha: float, method: Method, values: int) -> Any:
        """q of each of so many values of a sample: here one for all, unless every point has its own.

        The largest score says nothing of points that were not calibrated: on a finer grid it is refused.
        """
        if method == "local":
            return self.local_factor(alpha, values)
        if method == "simultaneous" and values > self.points:
            raise ValueError(
                f"Intervals that hold whole fields were calibrated for {self.points} values, but {values} are "
                "predicted: calibrate again on this grid."
            )
        return self.quantile(alpha, method)

    def local_factor(self, alpha: float, values: int) -> Array:
        """q of each of so many values, by the scores of its own point; along a stream it follows the others."""
        if self.local is None:
            raise ValueError(
                "The calibration holds no scores of single points: those of lazy samples did not fit into memory, or "
                "an older pcarann made it. Call calibrate(X, y) on fewer samples, or with more memory."
            )
        if values != self.points:
            raise ValueError(
                f"Intervals of single points were calibrated for {self.points} values, but {values} are predicted: "
                "calibrate again on this grid."
            )
        rank = conformal_rank(alpha, self.n_samples, self.points, "local")
        return self.local.quantile(rank) * place_of(self.scores).put(self.changes(np.array([alpha]))[0, :])

    def changes(self, levels: Values) -> Values:
        """By how much the factor of each point has changed along a stream, (levels, points) or (levels, 1)."""
        if self.followed is None:
            return np.ones((len(levels), 1))
        return self.followed.changes(self._begun, levels)[:, None]

    def half_width(self, std: Array, quantile: Any, beyond: Array | None = None) -> Array:
        """q max{σ, ε}; with a possible error δ outside the training data, √(q² max{σ, ε}² + δ²)."""
        xp = place_of(std).xp
        inside = quantile * xp.clip(std, min=self.floor)
        return inside if beyond is None else xp.hypot(inside, beyond)


@dataclass(frozen=True)
class PartsCalibration(Calibration):
    """That of several outputs side by side, whose scores have units of their own.

    A number beside a field is one value among thousands, and one quantile of all scores would say nothing of it. So the
    scores of each output are divided by a high quantile of its own before they are ranked together, and its intervals
    are wider by that factor. The factors are found from the same samples, which makes the level a little too good where
    these are few.
    """

    gains: tuple[float, ...] = ()
    """Of each output"""
    sizes: tuple[int, ...] = ()
    """Values of each"""
    apart: tuple[Followed, ...] = ()
    """What samples observed since have told of each"""

    @classmethod
    def of_parts(cls, scores: Array, floor: float, sizes: Sequence[int]) -> PartsCalibration:
        """Keep what quantiles need of (samples, points) scores of outputs that have so many points."""
        gains = tuple(max(_high(scores[:, a:b]), np.finfo(float).tiny) for a, b in _ends(sizes))
        scaled = scores / place_of(scores).put(np.repeat(gains, sizes))
        return replace(cls.of(scaled, floor, local=False), gains=gains, sizes=tuple(sizes), local=Local.of(scores))

    def observed(self, scores: Array, sized: Values | None = None) -> tuple[Self, Values]:
        """After these scores of a stream, which each output follows by itself; shares missed are means over outputs."""
        scaled = scores / place_of(scores).put(np.repeat(self.gains, self.sizes))
        local = self.missed_locally(scores, self.sizes)
        whole, _ = self.followed_by(scaled, sized)
        xp, found = place_of(scores).xp, []
        for i, (followed, (a, b)) in enumerate(zip(self.apart or self._begun_apart, _ends(self.sizes), strict=True)):
            ordered = to_host(xp.sort(scaled[:, a:b], axis=1))
            found.append(followed.observed(ordered, sized, None if local is None else local[i]))
        apart, missed = zip(*found, strict=True)
        return replace(self, followed=whole, apart=tuple(apart)), np.mean(missed, axis=0)

    @cached_property
    def _begun_apart(self) -> list[Followed]:
        """What each output begins from: its own scores, where those of single points were kept on this grid."""
        if self.local is None or int(self.local.scores.shape[1]) != sum(self.sizes):
            return [self._begun] * len(self.sizes)
        counts, found = np.diff(self.local.ranks, prepend=0), []
        for gain, (a, b) in zip(self.gains, _ends(self.sizes), strict=True):
            some = to_host(self.local.scores[:, a : b : max(1, (b - a) // _STARTED_FROM)]) / gain
            order = np.argsort(some, axis=None)
            ranks = np.repeat(counts, some.shape[1])[order].cumsum()
            found.append(Followed.start(some.ravel()[order], ranks, to_host(self.largest)))
        return found

    def factor(self, alpha: float, method: Method, values: int) -> Any:
        """q of each value, that of all, or along a stream that of its output, times the factor of its output."""
        if method == "local":
            return self.local_factor(alpha, values)
        place, gains = place_of(self.scores), np.asarray(self.gains)
        if self.apart and method != "simultaneous":
            gains = gains * [self._along(one, alpha, method) for one in self.apart]
            return place.put(np.repeat(gains, self.sizes))
        return super().factor(alpha, method, values) * place.put(np.repeat(gains, self.sizes))

    def changes(self, levels: Values) -> Values:
        """By how much the factors of each output have changed along a stream, (levels, points)."""
        if not self.apart:
            return super().changes(levels)
        pairs = zip(self.apart, self._begun_apart, strict=True)
        return np.repeat([one.changes(begun, levels) for one, begun in pairs], self.sizes, axis=0).T


def _ends(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Where values of each output begin and end.

    >>> _ends([3, 1])
    [(0, 3), (3, 4)]
    """
    return list(pairwise([0, *accumulate(sizes)]))


def _high(scores: Array) -> float:
    """A high quantile of all of them, or of a million."""
    found = to_host(scores).ravel()
    return float(np.quantile(found[:: max(1, found.size // 1_000_000)], _HIGH))


@cache
def kept_ranks(samples: int, points: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Ranks of which scores are kept: all of few; of many those of levels k/1000, and more towards both ends.

    >>> len(kept_ranks(300, 10_000))
    12203
    """
    total = samples * points
    if total <= _KEPT_WHOLE:
        return np.arange(1, total + 1)
    exact = [conformal_rank(k / 1000, samples, points, how) for k in range(1, 1000) for how in ("sample", "pooled")]
    tail = np.geomspace(1, total / 2, _KEPT_TAIL).astype(np.int64)
    found = np.unique(np.concatenate([np.asarray(exact), tail, total + 1 - tail]))
    return found[found <= total]


def conformal_rank(alpha: float, samples: int, points: int, method: Method = "sample") -> int:
    """Rank k of the conformal quantile among the ascending scores, in exact arithmetic.

    >>> [conformal_rank(0.1, 19, 5, method) for method in ("pooled", "sample", "simultaneous")]
    [87, 90, 18]
    """
    # α as the decimal number that was written: in binary, 1 − 0.9 is not 0.1 and ⌈10 · 0.1⌉ would be 2.
    level = 1 - Fraction(repr(float(alpha)))
    slots = {"pooled": samples * points + 1, "sample": (samples + 1) * points, "simultaneous": samples + 1}
    slots["local"] = slots["simultaneous"]
    return math.ceil(slots[method] * level)


def samples_needed(alpha: float, points: int, method: Method) -> int:
    """Fewest calibration samples for which the quantile at α is finite."""
    ratio = 1 / Fraction(repr(float(alpha))) - 1
    return math.ceil(ratio / points) if method == "pooled" else math.ceil(ratio)


def nonconformity_scores(mean: Array, std: Array, truth: Array, floor: float, beyond: Array | None = None) -> Array:
    """|u − μ| / max{σ, ε}, elementwise; with a δ, the least q for which the interval holds u."""
    xp = place_of(mean).xp
    missed = xp.abs(truth - mean)
    if beyond is not None:
        missed = xp.sqrt(xp.clip((missed - beyond) * (missed + beyond), min=0.0))
    scores = missed / xp.clip(std, min=floor)
    # What is not finite (a roll-out that blew up) is covered by no interval.
    return xp.where(xp.isfinite(scores), scores, math.inf)


def check_level(alpha: Any, method: str) -> None:
    """Refuse an α outside (0, 1) and a method that does not exist."""
    if not isinstance(alpha, Real) or not 0 < float(alpha) < 1:
        raise ValueError(f"alpha must be a number strictly between 0 and 1, got {alpha!r}.")
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(get_args(Method))}, got {method!r}.")
