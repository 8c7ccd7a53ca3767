"""Passes over a lazy matrix, block by block: of samples where these are many, of values where they are few.

`Tall` and `Wide` say the same of the two: `look` once, then `stage` by stage. The shorter side of the matrix has the
Gram matrix, the longer one is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, to_host
from pcarann.scale import blockwork as work
from pcarann.scale.blockwork import Directions, Frame, Look, Stage
from pcarann.scale.engine import Budget, over_blocks
from pcarann.scale.fields import Cut, cut_along, rows_of
from pcarann.scale.report import Log

__all__ = ["MOST_SHORT", "SHIFTED_BY", "Projected", "Reader", "Tall", "Wide", "reader_of"]

MOST_SHORT = 8192
"""Rows of a Gram matrix that is made, at most: beyond, the modes come from an iteration"""
SHIFTED_BY = 64
"""Samples whose mean is near that of all"""


@dataclass(frozen=True)
class Projected:
    """What a stage finds."""

    sums: Stage
    P: Array
    """What is left of the longer side of the inner samples in the new directions, (longer, modes)"""
    codes: Array
    """All samples on the new directions, or on P where that is of values, (samples, modes)"""
    energies: Any
    """‖a − ā‖² and ‖a‖², (samples, 2), on the host"""


@dataclass(frozen=True)
class Reader:
    """One matrix, its blocks, and what the first look at it has found."""

    matrix: Any
    frame: Frame
    cut: Cut
    log: Log
    found: Look | None = None
    sums: tuple[int, ...] = ()
    """Checksums of the blocks"""
    mean: Any = None
    """ā of the inner samples, (values,), on the host"""
    lows: Any = None
    """Least value of each leading channel, (samples, channels)"""
    highs: Any = None

    @property
    def place(self) -> Place:
        """Where blocks are computed with"""
        return self.frame.place

    @property
    def inner(self) -> int:
        """Samples that the PCA is fitted to"""
        return int(self.frame.inner.sum())

    @property
    def look(self) -> Look:
        """What the first look has found"""
        assert self.found is not None
        return self.found

    def rows(self, which: list[int]) -> Array:
        """Some of the inner samples, centred, times √w."""
        inner = np.flatnonzero(self.frame.inner)
        fields = self.place.put(rows_of(self.matrix, [int(inner[i]) for i in which])) - self.place.put(self.mean)
        root = self.frame.rooted(slice(None))
        return fields if root is None else fields * root

    def _pass(
        self, task: Callable[..., Any], own: list[tuple[Any, ...]], add: Callable[[list[Any]], Any], **constants: Any
    ) -> tuple[Any, list[Any]]:
        self.log.passes += 1
        self.log.blocks = len(self.cut.parts)
        self.log.read += self.cut.reads
        starts = [(part.start, *mine) for part, mine in zip(self.cut.parts, own, strict=True)]
        blocks = self.cut.blocks(self.matrix)
        alone = self.cut.shared and self.cut.axis == 1
        shown = f"reading {self.frame.name}, pass {self.log.passes}"
        return over_blocks(task, blocks, starts, constants | {"frame": self.frame}, add, apart=alone, shown=shown)

    def _iterated(self, task: Callable[..., Any], own: list[tuple[Any, ...]], **constants: Any) -> Array:
        return self._pass(task, own, _total, **constants)[0]


class Tall(Reader):
    """Blocks of samples, a Gram matrix of the values."""

    wide = False

    @property
    def shape(self) -> tuple[int, int]:
        """Inner samples, values"""
        return self.inner, self.frame.values

    def looked(self) -> Tall:
        """The same after the first look."""
        few = np.flatnonzero(self.frame.inner)[:SHIFTED_BY]
        shift = rows_of(self.matrix, few.tolist()).astype(np.float64).mean(axis=0)
        shift = np.where(np.isfinite(shift), shift, 0.0)
        found, kept = self._pass(work.tall_look, [()] * len(self.cut.parts), Look.add, shift=shift)
        sums, lows, highs = zip(*kept, strict=True)
        _as_said(sum(map(len, lows)), len(self.frame.inner), "samples", self.frame.name)
        place, count = self.place, self.inner
        moved = found.total / count
        mean = np.asarray(shift) + to_host(moved)
        root = self.frame.rooted(slice(None))
        if self.frame.gram:
            # Σ (a − ā)(a − ā)ᵀ = Σ (a − c)(a − c)ᵀ − n (ā − c)(ā − c)ᵀ, the shift c being near the mean.
            moved = moved if root is None else moved * root
            found.gram -= count * (moved[:, None] * moved[None, :])
        found.gram = place.put(found.gram)
        return replace(self, found=found, sums=sums, mean=mean, lows=np.concatenate(lows), highs=np.concatenate(highs))

    def stage(self, to: Directions, Q: Array) -> Projected:
        """Project what the old directions (values, found) have left on the new ones; Q are the old projections."""
        ends = np.concatenate([[0], np.cumsum(self.frame.inner)])
        pieces = [slice(int(ends[part.start]), int(ends[part.stop])) for part in self.cut.parts]
        host = to_host(Q)
        own = [(known, host[rows]) for known, rows in zip(self.sums, pieces, strict=True)]
        sums, kept = self._pass(work.tall_stage, own, Stage.add, mean=self.mean, to=to)
        codes, P, energies = (self.place.xp.concat(list(parts)) for parts in zip(*kept, strict=True))
        return Projected(sums, P, codes, to_host(energies))

    def iterated(self, new: Array) -> Array:
        """DᵀDB"""
        own = [(known,) for known in self.sums]
        return self._iterated(work.tall_iterate, own, mean=self.mean, new=to_host(new))


class Wide(Reader):
    """Blocks of values, a Gram matrix of the samples."""

    wide = True

    @property
    def shape(self) -> tuple[int, int]:
        """Inner samples, values"""
        return self.inner, self.frame.values

    def looked(self) -> Wide:
        """The same after the first look."""
        found, kept = self._pass(work.wide_look, [()] * len(self.cut.parts), Look.add)
        sums, means = zip(*kept, strict=True)
        mean = np.concatenate(means)
        _as_said(len(mean), self.frame.values, "values", self.frame.name)
        found.gram = self.place.put(found.gram)
        return replace(self, found=found, sums=sums, mean=mean, lows=found.lows, highs=found.highs)

    def stage(self, to: Directions, Q: Array) -> Projected:
        """Project what the old directions (samples, found) have left on the new ones; Q are the old projections."""
        host = to_host(Q)
        own = [(*mine, host[part]) for mine, part in zip(self._own, self.cut.parts, strict=True)]
        sums, kept = self._pass(work.wide_stage, own, Stage.add, to=to)
        return Projected(sums, self.place.xp.concat(kept), sums.projections, self.look.energies)

    def encoded(self, modes: Array) -> Array:
        """Projections of all samples on (values, modes) directions."""
        host = to_host(modes)
        own = [(*mine, host[part]) for mine, part in zip(self._own, self.cut.parts, strict=True)]
        return self._pass(work.wide_encode, own, _total)[0]

    def iterated(self, new: Array) -> Array:
        """DᵀDB"""
        return self._iterated(work.wide_iterate, self._own, new=to_host(new))

    @property
    def _own(self) -> list[tuple[Any, ...]]:
        return [(known, self.mean[part]) for known, part in zip(self.sums, self.cut.parts, strict=True)]


def reader_of(matrix: Any, frame: Frame, budget: Budget, log: Log) -> Tall | Wide:
    """Whoever reads a matrix with the fewer passes and the smaller Gram matrix."""
    wide = int(frame.inner.sum()) <= frame.values
    short = min(int(frame.inner.sum()), frame.values)
    frame = replace(frame, gram=short <= MOST_SHORT and 4 * 8 * short**2 <= budget.each)
    cut = cut_along(matrix, 1 if wide else 0, budget, frame.name, least=16 * short**2 if frame.gram else 0)
    return (Wide if wide else Tall)(matrix, frame, cut, log).looked()


def _as_said(found: int, said: int, what: str, name: str) -> None:
    if found != said:
        raise ValueError(f"The chunks of {name} hold {found} {what} and not {said}, as they say: mend their sizes.")


def _total(parts: list[Any]) -> Any:
    return sum(parts[1:], parts[0])
