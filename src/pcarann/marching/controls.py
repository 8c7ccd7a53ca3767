"""Controls and parameters beside the state: numbers that act on a flow, constant or one row for each step.

    u(t + s) = Φ(u(t), c(t))

Row t of the controls belongs to the snapshot from which a step departs. The step model sees each number as a constant
field behind the state: inputs are (samples, 1 + p, *grid).
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, place_of
from pcarann.operator import PCARaNN
from pcarann.options import Fields, resolved
from pcarann.validation import check_fields

__all__ = ["as_channels", "beside", "checked_controls", "reading_channels"]


def checked_controls(
    value: Any, place: Place, *, samples: int, departures: int, wanted: int | None = None
) -> Array | None:
    """Return controls as (samples, departures, p), or refuse; `wanted` is the p of the fit, None before it."""
    if value is None:
        if wanted:
            raise ValueError(f"This model was fitted with {wanted} controls a step: hand them over as controls=….")
        return None
    if wanted == 0:
        raise ValueError("controls were handed over, but this model was fitted without any.")
    shape = tuple(int(n) for n in np.shape(value))
    fits = len(shape) in (2, 3) and shape[0] == samples and shape[-1] > 0
    if not fits or (len(shape) == 3 and shape[1] != departures) or (wanted is not None and shape[-1] != wanted):
        p = "p" if wanted is None else wanted
        raise ValueError(
            f"controls must be ({samples}, {p}), the same at all times, or ({samples}, {departures}, {p}), a row for "
            f"each snapshot from which a step departs, found {shape}."
        )
    numbers = place.xp.reshape(check_fields(value, "controls", place)[0], shape)
    if len(shape) == 3:
        return numbers
    return place.xp.broadcast_to(numbers[:, None, :], (samples, departures, shape[-1]))


def beside(fields: Array, numbers: Array | None) -> Array:
    """(samples, values) states with (samples, p) controls behind them as constant fields, (samples, (1 + p) values)."""
    if numbers is None:
        return fields
    xp = place_of(fields).xp
    samples, values = fields.shape
    constant = xp.broadcast_to(numbers[:, :, None], (samples, numbers.shape[1], values))
    return xp.concat([fields, xp.reshape(constant, (samples, -1))], axis=1)


def as_channels(fields: Array, numbers: Array | None) -> Array:
    """(samples, *grid) states with (samples, p) controls as further channels, (samples, 1 + p, *grid)."""
    if numbers is None:
        return fields
    samples, grid = fields.shape[0], tuple(fields.shape[1:])
    xp = place_of(fields).xp
    return xp.reshape(beside(xp.reshape(fields, (samples, -1)), numbers), (samples, 1 + numbers.shape[1], *grid))


def reading_channels(model: PCARaNN) -> PCARaNN:
    """Let a model read state and controls as channels, weighed against each other unless the user has weighed them."""
    fields = resolved("fields", model.fields)
    if isinstance(fields, Fields) and not fields.channels:
        model.set_params(fields=replace(fields, channels=True))
    if isinstance(model.relevance, Real) and model.relevance == 0:
        model.set_params(relevance="channels")
    return model
