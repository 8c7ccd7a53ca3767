"""How good a step is when it is rolled out, on trajectories that it has not seen.

    error   ‖û − u‖ / ‖u‖ over the whole window, the 90 % quantile over trajectories: one that is unlike all others must
            not decide. The mean, where any is wrong altogether (1 or more): no choice may make a roll-out run away.
            Infinite where û is no number.

A step that is good alone may grow an error at every turn: least squares knows nothing of where its own errors lead it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, place_of, to_host
from pcarann.marching.controls import as_channels
from pcarann.marching.flow import Departure, Flow
from pcarann.marching.step import StepState
from pcarann.marching.trajectories import Trajectories
from pcarann.marching.watch import HELD

__all__ = ["Judge"]

_SMALLEST = 0.05  # of the mean size of trajectories


@dataclass(frozen=True)
class Judge:
    """Trajectories that are held out."""

    held: Trajectories

    def __call__(self, step: Callable[[Array], Array]) -> float:
        """The error of a function from (samples, *grid) states, with controls as channels, to those a step later."""
        held = self.held
        place, samples = place_of(held.fields), len(held)
        window = [held.fields[:, t, ...] for t in range(held.given - held.step, held.given)]
        with np.errstate(all="ignore"):
            for t in range(held.window):
                row = held.given - held.step + t
                numbers = None if held.controls is None else held.controls[:, row, :]
                window.append(place.put(step(as_channels(window[t], numbers))))
            found = [place.xp.reshape(one, (samples, -1)) for one in window[held.step :]]
            return self.error(place.xp.stack(found, axis=1))

    def mean(self, state: StepState) -> Array:
        """The mean roll-out of a state, (samples, window, values), in the user's units, where the trajectories are."""
        flow, departure = Flow(state, self.held.step, self.held.window), self._departure(state.place)
        place = place_of(self.held.fields)
        mean = place.empty(*self._truth().shape)
        for rows in flow.parts(len(departure)):
            mean[rows, :, :] = place.put(state.handed(flow.mean_and_std(departure.part(rows))[0]))
        return mean

    def missed(self, found: Array, state: StepState) -> Array:
        """u − û of (samples, window, values) roll-outs, in units inside, cut where values of a roll-out are held."""
        truth = self._truth()
        xp = place_of(truth).xp
        most = (1 + HELD) * float(xp.max(xp.abs(truth)))
        with np.errstate(all="ignore"):
            missed = found - truth
        missed = xp.clip(xp.where(xp.isnan(missed), most, missed), -most, most)
        return state.outputs(state.place.put(missed))

    def error(self, found: Array) -> float:
        """The error of (samples, window, values) roll-outs."""
        return _judged(_relative(found, self._truth(), over=(1, 2)))

    def by_step(self, found: Array) -> Any:
        """Relative errors of (samples, window, values) roll-outs at each step, (samples, window), on the host."""
        return _relative(found, self._truth(), over=(2,))

    def squares(self, found: Array, mean: Array) -> tuple[Any, Any, Any]:
        """Squared norms over the window of the errors, of the truth, and of the truth less a mean field (values,)."""
        truth = self._truth()
        xp = place_of(truth).xp
        unit = float(xp.max(xp.abs(truth))) or 1.0
        with np.errstate(all="ignore"):
            parts = [part / unit for part in (found - truth, truth, truth - mean)]
            missed, sizes, centred = (to_host(xp.sum(part**2, axis=(1, 2))) for part in parts)
        return np.where(np.isfinite(missed), missed, math.inf), sizes, centred

    def persistence(self) -> Any:
        """Errors at each step of the last snapshot given, taken for all that follow."""
        last = self._flat()[:, self.held.given - 1, :][:, None, :]
        return self.by_step(place_of(last).xp.broadcast_to(last, self._truth().shape))

    def constant(self, field: Array) -> Any:
        """Errors at each step of one field (values,), taken for all."""
        return self.by_step(place_of(field).xp.broadcast_to(field, self._truth().shape))

    def _departure(self, place: Place) -> Departure:
        held = self.held
        fields = self._flat()
        given = [place.put(fields[:, t, :]) for t in range(held.given - held.step, held.given)]
        acting = None if held.controls is None else place.put(held.controls[:, held.given - held.step :, :])
        return Departure(given, acting)

    def _flat(self) -> Array:
        fields = self.held.fields
        return place_of(fields).xp.reshape(fields, (fields.shape[0], fields.shape[1], -1))

    def _truth(self) -> Array:
        return self._flat()[:, self.held.given :, :]


def _relative(found: Array, truth: Array, over: tuple[int, ...]) -> Any:
    """‖û − u‖ / ‖u‖ over some axes, on the host; infinite where û is no number."""
    xp = place_of(truth).xp
    unit = float(xp.max(xp.abs(truth))) or 1.0  # squares of very large or small numbers are none any more
    with np.errstate(all="ignore"):
        found, truth = found / unit, truth / unit
        missed = to_host(xp.sqrt(xp.sum((found - truth) ** 2, axis=over)))
        size = to_host(xp.sqrt(xp.sum(truth**2, axis=over)))
        least = np.maximum(_SMALLEST * size.mean(axis=0, keepdims=True), np.finfo(float).tiny)
        errors = missed / np.maximum(size, least)  # one trajectory at rest must not outweigh all others
    return np.where(np.isfinite(errors), errors, math.inf)


def _judged(errors: Any) -> float:
    if not np.isfinite(errors).all():
        return math.inf
    return float(errors.mean() if errors.max() >= 1 else np.quantile(errors, 0.9))
