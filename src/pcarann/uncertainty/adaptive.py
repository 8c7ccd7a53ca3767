"""Intervals that follow a stream: the factor q of a conformal interval, moved after each sample that was observed.

A sample is scored before it is learned. With s its scores, m(s) their mean and q(α) the factor that was in use,

    base       log Q_k(α) = quantile of log (s / m̂_k) over the last samples + log m̂_k       for each of a few memories k
    mixture    log Q(α) = Σ w_k log Q_k(α),   w_k ∝ exp(−4 · discounted loss of log Q_k)
    factor     log q(α) = log Q(α) + θ(α)
    rule       θ(α) ← θ(α) + η (share of points missed − α)              min(η n, 1) for n samples that came together

m̂_k is the size of scores that a memory foresees, a running mean of log m(s); one that never moves gives the plain
conformal quantile, a short one follows a jump after a sample or two. The loss is that of a quantile, at several levels.
For one score a sample, which says less, η is 0.05 and memories that move have a lasting handicap.
The last line is adaptive conformal inference (Gibbs and Candès 2021) on a logarithmic scale, as in conformal PID
control (Angelopoulos, Candès and Tibshirani 2023): whatever the stream does, as long as scores stay within a factor eᵇ
of Q, the share missed over T samples differs from α by at most (b + η) / (η T). Intervals stay finite.

Intervals with a factor for each point keep the factors q(x; α) of the calibration and multiply them by a change c(α).
Both quantiles in it come from one estimator, a plain quantile without the correction for few samples: that correction
shrinks as a stream adds samples, which says nothing about the size of scores.

    log c(α) = log Q⁰(α) now − log Q⁰(α) at the calibration + θ_local(α)

θ_local follows the same rule, with the share of points outside the intervals c(α) q(x; α).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

__all__ = ["LEVELS", "WINDOW", "Followed", "Follower", "at_ranks", "middle_ranks"]

Values = np.ndarray[Any, Any]

LEVELS = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5])
"""α at which θ is kept"""
WINDOW = 256
"""Samples whose scores are kept"""
_KEPT = 32  # scores of a sample that are kept, evenly among its ranks
_RATES = np.array([0.0, 0.05, 0.2, 0.5])  # of the running means: nothing, 20, 5 and 2 samples
_GAIN, _MOST_GAIN = 0.2, 1.0  # η: a field that is missed widens the next interval by a fifth; of many together
_NOTHING = math.log(0.02)  # of the size of the calibration's scores
_DISCOUNT, _SHARPNESS = 0.95, 4.0  # of the losses of memories, and how much they decide
_LEAST = 1e-12  # a score; zero has no logarithm
_GAIN_OF_ONE, _LASTING = 0.05, np.array([0.0, 1.0, 2.0, 2.5])  # the same for one score a sample, which says less
_DOUBT = np.array([0.0, 0.5, 1.0, 1.5])  # losses at the start: a memory that moves must first prove its worth


@dataclass(frozen=True)
class Follower:
    """The factor of one kind of interval along a stream."""

    rows: Values
    """Ascending scores of the last samples, (samples, kept)"""
    scales: Values
    """log m̂ that each memory foresaw for them, (samples, memories)"""
    ahead: Values
    """log m̂ that each foresees for the next one, (memories,)"""
    losses: Values
    """Discounted loss of each, (memories,)"""
    shifts: Values
    """θ, (levels,)"""

    @classmethod
    def start(cls, rows: Values) -> Follower:
        """Begin from the scores of a calibration, (samples, kept)."""
        rows = np.clip(rows[-WINDOW:, :], _LEAST, None)
        finite = rows[np.isfinite(rows)]
        ahead = np.full(len(_RATES), math.log(finite.mean()) if finite.size else 0.0)
        return cls(rows, np.tile(ahead, (len(rows), 1)), ahead, _DOUBT.copy(), np.zeros(len(LEVELS)))

    @property
    def least(self) -> float:
        """The smallest α for which there are samples enough"""
        return 1 / (len(self.rows) + 1)

    def factor(self, alpha: float) -> float:
        """q(α), which falls with α: between the levels log q is interpolated along log Q."""
        mixed, _ = self._bases(np.append(LEVELS, alpha))
        known, own = np.isfinite(mixed[:-1]), mixed[-1]
        if not known.any():
            return math.inf
        base, found = mixed[:-1][known][::-1], self._falling(mixed[:-1])[known][::-1]
        beyond = min(own - base[0], 0.0) + max(own - base[-1], 0.0)  # the shift of the last level goes on
        return float(np.exp(np.interp(own, base, found) + beyond))

    def plain(self, levels: Values) -> Values:
        """log Q⁰(α) at each level: the median-unbiased quantile of the scores, without θ or a term for few samples."""
        relative = self._relative()
        place = np.clip((relative.shape[1] + 1 / 3) * (1 - levels) + 1 / 3, 1, relative.shape[1]) - 1
        low, high = np.floor(place).astype(int), np.ceil(place).astype(int)
        ordered = np.partition(relative, np.unique([low, high]), axis=1)
        found = self._weights() @ (ordered[:, low] + self.ahead[:, None])
        above = self._weights() @ (ordered[:, high] + self.ahead[:, None])
        return np.asarray(np.where(high > low, found + (place - low) * (above - found), found))

    def observed(self, scores: Values, sized: Values | None = None) -> tuple[Follower, Values]:
        """After more samples with these ascending scores, (samples, points); and what each level missed of them.

        Samples that come together were predicted together, so that all of them are judged by the factor from before,
        and the rule takes one step. Those that are not `sized` lie outside the data, where scores say nothing of sizes.
        """
        handed, after = self._falling(self._bases(LEVELS)[0]), self
        missed = np.array([1 - np.searchsorted(row, np.exp(handed), side="right") / len(row) for row in scores])
        for row in scores if sized is None else scores[np.asarray(sized, dtype=bool)]:
            after = after._moved(row)
        gain = _GAIN_OF_ONE if self.rows.shape[1] == 1 else _GAIN
        return replace(after, shifts=_shifted(self.shifts, missed, np.isfinite(handed), gain)), missed

    def _moved(self, scores: Values) -> Follower:
        """With the size of one more sample; a prediction that blew up, or scores that are nothing, say none."""
        logarithms = np.log(np.clip(at_ranks(scores, self.rows.shape[1]), _LEAST, None))
        size = math.log(np.mean(np.exp(logarithms)))
        if not math.isfinite(size) or size < self.ahead[0] + _NOTHING:
            return self
        losses = _DISCOUNT * self.losses + _quantile_losses(logarithms, self._bases(LEVELS)[1])
        rows = np.concatenate([self.rows, np.exp(logarithms)[None, :]])[-WINDOW:, :]
        scales = np.concatenate([self.scales, self.ahead[None, :]])[-WINDOW:, :]
        return replace(self, rows=rows, scales=scales, ahead=self.ahead + _RATES * (size - self.ahead), losses=losses)

    def _falling(self, mixed: Values) -> Values:
        """log q at the levels: no less than that of any larger α."""
        return np.maximum.accumulate((mixed + self.shifts)[::-1])[::-1]

    def _bases(self, levels: Values) -> tuple[Values, Values]:
        """log Q at each level, (levels,), and that of each memory, (memories, levels)."""
        samples, kept = self.rows.shape
        ranks = np.ceil((samples + 1) * kept * (1 - levels) - 1e-9).astype(int) - 1
        known = np.minimum(ranks, samples * kept - 1)
        bases = np.partition(self._relative(), np.unique(known), axis=1)[:, known] + self.ahead[:, None]
        bases[:, ranks >= samples * kept] = math.inf
        known = np.isfinite(bases).all(axis=0)
        mixed = self._weights() @ np.where(known, bases, 0.0)
        return np.where(known, mixed, math.inf), bases

    def _relative(self) -> Values:
        """Logarithms of all scores, relative to the sizes that each memory had forecast, (memories, samples · kept)."""
        return (np.log(self.rows)[None, :, :] - self.scales.T[:, :, None]).reshape(len(_RATES), self.rows.size)

    def _weights(self) -> Values:
        """w, (memories,)"""
        losses = self.losses + (_LASTING if self.rows.shape[1] == 1 else 0.0)
        weights = np.exp(-_SHARPNESS * (losses - losses.min()))
        return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class Followed:
    """The kinds of intervals along a stream: for the share of points, for whole fields, and for single points."""

    points: Follower
    whole: Follower
    local: Values = field(default_factory=lambda: np.zeros(len(LEVELS)))
    """θ_local, (levels,)"""

    @classmethod
    def start(cls, scores: Values, ranks: Values, largest: Values) -> Followed:
        """Begin from what a calibration kept: scores of these ranks among all, and the largest of each sample."""
        count, total = min(len(largest), WINDOW), int(ranks[-1])
        kept = min(total // count, _KEPT)
        wanted = np.add(middle_ranks(total, kept * count), 1)
        rows = np.asarray(scores[np.searchsorted(ranks, wanted)], dtype=float).reshape(kept, count).T
        return cls(Follower.start(rows), Follower.start(at_ranks(largest, count)[:, None]))

    def observed(
        self, scores: Values, sized: Values | None = None, missed_locally: Values | None = None
    ) -> tuple[Followed, Values]:
        """After more samples with these ascending scores, (samples, points); and what each level missed of them.

        `missed_locally` is the share of points outside intervals of single points, (samples, levels), NaN where these
        are infinite.
        """
        points, missed = self.points.observed(scores, sized)
        local = self.local
        if missed_locally is not None:
            local = _shifted(local, missed_locally, np.isfinite(missed_locally[0]))
        return Followed(points, self.whole.observed(scores[:, -1:], sized)[0], local), missed

    def changes(self, begun: Followed, levels: Values) -> Values:
        """c(α) at each level since the stream had `begun`; 1 where scores were nothing or infinite then."""
        now, then = self.points.plain(levels), begun.points.plain(levels)
        known = np.isfinite(now) & np.isfinite(then) & (then > math.log(_LEAST))
        shifts = np.interp(np.log(levels), np.log(LEVELS), self.local)
        return np.exp(np.where(known, np.where(known, now, 0.0) - np.where(known, then, 0.0) + shifts, 0.0))

    def of(self, simultaneous: bool) -> Follower:
        """That of one kind of intervals."""
        return self.whole if simultaneous else self.points


def _shifted(shifts: Values, missed: Values, known: Values, gain: float = _GAIN) -> Values:
    """θ after samples that came together, of which each known level missed such shares, (samples, levels)."""
    step = min(gain * len(missed), _MOST_GAIN) * (missed.mean(axis=0) - LEVELS)
    return shifts + np.where(known, step, 0.0)


def middle_ranks(values: int, kept: int) -> list[int]:
    """Where so many of ascending values lie that stand for all of them, each for the same number.

    >>> middle_ranks(6, 3)
    [0, 2, 4]
    """
    return [math.ceil((i + 0.5) * values / kept) - 1 for i in range(kept)]


def at_ranks(values: Values, kept: int) -> Values:
    """So many of ascending values that stand for all of them."""
    return np.asarray(values[middle_ranks(len(values), kept)], dtype=float)


def _quantile_losses(logarithms: Values, bases: Values) -> Values:
    """Mean loss of the quantiles log Q of each memory, (memories,), all levels but the first in units of their own."""
    known = np.isfinite(bases[:, 1:]).all(axis=0)
    if not known.any():
        return np.zeros(len(bases))
    levels, beyond = LEVELS[1:][known], logarithms[None, :, None] - bases[:, None, 1:][..., known]
    losses = np.maximum((1 - levels) * beyond, -levels * beyond) / np.sqrt(levels * (1 - levels))
    return np.asarray(losses.mean(axis=(1, 2)))
