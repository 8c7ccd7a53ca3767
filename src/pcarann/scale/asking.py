"""A model that is asked of lazy samples: its own methods in memory, block by block.

Every surrogate gives mean and spread of fields by blocks of samples, so that what it does with a lazy array is what it
does with each block of it. Options of single samples, such as controls, are cut as the samples are. Nothing is said of
a block, and a sample that is refused is called by its number among all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.containers.exchange import refuse_unaligned
from pcarann.scale.engine import Budget, computed
from pcarann.scale.fields import SHARE, checked_lazy, cut_along, matrix_of
from pcarann.scale.kinds import has_lazy_parts, is_lazy, lazy_array
from pcarann.validation import check_pair_lengths, in_block, required

__all__ = ["Asked", "Pairs", "opened_inputs", "paired"]


@dataclass(frozen=True)
class Asked:
    """A model as it is at the call, and what of it is asked: a record that the model gives, with the options of it."""

    model: Any
    fitted: Any
    how: dict[str, Any]

    @classmethod
    def of(cls, model: Any, fitted: Any) -> Asked:
        """Ask a model for what this record says; options of it that have an axis are of single samples."""
        held = copy(model)
        held.__dict__.pop("_writers", None)
        known = {name: to_host(computed(value) if is_lazy(value) else value) for name, value in fitted.how.items()}
        how = {name: value if value.ndim else value.item() for name, value in known.items()}
        return cls(held, held.asked(**how), how)

    @property
    def each(self) -> Asked:
        """The same with options of single samples alone"""
        return replace(self, how={name: value for name, value in self.how.items() if np.ndim(value)})

    def part(self, first: int, samples: int) -> Any:
        """The record as it answers to so many samples, the `first` of which has this number among all."""
        return self.model.asked(**self._cut(slice(first, first + samples)))

    def _cut(self, rows: slice) -> dict[str, Any]:
        return {name: value[rows] if np.ndim(value) else value for name, value in self.how.items()}

    def __call__(self, name: str, first: int, *block: Any, quiet: bool = True, **more: Any) -> Any:
        """What a method of this name answers to a block of samples, the `first` of which has this number among all."""
        how = self._cut(slice(first, first + len(block[0])))
        with in_block(first, quiet=quiet):
            return getattr(self.model, name)(*block, **how, **more)


def opened_inputs(fitted: Any, X: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Lazy inputs of a fitted model, (samples, *grid), checked as far as that needs no numbers.

    And what turns predicted arrays into what the user holds.
    """
    packing = fitted.packing
    if packing is None:
        return _inputs(fitted, X), lambda fields: fields
    _refuse_parts(packing, X)
    like = packing.inputs.opened(X, "X")
    return _inputs(fitted, like.first), lambda fields: packing.outputs.container(
        {packing.outputs.names[0]: fields}, like
    )


def _inputs(fitted: Any, X: Any) -> Any:
    array = checked_lazy(_as_lazy(X, "X"), "X")
    fitted.refuse_shape(tuple(int(n) for n in array.shape))
    return array


def _outputs(fitted: Any, y: Any) -> Any:
    """Lazy true outputs of a fitted model, as a Dask array; those in memory as such an array too."""
    y, packing = required(y), fitted.packing
    if packing is not None:
        _refuse_parts(packing, y)
        y = packing.outputs.opened(y, "y").first
    grid = tuple(fitted.output_grid)
    return checked_lazy(_as_lazy(y, "y"), "y", grid=grid, scalar=not grid)


@dataclass(frozen=True)
class Pairs:
    """Lazy inputs and outputs that belong together."""

    inputs: Any
    outputs: Any

    @classmethod
    def of(cls, fitted: Any, X: Any, y: Any) -> Pairs:
        """Those of a fitted model, or a refusal."""
        found = cls(opened_inputs(fitted, X)[0], _outputs(fitted, y))
        refuse_unaligned(X, y, fitted)
        check_pair_lengths(len(found), int(found.outputs.shape[0]))
        return found

    def __len__(self) -> int:
        return int(self.inputs.shape[0])

    @property
    def grids(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of one sample of both"""
        return tuple(self.inputs.shape[1:]), tuple(self.outputs.shape[1:])

    @property
    def values(self) -> int:
        """Of one sample, both sides together"""
        return sum(math.prod(grid) for grid in self.grids)


def paired(pairs: Pairs) -> tuple[list[Any], list[tuple[Any, ...]]]:
    """Blocks of lazy inputs; and beside each the block of outputs and the number of its first sample."""
    X, y = matrix_of(pairs.inputs), matrix_of(pairs.outputs)
    # Beside the larger of the two: the other, their members' fields, mean, spread and scores.
    both = cut_along(y if y.shape[1] >= X.shape[1] else X, 0, Budget.now(), "X", share=4 * SHARE)
    own = [(block, part.start) for block, part in zip(both.blocks(y), both.parts, strict=True)]
    return both.blocks(X), own


def _as_lazy(value: Any, name: str) -> Any:
    import dask.array as da

    if has_lazy_parts(value):
        raise ValueError(f"{name} must be one array, as in fit, found {type(value).__name__}.")
    array = lazy_array(value)
    return da.from_array(to_host(value)) if array is None else array


def _refuse_parts(packing: Any, value: Any) -> None:
    if packing.input_code is not None or packing.output_code is not None or has_lazy_parts(value):
        raise ValueError(
            "Lazy arrays are for models of one input and one output: this one has parts by name, stages on a mesh, or "
            "points without values."
        )
