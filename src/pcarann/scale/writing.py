"""Predictions for lazy inputs, written to a zarr store block by block, and taken up again where that was broken off.

A block is one chunk of the store along samples, and is marked as done after its numbers are written: what a killed
process leaves behind is whole blocks, and the rest is predicted when the same is asked for again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from pcarann.backend.arrays import cuts
from pcarann.scale.asking import Asked, opened_inputs
from pcarann.scale.engine import Budget, nothing, over_blocks
from pcarann.scale.fields import SHARE, cut_along, cut_at, matrix_of
from pcarann.scale.predictions import fields_of

__all__ = ["write_predictions"]

_DONE = "done"


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
    refused. `how` may hold `std`, or `alpha` and `method` of intervals, and the `steps` of a roll-out.
    """
    how = dict(how or {})
    fitted = model.asked(**{name: how.pop(name) for name in ("steps",) if name in how})
    asked, array = Asked.of(model, fitted), opened_inputs(fitted, X)[0]
    matrix, grid = matrix_of(array), tuple(fitted.output_grid)
    cut = cut_along(matrix, 0, Budget.now(), "X", share=4 * SHARE)
    path = os.path.abspath(path)  # workers may stand in another folder
    names = ("mean", "std", "lower", "upper") if "alpha" in how else ("mean", "std") if how.get("std") else ("mean",)
    length = max(part.stop - part.start for part in cut.parts)
    axes = dict(zip(_axes(fitted), (int(array.shape[0]), *grid), strict=True))
    store, length = _opened(path, made_of, names, axes, length)
    parts = list(cuts(int(array.shape[0]), length))
    left = np.flatnonzero(np.asarray(store[_DONE][:]) == 0).tolist()
    constants = {"asked": asked, "grid": array.shape[1:], "path": path, "how": how, "length": length}
    if left:
        blocks = cut_at(matrix, 0, [parts[i] for i in left]).blocks(matrix)
        over_blocks(_written, blocks, [(i,) for i in left], constants, nothing)
    return {"blocks": len(parts), "resumed": len(parts) - len(left)}


def _axes(fitted: Any) -> tuple[str, ...]:
    """Names of the axes of predictions, as xarray wants them: those of labelled fields, or their numbers."""
    grid = tuple(f"axis_{number}" for number in range(1, 1 + len(fitted.output_grid)))
    if fitted.packing is None:
        return "sample", *grid
    label = fitted.packing.outputs.parts[0].label
    return fitted.packing.inputs.samples, *(grid if label is None else label.dims)


def _opened(
    path: str, made_of: Mapping[str, str], names: tuple[str, ...], axes: Mapping[str, int], length: int
) -> tuple[Any, int]:
    """The store and the length of its blocks; made anew, aside, where there is none."""
    import zarr

    shape = tuple(axes.values())
    wanted: dict[str, Any] = {**made_of, "arrays": list(names), "shape": list(shape)}
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
    store = zarr.open_group(aside, mode="w", zarr_format=3)
    chunks, blocks = (min(length, shape[0]), *shape[1:]), (-(-shape[0] // length),)
    for name in names:
        how: dict[str, Any] = {"dtype": "float64", "fill_value": np.nan, "dimension_names": tuple(axes)}
        store.create_array(name, shape=shape, chunks=chunks, **how)
    store.create_array(_DONE, shape=blocks, chunks=(1,), dtype="uint8", fill_value=0, dimension_names=("block",))
    store.attrs["pcarann"] = wanted | {"block": length}
    os.rename(aside, path)
    return zarr.open_group(path, mode="r+"), length


def _written(
    raw: Any, number: int, *, asked: Asked, grid: tuple[int, ...], path: str, how: dict[str, Any], length: int
) -> tuple[None, None]:
    import zarr

    store = zarr.open_group(path, mode="r+")
    rows = slice(number * length, number * length + len(raw))
    for name, fields in fields_of(asked, rows.start, np.asarray(raw).reshape(-1, *grid), how).items():
        store[name][rows] = fields
    store[_DONE][number] = 1
    return None, None
