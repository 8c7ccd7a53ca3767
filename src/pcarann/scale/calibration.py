"""Calibration and adaptation on lazy samples.

Scores of a calibration need not fit into memory: where they do not, they are counted in bins, each the next after the
last by 1.5e-5 of its value, and a quantile is the upper end of its bin: it covers more, never less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.containers.exchange import checked_outputs
from pcarann.scale.asking import Asked, Pairs, paired
from pcarann.scale.engine import Budget, computed, nothing, over_blocks
from pcarann.uncertainty.conformal import Calibration, kept_ranks
from pcarann.uncertainty.fingerprints import distinct_samples
from pcarann.validation import in_block

__all__ = ["Counts", "LazyScores", "lazily_judged", "lazy_latents", "streamed"]

_BITS = 36  # of a float64 that a bin leaves out: 16 of its mantissa stay
_STEP_BITS = 40  # and 12 for each of the steps, which are many
_TINY = 2.0**-40  # scores below count as this, and those above its inverse as infinite
_STREAM_ROWS = 1024  # of a lazy stream that are taken in together, whatever its chunks are
_COPIES = 8  # of these samples that are in memory


@dataclass(frozen=True)
class LazyScores:
    """The scores of lazy samples, or what is known of them where they do not fit into memory."""

    scores: Any
    """(samples, values); None where they do not fit"""
    floor: float
    errors: Any
    """The relative error of each sample"""
    absolute: Any
    """That in units of the training outputs' size"""
    counted: tuple[Calibration, ...] = ()
    """Where they do not fit, the calibration of all of them, then those of each step"""


def lazily_judged(model: Any, X: Any, y: Any, fitted: Any) -> tuple[LazyScores, Any]:
    """The scores of a model on lazy samples, of a roll-out those of each step too; what these are recognised by."""
    asked, pairs = Asked.of(model, fitted), Pairs.of(fitted, X, y)
    points, apart = math.prod(fitted.output_grid), int(asked.how.get("steps", 0))
    whole = 3 * 8 * len(pairs) * points <= Budget.now().memory
    blocks, own = paired(pairs)
    if not whole and fitted.packing is not None and len(fitted.packing.output_sizes) > 1:
        raise ValueError("Scores of several outputs must fit into memory: calibrate on fewer samples, or allow more.")
    constants = {"asked": asked, "folds": pairs.folds, "apart": None if whole else apart, "counted": None}
    counts, kept = over_blocks(_scored_block, blocks, own, constants, _added)
    floor, put = kept[0][0], fitted.place.put
    scores, errors, absolute, marks = (np.concatenate([one[i] for one in kept]) for i in (1, 2, 3, 4))
    if whole:
        return LazyScores(put(scores), floor, errors, absolute), marks
    labels = distinct_samples(marks, len(pairs))
    first = np.unique(labels, return_index=True)[1]
    if len(first) < len(pairs):  # once more, without repeats
        counted = np.isin(np.arange(len(pairs)), first)
        counts, _ = over_blocks(_scored_block, blocks, own, constants | {"counted": counted}, _added)
        scores = scores[first, :]
    found: list[Calibration] = []
    for count, largest in zip(counts, scores.T, strict=True):
        values = points if not found else points // apart
        ranks = kept_ranks(len(first), values)
        found.append(Calibration(ranks, put(count.at(ranks)), values, put(np.sort(largest)), floor))
    return LazyScores(None, floor, errors, absolute, tuple(found)), marks


