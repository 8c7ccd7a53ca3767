"""The rows that a fit works with: latents of all samples, the inner ones first, then copies of the samples.

    inner samples | validation samples | copies of all of them under g₁ | under g₂ | …

PCAs, anchors of the validation loss and initial scales come from the inner samples alone where the scales are refined;
elsewhere every sample is an inner one. Samples of one group, as the snapshots of a trajectory and repeats of a sample
are (`repeats`), are on the same side, and are left out together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pcarann.backend.arrays import Array, place_of, taken
from pcarann.backend.random import permutation, spread

__all__ = ["LeaveOut", "Order", "TrainingRows"]

INNER_SHARE = 0.8
MOST = 1 << 15
"""Samples from which scales are chosen: more would tell no more, and features of all of them need not fit in memory"""
_SPLIT_STREAM = (-3,)
_INDEPENDENT = 0.9  # groups per sample: a few pairs that are close by chance change nothing


@dataclass(frozen=True)
class Order:
    """Which sample stands in which row, and how many of the first are inner ones."""

    samples: list[int]
    inner: int
    groups: list[int]
    """Label of each sample: those of one group are never split"""

    @classmethod
    def split(cls, n: int, seed: int, together: int = 1, groups: Sequence[int] | None = None) -> Order:
        """Split the groups at random, 80/20: by labels per sample, or by blocks of `together` samples."""
        labels = _labels(n, together, groups)
        kin: dict[int, list[int]] = {}
        for sample, label in enumerate(labels if len(set(labels)) > 1 else range(n)):
            kin.setdefault(label, []).append(sample)
        members = list(kin.values())
        order = permutation(len(members), seed=seed, stream=_SPLIT_STREAM)
        count = min(round(INNER_SHARE * len(members)), len(members) - 1)
        inner, held = (sorted(i for g in part for i in members[g]) for part in (order[:count], order[count:]))
        return cls(inner + held, len(inner), labels)

    @classmethod
    def whole(cls, n: int, together: int = 1, groups: Sequence[int] | None = None) -> Order:
        """All samples as they come, each an inner one."""
        return cls(list(range(n)), n, _labels(n, together, groups))

    @property
    def distinct(self) -> int:
        """Number of groups"""
        return len(set(self.groups))

    @property
    def grouped(self) -> bool:
        """Whether too many samples share groups to be treated as independent"""
        return self.distinct < _INDEPENDENT * len(self.samples)

    @property
    def parts(self) -> list[list[int] | None]:
        """Inner and validation samples; None for all."""
        everything = self.inner == len(self.samples)
        return [None] if everything else [self.samples[: self.inner], self.samples[self.inner :]]

    @property
    def owners(self) -> list[int]:
        """Group of each inner sample"""
        return [self.groups[sample] for sample in self.samples[: self.inner]]


@dataclass(frozen=True)
class LeaveOut:
    """Rows that are left out together: samples of a group, then their copies."""

    rows: list[int]
    own: int
    """How many of them are samples"""


@dataclass(frozen=True)
class TrainingRows:
    """Latents of inputs and outputs, (rows, latent) each."""

    x: Array
    y: Array
    order: Order

    @property
    def samples(self) -> int:
        """Rows that are samples themselves"""
        return len(self.order.samples)

    @property
    def copies(self) -> int:
        """Times that each sample is there"""
        return int(self.x.shape[0]) // self.samples

    @property
    def inner(self) -> tuple[Array, Array]:
        """Latents of the inner samples, without copies; of very many some"""
        if self.order.inner > MOST:
            rows = spread(self.order.inner, MOST)
            return taken(self.x, rows), taken(self.y, rows)
        return self.x[: self.order.inner, :], self.y[: self.order.inner, :]

    def some_inner(self, most: int) -> tuple[Array, Array]:
        """Inner samples, one of each group, at most `most` rows, spread over all copies."""
        copies, firsts = self.copies, [row for row in self.firsts if row < self.order.inner]
        each = min(copies, max(1, most // len(firsts)))
        some = [firsts[i] for i in spread(len(firsts), most)]
        rows = [((i + c * copies // each) % copies) * self.samples + i for c in range(each) for i in some]
        return taken(self.x, rows), taken(self.y, rows)

    def validated(self, most: int) -> tuple[Array, Array, int]:
        """Inner samples with copies, so many rows at most, then validation samples as they are; how many are inner."""
        xp = place_of(self.x).xp
        inner = self.order.inner
        if inner > MOST:
            held = spread(self.samples - inner, MOST // 4)
            rows = [*spread(inner, MOST), *(inner + i for i in held)]
            return taken(self.x, rows), taken(self.y, rows), len(rows) - len(held)
        copies = min(self.copies, max(1, most // inner))
        parts = [slice(g * self.samples, g * self.samples + inner) for g in range(copies)]
        parts.append(slice(inner, self.samples))
        x, y = (xp.concat([rows[part, :] for part in parts], axis=0) for rows in (self.x, self.y))
        return x, y, copies * inner

    @property
    def firsts(self) -> list[int]:
        """Rows of one sample of each group, of inner ones where the group has any; all where none is repeated"""
        found: dict[int, int] = {}
        for row, sample in enumerate(self.order.samples):
            found.setdefault(self.order.groups[sample], row)
        return list(found.values())

    def judged(self, most: int | None) -> list[LeaveOut]:
        """Groups of samples to leave out, evenly spread, with `most` rows in all, where given, or two groups."""
        copies, samples = self.copies, self.order.samples
        kin: dict[int, list[int]] = {}
        for row, sample in enumerate(samples):
            kin.setdefault(self.order.groups[sample], []).append(row)
        groups = list(kin.values())
        if len(groups) < 2:
            groups = [[row] for row in range(self.samples)]
        rows = self.samples * copies
        count = len(groups) if most is None or rows <= most else max(2, len(groups) * most // rows)
        chosen = [groups[i] for i in spread(len(groups), count)]
        return [LeaveOut([r + c * self.samples for c in range(copies) for r in group], len(group)) for group in chosen]


def _labels(n: int, together: int, groups: Sequence[int] | None) -> list[int]:
    return [sample // together for sample in range(n)] if groups is None else list(groups)
