"""Errors of predictions, and coverage and width of intervals.

relative L²   ‖û − u‖ / ‖u‖ for each sample; the paper reports its mean
coverage      share of grid values that lie inside their interval
width         mean length of the intervals

Points that are NaN in every sample are not there, and do not count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of, to_host
from pcarann.validation import required

__all__ = ["coverage", "mean_width", "relative_l2", "variance_weighted_r2"]

_SAFE = 2.0**250  # numbers between this and its inverse can be squared and summed


def relative_l2(prediction: Array, truth: Array, *, per_sample: bool = False) -> Any:
    """Mean over samples of ‖û − u‖₂ / ‖u‖₂, or the vector of all with `per_sample`.

    A truth that is zero everywhere counts as 0 where the prediction is zero too, and as infinite otherwise.

    >>> relative_l2([[3.0, 0.0], [2.0, 2.0]], [[3.0, 4.0], [2.0, 2.0]])
    0.4
    """
    _refuse_mappings(prediction=prediction, truth=truth)
    place = place_of(prediction)
    found, wanted = _there(*_matching(place.put(prediction), place.put(truth), "prediction", "truth"))
    xp = place.xp
    missed, size = (_norms(xp.reshape(part, (found.shape[0], -1))) for part in (found - wanted, wanted))
    ratio = missed / xp.where(size > 0, size, 1.0)
    errors = xp.where((size == 0) & (missed > 0), math.inf, ratio)
    return errors if per_sample else float(xp.mean(errors))


def coverage(lower: Array, upper: Array, truth: Array) -> float:
    """Share of the values of `truth` that lie in [lower, upper], pooled over samples and grid points.

    >>> coverage([[0.0, 0.0]], [[1.0, 1.0]], [[0.5, 2.0]])
    0.5
    """
    _refuse_mappings(lower=lower, upper=upper, truth=truth)
    place = place_of(lower)
    low, high = _matching(place.put(lower), place.put(upper), "lower", "upper")
    wanted = _matching(low, place.put(truth), "lower", "truth")[1]
    (low, _), (high, wanted) = _there(low, wanted), _there(high, wanted)
    inside = (low <= wanted) & (wanted <= high)
    return float(place.xp.mean(place.xp.astype(inside, place.xp.float64)))


def mean_width(lower: Array, upper: Array) -> float:
    """Mean of upper − lower over samples and grid points.

    >>> mean_width([[0.0, 0.0]], [[1.0, 3.0]])
    2.0
    """
    _refuse_mappings(lower=lower, upper=upper)
    place = place_of(lower)
    low, high = _there(*_matching(place.put(lower), place.put(upper), "lower", "upper"))
    return float(to_host(place.xp.mean(high - low)))


def _refuse_mappings(**given: Any) -> None:
    for name, value in given.items():
        if isinstance(value, Mapping):
            one = next(iter(value), "name")
            raise ValueError(f"{name} has outputs by name: compare each by its name, such as {name}[{one!r}].")


def _norms(rows: Array) -> Array:
    """‖row‖₂ of each, also of those whose squares are no numbers any more."""
    xp = place_of(rows).xp
    most = xp.max(xp.abs(rows), axis=1)
    unit = xp.where(((most > 0) & (most < 1 / _SAFE)) | ((most > _SAFE) & xp.isfinite(most)), most, 1.0)
    return unit * xp.linalg.vector_norm(rows if bool(xp.all(unit == 1)) else rows / unit[:, None], axis=1)


def _there(found: Array, wanted: Array) -> tuple[Array, Array]:
    """Both without the points at which the second is NaN in every sample: they are not there."""
    xp = place_of(wanted).xp
    if wanted.ndim < 2 or not bool(xp.any(xp.isnan(wanted[0, ...]))):
        return found, wanted
    missing = xp.reshape(xp.all(xp.isnan(wanted), axis=0), (-1,))
    if bool(xp.all(missing)):
        return found, wanted
    there = xp.nonzero(~missing)[0]
    first, second = (xp.take(xp.reshape(part, (part.shape[0], -1)), there, axis=1) for part in (found, wanted))
    return first, second


def _matching(first: Array, second: Array, first_name: str, second_name: str) -> tuple[Array, Array]:
    if first.shape != second.shape:
        raise ValueError(
            f"{first_name} and {second_name} must have one shape, got {tuple(first.shape)} and {tuple(second.shape)}."
        )
    if not math.prod(first.shape):
        raise ValueError(f"{first_name} and {second_name} are empty: shape {tuple(first.shape)}.")
    return first, second


def variance_weighted_r2(prediction: Array, y: Any, sample_weight: Array | None) -> float:
    """R² of a prediction, all output values weighted by their variance."""
    from sklearn.metrics import r2_score

    found, truth = (np.asarray(to_host(one), dtype=np.float64) for one in (prediction, required(y)))
    flat = (found.shape[0], -1)
    weights = None if sample_weight is None else to_host(sample_weight)
    power = -math.frexp(np.abs(truth).max(initial=0.0))[1]  # beyond 1e±150 squares are no numbers, and this rounds none
    fields = (np.ldexp(truth, power).reshape(flat), np.ldexp(found, power).reshape(flat))
    return float(r2_score(*fields, sample_weight=weights, multioutput="variance_weighted"))
