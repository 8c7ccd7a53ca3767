"""What moves the inputs of a model: a slider for every number, and for the leading modes of every field.

    a = a₀ + Σₖ (sₖ − s̄ₖ) φₖ

s̄ is where sliders stand at first, a₀ the mean of the training inputs. Of numbers and columns s is the value itself. Of
a field φ are its modes, each as large as the standard deviation along it, so that s counts deviations. Stages keep no
modes of their inputs: theirs are waves of the domain, the longest as high as half the range of the training values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcarann.export.signature import Tensor

__all__ = ["Movable", "Slider", "Values"]

Values = np.ndarray[Any, np.dtype[Any]]
_SAMPLE = "sample"


@dataclass(frozen=True)
class Slider:
    """One of them."""

    label: str
    low: float
    high: float
    start: float
    """s̄"""


@dataclass(frozen=True, eq=False)
class Movable:
    """One input, and what moves it."""

    tensor: Tensor
    start: Values
    """a₀, of the shape of the tensor"""
    sliders: tuple[Slider, ...]
    modes: Values | None = None
    """φ, (sliders, *shape); None where every value of the tensor has its own slider"""
    unit: str = ""
    """What a slider counts, where that is not the value itself"""
    ends: tuple[float, float] | None = None
    """Least and largest value of the training inputs, of a field of which no modes are known"""
    margin: float = 0.0
    """How far beyond a range an input is still like the training data, in ranges"""

    def at(self, settings: Mapping[str, Any] | float) -> Values:
        """The input where these sliders, by label, stand elsewhere than at first, and begin at a "sample" if given.

        Of an input that is one number, this number will do.
        """
        known = {slider.label: slider.start for slider in self.sliders}
        if not isinstance(settings, Mapping):
            settings = self._by_label(settings)
        if strange := [name for name in settings if name not in known and name != _SAMPLE]:
            raise ValueError(f"{self.tensor.name} has the sliders {', '.join(known)}: {strange[0]!r} is none of them.")
        start = np.asarray(settings.get(_SAMPLE, self.start), dtype=np.float64)
        if start.size != self.start.size:
            raise ValueError(f"A sample of {self.tensor.name} has shape {self.tensor.shape}, found {start.shape}.")
        if self.modes is None:
            values = [settings.get(name, own) for name, own in zip(known, start.reshape(-1), strict=True)]
            return np.array(values, dtype=np.float64).reshape(self.start.shape)
        moved = np.array([settings.get(name, at) - at for name, at in known.items()])
        return np.asarray(start.reshape(self.start.shape) + np.tensordot(moved, self.modes, axes=1))

    def _by_label(self, value: Any) -> dict[str, Any]:
        if self.modes is None and len(self.sliders) == 1 and np.ndim(value) == 0:
            return {self.sliders[0].label: value}
        raise ValueError(
            f"{self.tensor.name} is set by places of its sliders by label, {{{self.sliders[0].label!r}: …}}, or by "
            f"{{{_SAMPLE!r}: an array}}, found {type(value).__name__}."
        )
