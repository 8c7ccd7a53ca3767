"""Predictions for lazy inputs: lazy themselves, made block by block when they are computed.

The model travels once, inside the graph, as it is at the call. Nothing is said of inputs outside the training data,
which are not looked at before somebody computes: ask `novelty`.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.scale.asking import Asked, Pairs, opened_inputs, paired
from pcarann.scale.engine import Budget, nothing, over_blocks
from pcarann.scale.fields import cut_along, matrix_of
from pcarann.uncertainty.bands import Band, factor_of
from pcarann.uncertainty.conformal import Method

__all__ = ["fields_of", "lazy_band", "lazy_novelty", "lazy_prediction", "lazy_score"]

_NAMES = ("mean", "std", "lower", "upper")


def lazy_prediction(model: Any, fitted: Any, X: Any, return_std: bool) -> Any:
    """Lazy mean fields of lazy inputs, with their deviation if asked."""
    asked = Asked.of(model, fitted)
    array, handed = opened_inputs(asked.fitted, X)
    found = _mapped(asked, array, 1 + bool(return_std), {"std": bool(return_std)})
    return tuple(handed(part) for part in found) if return_std else handed(found[0])


def lazy_band(model: Any, fitted: Any, X: Any, alpha: float, method: Method) -> Any:
    """Lazy fields with intervals."""
    asked = Asked.of(model, fitted)
    fitted = asked.fitted
    array, handed = opened_inputs(fitted, X)
    factor_of(fitted.calibration, math.prod(fitted.output_grid), alpha, method)  # refuses, and warns, at the call
    found = Band(*_mapped(asked, array, 4, {"alpha": alpha, "method": method}))
    if not hasattr(X, "dims") or fitted.packing is None:
        return found
    import xarray

    return xarray.Dataset({name: handed(getattr(found, name)).rename(name) for name in _NAMES})


def lazy_novelty(model: Any, fitted: Any, X: Any) -> Any:
    """How far lazy inputs lie from the training data, in memory."""
    asked = Asked.of(model, fitted)
    array = opened_inputs(asked.fitted, X)[0]
    matrix, grid = matrix_of(array), tuple(array.shape[1:])
    cut = cut_along(matrix, 0, Budget.now(), "X")
    own = [(part.start,) for part in cut.parts]
    _, kept = over_blocks(_novelty_block, cut.blocks(matrix), own, {"asked": asked, "grid": grid}, nothing)
    return type(kept[0])(**{one.name: _joined([getattr(part, one.name) for part in kept]) for one in fields(kept[0])})


def lazy_score(model: Any, fitted: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """R² of predictions for lazy samples, all output values weighted by their variance."""
    asked, pairs = Asked.of(model, fitted), Pairs.of(fitted, X, y)
    weights = np.ones(len(pairs)) if sample_weight is None else to_host(sample_weight).astype(np.float64)
    if weights.shape != (len(pairs),):
        raise ValueError(f"sample_weight must have shape ({len(pairs)},), found {weights.shape}.")
    blocks, own = paired(pairs)
    constants = {"asked": asked, "grids": pairs.grids, "weights": weights}
    (_, _, varied, missed), _ = over_blocks(_score_block, blocks, own, constants, _moments)
    return 1.0 - float(missed) / float(varied.sum()) if varied.any() else float(not missed)


def fields_of(asked: Asked, first: int, X: Any, how: dict[str, Any]) -> dict[str, Any]:
    """Predicted fields of a block by name: mean, with `std`, or with `alpha` and `method` of intervals, if asked."""
    if "alpha" in how:
        band = asked("predict_interval", first, X, alpha=how["alpha"], method=how.get("method", "sample"))
        return {name: to_host(getattr(band, name)) for name in _NAMES}
    std = bool(how.get("std"))
    found = asked("predict", first, X, return_std=std)
    return {name: to_host(part) for name, part in zip(_NAMES, found if std else (found,), strict=False)}


def _mapped(asked: Asked, array: Any, parts: int, how: dict[str, Any]) -> list[Any]:
    """So many arrays (samples, *grid) of predicted fields."""
    from dask import delayed

    grid, size = tuple(asked.fitted.output_grid), math.prod(array.shape[1:])
    most = max(1, Budget.now().each // (8 * 8 * max(size, parts * math.prod(grid))))
    whole = dict.fromkeys(range(1, array.ndim), -1)
    array = array.rechunk({0: min(most, max(array.chunks[0])), **whole}, method="tasks")
    found = array.map_blocks(
        _fields_block,
        asked=delayed(asked, traverse=False, pure=False),
        how=how,
        dtype=np.float64,
        drop_axis=list(range(1, array.ndim)),
        new_axis=list(range(1, 2 + len(grid))),
        chunks=(array.chunks[0], (parts,), *((n,) for n in grid)),
        meta=np.empty((0,) * (2 + len(grid))),
    )
    return [found[:, part] for part in range(parts)]


def _fields_block(block: Any, asked: Asked, how: dict[str, Any], block_info: Any = None) -> Any:
    first = block_info[0]["array-location"][0][0]
    return np.stack(list(fields_of(asked, first, block, how).values()), axis=1)


def _novelty_block(raw: Any, first: int, *, asked: Asked, grid: tuple[int, ...]) -> tuple[None, Any]:
    return None, asked("novelty", first, raw.reshape(-1, *grid))


def _joined(parts: list[Any]) -> Any:
    return sum(parts, ()) if isinstance(parts[0], tuple) else np.concatenate([to_host(one) for one in parts])


def _score_block(raw: Any, truth: Any, first: int, *, asked: Asked, grids: Any, weights: Any) -> tuple[Any, None]:
    """Weight, mean and Σ w (u − ū)² of each value, and Σ w (û − u)² of all."""
    found = to_host(asked("predict", first, raw.reshape(-1, *grids[0]))).reshape(truth.shape)
    truth, w = np.asarray(truth, dtype=np.float64), weights[first : first + len(truth), None]
    if not np.isfinite(truth).all():
        bad = first + int(np.isfinite(truth).all(axis=1).argmin())
        raise ValueError(f"y contains NaN or infinity in sample {bad}.")
    truth, found = asked.fitted.outputs(truth), asked.fitted.outputs(found)  # where they can be squared
    weight = float(w.sum())
    mean = (w * truth).sum(axis=0) / (weight or 1.0)
    return (weight, mean, (w * (truth - mean) ** 2).sum(axis=0), float((w * (truth - found) ** 2).sum())), None


def _moments(parts: list[Any]) -> Any:
    """Those of all blocks together: Σ w (u − ū)² is that inside of blocks, and that of their means."""
    weights = np.asarray([one[0] for one in parts])
    weight = float(weights.sum())
    mean = sum(one[0] * one[1] for one in parts) / (weight or 1.0)
    varied = sum(one[2] + one[0] * (one[1] - mean) ** 2 for one in parts)
    return weight, mean, varied, sum(one[3] for one in parts)
