"""A surrogate as a map of vectors: what tools of uncertainty quantification call.

    (y₁, …, yₙ) = F(x₁, …, xₘ)

Each input of a model is a vector xᵢ and each output a vector yₒ, in the order of the model's signature and with the
values of a field in C order; points of a grid that have no value in any sample are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcarann.containers.parts import Part
from pcarann.containers.scaling import kept_points
from pcarann.export.signature import Signature, Tensor

__all__ = ["Vector", "VectorMap"]

Values = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Vector:
    """One input or output."""

    name: str
    """Of its tensor"""
    shape: tuple[int, ...]
    kept: Values | None = None
    """Which values of a field are in it; None for all"""

    @property
    def size(self) -> int:
        """How long it is"""
        return math.prod(self.shape) if self.kept is None else int(self.kept.size)

    def field(self, values: Values) -> Values:
        """The vector as one sample, (1, *shape), 0 where the grid has no values."""
        found = values
        if self.kept is not None:
            found = np.zeros(math.prod(self.shape))
            found[self.kept] = values
        return found.reshape(1, *self.shape)

    def values(self, field: Values) -> Values:
        """The vector of one sample, (1, *shape)."""
        found: Values = np.asarray(field, dtype=np.float64).reshape(-1)
        return found if self.kept is None else found[self.kept]


@dataclass(frozen=True, eq=False)
class VectorMap:
    """All of them."""

    inputs: tuple[Vector, ...]
    outputs: tuple[Vector, ...]

    @classmethod
    def of(cls, model: Any, steps: int | None = None) -> VectorMap:
        """Of a fitted surrogate; of a flow over so many steps."""
        signature, packing = Signature.of(model, steps), model.fitted_.packing
        if packing is None:
            return cls(_vectors(signature.inputs), _vectors(signature.outputs))
        inputs, outputs = packing.inputs.parts, packing.outputs.parts
        return cls(_vectors(signature.inputs, inputs), _vectors(signature.outputs, outputs))


def _vectors(tensors: Sequence[Tensor], parts: Sequence[Part] | None = None) -> tuple[Vector, ...]:
    if parts is None:
        return tuple(Vector(one.name, one.shape) for one in tensors)
    kept = [None if part.holes is None else kept_points(part) for part in parts]
    return tuple(Vector(one.name, one.shape, some) for one, some in zip(tensors, kept, strict=True))
