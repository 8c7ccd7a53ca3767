"""Predictions for lazy inputs: lazy themselves, made block by block when they are computed.

The model travels once, inside the graph, as it is at the call. Nothing is said of inputs outside the training data,
which are not looked at before somebody computes: ask `novelty`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of, to_host
from pcarann.scale.engine import Budget, computed, over_blocks
from pcarann.scale.fields import SHARE, checked_lazy, cut_along, matrix_of
from pcarann.scale.kinds import lazy_array
from pcarann.uncertainty.bands import Band, Spread, band, gathered
from pcarann.uncertainty.conformal import Method
from pcarann.uncertainty.novelty import Novelty
from pcarann.validation import check_pair_lengths, required

__all__ = [
    "Opened",
    "fields_of",
    "lazy_band",
    "lazy_novelty",
    "lazy_prediction",
    "lazy_score",
    "opened_inputs",
    "opened_outputs",
]

Opened = tuple[Any, Callable[[Any], Any]]
"""A Dask array (samples, *grid), and what turns predicted arrays into what the user holds"""


def opened_inputs(model: Any, X: Any) -> Opened:
    """Lazy inputs of a fitted model, checked as far as that needs no numbers."""
    fitted = model.fitted_
    if fitted.packing is None:
        return checked_lazy(lazy_array(X), "X", grid=_input_grid(model)), lambda fields: fields
    _refuse_parts(fitted.packing)
    like = fitted.packing.inputs.opened(X, "X")
    array = checked_lazy(like.first, "X", grid=_input_grid(model))
    name = fitted.packing.outputs.names[0]
    return array, lambda fields: fitted.packing.outputs.container({name: fields}, like)


def opened_outputs(model: Any, y: Any) -> Any:
    """Lazy true outputs of a fitted model, as a Dask array; those in memory as such an array too."""
    import dask.array as da

    packing = model.fitted_.packing
    if packing is not None:
        _refuse_parts(packing)
        y = packing.outputs.opened(required(y), "y").first
    array = lazy_array(required(y))
    array = da.from_array(to_host(y)) if array is None else array
    grid = model.fitted_.output_grid
    return checked_lazy(array, "y", grid=grid, scalar=not grid)


def lazy_prediction(model: Any, X: Any, return_std: bool) -> Any:
    """Lazy mean fields of lazy inputs, with their deviation if asked."""
    array, handed = opened_inputs(model, X)
    found = _mapped(model, array, _std_block if return_std else _mean_block, 2 if return_std else 1)
    return tuple(handed(part) for part in found) if return_std else handed(found[0])


def lazy_band(model: Any, X: Any, alpha: float, method: Method) -> Any:
    """Lazy fields with intervals."""
    array, handed = opened_inputs(model, X)
    found = Band(*_mapped(model, array, _band_block, 4, alpha=alpha, method=method))
    if not hasattr(X, "dims"):
        return found
    import xarray

    names = ("mean", "std", "lower", "upper")
    return xarray.Dataset({name: handed(getattr(found, name)).rename(name) for name in names})


def lazy_novelty(model: Any, X: Any) -> Novelty:
    """How far lazy inputs lie from the training data, (samples,) each, in memory."""
    array, _ = opened_inputs(model, X)
    cut = cut_along(matrix_of(array), 0, Budget.now(), "X")
    blocks = cut.blocks(matrix_of(array))
    own = [()] * len(blocks)
    _, kept = over_blocks(_novelty_block, blocks, own, {"model": copy(model), "grid": array.shape[1:]}, list)
    numbers = {n: np.concatenate([getattr(one, n) for one in kept]) for n in ("residual", "distance", "p_value")}
    return Novelty(**numbers, reasons=tuple(reason for one in kept for reason in one.reasons))


def lazy_score(model: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """R² of predictions for lazy samples, all output values weighted by their variance."""
    if sample_weight is not None:
        raise ValueError("sample_weight is not taken with lazy arrays: compute them first.")
    inputs, truth = opened_inputs(model, X)[0], opened_outputs(model, y)
    pairs, own, constants = paired(model, inputs, truth)
    (count, total, squares, missed), _ = over_blocks(_score_block, pairs, own, constants, _added)
    varied = float((squares - total**2 / count).clip(min=0.0).sum())
    return 1.0 - float(missed) / varied if varied else float(not missed)


def paired(model: Any, inputs: Any, truth: Any) -> tuple[list[Any], list[tuple[Any, ...]], dict[str, Any]]:
    """Blocks of lazy inputs, each with its block of lazy outputs; and the constants that tasks with both need."""
    check_pair_lengths(int(inputs.shape[0]), int(truth.shape[0]))
    X, y = matrix_of(inputs), matrix_of(truth)
    # Beside the larger of the two: the other, their members' fields, mean, spread and scores.
    both = cut_along(y if y.shape[1] >= X.shape[1] else X, 0, Budget.now(), "X", share=4 * SHARE)
    blocks = [replace(both, parts=(part,)).blocks(X)[0] for part in both.parts]
    own = [(replace(both, parts=(part,)).blocks(y)[0],) for part in both.parts]
    return blocks, own, {"model": copy(model), "grids": (inputs.shape[1:], truth.shape[1:])}


def spread_of(model: Any, X: Array) -> tuple[Any, Spread]:
    """μ, σ, δ of (samples, values) fields in the units inside, without a word; and what was seen of the inputs."""
    fitted = model.fitted_
    if not hasattr(fitted, "look"):
        raise ValueError(f"{type(model).__name__} gives intervals of what is in memory: compute lazy inputs first.")
    look = fitted.look(fitted.checked(X))
    size = math.prod(fitted.output_grid)
    return look, gathered(fitted.blocks(look), int(look.inputs.shape[0]), size, fitted.place)


def _mapped(model: Any, array: Any, block: Callable[..., Any], parts: int, **how: Any) -> list[Any]:
    """Arrays (samples, *grid) that a block function makes, (samples, parts, *grid) each time."""
    from dask import delayed

    grid, size = tuple(model.fitted_.output_grid), math.prod(array.shape[1:])
    most = max(1, Budget.now().each // (8 * 8 * max(size, parts * math.prod(grid))))
    whole = dict.fromkeys(range(1, array.ndim), -1)
    array = array.rechunk({0: min(most, max(array.chunks[0])), **whole}, method="tasks")
    found = array.map_blocks(
        block,
        model=delayed(copy(model), traverse=False, pure=False),
        dtype=np.float64,
        drop_axis=list(range(1, array.ndim)),
        new_axis=list(range(1, 2 + len(grid))),
        chunks=(array.chunks[0], (parts,), *((n,) for n in grid)),
        meta=np.empty((0,) * (2 + len(grid))),
        **how,
    )
    return [found[:, part] for part in range(parts)]


def _mean_block(block: Any, model: Any) -> Any:
    fitted = model.fitted_
    if not hasattr(fitted, "look"):
        return to_host(model.predict(block))[:, None]
    return _handed(fitted, [fitted.ensemble.mean_fields(fitted.look(fitted.checked(block)).orbit)])


def _std_block(block: Any, model: Any) -> Any:
    _, found = spread_of(model, block)
    return _handed(model.fitted_, [found.mean, found.std])


def _band_block(block: Any, model: Any, alpha: float, method: Method) -> Any:
    fitted = model.fitted_
    _, spread = spread_of(model, block)
    found = band(fitted.calibration, spread, alpha, method)
    return _handed(fitted, [found.mean, found.std, found.lower, found.upper])


def fields_of(model: Any, X: Any, how: dict[str, Any]) -> dict[str, Any]:
    """Predicted fields of a block by name: mean, with `std`, or with `alpha` and `method` of intervals, if asked."""
    if "alpha" in how:
        found = _band_block(X, model, how["alpha"], how.get("method", "sample"))
        return {name: found[:, i] for i, name in enumerate(("mean", "std", "lower", "upper"))}
    found = _std_block(X, model) if how.get("std") else _mean_block(X, model)
    return {name: found[:, i] for i, name in enumerate(("mean", "std")[: found.shape[1]])}


def _handed(fitted: Any, parts: list[Array]) -> Any:
    found = [to_host(fitted.handed(part)) for part in parts]
    return np.stack(found, axis=1).reshape(len(found[0]), len(parts), *fitted.output_grid)


def _novelty_block(raw: Any, *, model: Any, grid: tuple[int, ...]) -> tuple[None, Novelty]:
    return None, model.novelty(raw.reshape(-1, *grid))


def _score_block(raw: Any, truth: Any, *, model: Any, grids: Any) -> tuple[Any, None]:
    found = _mean_block(raw.reshape(-1, *grids[0]), model).reshape(truth.shape)
    truth = np.asarray(truth, dtype=np.float64)
    if not np.isfinite(truth).all():
        raise ValueError("y contains NaN or infinity.")
    shift = to_host(place_of(None).put(_output_mean(model)))
    moved = truth - shift
    return (len(truth), moved.sum(axis=0), (moved**2).sum(axis=0), float(((truth - found) ** 2).sum())), None


def _output_mean(model: Any) -> Any:
    ensemble = getattr(model.fitted_, "ensemble", None)
    return 0.0 if ensemble is None else model.fitted_.handed(to_host(ensemble.output_pca.mean))


def _added(parts: list[Any]) -> Any:
    return tuple(sum(values[1:], values[0]) for values in zip(*parts, strict=True))


def _input_grid(model: Any) -> tuple[int, ...] | None:
    ensemble = getattr(model.fitted_, "ensemble", None)
    return None if ensemble is None else tuple(ensemble.input_pca.grid)


def _refuse_parts(packing: Any) -> None:
    if packing.input_code is not None or packing.output_code is not None:
        raise ValueError("Lazy arrays are for models of one input and one output: this one was fitted to parts.")


def whole_rows(array: Any, rows: slice) -> Any:
    """Some samples of a lazy array, in memory."""
    return np.asarray(computed(array[rows]))
