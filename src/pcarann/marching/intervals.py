"""Intervals of roll-outs, calibrated at each step.

The members' spread grows with the flow, but not quite as the error does: one quantile for the whole window would cover
early steps too seldom and late ones too often. Here each step has the quantile of its own scores, so that the share of
grid points covered is at least 1 − α at every step; `simultaneous` intervals hold whole windows, with one quantile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from pcarann.backend.arrays import Array, Place, place_of, to_host
from pcarann.storage.formats import Tensors
from pcarann.storage.streams import described_followed, rebuilt_followed
from pcarann.uncertainty.adaptive import Values
from pcarann.uncertainty.conformal import Calibration, Method

__all__ = ["WindowCalibration"]

_STORED = ("scores", "largest")


@dataclass(frozen=True)
class WindowCalibration(Calibration):
    """The scores of whole windows, and those of each step."""

    by_step: tuple[Calibration, ...] = ()

    @classmethod
    def by_steps(cls, scores: Array, floor: float, steps: int) -> WindowCalibration:
        """Keep what quantiles need of (samples, steps × values) scores."""
        values = int(scores.shape[1]) // steps
        parts = (scores[:, t * values : (t + 1) * values] for t in range(steps))
        by_step = [Calibration.of(part, floor, local=False) for part in parts]
        return cls.joined(Calibration.of(scores, floor), by_step)

    @classmethod
    def joined(cls, whole: Calibration, by_step: Sequence[Calibration]) -> WindowCalibration:
        """A calibration of whole windows with those of their steps."""
        kept = (whole.ranks, whole.scores, whole.points, whole.largest, whole.floor)
        return cls(*kept, tuple(by_step), followed=whole.followed, local=whole.local)

    def factor(self, alpha: float, method: Method, values: int) -> Any:
        """q of each of so many values, the first of the window; one for all where whole windows are to be held."""
        if method == "simultaneous":
            return self.quantile(alpha, method)
        if method == "local":
            return self.local_factor(alpha, self.points)[:values]
        each = self.points // len(self.by_step)
        found = [one.quantile(alpha, method) for one in self.by_step[: values // each]]
        return place_of(self.scores).put(np.repeat(found, each))

    def changes(self, levels: Values) -> Values:
        """By how much the factors of each step have changed along a stream, (levels, points)."""
        found = [one.changes(levels)[:, 0] for one in self.by_step]
        return np.repeat(found, self.points // len(self.by_step), axis=0).T

    def observed(self, scores: Array, sized: Values | None = None) -> tuple[Self, Values]:
        """After these (samples, steps × values) scores of windows; and what levels missed, on average over steps."""
        each = int(scores.shape[1]) // len(self.by_step)
        local, shares, by_step = self.missed_locally(scores, [each] * len(self.by_step)), [], []
        for t, one in enumerate(self.by_step):
            part = scores[:, t * each : (t + 1) * each]
            followed, missed = one.followed_by(part, sized, None if local is None else local[t])
            by_step.append(replace(one, followed=followed))
            shares.append(missed)
        whole, _ = self.followed_by(scores, sized)
        return replace(self, followed=whole, by_step=tuple(by_step)), np.mean(shares, axis=0)

    def described(self, tensors: Tensors) -> None:
        """Add the scores of the steps to the arrays of a file."""
        tensors["marching.steps.ranks"] = self.by_step[0].ranks
        for t, one in enumerate(self.by_step):
            described_followed(one.followed, f"marching.steps.{t}.followed", tensors)
        for name in _STORED:
            tensors[f"marching.steps.{name}"] = np.stack([to_host(getattr(one, name)) for one in self.by_step])

    @classmethod
    def rebuilt(cls, whole: Calibration, steps: int, tensors: Tensors, place: Place) -> Calibration:
        """The calibration of whole windows with those of their steps; without them where a file holds none."""
        if "marching.steps.ranks" not in tensors:
            return whole
        ranks = tensors["marching.steps.ranks"]
        scores, largest = (tensors[f"marching.steps.{name}"] for name in _STORED)
        points, sound = (
            whole.points // steps,
            ranks.ndim == 1 and ranks.dtype.kind == "i" and (np.diff(ranks) > 0).all(),
        )
        sound = sound and scores.shape == (steps, ranks.size) and largest.shape == (steps, whole.n_samples)
        sound = sound and all(some.dtype == np.float64 and (some >= 0).all() for some in (scores, largest))
        if not sound or ranks[-1] != whole.n_samples * points:
            raise ValueError("its calibration of the steps does not fit that of the window")
        parts = [
            Calibration(ranks.astype(np.int64), place.put(scores[t]), points, place.put(largest[t]), whole.floor)
            for t in range(steps)
        ]
        parts = [
            replace(one, followed=rebuilt_followed(f"marching.steps.{t}.followed", tensors))
            for t, one in enumerate(parts)
        ]
        return cls.joined(whole, parts)
