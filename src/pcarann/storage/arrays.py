"""The arrays of a file, each checked when it is asked for: shape, type, and that all of it are numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place
from pcarann.storage.formats import Tensors
from pcarann.storage.limits import Allowance

__all__ = ["Arrays", "are_numbers", "count_of", "numbers"]

_LARGEST = 1e150  # in units, which keep sound ones far below: squares of larger ones are no numbers
_MOST = 1 << 53  # counted exactly in floating point


@dataclass(frozen=True)
class Arrays:
    """The arrays of a file at the place of the model, and how much memory the model may take."""

    found: Tensors
    place: Place
    allowance: Allowance

    def __contains__(self, name: str) -> bool:
        return name in self.found

    def ends(self, name: str, *shape: int) -> Array:
        """Return ends of ranges, which may be as far away as numbers go."""
        return self.place.put(numbers(self.found, name, *shape, largest=np.inf))

    def __call__(self, name: str, *shape: int) -> Array:
        """Return an array of finite numbers, of this shape where one is given."""
        return self.place.put(numbers(self.found, name, *shape))


def numbers(tensors: Tensors, name: str, *shape: int, largest: float = _LARGEST) -> np.ndarray[Any, Any]:
    """Return an array of finite numbers, of this shape where one is given."""
    found = tensors[name]
    if shape and found.shape != shape:
        raise ValueError(f"{name} has shape {found.shape} instead of {shape}")
    if found.dtype != np.float64:
        raise ValueError(f"{name} has dtype {found.dtype}")
    if not are_numbers(found, largest):
        raise ValueError(f"{name} has numbers that are not finite, or too large to compute with")
    return found


def are_numbers(found: np.ndarray[Any, Any], largest: float = _LARGEST) -> bool:
    """Whether one can compute with all numbers of an array."""
    return not found.size or bool(found.min() >= -largest and found.max() <= largest)  # NaN is in no range


def count_of(said: Any) -> int:
    """How many of something there are, as a document says it."""
    if not isinstance(said, int) or isinstance(said, bool) or not 0 <= said <= _MOST:
        raise ValueError(f"{repr(said)[:100]} is no count")
    return said
