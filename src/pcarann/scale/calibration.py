"""Calibration and adaptation on lazy samples.

Scores of a calibration need not fit into memory: where they do not, they are counted in bins, each the next after the
last by 1.5e-5 of its value, and a quantile is the upper end of its bin: it covers more, never less.
"""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.scale.engine import Budget, over_blocks
from pcarann.scale.predictions import opened_inputs, opened_outputs, paired, spread_of, whole_rows
from pcarann.uncertainty.bands import scored
from pcarann.uncertainty.conformal import Calibration, kept_ranks
from pcarann.validation import check_fields, check_pair_lengths

__all__ = ["Counts", "lazy_calibration", "lazy_latents", "streamed"]

_BITS = 36  # of a float64 that a bin leaves out: 16 of its mantissa stay
_TINY = 2.0**-40  # scores below count as this, and those above its inverse as infinite
_STREAM_ROWS = 1024  # of a lazy stream that are taken in together, whatever its chunks are


def lazy_calibration(model: Any, X: Any, y: Any) -> tuple[Calibration, Any]:
    """The calibration of a model on lazy samples, and the relative error of each."""
    fitted = model.fitted_
    inputs, truth = opened_inputs(model, X)[0], opened_outputs(model, y)
    samples, points = int(inputs.shape[0]), math.prod(fitted.output_grid)
    whole = 3 * 8 * samples * points <= Budget.now().memory
    blocks, own, constants = paired(model, inputs, truth)
    counts, kept = over_blocks(_scored_block, blocks, own, constants | {"whole": whole}, Counts.add)
    floor, errors = kept[0][0], np.concatenate([one[2] for one in kept])
    if whole:
        scores = fitted.place.put(np.concatenate([one[1] for one in kept]))
        return Calibration.of(scores, floor), errors
    largest = np.sort(np.concatenate([one[1] for one in kept]))
    ranks = kept_ranks(samples, points)
    put = fitted.place.put
    return Calibration(ranks, put(counts.at(ranks)), points, put(largest), floor), errors


class Counts:
    """How many scores lie in each bin."""

    def __init__(self, first: int, counts: Any, above: int):
        self.first, self.counts, self.above = first, counts, above

    @classmethod
    def of(cls, scores: Any) -> Counts:
        """Count scores of at least 0, whose bits are ordered as they are; the least and the largest ones together.

        >>> print(Counts.of(np.array([1.0, 3.0, 2.0])).at(np.array([2])).round(4))
        [2.]
        """
        flat = np.ascontiguousarray(scores, dtype=np.float64).reshape(-1)
        above = flat > 1 / _TINY
        bins = np.maximum(flat[~above], _TINY).view(np.int64) >> _BITS
        first = int(bins.min()) if bins.size else 0
        return cls(first, np.bincount(bins - first), int(above.sum()))

    @staticmethod
    def add(parts: list[Counts | None]) -> Counts | None:
        """All of these together; None where nothing was counted."""
        known = [one for one in parts if one is not None]
        if not known:
            return None
        first = min(one.first for one in known)
        total = np.zeros(max(one.first + len(one.counts) for one in known) - first, dtype=np.int64)
        for one in known:
            total[one.first - first : one.first - first + len(one.counts)] += one.counts
        return Counts(first, total, sum(one.above for one in known))

    def at(self, ranks: Any) -> Any:
        """The upper ends of the bins in which scores of these ranks lie."""
        ends = self.counts.cumsum()
        bins = np.searchsorted(ends, ranks) + self.first
        found = ((bins + 1) << _BITS).view(np.float64)
        return np.where(ranks > (ends[-1] if ends.size else 0), np.inf, found)


def _scored_block(raw: Any, truth: Any, *, model: Any, grids: Any, whole: bool) -> tuple[Counts | None, Any]:
    fitted = model.fitted_
    checked = check_fields(truth, "y", fitted.place)[0]
    look, found = spread_of(model, raw.reshape(-1, *grids[0]))
    rows = slice(0, int(look.inputs.shape[0]))
    judged = scored([(rows, found.mean, found.members, found.beyond)], fitted.outputs(checked), fitted.output_size)
    scores = to_host(judged.scores)
    if whole:
        return None, (judged.floor, scores, judged.errors)
    return Counts.of(scores), (judged.floor, scores.max(axis=1), judged.errors)


def lazy_latents(model: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Latents of new lazy samples, (rows, latent) each, as a fitted model keeps them."""
    fitted = model.fitted_
    if fitted.is_elsewhere:
        raise ValueError("A model on another grid cannot adapt: adapt the one that it came from, and call `on` again.")
    blocks, own, constants = paired(model, opened_inputs(model, X)[0], opened_outputs(model, y))
    _, kept = over_blocks(_latent_block, blocks, own, constants, _nothing)
    x, latents = (fitted.place.xp.concat([fitted.place.put(one) for one in part]) for part in zip(*kept, strict=True))
    return x, latents


def _latent_block(raw: Any, truth: Any, *, model: Any, grids: Any) -> tuple[None, Any]:
    fitted = model.fitted_
    inputs = fitted.look(fitted.checked(raw.reshape(-1, *grids[0]))).inputs
    outputs = fitted.outputs(check_fields(truth, "y", fitted.place)[0])
    return None, tuple(to_host(part) for part in fitted.latent_pairs(inputs, outputs))


def _nothing(_: list[Any]) -> None:
    return None


def streamed(model: Any, method: str, X: Any, y: Any) -> Any:
    """What a fitted model is after lazy samples were taken in, in their order, so many at a time: its new record.

    The model itself stays as it is.
    """
    inputs, truth = opened_inputs(model, X)[0], opened_outputs(model, y)
    check_pair_lengths(int(inputs.shape[0]), int(truth.shape[0]))
    moved = copy(model)
    moved.__dict__.pop("_writers", None)
    packing = model.fitted_.packing
    for start in range(0, int(inputs.shape[0]), _STREAM_ROWS):
        rows = slice(start, start + _STREAM_ROWS)
        pair = whole_rows(inputs, rows), whole_rows(truth, rows)
        if packing is not None:
            pair = _labelled(packing, pair)
        getattr(moved, method)(*pair)
    return moved.fitted_


def _labelled(packing: Any, pair: tuple[Any, Any]) -> tuple[Any, Any]:
    """Arrays with the labels that a model of labelled arrays wants."""
    found = []
    for side, array in zip((packing.inputs, packing.outputs), pair, strict=True):
        label = side.parts[0].label
        found.append(array if label is None else label.applied(array, side.samples, {}))
    return found[0], found[1]
