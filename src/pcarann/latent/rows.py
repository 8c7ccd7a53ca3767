"""The rows that a fit works with: latents of all samples, the inner ones first, then copies of the samples.

    inner samples | validation samples | copies of all of them under g₁ | under g₂ | …

PCAs, anchors of the validation loss and initial scales come from the inner samples alone where the scales are refined;
elsewhere every sample is an inner one. Samples that belong together, as the snapshots of a trajectory do, are on the
same side, and are left out together.
"""

from __future__ import annotations

from dataclasses import dataclass

from pcarann.backend.arrays import Array, place_of, taken
from pcarann.backend.random import permutation, spread

__all__ = ["Order", "TrainingRows"]

INNER_SHARE = 0.8
MOST = 1 << 15
"""Samples from which scales are chosen: more would tell no more, and features of all of them need not fit in memory"""
_SPLIT_STREAM = (-3,)


@dataclass(frozen=True)
class Order:
    """Which sample stands in which row, and how many of the first are inner ones."""

    samples: list[int]
    inner: int
    together: int = 1
    """So many samples in a row belong together"""

    @classmethod
    def split(cls, n: int, seed: int, together: int = 1) -> Order:
        """Split the samples at random, 80/20; what belongs together stays together."""
        kin = 1 if n < 2 * together else together
        order = permutation(n // kin, seed=seed, stream=_SPLIT_STREAM)
        whole = [sample * kin + i for sample in order for i in range(kin)]
        count = min(round(INNER_SHARE * (n // kin)), n // kin - 1) * kin
        return cls(sorted(whole[:count]) + sorted(whole[count:]), count, together)

    @classmethod
    def whole(cls, n: int, together: int = 1) -> Order:
        """All samples as they come, each an inner one."""
        return cls(list(range(n)), n, together)

    @property
    def parts(self) -> list[list[int] | None]:
        """Inner and validation samples; None for all."""
        everything = self.inner == len(self.samples)
        return [None] if everything else [self.samples[: self.inner], self.samples[self.inner :]]

    @property
    def owners(self) -> list[int]:
        """What each inner sample belongs to."""
        return [sample // self.together for sample in self.samples[: self.inner]]


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
        """Inner samples, so many at most, spread over all copies."""
        inner, copies = self.order.inner, self.copies
        each = min(copies, max(1, most // inner))
        some = spread(inner, most)
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

    def judged(self, most: int | None) -> list[list[int]]:
        """Rows of some samples, of all that belong together with them, and of their copies, the sample's own row first.

        They are samples that the PCAs have not seen, where such are there, and have `most` rows in all, where given.
        """
        samples, copies, together = self.order.samples, self.copies, self.order.together
        candidates = range(self.order.inner, self.samples) if self.order.inner < self.samples else range(self.samples)
        count = len(candidates) if most is None else max(1, most // (copies * together))
        some = [candidates[i] for i in spread(len(candidates), count)]
        kin: dict[int, list[int]] = {}
        for row, sample in enumerate(samples if together > 1 else ()):
            kin.setdefault(sample // together, []).append(row)
        groups = [[row, *(k for k in kin.get(samples[row] // together, ()) if k != row)] for row in some]
        return [[row + c * self.samples for c in range(copies) for row in group] for group in groups]
