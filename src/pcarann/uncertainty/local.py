"""Scores of a calibration at every point by itself, as far as quantiles need them.

One factor q for a whole field covers 1 − α of its points on average, and single points much more or less: where the
members agree and are wrong together, seldom. With a factor for each point,

    q(x) = the ⌈(N + 1)(1 − α)⌉-th smallest of the N scores at x,

a new sample is covered at every point with a probability of at least 1 − α. Points have N scores each instead of all of
them together, so that these factors, and the widths, scatter more than that of the whole field.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of, taken, to_host

__all__ = ["Local", "kept_locally"]

_TAIL, _LEVELS = 16, 33  # ranks that are kept of every point: the largest, and evenly spaced ones


@dataclass(frozen=True)
class Local:
    """The scores of every point."""

    ranks: np.ndarray[tuple[int], np.dtype[np.int64]]
    """Which of the N scores of a point in ascending order are kept, from 1 on, (kept,)"""
    scores: Array
    """Those, (kept, points), rounded up to single precision: files hold them so"""

    @classmethod
    def of(cls, scores: Array) -> Local:
        """Keep what quantiles need of (samples, points) scores."""
        ranks, place = kept_locally(int(scores.shape[0])), place_of(scores)
        kept = to_host(taken(place.xp.sort(scores, axis=0), (ranks - 1).tolist()))
        return cls(ranks, place.put(_rounded_up(kept).astype(np.float64)))

    def quantile(self, rank: int) -> Array:
        """The score of this rank at every point, (points,); between ranks that were kept, that of the higher one."""
        at = int(np.searchsorted(self.ranks, rank))
        if at < len(self.ranks):
            return self.scores[at, :]
        return place_of(self.scores).xp.full_like(self.scores[0, :], math.inf)


def _rounded_up(scores: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[np.float32]]:
    with np.errstate(over="ignore"):
        found = scores.astype(np.float32)
    return np.where(found < scores, np.nextafter(found, np.float32(np.inf)), found)


def kept_locally(samples: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Ranks that are kept: all of few.

    >>> len(kept_locally(40)), len(kept_locally(300))
    (40, 47)
    """
    if samples <= _TAIL + _LEVELS:
        return np.arange(1, samples + 1)
    spaced = np.linspace(1, samples, _LEVELS).round().astype(np.int64)
    return np.union1d(spaced, np.arange(samples + 1 - _TAIL, samples + 1))
