"""Holes in the training data: inputs inside all ranges, but far from every training sample.

Two kinds of statistics, both 0 or small close to the training samples:

    gap       of one coordinate v, a column or a leading latent:  max_g min(v − l_g, r_g − v) / w_g − t,  at least 0,
              (l_g, r_g) being gaps between neighbouring training values, w_g the mean width of the ten gaps around
              each, of which the most unusual are kept; t is what random samples would hardly have
    nearest   min_i ‖m ∘ (x − x_i)‖ over training samples i, in leading latents; m = 1, and 1 over the spread of each

The training samples are measured without themselves. A coordinate of few values, each of them repeated, has levels:
there a training value lies in no gap, and every value between two levels does. Elsewhere repeats count once: a sample
is measured without its value, and without samples of its group (`pcarann.latent.repeats`, or a trajectory).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcarann.uncertainty.sight import Sight, Values

__all__ = ["MOST_POINTS", "Gaps", "Holes", "Nearest"]

MOST_POINTS = 512
"""Training samples that inputs are compared with"""
_MOST_GAPS = 16  # of a coordinate
_MOST_LEVELS, _REPEATED = 6, 2.5  # values of a coordinate that has levels; times that each is there on average
_SAME = 1e-9  # of the range, within which values are one level
_GAP_LATENTS = 4  # leading ones of each channel whose gaps are looked at
_MOST_LATENTS, _ENERGY = 16, 0.99  # in which distances are measured, and their share of the energy
_SAMPLES_EACH = 8  # samples for each latent: with fewer, new samples reach further than those that the PCA has seen
_WHITENED = 4  # leading latents that count equally in one of the distances
_AROUND = 5  # gaps on either side that one is compared with
_RIM, _RIM_SHARE = 2, 10  # values on either side of a gap, at least, and which share of all: sparse ends have no holes
_LEAST_GAP = 0.01  # of the spread of a coordinate: narrower gaps are not worth a word
_BY_CHANCE = 0.01  # probability that one of all coordinates of random samples has a gap that counts
_LEAST_RATIO = 0.5  # of the width of the gaps around, likewise
_ROUNDING = 1e-6  # of the largest spread of a latent: what varies less is left out
_LEAST_FAR = 0.1  # of the usual distance to the nearest sample, likewise


def _nearest(x: Values, points: Values, excluded: Any = None) -> Values:
    """‖x − p‖ of the nearest point, (samples,), without pairs that are excluded, (samples, points); 0 if all are."""
    squares = (x**2).sum(axis=1)[:, None] - 2 * x @ points.T + (points**2).sum(axis=1)
    if excluded is not None:
        squares = np.where(excluded, math.inf, squares)
    # The distance of a pair is the same from both ends to the last digit: ties of ranks stay ties.
    found = np.linalg.norm(x - points[squares.argmin(axis=1)], axis=1)
    return np.asarray(found if excluded is None else np.where(excluded.all(axis=1), 0.0, found))


@dataclass(frozen=True)
class Gaps:
    """The widest gaps of some coordinates."""

    low: Values
    """l, (coordinates, gaps)"""
    high: Values
    """r, likewise; l where there are fewer gaps"""
    scale: Values
    """w, likewise; of levels the spread of the coordinate"""
    least: Values
    """t, (coordinates,)"""
    unit: Values
    """Spread of each coordinate, (coordinates,)"""

    @classmethod
    def of(cls, values: Values, groups: Sequence[int]) -> tuple[Gaps, Values]:
        """Find the gaps of (samples, coordinates) values, and what is measured of the samples themselves."""
        count, coordinates = values.shape
        low, high, scale = np.zeros((3, coordinates, _MOST_GAPS))
        least, measured = np.zeros(coordinates), np.zeros((count, coordinates))
        unit = np.where(values.std(axis=0) > 0, values.std(axis=0), 1.0)
        _, one_each, group = np.unique(groups, return_index=True, return_inverse=True)
        for j, column in enumerate(values.T):
            distinct, own, counts = _levels(column)
            levels = len(distinct) <= _MOST_LEVELS and count >= _REPEATED * len(distinct)
            if not levels:
                distinct, own, counts = _levels(column[one_each])
                own = own[group]
            rim = 0 if levels else max(_RIM, len(distinct) // _RIM_SHARE)
            widths = np.diff(distinct)
            if len(widths) <= 2 * rim:
                continue
            around = np.full(len(widths), unit[j]) if levels else _around(widths, 1, _LEAST_GAP * unit[j])
            ratios = widths / around
            inner = slice(max(rim - 1, 0), len(ratios) - max(rim - 1, 0))  # gaps with so many values on both sides
            ratios[: inner.start] = ratios[inner.stop :] = 0.0
            order = np.argsort(-ratios, kind="stable")[:_MOST_GAPS]
            order = order[ratios[order] > 0]
            mine = slice(0, len(order))
            low[j, mine], high[j, mine], scale[j, mine] = distinct[order], distinct[order + 1], around[order]
            if not levels:
                # Ratios r of random gaps to the mean of k others exceed r with probability (1 + r/k)^(−k).
                usual = 2 * _AROUND * ((len(widths) * coordinates / _BY_CHANCE) ** (0.5 / _AROUND) - 1)
                least[j] = 0.5 * max(usual, float(ratios[order].min()) if len(widths) > _MOST_GAPS else 0.0)
            alone = np.zeros(len(distinct))
            without = np.full(len(widths) - 1, unit[j]) if levels else _around(widths, 2, _LEAST_GAP * unit[j])
            alone[1:-1] = np.minimum(widths[:-1], widths[1:]) / without
            alone[:rim] = alone[len(alone) - rim :] = 0.0
            alone[(counts > 1) & levels] = 0.0
            measured[:, j] = np.maximum(alone[own] - least[j], 0.0)
        return cls(low, high, np.where(scale > 0, scale, 1.0), least, unit), measured

    def __call__(self, values: Values) -> Values:
        """Measure (samples, coordinates) values."""
        deepest = (self._inside(values) / self.scale).max(axis=2, initial=0.0)
        return np.asarray(np.maximum(deepest - self.least, 0.0))

    def depth(self, values: Values) -> Values:
        """How far (samples, coordinates) values are from both ends of an unusual gap, in spreads of the coordinate."""
        inside = self._inside(values)
        deep = np.where(inside / self.scale > self.least[:, None], inside, 0.0)
        return np.asarray(deep.max(axis=2, initial=0.0) / self.unit)

    def _inside(self, values: Values) -> Values:
        wide = values[:, :, None]
        return np.asarray(np.minimum(wide - self.low, self.high - wide))

    def is_levels(self, coordinate: int) -> bool:
        """Whether a coordinate has a few values."""
        there = self.high[coordinate] > self.low[coordinate]
        return bool(there.any() and (self.scale[coordinate][there] == self.unit[coordinate]).all())

    def around(self, coordinate: int, value: float) -> tuple[float, float]:
        """The ends of the gap that a value lies in, or lies closest to."""
        depth = np.minimum(value - self.low[coordinate], self.high[coordinate] - value)
        at = int(np.where(self.high[coordinate] > self.low[coordinate], depth, -math.inf).argmax())
        return float(self.low[coordinate, at]), float(self.high[coordinate, at])


def _levels(column: Values) -> tuple[Values, Any, Any]:
    """Distinct values, ascending, which of them each value is, and how often each is there."""
    order = np.argsort(column, kind="stable")
    ordered = column[order]
    new = np.concatenate([[True], np.diff(ordered) > _SAME * max(float(np.ptp(column)), np.finfo(float).tiny)])
    own = np.empty(len(column), dtype=np.int64)
    own[order] = np.cumsum(new) - 1
    return ordered[new], own, np.bincount(own)


def _around(widths: Values, own: int, least: float) -> Values:
    """Mean width of the gaps around each run of so many neighbouring gaps, without these; at least so much."""
    total = np.concatenate([[0.0], np.cumsum(widths)])
    first = np.arange(len(widths) - own + 1)
    start, stop = np.maximum(first - _AROUND, 0), np.minimum(first + own + _AROUND, len(widths))
    count = stop - start - own
    around = total[stop] - total[start] - (total[first + own] - total[first])
    return np.asarray(np.maximum(np.where(count > 0, around / np.maximum(count, 1), 0.0), least))


@dataclass(frozen=True)
class Nearest:
    """Training samples in leading latents."""

    index: tuple[int, ...]
    """The latents"""
    scales: Values
    """m, (statistics, latents)"""
    points: Values
    """(samples, latents)"""
    usual: Values
    """Median over the training samples, (statistics,)"""

    @classmethod
    def of(cls, x: Values, groups: Any, rows: Sequence[int], table: bool) -> tuple[Nearest, Values]:
        """Compare (samples, latents) x with some rows, and all samples with those rows of other groups."""
        spread = np.sqrt((x**2).mean(axis=0))
        order = np.argsort(-spread, kind="stable")
        share = np.cumsum(spread[order] ** 2) / max(float((spread**2).sum()), np.finfo(float).tiny)
        distinct = len(set(groups))
        most = min(_MOST_LATENTS, max(_WHITENED, distinct // _SAMPLES_EACH), len(order))
        # A column of a table that the model gives little weight may still have a hole.
        least = max(1, min(_WHITENED, int((spread > _ROUNDING * spread.max()).sum()))) if table else 1
        index = order[: min(most, max(least, int(np.searchsorted(share, _ENERGY)) + 1))]
        spread = np.where(spread[index] > 0, spread[index], 1.0)
        plain, white = np.ones(len(index)), 1.0 / spread
        white[_WHITENED:] = 0.0
        scales = np.stack([plain, white])
        points = x[list(rows)][:, index]
        same = np.asarray(groups)[:, None] == np.asarray(groups)[list(rows)]
        found = np.stack([_nearest(x[:, index] * scale, points * scale, same) for scale in scales], axis=1)
        return cls(tuple(int(i) for i in index), scales, points, np.median(found, axis=0)), found

    def __call__(self, x: Values) -> Values:
        """Measure inputs by their (samples, latents), (samples, statistics)."""
        x = x[:, list(self.index)]
        return np.stack([_nearest(x * scale, self.points * scale) for scale in self.scales], axis=1)


@dataclass(frozen=True)
class Holes:
    """What tells inputs in holes of the training data."""

    latents: tuple[int, ...]
    """Of those that are looked at, the ones whose gaps are looked at too, behind the columns"""
    gaps: Gaps
    nearest: Nearest

    @classmethod
    def of(
        cls, seen: Sight, groups: Sequence[int], rows: Sequence[int], *, table: bool, trajectories: bool
    ) -> tuple[Holes, Values]:
        """Find them in what is seen of all training samples, and measure these without themselves.

        `rows` are those that others are compared with. Gaps are looked at in the columns of a table, or else in leading
        latents too; samples of one trajectory follow each other closely, and gaps say nothing there.
        """
        latents = tuple(i for part in seen.parts for i in range(part.start, min(part.stop, part.start + _GAP_LATENTS)))
        covered = table or trajectories
        latents = () if covered else latents[:_MOST_LATENTS]
        values = np.concatenate([seen.columns[:, : 0 if trajectories else None], seen.x[:, list(latents)]], axis=1)
        gaps, measured = Gaps.of(values, groups)
        nearest, far = Nearest.of(seen.latents, groups, rows, table)
        return cls(latents, gaps, nearest), np.concatenate([measured, far], axis=1)

    @property
    def sizes(self) -> tuple[int, int]:
        """Statistics of either kind"""
        return len(self.gaps.least), len(self.nearest.scales)

    @property
    def least(self) -> Values:
        """The least length of the tail of each statistic"""
        levels = np.asarray([self.gaps.is_levels(j) for j in range(self.sizes[0])], dtype=bool)
        return np.concatenate([np.where(levels, _LEAST_GAP, _LEAST_RATIO), _LEAST_FAR * self.nearest.usual])

    def coordinates(self, seen: Sight) -> Values:
        """Columns and latents whose gaps are looked at, (samples, coordinates)."""
        columns = seen.columns[:, : self.sizes[0] - len(self.latents)]
        return np.concatenate([columns, seen.x[:, list(self.latents)]], axis=1)

    def __call__(self, seen: Sight) -> Values:
        """All statistics of inputs, (samples, statistics)."""
        return np.concatenate([self.gaps(self.coordinates(seen)), self.nearest(seen.latents)], axis=1)

    def gap(self, seen: Sight) -> Values:
        """How deep inputs lie in a gap between values of a column, in spreads of the column, (samples,)."""
        columns = self.sizes[0] - len(self.latents)
        return np.asarray(self.gaps.depth(self.coordinates(seen))[:, :columns].max(axis=1, initial=0.0))
