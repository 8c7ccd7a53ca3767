"""What is seen of inputs when they are compared with the training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Sight", "Values"]

Values = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class Sight:
    """What is seen of inputs, on the host."""

    x: Values
    """Latents, (samples, latent)"""
    distance: Values
    """(samples, channels), √(N xᵀ(XᵀX)⁻¹x) of each"""
    residual: Values
    """(samples, channels)"""
    columns: Values
    """(samples, columns) of a table; no columns otherwise"""
    latents: Values
    """All latents of the model, (samples, all latents)"""
    missed: Values
    """Norm of what all modes that are looked at miss of the input, (samples,)"""
    parts: list[slice]
    """The latents x of each channel"""

    def at(self, rows: list[int]) -> Sight:
        """Some of the inputs."""
        return Sight(**{name: getattr(self, name)[rows] for name in _SEEN}, parts=self.parts)

    @staticmethod
    def joined(some: Sequence[Sight]) -> Sight:
        """The inputs of all of them, one after another."""
        whole = {name: np.concatenate([getattr(one, name) for one in some]) for name in _SEEN}
        return Sight(**whole, parts=some[0].parts)


_SEEN = ("x", "distance", "residual", "columns", "latents", "missed")
