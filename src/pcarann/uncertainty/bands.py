"""Calibration and intervals of any surrogate that gives mean and spread of its fields by blocks of samples.

    (rows, μ, σ, δ)        δ: a possible error outside the training data, None inside

A calibration belongs to one state of a surrogate. Where the readouts have changed since, it is stale, unless the
samples that changed them were scored first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, place_of, taken, to_host
from pcarann.uncertainty.adaptive import Values
from pcarann.uncertainty.conformal import RELATIVE_FLOOR, Calibration, Method, nonconformity_scores, samples_needed
from pcarann.validation import warn_user

__all__ = ["Band", "Block", "Scored", "Spread", "band", "factor_of", "gathered", "scored", "without_repeats"]

Block = tuple[slice, Array, Array, Array | None]
"""Which samples, and μ, σ, δ of them, (samples, values) each"""


@dataclass(frozen=True)
class Band:
    """A prediction with its interval, each array shaped (samples, *grid)."""

    mean: Array
    std: Array
    """Standard deviation as `predict(return_std=True)` gives it, uncalibrated: that of the members; for one or two of
    them, and for kernels, scaled by left-out residuals"""
    lower: Array
    upper: Array


@dataclass(frozen=True)
class Spread:
    """A prediction and the estimate of its error, (samples, values) each."""

    mean: Array
    """μ"""
    members: Array
    """σ: the deviation of three members or more; of one or two with left-out residuals, of a kernel its posterior
    (`pcarann.ensemble.residual_spread`)"""
    beyond: Array | None
    """δ, where inputs lie outside the training data"""

    @property
    def std(self) -> Array:
        """√(σ² + δ²), where there is a δ"""
        return self.members if self.beyond is None else place_of(self.members).xp.hypot(self.members, self.beyond)


def gathered(blocks: Iterable[Block], samples: int, values: int, place: Place) -> Spread:
    """All blocks, one after another."""
    mean, std, whole = place.empty(samples, values), place.empty(samples, values), None
    for rows, block_mean, block_std, beyond in blocks:
        mean[rows, :], std[rows, :] = block_mean, block_std
        if beyond is not None:
            whole = place.zeros(samples, values) if whole is None else whole
            whole[rows, :] = beyond
    return Spread(mean, std, whole)


@dataclass(frozen=True)
class Scored:
    """True fields beside their predictions."""

    scores: Array
    """(samples, values)"""
    floor: float
    """Of the spread"""
    errors: Values
    """‖û − u‖ / ‖u‖ of each sample, (samples,)"""
    absolute: Values
    """Root mean square of û − u relative to that of the training outputs, (samples,)"""


def scored(blocks: Iterable[Block], truth: Array, size: float) -> Scored:
    """Compare true (samples, values) fields, which have about this size, with their predictions."""
    floor = max(RELATIVE_FLOOR * size, np.finfo(float).tiny)
    place = place_of(truth)
    norm = place.xp.linalg.vector_norm
    scores, errors = place.empty(*truth.shape), place.empty(int(truth.shape[0]))
    absolute, least = place.empty(int(truth.shape[0])), floor * truth.shape[1] ** 0.5
    for rows, mean, std, beyond in blocks:
        scores[rows, :] = nonconformity_scores(mean, std, truth[rows, :], floor, beyond)
        with np.errstate(over="ignore", invalid="ignore"):
            missed = norm(truth[rows, :] - mean, axis=1)
            errors[rows] = missed / place.xp.clip(norm(truth[rows, :], axis=1), min=least)
            absolute[rows] = missed * (RELATIVE_FLOOR / least)
    return Scored(scores, floor, to_host(errors), to_host(absolute))


def without_repeats(found: Any, labels: Values) -> Any:
    """Scores and errors of samples, each group with the same label as one: its largest scores, its mean errors.

    A repeat of a sample says nothing new. The largest score of near-repeats keeps the guarantee for a new sample that
    is exchangeable with the groups.
    """
    first, counts = np.unique(labels, return_index=True, return_counts=True)[1:]
    if (counts == 1).all():
        return found
    means = {name: np.bincount(labels, getattr(found, name)) / counts for name in ("errors", "absolute")}
    if found.scores is None:  # they were counted without repeats
        return replace(found, **means)
    scores = taken(found.scores, first.tolist())
    for i in np.flatnonzero(counts > 1):
        scores[int(i), :] = place_of(scores).xp.max(taken(found.scores, np.flatnonzero(labels == i).tolist()), axis=0)
    return replace(found, scores=scores, **means)


def band(calibration: Calibration, found: Spread, alpha: float, method: Method) -> Band:
    """The interval of level 1 − α around a prediction; infinite, with a warning, where samples are too few for α."""
    factor = factor_of(calibration, int(found.mean.shape[1]), alpha, method)
    half = calibration.half_width(found.members, factor, found.beyond)
    return Band(found.mean, found.std, found.mean - half, found.mean + half)


def factor_of(calibration: Calibration, values: int, alpha: float, method: Method) -> Any:
    """q of so many values; where it is infinite, a warning that says how many samples are needed."""
    factor = calibration.factor(alpha, method, values)
    if np.isinf(to_host(factor)).any():
        needed, few = samples_needed(alpha, calibration.points, method), calibration.n_samples
        warn_user(
            f"{few} calibration {'sample is' if few == 1 else 'samples are'} too few for alpha={alpha} with "
            f"method={method!r}: {needed} are needed. Intervals are infinite."
        )
    return factor
