"""Conformal intervals of k quantities, each with the quantile of its own scores.

A quantity is one number a sample, so that all methods of `pcarann.uncertainty.conformal` but the paper's are the same:
with probability at least 1 − α the interval holds the true value of a new sample like those of the calibration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pcarann.backend.arrays import Array, largest, place_of, taken
from pcarann.uncertainty.adaptive import Values
from pcarann.uncertainty.bands import Band, Spread
from pcarann.uncertainty.conformal import RELATIVE_FLOOR, Calibration, nonconformity_scores, samples_needed
from pcarann.validation import warn_user

__all__ = ["Calibrations"]


@dataclass(frozen=True)
class Calibrations:
    """Those of each quantity."""

    columns: tuple[Calibration, ...]

    @classmethod
    def of(cls, found: Spread, truth: Array, labels: Values) -> Calibrations:
        """Score true values against predictions, (samples, k) each; samples with the same label count once."""
        columns = []
        first = np.unique(labels, return_index=True)[1].tolist()
        xp = place_of(truth).xp
        for j in range(int(truth.shape[1])):
            here = slice(j, j + 1)
            floor = max(RELATIVE_FLOOR * largest(truth[:, here]), np.finfo(float).tiny)
            beyond = None if found.beyond is None else found.beyond[:, here]
            parts = (found.mean[:, here], found.members[:, here], truth[:, here])
            scores = nonconformity_scores(*parts, floor, beyond)
            if len(first) < len(labels):
                groups = (np.flatnonzero(labels == label).tolist() for label in range(len(first)))
                scores = xp.stack([xp.max(taken(scores, group), axis=0) for group in groups])
            columns.append(Calibration.of(scores, floor, local=False))
        return cls(tuple(columns))

    def band(self, found: Spread, alpha: float) -> Band:
        """Intervals of level 1 − α around (samples, k) predictions; infinite, with a warning, where samples are few."""
        xp = place_of(found.mean).xp
        halves = []
        for j, calibration in enumerate(self.columns):
            here = slice(j, j + 1)
            beyond = None if found.beyond is None else found.beyond[:, here]
            halves.append(calibration.half_width(found.members[:, here], calibration.quantile(alpha), beyond))
        first = self.columns[0]
        if math.isinf(first.quantile(alpha)):
            warn_user(
                f"{first.n_samples} calibration samples are too few for alpha={alpha}: "
                f"{samples_needed(alpha, 1, 'sample')} are needed. Intervals are infinite."
            )
        half = xp.concat(halves, axis=1)
        return Band(found.mean, found.std, found.mean - half, found.mean + half)
