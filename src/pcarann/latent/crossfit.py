"""A PCA as it would be without some of its samples, and what it says of those.

What a PCA misses of a field that it was fitted to says little: with few samples it misses nothing at all. So some
samples are left out, a fold at a time, and the modes of the others are found from the Gram matrix that the PCA was
made of. With A the centred fields, A_h those left out, n the number of the others and M = I + 11ᵀ/n, which moves the
mean,

    few samples:  (AAᵀ) without the fold, centred anew; F(a) = k(a, ·) U Λ^(−½)
    few values:   AᵀA − A_hᵀ M A_h;                     F(a) = M A_h V

Small matrices are decomposed; in large ones the known modes are the start of two steps of subspace iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of, taken, to_host
from pcarann.backend.random import permutation, spread
from pcarann.latent.pca import Centred

__all__ = ["Fold", "LeftOut", "folds_of", "left_out", "left_out_of"]

_MOST_LEFT_OUT = 128  # in one fold, which is enough for many samples
_FOLDS = 8  # of few samples, so that all of them are left out once
_FEW = 500  # samples
_SIGNING = 256  # samples that tell the signs of modes
_DECOMPOSED = 200  # rows of a matrix that is decomposed outright
_STREAM = (-9,)
_ITERATIONS = 2


@dataclass(frozen=True)
class LeftOut:
    """What a fold of samples looks like to the PCA of the others, on the host."""

    rows: list[int]
    """Which samples are looked at"""
    x: Any
    """Latents, (fold, components)"""
    spread: Any
    """Singular values of the others over the root of their number, (components,)"""
    residual: Any
    """Norm of what the modes miss, (fold,)"""
    others: list[int]
    """Some of the others"""
    scores: Any
    """Their latents up to positive factors, (others, components), which tell the signs of the modes"""

    def leading(self, modes: int) -> LeftOut:
        """The same with fewer latents."""
        return replace(self, x=self.x[:, :modes], spread=self.spread[:modes], scores=self.scores[:, :modes])

    def aligned(self, latents: Any) -> Any:
        """The latents x with the signs of the PCA of all samples, whose (samples, components) latents these are."""
        # Rows behind the samples are copies of them under a symmetry.
        mine = [i for i, row in enumerate(self.others) if row < len(latents)]
        known = latents[[self.others[i] for i in mine]][:, : self.x.shape[1]]
        products = (self.scores[mine] * known).sum(axis=0)
        return self.x * (1 - 2 * (products < 0))


@dataclass(frozen=True)
class Fold:
    """Samples that are left out together, and those of them that are looked at."""

    left: list[int]
    looked: list[int]


def folds_of(owners: Sequence[int], samples: int | None = None) -> list[Fold]:
    """Which rows are left out together: all of them in turn where they are few, one fold of many.

    Rows of one owner, as the snapshots of one trajectory, are alike: they are left out together, and one of them is
    looked at. Rows behind so many `samples` are copies of them, which are not. One owner alone is cut into stretches.

    >>> [len(fold.left) for fold in folds_of(range(20))], [len(fold.left) for fold in folds_of(range(1000))]
    ([3, 3, 3, 3, 2, 2, 2, 2], [128])
    """
    samples = len(owners) if samples is None else samples
    if len(set(owners)) == 1:
        owners = [row * _FOLDS // len(owners) for row in range(len(owners))]
    belongings: dict[int, list[int]] = {}
    for row, owner in enumerate(owners):
        belongings.setdefault(owner, []).append(row)
    of = list(belongings.values())
    order = permutation(len(of), seed=0, stream=_STREAM)
    parts = [order[:_MOST_LEFT_OUT]] if len(of) > _FEW else [order[k::_FOLDS] for k in range(min(_FOLDS, len(of)))]
    return [
        Fold(sorted(row for i in part for row in of[i]), sorted(_one(of[i], i, samples) for i in part))
        for part in parts
    ]


def _one(rows: list[int], owner: int, samples: int) -> int:
    """One of the rows of an owner that is no copy, not always the first."""
    own = [row for row in rows if row < samples]
    return own[7 * owner % len(own)]


def left_out(centred: Centred, gram: Array, vectors: Array, fold: Fold) -> LeftOut:
    """Leave a fold out of the PCA of centred fields with this Gram matrix and these leading eigenvectors of it."""
    left = set(fold.left)
    others = [row for row in range(centred.shape[0]) if row not in left]
    return (_few_samples if centred.wide else _few_values)(centred, gram, vectors, fold, others)


def left_out_of(rows: list[int], left: Array, others: list[int], kept: Array, factor: Array) -> LeftOut:
    """Fit a PCA to the (samples, values) fields that are kept, and apply it to those that are left out.

    Latents are multiplied by a factor each, (components,); there are no more of them than factors.
    """
    xp = place_of(kept).xp
    mean = xp.mean(kept, axis=0)
    left, kept = left - mean, kept - mean
    count = min(int(kept.shape[1]), int(factor.shape[0]))
    identity = place_of(kept).put(np.eye(int(kept.shape[1]))[:, :count])
    energies, basis = _leading(kept.T @ kept, identity)
    factor = factor[: int(energies.shape[0])]
    some = spread(len(others), _SIGNING)
    scores = (taken(kept, some) @ basis) * factor
    x = (left @ basis) * factor
    return _as_left_out(rows, x, energies * factor**2, xp.sum(x**2, axis=1), others, some, scores)


def _few_samples(centred: Centred, gram: Array, vectors: Array, fold: Fold, others: list[int]) -> LeftOut:
    rows = fold.looked
    xp = place_of(gram).xp
    among = taken(gram, others)
    inner, across = taken(among.T, others), taken(among.T, rows)
    mean, level = xp.mean(inner, axis=0), xp.mean(inner)
    own = xp.linalg.diagonal(taken(taken(gram, rows).T, rows)) - 2 * xp.mean(across, axis=1) + level
    across = across - xp.mean(across, axis=1)[:, None] - mean + level
    inner = inner - mean[:, None] - mean + level
    energies, basis = _leading(inner, taken(vectors, others))
    x = across @ basis / xp.sqrt(xp.where(energies > 0, energies, xp.ones_like(energies)))
    return _as_left_out(rows, x, energies, own, others, range(len(others)), basis)


def _few_values(centred: Centred, gram: Array, vectors: Array, fold: Fold, others: list[int]) -> LeftOut:
    xp, rows = place_of(gram).xp, fold.looked
    held = centred.rows(fold.left)
    moved = held + xp.sum(held, axis=0) / len(others)
    energies, basis = _leading(gram - held.T @ moved, vectors)
    at = {row: i for i, row in enumerate(fold.left)}
    moved = taken(moved, [at[row] for row in rows])
    x = moved @ basis
    some = spread(len(others), _SIGNING)
    scores = centred.rows([others[i] for i in some]) @ basis
    return _as_left_out(rows, x, energies, xp.sum(moved**2, axis=1), others, some, scores)


def _leading(matrix: Array, start: Array) -> tuple[Array, Array]:
    """Return the leading eigenvalues, descending, and eigenvectors, as many as stand above rounding."""
    xp = place_of(matrix).xp
    count = int(start.shape[1])
    if matrix.shape[0] <= max(_DECOMPOSED, 2 * count):
        values, basis = xp.linalg.eigh(matrix)
    else:
        basis = start
        for _ in range(_ITERATIONS):
            basis = xp.linalg.qr(matrix @ basis, mode="reduced")[0]
        values, rotation = xp.linalg.eigh(basis.T @ (matrix @ basis))
        basis = basis @ rotation
    values, basis = xp.flip(values)[:count], xp.flip(basis, axis=1)[:, :count]
    rank = max(1, int(xp.sum(xp.astype(values > 1e-13 * values[0], xp.int64))))
    return xp.clip(values[:rank], min=0.0), basis[:, :rank]


def _as_left_out(
    rows: list[int], x: Array, energies: Array, own: Array, others: list[int], some: Sequence[int], scores: Array
) -> LeftOut:
    xp = place_of(x).xp
    x = xp.where(energies > 0, x, xp.zeros_like(x))
    residual = xp.sqrt(xp.clip(own - xp.sum(x**2, axis=1), min=0.0))
    sizes = xp.sqrt(energies / len(others))
    return LeftOut(rows, to_host(x), to_host(sizes), to_host(residual), [others[i] for i in some], to_host(scores))
