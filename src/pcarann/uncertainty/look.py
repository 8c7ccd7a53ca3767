"""Inputs as they are seen beside the training data: encoded once, for predictions and for what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array
from pcarann.uncertainty.sight import Values

__all__ = ["Look"]


@dataclass(frozen=True)
class Look:
    """Encoded inputs beside the training data."""

    inputs: Array
    """(samples, values), in the units inside"""
    orbit: list[Array]
    """Their latents, moved by each element that predictions are averaged over"""
    p: Values | None
    """p-value of each; None where the file of the model does not say"""
    worst: Any
    """The statistic that is deepest in its tail"""
    residual: Values
    """Norm of what the modes miss of each"""
    gap: Values
    """How deep each lies in a gap between training values of a column, in spreads of the column; 0 if it is not new"""
    kept: int | None = None
    """The one of many inputs that `inputs` and `orbit` still hold; None where they hold all"""

    @classmethod
    def joined(cls, looks: Sequence[Look]) -> Look:
        """All of these as one, of which the farthest input alone is kept."""
        least = [float(look.p.min()) for look in looks if look.p is not None]
        at = least.index(min(least))
        own = int(looks[at].p.argmin())  # type: ignore[union-attr]
        row = slice(own, own + 1) if looks[at].kept is None else slice(0, 1)
        before = sum(len(look.residual) for look in looks[:at])
        names = ("p", "worst", "residual", "gap")
        of_all: dict[str, Any] = {name: np.concatenate([getattr(look, name) for look in looks]) for name in names}
        orbit = [x[row, :] for x in looks[at].orbit]
        return cls(looks[at].inputs[row, :], orbit, kept=before + own, **of_all)
