"""The spread of roll-outs that trajectories held out show, for steps of one or two members and of kernels.

    σ²(t, x) = Σₖ (ûₖ − μ)² / (K − 1) + e²(t) p(x)

e(t) is the root mean square error at step t of roll-outs of trajectories that were held out, and p the share of each
value in it, 1 on average. Beyond the steps that are known, e keeps growing as over the last half of them, and never
shrinks; it ends at what roll-outs are held at. Where no trajectory was held out, the errors of single steps are added
up as if all had one sign, e(t) = t e(1), with e(1) and p those of samples left out of the fit of the step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of, to_host
from pcarann.ensemble.residual_spread import FEW_MEMBERS, ResidualSpread
from pcarann.storage.arrays import numbers
from pcarann.storage.formats import Document, Tensors

__all__ = ["RolloutSpread", "needs_spread"]

_PROFILE = "marching.profile"


def needs_spread(state: Any) -> bool:
    """Whether the members of a step show too little of their error."""
    return getattr(state, "residual_spread", None) is not None or state.members <= FEW_MEMBERS


@dataclass(frozen=True)
class RolloutSpread:
    """e and p, in the units inside."""

    sizes: tuple[float, ...]
    """e of the steps that are known, from the first on"""
    profile: Array
    """p, (values,)"""
    most: float = math.inf
    """That e never exceeds"""

    @classmethod
    def of(cls, missed: Array) -> RolloutSpread:
        """From errors of roll-outs, (samples, window, values)."""
        xp, samples = place_of(missed).xp, int(missed.shape[0])
        squares = xp.mean(missed**2, axis=0)
        sizes = to_host(xp.mean(squares, axis=1)) * (1 + 1 / samples)
        return cls(tuple(np.sqrt(sizes).tolist()), _shares(xp.mean(squares, axis=0)))

    @classmethod
    def of_step(cls, missed: ResidualSpread) -> RolloutSpread:
        """From residuals of single steps."""
        variance = missed.variance
        size = float(place_of(variance).xp.mean(variance)) ** 0.5
        return cls((size,), _shares(variance))

    def variance(self, window: int) -> Array:
        """e² p over the steps of a window, (window, values)."""
        place = place_of(self.profile)
        return place.put(np.asarray(self._until(window)) ** 2)[:, None] * self.profile

    def _until(self, window: int) -> list[float]:
        """e of the first steps of a roll-out: one known step adds up, several keep growing."""
        count, last = len(self.sizes), self.sizes[-1]
        if count == 1:
            return [min(last * (t + 1), self.most) for t in range(window)]
        half = count // 2
        before = self.sizes[-1 - half]
        growth = max(0.0, math.log(last / before) / half) if before > 0 and last > 0 else 0.0
        later = [last * math.exp(min(growth * (t + 1 - count), 300.0)) for t in range(count, window)]
        return [min(size, self.most) for size in (*self.sizes[:window], *later)]

    def on(self, state: Any) -> RolloutSpread:
        """The same on the grid of another state of the step, with p as its single steps have it."""
        missed: ResidualSpread | None = getattr(state, "residual_spread", None)
        values = math.prod(state.output_grid)
        shares = state.place.zeros(values) + 1.0 if missed is None else _shares(missed.variance)
        return replace(self, profile=shares)

    def described(self, tensors: Tensors) -> Document:
        """Add the profile; return the rest."""
        tensors[_PROFILE] = to_host(self.profile)
        return {"sizes": self.sizes, "most": None if math.isinf(self.most) else self.most}

    @classmethod
    def rebuilt(cls, described: Document, state: Any, tensors: Tensors) -> RolloutSpread:
        """What a document describes, for a flow of this step."""
        profile = numbers(tensors, _PROFILE, math.prod(state.output_grid))
        sizes = tuple(float(size) for size in described["sizes"])
        most = math.inf if described["most"] is None else float(described["most"])
        if not sizes or not all(0 <= size < 1e150 for size in sizes) or not (profile >= 0).all() or not most >= 0:
            raise ValueError("its spread of roll-outs has sizes that are negative or not finite")
        return cls(sizes, state.place.put(profile), most)


def _shares(variance: Array) -> Array:
    """Of each value in a variance, 1 on average."""
    mean = float(place_of(variance).xp.mean(variance))
    return variance / mean if mean > 0 else variance + 1.0
