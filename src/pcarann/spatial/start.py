"""What the first stage corrects: the mean field, the input itself, or the prediction of another surrogate.

An interpolating surrogate has no residual on its own training samples, so that stages would have nothing to learn from:
they see predictions for samples that a fit to four fifths of the others was asked for.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import clone

from pcarann.backend.arrays import Array, Place, largest, place_of, taken
from pcarann.backend.linearized import Linearized
from pcarann.backend.random import permutation, spread
from pcarann.latent.units import Units
from pcarann.spatial.chain import relative_error
from pcarann.spatial.stage import Scene

__all__ = ["FOLDS", "Start", "mean_field", "units_of"]

FOLDS = 5
_COMPARED = 200  # samples by which input and mean field are
_ROUNDING = 1e-14  # of the largest value
_STREAM = (-27,)


@dataclass(frozen=True, eq=False)
class Start:
    """û before any stage; fields are (samples, values), in the user's units."""

    mean: Array | None = None
    """(values,)"""
    model: Any = None
    """A fitted surrogate; without it and a mean, the input"""
    input_grid: tuple[int, ...] = ()
    values: int | None = None
    """Of a state, where inputs hold more than that"""

    @property
    def name(self) -> str:
        """In words"""
        return type(self.model).__name__ if self.model is not None else "input" if self.mean is None else "mean field"

    def __call__(self, inputs: Array) -> Array:
        """û of these inputs."""
        place = place_of(inputs)
        if self.model is not None:
            shaped = place.xp.reshape(inputs, (inputs.shape[0], *self.input_grid))
            return _flat(self.model.predict(shaped), place)
        if self.mean is None:
            return inputs[:, : self.values]  # the state comes first, what acts on it behind it
        return place.xp.broadcast_to(self.mean, (inputs.shape[0], *self.mean.shape))

    def linearized(self, inputs: Array) -> Linearized:
        """û of these inputs with its derivative: that of the model; of the input the identity, of a mean nothing."""
        place = place_of(inputs)
        xp = place.xp
        if self.model is not None:
            if not hasattr(self.model, "linearized"):
                kind = type(self.model).__name__
                raise ValueError(f"Stages that start from a {kind} have no derivative, since it has none.")
            found: Linearized = self.model.linearized(xp.reshape(inputs, (inputs.shape[0], *self.input_grid)))
            return found
        value = self(inputs)
        if self.mean is None:
            behind = xp.zeros_like(inputs[:, value.shape[1] :])
            return Linearized(value, lambda t: t[:, : self.values], lambda c: xp.concat([c, behind], axis=1))
        return Linearized(value, lambda _: xp.zeros_like(value), lambda _: xp.zeros_like(inputs))

    def inside(self, units: Units, inputs: Array) -> Array:
        """û of a mean field or an input in the units inside, without a copy; inputs are in these units."""
        return (self if self.mean is None else replace(self, mean=self.mean / units.outputs))(inputs)

    @property
    def evolves(self) -> bool:
        """Whether it is the input, the state of a flow"""
        return self.mean is None and self.model is None

    def symmetric(self, scene: Scene) -> Start:
        """The mean field averaged over moves, as all that is added to it; anything else as it is."""
        if self.mean is None or scene.group is None:
            return self
        moved = [scene.moved_back(self.mean[None, :], element)[0, :] for element in scene.averaged]
        return replace(self, mean=sum(moved[1:], start=moved[0]) / len(moved))

    @classmethod
    def simple(cls, inputs: Array, outputs: Array, evolution: bool) -> Start:
        """The mean field, or the input where it has the outputs' shape and is nearer to them."""
        mean, state = cls(mean=mean_field(outputs)), cls(values=int(outputs.shape[1]))
        if not evolution:
            return mean
        some = spread(int(outputs.shape[0]), _COMPARED)
        sides = [taken(side, some) for side in (state(inputs), mean(inputs), outputs)]
        unit = max(largest(side) for side in sides) or 1.0  # squares of huge and tiny values are no numbers
        errors = [relative_error(side / unit, sides[2] / unit) for side in sides[:2]]
        return state if errors[0] < errors[1] else mean

    @classmethod
    def fitted(
        cls,
        model: Any,
        samples: tuple[Array, Array],
        grids: tuple[tuple[int, ...], tuple[int, ...]],
        seed: int,
        groups: Sequence[int],
    ) -> tuple[Start, Array]:
        """A surrogate fitted to all samples, and predictions for each by a fit that has not seen it or its group."""
        place = place_of(samples[0])
        xp = place.xp
        X, y = (xp.reshape(part, (part.shape[0], *grid)) for part, grid in zip(samples, grids, strict=True))
        labels = list(dict.fromkeys(groups))
        order = permutation(len(labels), seed=seed, stream=_STREAM)
        found = place.empty(*samples[1].shape)
        folds = min(FOLDS, len(labels))
        for fold in range(folds):
            left_out = {labels[i] for i in order[fold::folds]}
            rows = [[i for i, group in enumerate(groups) if (group in left_out) == inside] for inside in (False, True)]
            part = _quietly_fitted(model, taken(X, rows[0]), taken(y, rows[0]))
            index = xp.asarray(rows[1], device=place.device)
            found[index, :] = _flat(part.predict(taken(X, rows[1])), place)
        return cls(model=_quietly_fitted(model, X, y), input_grid=grids[0]), found


def mean_field(fields: Array) -> Array:
    """The mean of (samples, values) fields; nothing where rounding is all that is left of it."""
    xp = place_of(fields).xp
    mean = xp.mean(fields, axis=0)
    return xp.where(xp.abs(mean) > _ROUNDING * largest(fields), mean, xp.zeros_like(mean))


def units_of(inputs: Array, outputs: Array, evolves: bool) -> Units:
    """Powers of two by which fields have a size of about 1; one for both where they are states of one flow."""

    def unit(fields: Array) -> float:
        xp = place_of(fields).xp
        largest = float(xp.max(xp.abs(fields)))
        size = largest * float(xp.sqrt(xp.mean((fields / largest) ** 2))) if largest > 0 else 1.0
        return math.ldexp(1.0, math.frexp(size)[1] - 1)

    of_outputs = unit(outputs)
    return Units(of_outputs if evolves else unit(inputs), of_outputs)


def _quietly_fitted(model: Any, X: Array, y: Array) -> Any:
    """A fit that is poor or clipped is what stages are there to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return clone(model).fit(X, y)


def _flat(fields: Array, place: Place) -> Array:
    fields = place.put(fields)
    return place.xp.reshape(fields, (fields.shape[0], -1))
