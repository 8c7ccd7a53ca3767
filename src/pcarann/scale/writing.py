"""Predictions for lazy inputs, written to a zarr store block by block, and taken up again where that was broken off.

A block is one chunk of the store along samples, and is marked as done after its numbers are written: what a killed
process leaves behind is whole blocks, and the rest is predicted when the same is asked for again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
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


def _opened(path: str, made_of: Mapping[str, str], arrays: Mapping[str, Axes], length: int) -> tuple[Any, int]:
    """The store and the length of its blocks; made anew, aside, where there is none."""
    import zarr

    wanted: dict[str, Any] = {**made_of, "arrays": {name: list(axes.values()) for name, axes in arrays.items()}}
    if os.path.exists(path):
        try:
            store = zarr.open_group(path, mode="r+")
            found: Any = dict(store.attrs.get("pcarann", {}))
            known = int(found.pop("block", 0))
        except (FileNotFoundError, ValueError) as error:
            raise ValueError(f"{path} is no zarr store of predictions: give another path.") from error
        if known < 1:
            raise ValueError(f"{path} is no zarr store of predictions: give another path.")
        if others := [name for name in wanted if found.get(name) != wanted[name]]:
            what = "of data that have changed since" if others == ["files"] else f"with other {', '.join(others)}"
            raise ValueError(f"{path} holds predictions {what}: remove it, or give another path.")
        return store, known
    aside = f"{path}.part"
    store, samples = zarr.open_group(aside, mode="w", zarr_format=3), 0
    for name, axes in arrays.items():
        samples, *grid = axes.values()
        how: dict[str, Any] = {"dtype": "float64", "fill_value": np.nan, "dimension_names": tuple(axes)}
        store.create_array(name, shape=(samples, *grid), chunks=(min(length, samples), *grid), **how)
    blocks = (-(-samples // length),)
    store.create_array(_DONE, shape=blocks, chunks=(1,), dtype="uint8", fill_value=0, dimension_names=("block",))
    store.attrs["pcarann"] = wanted | {"block": length}
    os.rename(aside, path)
    return zarr.open_group(path, mode="r+"), length


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
