"""The derivative of a surrogate at given inputs, between what users hold on both sides.

    inputs of a user ──▶ rows of the model ──f′──▶ rows of the model ──▶ outputs of a user
                   code                                       code

A code (`pcarann.containers`) is affine and knows its derivative, as the surrogate knows its own, so that changes go
through all three and cotangents come back. Rows of a user are all points of all parts side by side. Points without
values have derivative 0 as inputs; as outputs they stay without one, and what is handed over there is not looked at.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, place_of, taken
from pcarann.backend.linearized import Linearized
from pcarann.containers.packing import Packing
from pcarann.containers.parts import Opened, Part, Side, refuse_other_samples
from pcarann.validation import check_fields, check_numeric, column_names

__all__ = ["FieldDerivative"]

Linearize = Callable[[Array], Linearized]
"""A surrogate at (samples, *grid) inputs as it knows them: what `Surrogate._linearized` gives"""


@dataclass(frozen=True, eq=False)
class FieldDerivative:
    """A surrogate's value and derivative at the inputs of a user."""

    rows: Linearized
    """Between all values of all inputs and of all outputs, (samples, values)"""
    place: Place
    """Where these rows are"""
    handed: Place
    """Where arrays of the user are"""
    inputs: tuple[Part, ...]
    outputs: tuple[Part, ...]
    packing: Packing | None
    like: Opened | None
    repeated: Callable[[int], Linearized]
    """The same with all samples one time after another"""

    @classmethod
    def at(
        cls,
        linearize: Linearize,
        plain: Array,
        *,
        like: Opened | None,
        packing: Packing | None,
        grid: tuple[int, ...],
        names: tuple[str, ...] = (),
    ) -> FieldDerivative:
        """At inputs as the surrogate knows them, and as they were handed over; `grid` is that of its outputs.

        `names` are those of the columns of the one table that was fitted.
        """
        record = linearize(plain)
        place = place_of(record.value)

        def repeated(copies: int) -> Linearized:
            array = place.put(check_numeric(plain, "X"))
            rows = taken(array, list(range(int(array.shape[0]))) * copies)
            with warnings.catch_warnings():  # all has been said at the first time
                warnings.simplefilter("ignore")
                return _with_codes(linearize(rows), packing)

        if packing is None or like is None:
            shape = tuple(np.shape(plain)[1:])
            one = Part("", shape, names or column_names(plain, shape))
            return cls(record, place, place_of(plain), (one,), (Part("", grid),), None, None, repeated)
        sides = packing.inputs.parts, packing.outputs.parts
        return cls(_with_codes(record, packing), place, place_of(like.first), *sides, packing, like, repeated)

    @property
    def samples(self) -> int:
        """Of the inputs"""
        return int(self.rows.value.shape[0])

    @property
    def sizes(self) -> tuple[int, int]:
        """Values of one input and of one output, all parts together"""
        inputs, outputs = (sum(math.prod(part.grid) for part in side) for side in (self.inputs, self.outputs))
        return inputs, outputs

    def value(self) -> Any:
        """The prediction, as `predict` hands it out."""
        return self._container(self.rows.value, self.outputs, None if self.packing is None else self.packing.outputs)

    def push(self, dX: Any) -> Any:
        """Changes of outputs by changes of inputs, in the form of a prediction."""
        found = self.rows.push(self.tangents(dX))
        return self._container(found, self.outputs, None if self.packing is None else self.packing.outputs)

    def pull(self, dY: Any) -> Any:
        """Cotangents of inputs by those of outputs, in the form of the inputs."""
        found = self.rows.pull(self.cotangents(dY))
        return self._container(found, self.inputs, None if self.packing is None else self.packing.inputs)

    def tangents(self, dX: Any) -> Array:
        """Changes of inputs as a user hands them over, as rows; or a refusal."""
        return self._flat(dX, "dX", "X", self.inputs, None if self.packing is None else self.packing.inputs)

    def cotangents(self, dY: Any) -> Array:
        """Cotangents of outputs as a user hands them over, as rows; or a refusal."""
        side = None if self.packing is None else self.packing.outputs
        return self._flat(dY, "dY", "a prediction", self.outputs, side)

    def apart(self, rows: Array, parts: Sequence[Part]) -> dict[str, Array]:
        """(…, values) of some parts side by side, each for itself by name, where arrays of the user are."""
        xp, found = place_of(rows).xp, {}
        ends = np.cumsum([0, *(math.prod(part.grid) for part in parts)])
        for part, (a, b) in zip(parts, pairwise(ends), strict=True):
            values = xp.reshape(rows[..., int(a) : int(b)], (*rows.shape[:-1], *part.grid))
            found[part.name] = self.handed.put(values)
        return found

    def _container(self, rows: Array, parts: Sequence[Part], side: Side | None) -> Any:
        arrays = self.apart(rows, parts)
        return arrays[""] if side is None or self.like is None else side.container(arrays, self.like)

    def _flat(self, value: Any, name: str, like: str, parts: Sequence[Part], side: Side | None) -> Array:
        """All parts side by side, 0 where a grid has no values."""
        arrays: Mapping[str, Any] = {"": value}
        if side is not None and self.like is not None:
            opened = side.opened(value, name)
            known, own = (one.sample_coords.get(one.samples) for one in (self.like, opened))
            refuse_other_samples(known, own, name)
            arrays = opened.arrays
        return self.place.xp.concat([self._part(arrays[part.name], part, name, like) for part in parts], axis=1)

    def _part(self, value: Any, part: Part, name: str, like: str) -> Array:
        said = f"{name}[{part.name!r}]" if part.name else name
        names = column_names(value, part.grid)
        if names and part.columns and names != part.columns:
            raise ValueError(
                f"The columns of {said} should be those of {like}, in the same order: expected "
                f"{', '.join(part.columns)}, found {', '.join(names)}."
            )
        shape, found = (self.samples, *part.grid), tuple(int(n) for n in np.shape(value))
        if found != shape:
            raise ValueError(f"{said} must have the shape of {like}, {shape}, found {found}.")
        return self.matrix(value, part, said)

    def matrix(self, value: Any, part: Part, said: str) -> Array:
        """(rows, *grid) of one part as (rows, values) where the rows of this are, 0 where its grid has no values."""
        if part.holes is not None:
            xp = self.place.xp
            array = self.place.put(check_numeric(value, said))
            value = xp.where(xp.asarray(part.holes, device=self.place.device), xp.zeros_like(array), array)
        found: Array = check_fields(value, said, self.place, scalar=True)[0]
        return found


def _with_codes(record: Linearized, packing: Packing | None) -> Linearized:
    """From a user's values to a user's values, where the record is from those of the surrogate to those of it."""
    if packing is None:
        return record
    given, handed = packing.input_code, packing.output_code
    found = record
    if given is not None:
        found = Linearized(record.value, lambda t: record.push(given.push(t)), lambda c: given.pull(record.pull(c)))
    if handed is not None:
        found = found.then(Linearized(handed.push(record.value), handed.push, handed.pull))
    return found
