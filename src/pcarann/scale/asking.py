"""A model that is asked of lazy samples: its own methods in memory, block by block.

Every surrogate gives mean and spread of fields by blocks of samples, so that what it does with a lazy array is what it
does with each block of it. Options of single samples, such as controls, are cut as the samples are. Nothing is said of
a block, and a sample that is refused is called by its number among all.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.containers.exchange import refuse_unaligned
from pcarann.containers.packing import Packing
from pcarann.containers.parts import Opened
from pcarann.scale.engine import Budget, computed
from pcarann.scale.fields import SHARE, cut_along, matrix_of
from pcarann.scale.kinds import has_lazy_parts, is_lazy
from pcarann.scale.parts import Fold, as_lazy, lazy_parts, refuse_unknown_parts
from pcarann.uncertainty.bands import Band
from pcarann.validation import check_pair_lengths, in_block, required

__all__ = ["Asked", "Inputs", "Pairs", "paired"]


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
        how = self._cut(slice(first, first + _count(block[0])))
        with in_block(first, quiet=quiet):
            return getattr(self.model, name)(*block, **how, **more)


def _count(block: Any) -> int:
    """Samples of a block"""
    return len(next(iter(block.values())) if isinstance(block, Mapping) else block)


@dataclass(frozen=True)
class Inputs:
    """Lazy inputs of a fitted model."""

    matrix: Any
    """(samples, values)"""
    fold: Fold
    outputs: Fold
    packing: Packing | None
    like: Opened | None

    @classmethod
    def of(cls, fitted: Any, X: Any) -> Inputs:
        """Those that a user holds, checked as far as that needs no numbers."""
        packing, grid = fitted.packing, tuple(fitted.output_grid)
        refuse_unknown_parts(X=X)
        if packing is None:
            refuse_unaligned(X, None, fitted)
            array = _one(X, "X")
            fitted.refuse_shape(tuple(int(n) for n in array.shape))
            return cls(matrix_of(array), Fold((tuple(array.shape[1:]),)), Fold((grid,)), None, None)
        like, fold = packing.inputs.opened(X, "X"), Fold.of(packing.inputs)
        matrix = fold.joined(lazy_parts(packing.inputs, like, "X"))
        return cls(matrix, fold, Fold.of(packing.outputs), packing, like)

    def handed(self, fields: Any) -> Any:
        """Lazy (samples, values) of outputs as what the user holds."""
        arrays = self.outputs.unjoined(fields)
        if self.packing is None or self.like is None:
            return arrays[0]
        side = self.packing.outputs
        return side.container(dict(zip(side.names, arrays, strict=True)), self.like)

    def handed_band(self, band: dict[str, Any]) -> Any:
        """Lazy mean, deviation and bounds, (samples, values) each, as what the user holds."""
        whole = {name: self.handed(part) for name, part in band.items()}
        return Band(**whole) if self.packing is None else self.packing.banded(whole)


def _one(value: Any, name: str, **wanted: Any) -> Any:
    if has_lazy_parts(value):
        raise ValueError(f"{name} must be one array, as in fit, found {type(value).__name__}.")
    return as_lazy(value, name, **wanted)


@dataclass(frozen=True)
class Pairs:
    """Lazy inputs and outputs that belong together, (samples, values) each."""

    inputs: Any
    outputs: Any
    folds: tuple[Fold, Fold]

    @classmethod
    def of(cls, fitted: Any, X: Any, y: Any) -> Pairs:
        """Those of a fitted model, or a refusal."""
        inputs, packing, grid = Inputs.of(fitted, X), fitted.packing, tuple(fitted.output_grid)
        refuse_unknown_parts(y=y)
        if packing is None:
            outputs = matrix_of(_one(required(y), "y", grid=grid, scalar=not grid))
        else:
            outputs = inputs.outputs.joined(lazy_parts(packing.outputs, packing.outputs.opened(required(y), "y"), "y"))
        refuse_unaligned(X, y, fitted)
        check_pair_lengths(int(inputs.matrix.shape[0]), int(outputs.shape[0]))
        return cls(inputs.matrix, outputs, (inputs.fold, inputs.outputs))

    def __len__(self) -> int:
        return int(self.inputs.shape[0])

    @property
    def values(self) -> int:
        """Of one sample, both sides together"""
        return sum(fold.values for fold in self.folds)


def paired(pairs: Pairs) -> tuple[list[Any], list[tuple[Any, ...]]]:
    """Blocks of lazy inputs; and beside each the block of outputs and the number of its first sample."""
    X, y = pairs.inputs, pairs.outputs
    # Beside the larger of the two: the other, their members' fields, mean, spread and scores.
    both = cut_along(y if y.shape[1] >= X.shape[1] else X, 0, Budget.now(), "X", share=4 * SHARE)
    own = [(block, part.start) for block, part in zip(both.blocks(y), both.parts, strict=True)]
    return both.blocks(X), own
