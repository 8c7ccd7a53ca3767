"""Split conformal prediction: scores, quantile, intervals.

With ensemble mean μ and standard deviation σ, and true fields u of N calibration samples on M grid points,

    scores     sᵢⱼ = |uᵢ(xⱼ) − μᵢ(xⱼ)| / max{σᵢ(xⱼ), ε}
    interval   μ(x) ± q max{σ(x), ε}

where q is the k-th smallest score, and +∞ where k exceeds their number. Three choices of k, three guarantees for
a new sample exchangeable with the calibration samples:

    pooled         k = ⌈(NM + 1)(1 − α)⌉ of all scores. The paper's rule. It treats grid points as if they were
                   independent, and covers less than 1 − α on average where N is small.
    sample         k = ⌈(N + 1)M(1 − α)⌉ of all scores: the new sample counts as M scores at +∞. On average over
                   samples, at least a share 1 − α of the grid points is covered (conformal risk control of the
                   share missed). Needs N ≥ 1/α − 1.
    simultaneous   k = ⌈(N + 1)(1 − α)⌉ of the largest score of each sample: with probability at least 1 − α the
                   whole field lies inside. Needs N ≥ 1/α − 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from pcarann.arrays import Array, place_of

__all__ = ["Band", "Calibration", "Method", "conformal_rank", "nonconformity_scores"]

Method = Literal["sample", "pooled", "simultaneous"]

# ε relative to the size of the output fields. Paper: ε = 1e-8 outright, which is large or nothing in other units.
RELATIVE_FLOOR = 1e-8


@dataclass(frozen=True)
class Band:
    """A prediction with its interval, each array shaped (samples, *grid)."""

    mean: Array
    std: Array
    lower: Array
    upper: Array


@dataclass(frozen=True)
class Calibration:
    """The scores of a calibration set, kept so that any level can be asked for."""

    pooled: Array
    """All scores, ascending, (samples · points,)"""
    largest: Array
    """The largest score of each sample, ascending, (samples,)"""
    floor: float
    """ε"""

    @classmethod
    def of(cls, scores: Array, floor: float) -> Calibration:
        """Sort (samples, points) scores."""
        xp = place_of(scores).xp
        return cls(xp.sort(xp.reshape(scores, (-1,))), xp.sort(xp.max(scores, axis=1)), floor)

    @property
    def n_samples(self) -> int:
        """The number N of calibration samples."""
        return int(self.largest.shape[0])

    def quantile(self, alpha: float, method: Method = "sample") -> float:
        """q for intervals of level 1 − α; +∞ where the calibration set is too small for α."""
        scores = self.largest if method == "simultaneous" else self.pooled
        k = conformal_rank(alpha, self.n_samples, int(self.pooled.shape[0]) // self.n_samples, method)
        return float(scores[k - 1]) if k <= scores.shape[0] else math.inf

    def half_width(self, std: Array, quantile: float) -> Array:
        """q max{σ, ε}"""
        return quantile * place_of(std).xp.clip(std, min=self.floor)


def conformal_rank(alpha: float, samples: int, points: int, method: Method = "sample") -> int:
    """Rank k of the conformal quantile among the ascending scores, in exact arithmetic.

    >>> [conformal_rank(0.1, 19, 5, method) for method in ("pooled", "sample", "simultaneous")]
    [87, 90, 18]
    """
    # α as the decimal number that was written: in binary, 1 − 0.9 is not 0.1 and ⌈10 · 0.1⌉ would be 2.
    level = 1 - Fraction(repr(float(alpha)))
    slots = {"pooled": samples * points + 1, "sample": (samples + 1) * points, "simultaneous": samples + 1}
    return math.ceil(slots[method] * level)


def samples_needed(alpha: float, points: int, method: Method) -> int:
    """Fewest calibration samples for which the quantile at α is finite."""
    ratio = 1 / Fraction(repr(float(alpha))) - 1
    return math.ceil(ratio / points) if method == "pooled" else math.ceil(ratio)


def nonconformity_scores(mean: Array, std: Array, truth: Array, floor: float) -> Array:
    """|u − μ| / max{σ, ε}, elementwise."""
    xp = place_of(mean).xp
    return xp.abs(truth - mean) / xp.clip(std, min=floor)


def check_level(alpha: float, method: str) -> None:
    """Refuse an α outside (0, 1) and a method that does not exist."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie strictly between 0 and 1, got {alpha!r}.")
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(get_args(Method))}, got {method!r}.")
