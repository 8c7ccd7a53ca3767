"""Predictions for lazy inputs, written to a zarr store block by block, and taken up again where that was broken off.

A block is one chunk of the store along samples, and is marked as done after its numbers are written: what a killed
process leaves behind is whole blocks, and the rest is predicted when the same is asked for again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.scale.asking import Asked, Inputs
from pcarann.scale.engine import Budget, nothing, over_blocks
from pcarann.scale.fields import SHARE, cut_along
from pcarann.scale.parts import Fold
from pcarann.scale.predictions import fields_of

__all__ = ["write_predictions"]

_DONE = "done"


def write_predictions(
    model: Any, X: Any, path: str | os.PathLike[str], made_of: str, *, how: Mapping[str, Any] | None = None
) -> dict[str, int]:
    """Predict lazy inputs into a zarr store; return how many blocks there are, and how many were there already.

    `made_of` names model and data: a store that was made of others is refused. `how` may hold `std`, or `alpha` and
    `method` of intervals, and the `steps` of a roll-out. Arrays are called `mean`, `std`, …, those of an output u that
    has a name `u.mean`, ….
    """
    how = dict(how or {})
    fitted = model.asked(**{name: how.pop(name) for name in ("steps",) if name in how})
    asked, inputs = Asked.of(model, fitted), Inputs.of(fitted, X)
    count = int(inputs.matrix.shape[0])
    cut = cut_along(inputs.matrix, 0, Budget.now(), "X", share=4 * SHARE)
    path = os.path.abspath(path)  # workers may stand in another folder
    kinds = ("mean", "std", "lower", "upper") if "alpha" in how else ("mean", "std") if how.get("std") else ("mean",)
    shapes = {name: (count, *grid) for kind in kinds for name, grid in _named(inputs.outputs, kind).items()}
    length = max(part.stop - part.start for part in cut.parts)
    store, length = _opened(path, made_of, shapes, length)
    starts = list(range(0, count, length))
    done = np.asarray(store[_DONE][:], dtype=bool)
    left = [i for i in range(len(starts)) if not done[i]]
    blocks = [_block(inputs.matrix[starts[i] : starts[i] + length, :]) for i in left]
    folds = (inputs.fold, inputs.outputs)
    constants = {"asked": asked, "folds": folds, "path": path, "how": how, "length": length}
    if left:
        over_blocks(_written, blocks, [(i,) for i in left], constants, nothing)
    return {"blocks": len(starts), "resumed": len(starts) - len(left)}


def _named(fold: Fold, kind: str) -> dict[str, tuple[int, ...]]:
    """Arrays of a store and their grids."""
    names = [f"{name}.{kind}" for name in fold.names] or [kind]
    return dict(zip(names, fold.grids, strict=True))


def _opened(path: str, made_of: str, shapes: Mapping[str, tuple[int, ...]], length: int) -> tuple[Any, int]:
    """The store and the length of its blocks; made anew, aside, where there is none."""
    import zarr

    wanted: dict[str, Any] = {"made_of": made_of, "arrays": {name: list(shape) for name, shape in shapes.items()}}
    samples = next(iter(shapes.values()))[0]
    if os.path.exists(path):
        try:
            store = zarr.open_group(path, mode="r+")
            found: Any = dict(store.attrs.get("pcarann", {}))
            known = int(found.pop("block", 0))
        except (FileNotFoundError, ValueError) as error:
            raise ValueError(f"{path} is no zarr store of predictions: give another path.") from error
        if found != wanted or known < 1:
            raise ValueError(f"{path} holds something else than predictions of this model for these data.")
        return store, known
    aside = f"{path}.part"
    store = zarr.open_group(aside, mode="w")
    for name, shape in shapes.items():
        chunks = (min(length, samples), *shape[1:])
        store.create_array(name, shape=shape, chunks=chunks, dtype="float64", fill_value=np.nan)
    store.create_array(_DONE, shape=(-(-samples // length),), chunks=(1,), dtype="uint8", fill_value=0)
    store.attrs["pcarann"] = wanted | {"block": length}
    os.rename(aside, path)
    return zarr.open_group(path, mode="r+"), length


def _block(part: Any) -> Any:
    whole = part.rechunk(part.shape, method="tasks") if max(part.numblocks) > 1 else part
    return whole.to_delayed().item()


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