class Counts:
    """How many scores lie in each bin."""

    def __init__(self, first: int, counts: Any, above: int, bits: int = _BITS):
        self.first, self.counts, self.above, self.bits = first, counts, above, bits

    @classmethod
    def of(cls, scores: Any, bits: int = _BITS) -> Counts:
        """Count scores of at least 0, whose bits are ordered as they are; the least and the largest ones together.

        >>> print(Counts.of(np.array([1.0, 3.0, 2.0])).at(np.array([2])).round(4))
        [2.]
        """
        flat = np.ascontiguousarray(scores, dtype=np.float64).reshape(-1)
        above = flat > 1 / _TINY
        bins = np.maximum(flat[~above], _TINY).view(np.int64) >> bits
        first = int(bins.min()) if bins.size else 0
        return cls(first, np.bincount(bins - first), int(above.sum()), bits)

    @staticmethod
    def add(parts: Sequence[Counts]) -> Counts:
        """All of these together."""
        some = [one for one in parts if len(one.counts)] or parts[:1]
        first = min(one.first for one in some)
        total = np.zeros(max(one.first + len(one.counts) for one in some) - first, dtype=np.int64)
        for one in some:
            total[one.first - first : one.first - first + len(one.counts)] += one.counts
        return Counts(first, total, sum(one.above for one in parts), parts[0].bits)

    def at(self, ranks: Any) -> Any:
        """The upper ends of the bins in which scores of these ranks lie."""
        ends = self.counts.cumsum()
        bins = np.searchsorted(ends, ranks) + self.first
        found = ((bins + 1) << self.bits).view(np.float64)
        return np.where(ranks > (ends[-1] if ends.size else 0), np.inf, found)


def _scored_block(
    raw: Any, truth: Any, first: int, *, asked: Asked, folds: Any, apart: int | None, counted: Any
) -> tuple[Any, Any]:
    """Counts of all scores and of those of each step; floor, largest scores, errors, marks. Where they fit, scores.

    Scores are those of all samples, or of those that are `counted`, a bool for each of all.
    """
    with in_block(first):
        pair = folds[0].folded(raw), folds[1].folded(truth)
        judged, marks = asked.model.judged(*pair, asked.part(first, len(raw)))
    scores = to_host(judged.scores)
    if apart is None:
        return [], (judged.floor, scores, judged.errors, judged.absolute, marks)
    scores = scores if counted is None else scores[counted[first : first + len(scores)], :]
    steps = np.split(scores, apart, axis=1) if apart else []
    counts = [Counts.of(scores), *(Counts.of(one, _STEP_BITS) for one in steps)]
    largest = np.stack([one.max(axis=1) for one in (scores, *steps)], axis=1)
    return counts, (judged.floor, largest, judged.errors, judged.absolute, marks)


def _plain(fitted: Any, X: Any) -> Any:
    """Inputs as the one array that the model knows."""
    return X if fitted.packing is None else fitted.packing.opened(X, fitted.place)[0]


def _added(parts: list[list[Counts]]) -> list[Counts]:
    return [Counts.add(one) for one in zip(*parts, strict=True)]


def lazy_latents(model: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Latents of new lazy samples, (rows, latent) each, as a fitted model keeps them."""
    fitted = model.fitted_
    if fitted.is_elsewhere:
        raise ValueError("A model on another grid cannot adapt: adapt the one that it came from, and call `on` again.")
    pairs = Pairs.of(fitted, X, y)
    blocks, own = paired(pairs)
    _, kept = over_blocks(_latent_block, blocks, own, {"fitted": fitted, "folds": pairs.folds}, nothing)
    x, latents = (fitted.place.xp.concat([fitted.place.put(one) for one in part]) for part in zip(*kept, strict=True))
    return x, latents


def _latent_block(raw: Any, truth: Any, first: int, *, fitted: Any, folds: Any) -> tuple[None, Any]:
    with in_block(first):
        inputs = fitted.checked(_plain(fitted, folds[0].folded(raw)))
        outputs = checked_outputs(folds[1].folded(truth), fitted)
    return None, tuple(to_host(part) for part in fitted.latent_pairs(inputs, outputs))


def streamed(model: Any, fitted: Any, method: str, X: Any, y: Any, **options: Any) -> Any:
    """A copy of a fitted model that has taken in lazy samples, in their order, so many at a time.

    The model itself stays as it is. The options are those of the method.
    """
    pairs, moved = Pairs.of(fitted, X, y), Asked.of(model, fitted).each
    many = min(_STREAM_ROWS, max(1, Budget.now().memory // (_COPIES * 8 * pairs.values)))
    for start in range(0, len(pairs), many):
        rows = slice(start, start + many)
        raw = (np.asarray(computed(one[rows])) for one in (pairs.inputs, pairs.outputs))
        block = (fold.folded(one) for fold, one in zip(pairs.folds, raw, strict=True))
        moved(method, start, *block, quiet=False, **options)
    return moved.model
