"""A surrogate as a map of vectors, with its derivatives: what tools of uncertainty quantification call.

    (y₁, …, yₙ) = F(x₁, …, xₘ)

Each input of a model is a vector xᵢ and each output a vector yₒ, in the order of the model's signature and with the
values of a field in C order; points of a grid that have no value in any sample are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.containers.parts import Part
from pcarann.containers.scaling import kept_points
from pcarann.export.signature import Signature, Tensor

__all__ = ["Slot", "VectorMap", "VectorSide"]

Values = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Slot:
    """One input or output as a vector."""

    tensor: Tensor
    kept: Values | None = None
    """Which values of a field are in it; None for all"""

    @property
    def size(self) -> int:
        """Of the vector"""
        return self.tensor.size if self.kept is None else int(self.kept.size)

    def field(self, vector: Values) -> Values:
        """The vector as one sample, (1, *shape), 0 where the grid has no values."""
        found = vector
        if self.kept is not None:
            found = np.zeros(self.tensor.size)
            found[self.kept] = vector
        return found.reshape(1, *self.tensor.shape)

    def vector(self, field: Any) -> Values:
        """The vector of one sample."""
        found: Values = np.asarray(to_host(field), dtype=np.float64).reshape(-1)
        return found if self.kept is None else found[self.kept]


@dataclass(frozen=True, eq=False)
class VectorSide:
    """All inputs or all outputs."""

    slots: tuple[Slot, ...]

    @classmethod
    def of(cls, tensors: Sequence[Tensor], parts: Sequence[Part] | None) -> VectorSide:
        """Tensors of a signature, and the parts of the model that they are, where it has parts."""
        if parts is None:
            return cls(tuple(Slot(one) for one in tensors))
        kept = [None if part.holes is None else kept_points(part) for part in parts]
        return cls(tuple(Slot(*pair) for pair in zip(tensors, kept, strict=True)))

    @property
    def sizes(self) -> list[int]:
        """Lengths of the vectors"""
        return [slot.size for slot in self.slots]

    def sample(self, vectors: Sequence[Values]) -> Any:
        """One sample as the model takes it."""
        fields = {slot.tensor.part: slot.field(one) for slot, one in zip(self.slots, vectors, strict=True)}
        return fields.get("", fields)

    def alone(self, index: int, vector: Values) -> Any:
        """The same of one vector, with 0 for the others."""
        return self.sample([vector if k == index else np.zeros(slot.size) for k, slot in enumerate(self.slots)])

    def vectors(self, sample: Any) -> list[Values]:
        """One sample as the model hands it out, as vectors."""
        return [slot.vector(sample[slot.tensor.part] if slot.tensor.part else sample) for slot in self.slots]


@dataclass(frozen=True, eq=False)
class VectorMap:
    """A fitted surrogate as a map of vectors."""

    model: Any
    inputs: VectorSide
    outputs: VectorSide

    @classmethod
    def of(cls, model: Any) -> VectorMap:
        """A fitted surrogate of fields."""
        signature, packing = Signature.of(model), model.fitted_.packing
        parts = (None, None) if packing is None else (packing.inputs.parts, packing.outputs.parts)
        return cls(model, VectorSide.of(signature.inputs, parts[0]), VectorSide.of(signature.outputs, parts[1]))

    def mean(self, vectors: Sequence[Values]) -> list[Values]:
        """The prediction."""
        return self.outputs.vectors(self.model.predict(self.inputs.sample(vectors)))

    def std(self, vectors: Sequence[Values]) -> list[Values]:
        """Its standard deviation."""
        return self.outputs.vectors(self.model.predict(self.inputs.sample(vectors), return_std=True)[1])

    def bound(self, vectors: Sequence[Values], end: str, alpha: float) -> list[Values]:
        """The "lower" or the "upper" end of intervals of level 1 − alpha."""
        return self.outputs.vectors(getattr(self.model.predict_interval(self.inputs.sample(vectors), alpha), end))

    def pulled(self, vectors: Sequence[Values], output: int, weights: Values) -> list[Values]:
        """The gradient of Σ weights · yₒ by every input: (∂yₒ/∂xᵢ)ᵀ weights for all i."""
        found = self.model.vjp(self.inputs.sample(vectors), self.outputs.alone(output, weights))
        return self.inputs.vectors(found)

    def pushed(self, vectors: Sequence[Values], source: int, change: Values) -> list[Values]:
        """How every output changes with xᵢ: (∂yₒ/∂xᵢ) change for all o."""
        found = self.model.jvp(self.inputs.sample(vectors), self.inputs.alone(source, change))
        return self.outputs.vectors(found)
