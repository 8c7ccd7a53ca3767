"""Where roll-outs leave the training data: watched along the way, said once at the end.

A step model that can look compares the input of every step with its training inputs; what its prediction may be wrong
by there adds up from step to step. Of others the largest |value| and the norm of each snapshot are compared with those
of the training snapshots. What is no number any more is said in any case. Values are held far outside, at three times
the largest one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of, to_host
from pcarann.marching.step import StepState, looks
from pcarann.uncertainty.look import Look

__all__ = ["Reach", "Watch", "finite_rows"]

LIMIT = 1.5
"""Times the training snapshots, up to which a state counts as inside their range"""

HELD = 3.0
"""Times their largest |value|, beyond which roll-outs do not go: what has left the range must not overflow"""


@dataclass(frozen=True)
class Reach:
    """How far the training snapshots reach, in the units inside."""

    largest: float
    """|value|"""
    norm: float
    """Of a whole snapshot"""
    phases: int = 1
    """Inputs of one trajectory"""

    @classmethod
    def of(cls, fields: Array, phases: int) -> Reach:
        """Of (snapshots, values)."""
        size, norm = _sizes(fields)
        return cls(float(size.max()), float(norm.max()), phases)

    def joined(self, other: Reach) -> Reach:
        """Of both."""
        return Reach(max(self.largest, other.largest), max(self.norm, other.norm), self.phases)

    def exceeded(self, fields: Array) -> Any:
        """By what factor each of (samples, values) lies beyond it, the worse of the two, (samples,), on the host."""
        size, norm = _sizes(fields)
        tiny = np.finfo(float).tiny
        return np.maximum(size / max(self.largest, tiny), norm / max(self.norm, tiny))


def _sizes(fields: Array) -> tuple[Any, Any]:
    xp = place_of(fields).xp
    return to_host(xp.max(xp.abs(fields), axis=1)), to_host(xp.linalg.vector_norm(fields, axis=1))


def finite_rows(fields: Array) -> Any:
    """Which of (samples, values) are finite everywhere, (samples,), on the host."""
    return to_host(place_of(fields).xp.all(place_of(fields).xp.isfinite(fields), axis=1))


class Watch:
    """Looks along roll-outs, block by block of samples."""

    def __init__(self, model: StepState, step: int, window: int, reach: Reach | None):
        self._model: Any = model
        self._step, self._window, self._reach = step, window, reach
        self._samples = 0
        self._looks: list[list[Look]] = [[] for _ in range(window)]
        self._lost, self._left, self._worst = [0] * window, [0] * window, [0.0] * window

    def block(self, inputs: Iterable[Array], mean: Array) -> Array | None:
        """δ along mean trajectories (samples, window, values), growing from step to step; None inside the data.

        `inputs` are those of each step, (samples, values) in the user's units.
        """
        place = place_of(mean)
        xp = place.xp
        self._samples += int(mean.shape[0])
        growing: list[Array | None] = []
        for t, fields in enumerate(inputs):
            beyond = self._seen(t, fields, mean[:, t, :])
            before = growing[t - self._step] if t >= self._step else None
            growing.append(beyond if before is None else before if beyond is None else before + beyond)
            self._measured(t, mean[:, t, :])
        if all(one is None for one in growing):
            return None
        nothing = place.zeros(*mean[:, 0, :].shape)
        return xp.stack([nothing if one is None else one for one in growing], axis=1)

    def said(self) -> str | None:
        """What to say of the roll-outs that were watched: the first step where they leave the data, or are lost."""
        found = next((text for t in range(self._window) if (text := self._left_at(t))), None)
        t = next((t for t in range(self._window) if self._lost[t]), None)
        if t is None:
            return found
        lost = (
            f"The roll-out is not finite any more at step {t + 1} of {self._window} for {self._lost[t]} of "
            f"{self._samples} samples."
        )
        return lost if found is None else f"{found} {lost}"

    def _left_at(self, t: int) -> str | None:
        where = f"At step {t + 1} of {self._window} of the roll-out"
        if self._looks[t]:
            text = self._model.warning(Look.joined(self._looks[t]))
            return None if text is None else f"{where}: {text}"
        if not self._left[t]:
            return None
        return (
            f"{where}, {self._left[t]} of {self._samples} samples lie outside the range of the training data, at most "
            f"{self._worst[t]:.3g} times as large as its largest snapshot. No value goes beyond {HELD:g} times the "
            "largest one of the training or of the start."
        )

    def _seen(self, t: int, fields: Array, mean: Array) -> Array | None:
        """δ of one step, (samples, values); infinite where there is nothing to look at any more."""
        if not looks(self._model):
            return None
        place = place_of(mean)
        alive = finite_rows(fields)
        mask = place.xp.asarray(alive, device=place.device)[:, None]
        safe = fields if alive.all() else place.xp.where(mask, fields, 0.0)
        look: Look = self._model.look(self._model.inputs(safe))
        if look.p is None:
            return None
        look = replace(look, p=np.where(alive, look.p, 1.0))
        self._looks[t].append(Look.joined([replace(look, p=self._in_phase(look.p))]))
        beyond: Array | None = self._model.possible_error(look, mean)
        if alive.all():
            return beyond
        return place.xp.where(mask, place.zeros(*mean.shape) if beyond is None else beyond, math.inf)

    def _in_phase(self, p: Any) -> Any:
        """p-values of inputs that all stand at one time of their trajectories.

        The training inputs stand at all T times, and at one of them, such as the first of a decaying flow, may lie
        farther out than at the others: P(p ≤ α at this time) ≤ T P(p ≤ α).
        """
        return np.minimum(1.0, p if self._reach is None else p * self._reach.phases)

    def _measured(self, t: int, mean: Array) -> None:
        """Count the samples that are lost, and those that leave the range where that alone is watched."""
        alive = finite_rows(mean)
        self._lost[t] += int((~alive).sum())
        if self._reach is None or self._looks[t] or not alive.any():
            return
        factors = self._reach.exceeded(mean)[alive]
        self._left[t] += int((factors > LIMIT).sum())
        self._worst[t] = max(self._worst[t], float(factors.max()))
