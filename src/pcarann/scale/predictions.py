"""Predictions for lazy inputs: lazy themselves, made block by block when they are computed.

The model travels once, inside the graph, as it is at the call. Nothing is said of inputs outside the training data,
which are not looked at before somebody computes: ask `novelty`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.containers.exchange import checked_outputs, marks_of
from pcarann.metrics import coverage, mean_width, relative_l2, variance_weighted_r2
from pcarann.scale.asking import Asked, Inputs, Pairs, paired
from pcarann.scale.engine import Budget, nothing, over_blocks
from pcarann.scale.fields import cut_along
from pcarann.scale.parts import Fold
from pcarann.uncertainty.bands import factor_of
from pcarann.uncertainty.conformal import Method
from pcarann.validation import in_block

__all__ = ["errors_of", "fields_of", "lazy_band", "lazy_errors", "lazy_novelty", "lazy_prediction", "lazy_score"]

_NAMES = ("mean", "std", "lower", "upper")


def lazy_prediction(model: Any, fitted: Any, X: Any, return_std: bool) -> Any:
    """Lazy mean fields of lazy inputs, with their deviation if asked."""
    asked = Asked.of(model, fitted)
    inputs = Inputs.of(asked.fitted, X)
    found = _mapped(asked, inputs, 1 + bool(return_std), {"std": bool(return_std)})
    return tuple(inputs.handed(part) for part in found) if return_std else inputs.handed(found[0])


def lazy_band(model: Any, fitted: Any, X: Any, alpha: float, method: Method) -> Any:
    """Lazy fields with intervals."""
    asked = Asked.of(model, fitted)
    fitted = asked.fitted
    inputs = Inputs.of(fitted, X)
    factor_of(fitted.calibration, math.prod(fitted.output_grid), alpha, method)  # refuses, and warns, at the call
    found = _mapped(asked, inputs, len(_NAMES), {"alpha": alpha, "method": method})
    return inputs.handed_band(dict(zip(_NAMES, found, strict=True)))


def lazy_novelty(model: Any, fitted: Any, X: Any) -> Any:
    """How far lazy inputs lie from the training data, in memory."""
    asked = Asked.of(model, fitted)
    inputs = Inputs.of(asked.fitted, X)
    cut = cut_along(inputs.matrix, 0, Budget.now(), "X")
    own, constants = [(part.start,) for part in cut.parts], {"asked": asked, "fold": inputs.fold}
    _, kept = over_blocks(_novelty_block, cut.blocks(inputs.matrix), own, constants, nothing)
    return type(kept[0])(**{one.name: _joined([getattr(part, one.name) for part in kept]) for one in fields(kept[0])})


def lazy_score(model: Any, fitted: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """R² of predictions for lazy samples, all output values weighted by their variance."""
    asked, pairs = Asked.of(model, fitted), Pairs.of(fitted, X, y)
    weights = np.ones(len(pairs)) if sample_weight is None else to_host(sample_weight).astype(np.float64)
    if weights.shape != (len(pairs),):
        raise ValueError(f"sample_weight must have shape ({len(pairs)},), found {weights.shape}.")
    nothing_missed = np.zeros((len(pairs), 1))
    best = variance_weighted_r2(nothing_missed, nothing_missed, weights)  # refuses weights, and warns of one sample
    blocks, own = paired(pairs)
    constants = {"asked": asked, "folds": pairs.folds, "weights": weights}
    (_, _, varied, missed), _ = over_blocks(_score_block, blocks, own, constants, _moments)
    return best - float(missed) / float(varied.sum()) if varied.any() else best * float(not missed)


def lazy_errors(model: Any, X: Any, y: Any, how: dict[str, Any]) -> tuple[dict[str, tuple[Any, ...]], Any]:
    """`errors_of` lazy samples, and which of them the model knows; `how` may hold `alpha` and `method` of intervals."""
    fitted = model.asked()
    asked, pairs = Asked.of(model, fitted), Pairs.of(fitted, X, y)
    if "alpha" in how:
        factor_of(fitted.calibration, math.prod(fitted.output_grid), how["alpha"], how["method"])  # warns, once
    blocks, own = paired(pairs)
    constants = {"asked": asked, "folds": pairs.folds, "how": how}
    _, kept = over_blocks(_errors_block, blocks, own, constants, nothing)
    errors, marks = zip(*kept, strict=True)
    trained = fitted.recognised(np.concatenate(marks)).told
    return {name: _averaged([one[name] for one in errors]) for name in errors[0]}, trained


def _averaged(parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    errors, *means = zip(*parts, strict=True)
    return np.concatenate(errors), *(float(np.average(one, weights=[len(part) for part in errors])) for one in means)


def errors_of(found: Mapping[str, Any], truth: Any) -> dict[str, tuple[Any, ...]]:
    """The relative L² error of each sample in memory, and where there are intervals, their coverage and mean width.

    Of each output by name; the one without a name is called "".
    """
    if isinstance(truth, Mapping):
        each = ({kind: fields[name] for kind, fields in found.items()} for name in truth)
        return {name: errors_of(one, truth[name])[""] for name, one in zip(truth, each, strict=True)}
    errors = relative_l2(found["mean"], truth, per_sample=True)
    if "lower" not in found:
        return {"": (errors,)}
    ends = found["lower"], found["upper"]
    return {"": (errors, coverage(*ends, truth), mean_width(*ends))}


def fields_of(asked: Asked, first: int, X: Any, how: dict[str, Any]) -> dict[str, Any]:
    """Predicted fields of a block by name: mean, with `std`, or with `alpha` and `method` of intervals, if asked."""
    if "alpha" in how:
        band = asked("predict_interval", first, X, alpha=how["alpha"], method=how.get("method", "sample"))
        return {name: getattr(band, name) for name in _NAMES}
    std = bool(how.get("std"))
    found = asked("predict", first, X, return_std=std)
    return dict(zip(_NAMES, found if std else (found,), strict=False))


def _mapped(asked: Asked, inputs: Inputs, parts: int, how: dict[str, Any]) -> list[Any]:
    """So many lazy (samples, values) of predicted fields."""
    from dask import delayed

    matrix, values = inputs.matrix, inputs.outputs.values
    most = max(1, Budget.now().each // (8 * 8 * max(inputs.fold.values, parts * values)))
    matrix = matrix.rechunk({0: min(most, max(matrix.chunks[0])), 1: -1}, method="tasks")
    found = matrix.map_blocks(
        _fields_block,
        asked=delayed(asked, traverse=False, pure=False),
        folds=(inputs.fold, inputs.outputs),
        how=how,
        dtype=np.float64,
        drop_axis=1,
        new_axis=[1, 2],
        chunks=(matrix.chunks[0], (parts,), (values,)),
        meta=np.empty((0, 0, 0)),
    )
    return [found[:, part] for part in range(parts)]


def _fields_block(
    block: Any, asked: Asked, folds: tuple[Fold, Fold], how: dict[str, Any], block_info: Any = None
) -> Any:
    first = block_info[0]["array-location"][0][0]
    found = fields_of(asked, first, folds[0].folded(block), how)
    return np.stack([folds[1].flat(part) for part in found.values()], axis=1)


def _novelty_block(raw: Any, first: int, *, asked: Asked, fold: Fold) -> tuple[None, Any]:
    return None, asked("novelty", first, fold.folded(raw))


def _joined(parts: list[Any]) -> Any:
    return sum(parts, ()) if isinstance(parts[0], tuple) else np.concatenate([to_host(one) for one in parts])


def _score_block(raw: Any, truth: Any, first: int, *, asked: Asked, folds: Any, weights: Any) -> tuple[Any, None]:
    """Weight, mean and Σ w (u − ū)² of each value, and Σ w (û − u)² of all."""
    w, pair = weights[first : first + len(truth), None], (folds[0].folded(raw), folds[1].folded(truth))
    with in_block(first):
        both = asked.model.beside(*pair, asked.part(first, len(raw)))
    found, truth = (
        asked.fitted.outputs(to_host(one).reshape(len(raw), -1)) for one in both
    )  # where they can be squared
    weight = float(w.sum())
    mean = (w * truth).sum(axis=0) / (weight or 1.0)
    return (weight, mean, (w * (truth - mean) ** 2).sum(axis=0), float((w * (truth - found) ** 2).sum())), None


def _errors_block(
    raw: Any, truth: Any, first: int, *, asked: Asked, folds: Any, how: dict[str, Any]
) -> tuple[None, tuple[dict[str, tuple[Any, ...]], Any]]:
    X, y = folds[0].folded(raw), folds[1].folded(truth)
    with in_block(first):
        part = asked.part(first, len(raw))
        plain = X if part.packing is None else part.packing.opened(X, part.place)[0]
        marks = marks_of(plain, checked_outputs(y, part), part)
    return None, (errors_of(fields_of(asked, first, X, how), y), marks)


def _moments(parts: list[Any]) -> Any:
    """Those of all blocks together: Σ w (u − ū)² is that inside of blocks, and that of their means."""
    weights = np.asarray([one[0] for one in parts])
    weight = float(weights.sum())
    mean = sum(one[0] * one[1] for one in parts) / (weight or 1.0)
    varied = sum(one[2] + one[0] * (one[1] - mean) ** 2 for one in parts)
    return weight, mean, varied, sum(one[3] for one in parts)
