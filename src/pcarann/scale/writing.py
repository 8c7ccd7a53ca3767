"""Predictions for lazy inputs, written to a zarr store block by block, and taken up again where that was broken off.

A block is one chunk of the store along samples, and is marked as done after its numbers are written: what a killed
process leaves behind is whole blocks, and the rest is predicted when the same is asked for again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pcarann.backend.arrays import cuts, to_host
from pcarann.scale.asking import Asked, Inputs
from pcarann.scale.engine import Budget, nothing, over_blocks
from pcarann.scale.fields import SHARE, cut_along, cut_at
from pcarann.scale.parts import Fold
from pcarann.scale.predictions import fields_of

__all__ = ["write_predictions"]

_DONE = "done"
_ODD = (KeyError, TypeError, ValueError, AttributeError)  # what a store raises in which something is missing
Axes = dict[str, int]
"""Names and lengths of the axes of an array"""


def write_predictions(
    model: Any,
    X: Any,
    path: str | os.PathLike[str],
    made_of: Mapping[str, str],
    *,
    how: Mapping[str, Any] | None = None,
) -> dict[str, int]:
    """Predict lazy inputs into a zarr store; return how many blocks there are, and how many were there already.

    `made_of` says by words what the store depends on, `files` being those of the data: a store of something else is
    refused. `how` may hold `std`, or `alpha` and `method` of intervals, and the `steps` of a roll-out. Arrays have the
    names `mean`, `std`, …, those of an output u that has a name `u.mean`, ….
    """
    how = dict(how or {})
    fitted = model.asked(**{name: how.pop(name) for name in ("steps",) if name in how})
    asked, inputs = Asked.of(model, fitted), Inputs.of(fitted, X)
    matrix = inputs.matrix
    cut = cut_along(matrix, 0, Budget.now(), "X", share=4 * SHARE)
    path = os.path.abspath(path)  # workers may stand in another folder
    kinds = ("mean", "std", "lower", "upper") if "alpha" in how else ("mean", "std") if how.get("std") else ("mean",)
    arrays = {
        name: axes for kind in kinds for name, axes in zip(_named(inputs.outputs, kind), _axes(inputs), strict=True)
    }
    _refuse_names(arrays)
    store, length = _opened(path, made_of, arrays, max(part.stop - part.start for part in cut.parts))
    parts = list(cuts(int(matrix.shape[0]), length))
    left = np.flatnonzero(np.asarray(store[_DONE][:]) == 0).tolist()
    folds = (inputs.fold, inputs.outputs)
    constants = {"asked": asked, "folds": folds, "path": path, "how": how, "length": length}
    if left:
        blocks = cut_at(matrix, 0, [parts[i] for i in left]).blocks(matrix)
        over_blocks(_written, blocks, [(i,) for i in left], constants, nothing)
    return {"blocks": len(parts), "resumed": len(parts) - len(left)}


def _named(fold: Fold, kind: str) -> list[str]:
    """Arrays of a store, one for each output."""
    return [f"{name}.{kind}" for name in fold.names] or [kind]


def _axes(inputs: Inputs) -> list[Axes]:
    """The axes of each output, named as xarray wants them: as those of labelled fields are, or by their numbers."""
    fold, packing = inputs.outputs, inputs.packing
    samples = {"sample" if packing is None else packing.inputs.samples: int(inputs.matrix.shape[0])}
    labels = [None] * len(fold.grids) if packing is None else [part.label for part in packing.outputs.parts]
    found = []
    for grid, label, name in zip(fold.grids, labels, fold.names or [""], strict=True):
        numbered = tuple(f"{name}{'.' * bool(name)}axis_{number}" for number in range(1, 1 + len(grid)))
        found.append(samples | dict(zip(numbered if label is None else label.dims, grid, strict=True)))
    return found


def _refuse_names(arrays: Iterable[str]) -> None:
    """Refuse names by which a store cannot show its arrays."""
    for name in arrays:
        if "/" in name:
            raise ValueError(f"An array of a zarr store cannot be called {name!r}: write .npz, or name outputs anew.")


def _opened(path: str, made_of: Mapping[str, str], arrays: Mapping[str, Axes], length: int) -> tuple[Any, int]:
    """The store and the length of its blocks; made anew where there is none."""
    import zarr

    wanted: dict[str, Any] = {**made_of, "arrays": {name: list(axes.values()) for name, axes in arrays.items()}}
    if not os.path.lexists(path):
        _made(path, wanted, arrays, length)
        return zarr.open_group(path, mode="r+"), length
    try:
        store = zarr.open_group(path, mode="r+")
        found = dict(store.attrs["pcarann"])
        known, done = int(found.pop("block")), store[_DONE].shape
        if known < 1:
            raise ValueError(f"Blocks of {known} samples")
        if others := [name for name in wanted if found.get(name) != wanted[name]]:
            raise _Other(path, others)
        if any(list(store[name].shape) != shape for name, shape in wanted["arrays"].items()):
            raise ValueError("Arrays of other shapes than they should have")
        if done != (_blocks(arrays, known),):
            raise ValueError(f"{done} blocks")
    except _Other:
        raise
    except (FileNotFoundError, FileExistsError, NotADirectoryError, *_ODD) as error:
        raise ValueError(f"{path} is no zarr store of predictions: give another path.") from error
    return store, known


class _Other(ValueError):
    """A store of other predictions."""

    def __init__(self, path: str, others: list[str]) -> None:
        named = [name for name in others if name != "files"]
        what = f"with other {', '.join(named)}" if named else "of data that have changed since"
        super().__init__(f"{path} holds predictions {what}: remove it, or give another path.")


def _blocks(arrays: Mapping[str, Axes], length: int) -> int:
    samples = next(iter(next(iter(arrays.values())).values()))
    return -(-samples // length)


def _made(path: str, wanted: Mapping[str, Any], arrays: Mapping[str, Axes], length: int) -> None:
    """Make a store, aside, under a name that nobody has."""
    import zarr

    aside = f"{path}.{os.urandom(4).hex()}.part"
    try:
        store = zarr.open_group(aside, mode="w-", zarr_format=3)
        for name, axes in arrays.items():
            samples, *grid = axes.values()
            how: dict[str, Any] = {"dtype": "float64", "fill_value": np.nan, "dimension_names": tuple(axes)}
            store.create_array(name, shape=(samples, *grid), chunks=(min(length, samples), *grid), **how)
        how = {"dtype": "uint8", "fill_value": 0, "dimension_names": (f"{_DONE}.block",)}
        store.create_array(_DONE, shape=(_blocks(arrays, length),), chunks=(1,), **how)
        store.attrs["pcarann"] = {**wanted, "block": length}
        _take_place(aside, path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _take_place(aside: str, path: str) -> None:
    try:
        os.rename(aside, path)
    except OSError as error:
        if not os.path.lexists(path):
            raise
        raise ValueError(f"{path} was made by another meanwhile: start again, or give another path.") from error


def _written(
    raw: Any, number: int, *, asked: Asked, folds: tuple[Fold, Fold], path: str, how: dict[str, Any], length: int
) -> tuple[None, None]:
    import zarr

    store = zarr.open_group(path, mode="r+")
    rows = slice(number * length, number * length + len(raw))
    for kind, fields in fields_of(asked, rows.start, folds[0].folded(np.asarray(raw)), how).items():
        parts = [fields[name] for name in folds[1].names] or [fields]
        for name, part in zip(_named(folds[1], kind), parts, strict=True):
            store[name][rows] = to_host(part)
    store[_DONE][number] = 1
    return None, None
