"""A drift alarm: a sequential test of whether errors are still those of the calibration.

The error of each sample is ranked among those of the calibration and of all samples since,

    p = (1 + #{earlier errors ≥ this one}) / (1 + #earlier),

before the model learns it. As long as samples are exchangeable with those of the calibration, these p-values are
independent and no smaller than uniform ones, and a bet b(p) = ε p^(ε−1) on small ones gains nothing on average. The
Shiryaev–Roberts sum of such bets, the mean over a few ε of

    R ← (1 + R) b(p),

then has mean t or less after t samples: the alarm R ≥ 10⁴ is false with probability at most n / 10⁴ within n samples,
and false ones are 10⁴ samples or more apart on average. That errors become smaller, as they do while a model learns,
does not raise it. Inputs alone do not matter here: a drift is what the model predicts wrongly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = ["RUN", "Alarm", "DriftTest"]

Values = np.ndarray[Any, Any]

RUN = 10_000
"""Samples between false alarms, at least, on average"""
_POWERS = np.array([0.25, 0.5, 0.75])  # ε: for errors far beyond, and for those a little larger
_MOST = 4096  # errors that are ranked


@dataclass(frozen=True)
class Alarm:
    """When errors left those of the calibration, counted in samples observed since then."""

    began: int
    """The sample with which the evidence begins"""
    raised: int
    ended: int | None = None
    """Where errors had come back; None while they have not"""


@dataclass(frozen=True)
class DriftTest:
    """The test along a stream."""

    reference: Values
    """Errors of the calibration, (samples,)"""
    ranked: Values
    """Those and the ones since, the last of them the newest"""
    sums: Values
    """R of each ε"""
    low: int = 0
    """The last sample after which bets had won nothing"""
    won: float = 1.0
    """Since then, by the middle one"""

    @classmethod
    def start(cls, errors: Values, count: int = 0) -> DriftTest:
        """Begin after so many samples with the errors of a calibration."""
        errors = np.nan_to_num(errors, nan=np.inf, posinf=np.inf)
        return cls(errors, errors, np.zeros(len(_POWERS)), count)

    def observed(self, error: float, count: int) -> DriftTest:
        """After the error of the sample that has this count."""
        error = error if np.isfinite(error) else np.inf
        p = (1 + int((self.ranked >= error).sum())) / (1 + len(self.ranked))
        bets = _POWERS * p ** (_POWERS - 1)
        ranked, won = np.append(self.ranked, error)[-_MOST:], self.won * float(bets[1])
        low = count if won <= 1 else self.low
        return replace(self, ranked=ranked, sums=(1 + self.sums) * bets, low=low, won=max(won, 1.0))

    @property
    def raised(self) -> bool:
        """Whether the evidence is enough"""
        return bool(self.sums.mean() >= RUN)
