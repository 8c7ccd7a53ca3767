"""Units in which fields can be squared.

Squares of numbers beyond 1e±150 are no numbers any more. Fields that large or that small are divided by a power of two,
which rounds nothing, and predictions are multiplied by it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pcarann.backend.arrays import Array, largest

__all__ = ["Units", "unit_of"]

_SAFE = 2.0**250  # numbers between this and its inverse can be squared and summed


@dataclass(frozen=True)
class Units:
    """Powers of two by which inputs and outputs are divided."""

    inputs: float = 1.0
    outputs: float = 1.0

    @classmethod
    def of(cls, inputs: Array, outputs: Array) -> Units:
        """1 for fields of ordinary size.

        >>> import numpy as np
        >>> Units.of(np.array([[3.0]]), np.array([[2.0**600]]))
        Units(inputs=1.0, outputs=4.149515568880993e+180)
        """
        return cls(unit_of(largest(inputs)), unit_of(largest(outputs)))

    def divided(self, inputs: Array, outputs: Array) -> tuple[Array, Array]:
        """Fields as they were handed in, to those inside: the same arrays where the units are 1."""
        return (
            inputs if self.inputs == 1.0 else inputs / self.inputs,
            outputs if self.outputs == 1.0 else outputs / self.outputs,
        )


def unit_of(size: float) -> float:
    """The power of two by which fields of this largest value are divided."""
    if size == 0 or 1 / _SAFE < size < _SAFE:
        return 1.0
    return math.ldexp(1.0, max(-1021, min(1023, math.frexp(size)[1] - 1)))
