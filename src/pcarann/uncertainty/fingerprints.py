"""Samples that a model was trained on, recognised when they come again: intervals calibrated on them are too narrow.

A pair (a, u) of (values,) each leaves four numbers, sums of its values with random weights,

    p = (s₁·a, s₂·a, t₁·u, t₂·u),   weights uniform in [−1, 1), a function of the number of values alone.

A sample is learned if all four agree with those of a training sample to 10⁻⁶ of their spread, and to the rounding of
single precision: copies of another precision, order or machine are recognised. Two things agree by chance, and what
they explain is not said. Tables of few values repeat themselves: training samples that have a twin in the training
prove nothing, and of those that have none a new sample meets as many as Good and Turing (1953) expect,

    share = 2 (twins + 1) / samples.

Where nearly all training samples stand there equally often, as in a file that was appended to itself, chance is no
explanation: then each is counted once.

Samples of one parameter lie close: if a tenth of those that are new lie within d times what counts as agreeing, as
one parameter spreads them, about 0.1 / d agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from pcarann.backend.arrays import Array, place_of, to_host
from pcarann.backend.random import spread, uniform
from pcarann.latent.repeats import groups_of

__all__ = [
    "NUMBERS",
    "Fingerprints",
    "Recognised",
    "by_sample",
    "distinct_samples",
    "numbers_of",
    "repeated",
    "too_narrow",
]

Values = np.ndarray[Any, np.dtype[Any]]

_MOST = 100_000  # samples that are remembered, evenly spread where there are more
_EACH = 2  # numbers of an input, and of an output
NUMBERS = 2 * _EACH
"""Of a sample"""
_STREAMS = ((-31,), (-32,))
_AGREEING = 1e-6  # of the spread of a number
_ROUNDED = 2.0**-22  # of the size of a field: sums of values in single precision differ by a quarter of that
_NEARLY_ALL = 0.8  # of the distinct training samples that stand there equally often
_MANY_REPEATS = 0.75  # share of distinct samples up to which close ones are repeats
_CLOSEST = 0.1  # share of new samples by which closeness is judged
_FEW = 16  # samples that are compared with all others one by one
_FAR = 1e12  # in units of what agrees, at which numbers are held: all that is beyond is as unlike


class Recognised(NamedTuple):
    """Which samples were learned, and which cannot be told: they agree with a training sample that has a twin."""

    learned: Values
    """(samples,) of bool"""
    repeated: Values
    chance: float
    """The most that would look learned if all samples were new"""

    @classmethod
    def unknown(cls, samples: int) -> Recognised:
        """Nothing is known of the training samples."""
        none = np.zeros(samples, dtype=bool)
        return cls(none, none, 0.0)

    @property
    def number(self) -> int:
        """Samples that were learned; 0 where chance explains them"""
        found = int(self.learned.sum())
        return found if found > self.chance else 0

    @property
    def told(self) -> Values:
        """Which samples were learned; none where chance explains them"""
        return self.learned if self.number else np.zeros_like(self.learned)

    def by_group(self, size: int) -> Recognised:
        """Groups of so many samples in a row: learned are those of which half was, of what can be told."""
        learned, repeated = (part.reshape(-1, size) for part in (self.learned, self.repeated))
        told = size - repeated.sum(axis=1)
        found = (told > 0) & (2 * learned.sum(axis=1) >= told)
        return Recognised(found, np.asarray(told == 0), self.chance / size)


@dataclass(frozen=True, eq=False)
class Fingerprints:
    """What is remembered of the samples that a model was trained on."""

    numbers: Values
    """(samples, 4)"""
    sizes: tuple[float, float]
    """Root mean square of the norms of inputs, and of outputs"""

    @classmethod
    def of(cls, inputs: Array, outputs: Array) -> Fingerprints:
        """Those of (samples, values) pairs."""
        numbers, sizes = _numbers(inputs, outputs)
        return cls(_some(numbers), sizes)

    def joined(self, other: Fingerprints) -> Fingerprints:
        """With those of further samples."""
        sizes = (max(self.sizes[0], other.sizes[0]), max(self.sizes[1], other.sizes[1]))
        return Fingerprints(_some(np.concatenate([self.numbers, other.numbers])), sizes)

    def recognised(self, inputs: Array, outputs: Array) -> Recognised:
        """Which of (samples, values) pairs are among them."""
        return self.matched(numbers_of(inputs, outputs))

    def matched(self, asked: Values) -> Recognised:
        """Which of the pairs that have left these numbers, (samples, 4), are among them.

        Numbers of inputs only, (samples, 2), are compared with those of the inputs.
        """
        if asked.shape[1] == 0:
            return Recognised.unknown(len(asked))
        if asked.shape[1] < self.numbers.shape[1]:
            return Fingerprints(self.numbers[:, : asked.shape[1]], self.sizes).matched(asked)
        center, unit = self.numbers.mean(axis=0), self._agreeing()
        if len(asked) <= _FEW and not any((np.abs(self.numbers - row) <= unit).all(axis=1).any() for row in asked):
            none = np.zeros(len(asked), dtype=bool)
            return Recognised(none, none, 0.0)
        known, counts = np.unique(_scaled(self.numbers, center, unit), axis=0, return_counts=True)
        tree = cKDTree(known)
        which = tree.query(known, k=3, p=np.inf, distance_upper_bound=1.0)[1]
        alike = np.append(counts, 0)[which].sum(axis=1)  # what is not found has the index after the last
        away, nearest = tree.query(_scaled(asked, center, unit), p=np.inf)
        usual = _usual(alike)
        agreeing, alone = away <= 1, alike[nearest] <= usual
        each = 2 * len(asked) * usual / len(self.numbers)
        expected = each * float(counts[alike == 2 * usual].sum() / (2 * usual) + 1) + _by_closeness(away[~agreeing])
        # Three deviations beside: of what is met, and of the number of twins that it is judged by.
        chance = expected + 3 * math.sqrt(expected * (1 + each))
        return Recognised(agreeing & alone, agreeing & ~alone, chance)

    def _agreeing(self) -> Values:
        """By how much each number may differ."""
        sizes = np.repeat(self.sizes, _EACH)[: self.numbers.shape[1]]
        found = _AGREEING * self.numbers.std(axis=0) + _ROUNDED * sizes
        return np.asarray(np.maximum(found, np.finfo(float).tiny))


def numbers_of(inputs: Array, outputs: Array | None) -> Values:
    """What (samples, values) pairs leave, (samples, 4); inputs only, (samples, 2)."""
    return _numbers(inputs, outputs)[0]


def by_sample(marks: Values, samples: int) -> Values:
    """Numbers of pairs, several rows of them for each sample, as one row for each."""
    return marks.reshape(samples, -1) if marks.size else np.zeros((samples, 0))


def distinct_samples(marks: Values, samples: int) -> Values:
    """Return a label per sample, from 0; repeats and near-repeats of a sample share it.

    `marks` are the numbers of pairs, (samples, n) or several rows of them for each sample. Samples of which nothing is
    known have labels of their own. Near-repeats count as such where they are many: two of a few samples may lie close.
    """
    rows = by_sample(marks, samples)
    if samples < 2 or not rows.any():  # latents of data that do not vary are 0
        return np.arange(samples)
    if (np.ptp(rows, axis=0) <= _AGREEING * np.abs(rows).max(axis=0)).all():
        return np.zeros(samples, dtype=int)
    near = np.asarray(groups_of(rows, rows))
    if near.max() + 1 <= _MANY_REPEATS * samples:
        return near
    unit = np.maximum(_AGREEING * rows.std(axis=0) + _ROUNDED * np.abs(rows).max(axis=0), np.finfo(float).tiny)
    return np.asarray(np.unique(np.round(rows / unit), axis=0, return_inverse=True)[1].reshape(-1))


def repeated(asked: Values, seen: Values) -> Values:
    """Which samples agree with one that was seen, or with an earlier one among them, (samples,) of bool.

    They have left so many numbers each, (samples, n) and (seen, n).
    """
    found = np.zeros(len(asked), dtype=bool)
    if asked.shape[1] == 0:
        return found
    known = np.concatenate([seen, asked]) if seen.shape[1:] == asked.shape[1:] else asked
    unit = np.maximum(_AGREEING * known.std(axis=0) + _ROUNDED * np.abs(known).max(axis=0), np.finfo(float).tiny)
    first = len(known) - len(asked)
    for i, row in enumerate(asked):
        found[i] = bool((np.abs(known[: first + i] - row) <= unit).all(axis=1).any())
    return found


def too_narrow(found: Recognised, called: str) -> list[str]:
    """What to say of samples that intervals are calibrated on, where the model was trained on some of them."""
    if not found.number:
        return []
    return [
        f"The model was trained on {found.number} of the {len(found.learned)} {called}: intervals from them are too "
        "narrow. Calibrate on samples that were used for nothing else."
    ]


def _numbers(inputs: Array, outputs: Array | None) -> tuple[Values, tuple[float, float]]:
    """Sums with random weights, (samples, 4) or those of inputs only, (samples, 2), and the sizes of both sides."""
    found, sizes = [], []
    for fields, stream in zip((inputs, outputs), _STREAMS, strict=True):
        if fields is None:
            sizes.append(0.0)
            continue
        place = place_of(fields)
        xp = place.xp
        weights = uniform((int(fields.shape[1]), _EACH), seed=0, stream=stream, place=place, low=-1.0)
        found.append(to_host(fields @ weights))
        sizes.append(float(xp.linalg.vector_norm(fields)) / math.sqrt(max(1, int(fields.shape[0]))))
    return np.concatenate(found, axis=1), (sizes[0], sizes[1])


def _some(numbers: Values) -> Values:
    """As many as are kept."""
    return numbers if len(numbers) <= _MOST else numbers[spread(len(numbers), _MOST), :]


def _usual(alike: Values) -> int:
    """How often nearly all training samples stand there; 1 where that differs from one to another, as by chance."""
    values, counts = np.unique(alike, return_counts=True)
    most = int(counts.argmax())
    return int(values[most]) if counts[most] >= _NEARLY_ALL * len(alike) else 1


def _scaled(numbers: Values, center: Values, unit: Values) -> Values:
    """Numbers in units of what agrees."""
    with np.errstate(over="ignore"):
        return np.clip((numbers - center) / unit, -_FAR, _FAR)


def _by_closeness(away: Values) -> float:
    """Samples that agree by chance, from how far the nearest of those lie that do not, in units of what agrees."""
    return 0.0 if not away.size else len(away) * _CLOSEST / float(np.quantile(away, _CLOSEST))
