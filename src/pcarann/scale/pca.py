"""The PCA of fields that are read block by block, as exact as that in memory.

With D the centred fields, the longer side first, the modes come from DᵀD (the covariance where values are the shorter
side, the Gram matrix where samples are), and a Rayleigh–Ritz step inside the span that it resolves:

    1. look       DᵀD, the mean, checks                                   one pass
    2. stage      P = DB for the eigenvectors B that DᵀD resolves          one pass
    …             R = (I − QQᵀ) D (I − BBᵀ), its RᵀR, and again            one pass for each stage

Modes deeper than √eps of the first need a further stage, as in memory (`pcarann.latent.graded`). Where both sides are
too long for a Gram matrix, B comes from subspace iteration with spare vectors, one pass for each step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, contiguous, place_of, to_host
from pcarann.backend.linalg import inverse_root, orthonormal, triangle
from pcarann.backend.random import uniform
from pcarann.latent.graded import rank_above_rounding
from pcarann.latent.pca import GRAM_TOLERANCE, PCA, RANK_TOLERANCE, leading_eigenvectors, mode_signs
from pcarann.latent.source import PcaOptions
from pcarann.scale.blockwork import Directions
from pcarann.scale.reading import MOST_SHORT, Projected, Reader, Tall, Wide
from pcarann.scale.report import ITERATION

__all__ = ["lazy_pca"]

_SPARE, _STEPS = 10, 4  # vectors beside those that are wanted, and steps of the iteration
# By which singular values may still move: below, predictions differ by a hundredth from those with exact modes.
_SETTLED = 1e-2
_STREAM = (-21,)


@dataclass(frozen=True)
class _Modes:
    modes: Array
    """(components, values), orthonormal"""
    singular: Array
    latents: Array
    """Of all samples, (samples, components)"""
    energy: float
    sizes: Any
    """‖a − ā‖² and ‖a‖², (samples, 2), on the host"""


def lazy_pca(reader: Tall | Wide, options: PcaOptions, name: str) -> tuple[PCA, Array, Any]:
    """The PCA of the inner samples of a matrix; the latents of all samples, and ‖a − ā‖² and ‖a‖² of them.

    Samples are in their own order, the last on the host.
    """
    place, log = reader.place, reader.log
    root = reader.frame.rooted(slice(None))
    if reader.frame.gram:
        log.method = "Gram matrix" if reader.wide else "covariance"
        found = _by_gram(reader, options, name)
    else:
        found = _by_iteration(reader, options, name)
    sign = mode_signs(found.modes)
    modes = found.modes * sign[:, None]
    pca = PCA(
        mean=place.put(reader.mean),
        modes=contiguous(modes if root is None else modes / root),
        singular_values=contiguous(found.singular),
        energy=found.energy,
        grid=options.grid,
        weights=options.weights,
    )
    return pca, contiguous(found.latents * sign), found.sizes


def _by_gram(reader: Tall | Wide, options: PcaOptions, name: str) -> _Modes:
    gram = reader.look.gram
    start, energies, energy = leading_eigenvectors(gram, options.n_components)
    if options.watch is not None:
        options.watch(reader, gram, start)
    bound = _noise(reader, energy)
    last, first = float(energies[-1]), float(energies[0])
    reader.log.accuracy = _rounding(math.sqrt(first), math.sqrt(max(last, 0.0)))
    if last > GRAM_TOLERANCE * first and last > bound**2:
        return _resolved(reader, start, energies, energy)
    reader.log.method += " in stages"
    found = _Staged.of(reader, int(start.shape[1]))
    rank = found.rank(reader, bound)
    reader.log.accuracy = _rounding(float(found.singular[0]), float(found.singular[rank - 1]))
    _say_the_rank(reader, options, name, rank)
    return found.modes(reader, rank, energy)


def _noise(reader: Reader, energy: float) -> float:
    """Singular values below this are rounding of the fields as they were given."""
    root, mean = reader.frame.rooted(slice(None)), reader.place.put(reader.mean)
    level = float(reader.place.xp.linalg.vector_norm(mean if root is None else mean * root))
    return RANK_TOLERANCE * math.hypot(level * math.sqrt(reader.inner), math.sqrt(energy))


def _say_the_rank(reader: Reader, options: PcaOptions, name: str, rank: int) -> None:
    asked = options.n_components
    if not isinstance(asked, float) and rank < min(asked, reader.frame.values):
        said = f"the {reader.inner} {name} have rank {rank}: using {rank} modes."
        options.complain(f"n_components={asked} is more than there are, as {said}")


def _rounding(first: float, last: float) -> float:
    """Of the last of singular values, relative to itself."""
    return 2.0**-52 * first / last if last > 0 else 1.0


def _resolved(reader: Tall | Wide, start: Array, energies: Array, energy: float) -> _Modes:
    """All modes at once, inside the span of resolved eigenvectors."""
    place, xp = reader.place, reader.place.xp
    long = reader.frame.values if reader.wide else reader.inner
    found = reader.stage(_directions(start[:, :0], start, False, False), place.zeros(long, 0))
    if not reader.wide:
        singular, right = _triangle_svd(found.P)
        return _Modes(right @ start.T, singular, found.codes @ right.T, energy, found.energies)
    scale = 1.0 / xp.sqrt(energies)
    basis = found.P * scale
    T = inverse_root(basis.T @ basis)
    if T is None:
        _, singular, right = _thin_svd(found.P)
        turn = right.T / singular
    else:
        inner = found.codes[np.flatnonzero(reader.frame.inner), :] * scale
        singular, right = _triangle_svd(inner @ T.T)
        turn = scale[:, None] * (T.T @ right.T)
    return _Modes((found.P @ turn).T, singular, found.codes @ turn, energy, found.energies)


@dataclass(frozen=True)
class _Staged:
    """Modes deeper than a Gram matrix resolves, stage by stage."""

    short: Array
    """Directions of the shorter side, (shorter, found)"""
    long: Array
    """Of the longer side, (longer, found)"""
    singular: Array
    codes: Array
    """Of all samples, where samples are the longer side"""
    missed: float = 0.0
    """‖R‖ of what is left"""
    sizes: Any = None

    @classmethod
    def of(cls, reader: Tall | Wide, count: int) -> _Staged:
        """So many modes, or all that are not zero."""
        place, xp, gram = reader.place, reader.place.xp, reader.look.gram
        short = int(gram.shape[0])
        long = reader.frame.values if reader.wide else reader.inner
        samples = len(reader.frame.inner)
        found = cls(place.zeros(short, 0), place.zeros(long, 0), place.zeros(0), place.zeros(samples, 0))
        while (left := count - int(found.singular.shape[0])) > 0:
            energies, vectors = xp.linalg.eigh((gram + gram.T) / 2)
            energies, vectors = xp.flip(energies), xp.flip(vectors, axis=1)
            if not float(energies[0]) > 0 and found.sizes is not None:
                break  # but of fields that are all alike one mode is needed, as in memory
            keep = min(left, max(1, int((to_host(energies) > GRAM_TOLERANCE * float(energies[0])).sum())))
            new = _beside(found.short, vectors[:, :keep])
            step = reader.stage(_directions(found.short, new, True, keep < left), found.long)
            gram, found = found._after(step, new)
        return found

    def _after(self, step: Projected, new: Array) -> tuple[Array, _Staged]:
        """The Gram matrix of what is left, and what was found."""
        xp, before = place_of(new).xp, int(self.long.shape[1])
        overlap = self.long.T @ step.P
        W, singular, right = _thin_svd(step.P - self.long @ overlap)
        cross = step.sums.cross
        old, mine = cross[:before, :], cross[before:, :]
        # Of singular vectors that are rounded something stays behind, which would be found as a mode: Wᵀ R.
        fresh = (right / _safe(singular)[:, None]) @ (mine - overlap.T @ old) if cross.shape[0] else cross
        gram = step.sums.gram - old.T @ old - fresh.T @ fresh if step.sums.gram.shape[0] else step.sums.gram
        stays = float(xp.sum(old**2)) + float(xp.sum(fresh**2))
        return gram, _Staged(
            xp.concat([self.short, new @ right.T], axis=1),
            xp.concat([self.long, W], axis=1),
            xp.concat([self.singular, singular]),
            xp.concat([self.codes, step.codes @ right.T], axis=1) if self._has_codes(step) else self.codes,
            math.sqrt(max(step.sums.left - stays, 0.0)),
            step.energies,
        )

    def _has_codes(self, step: Projected) -> bool:
        return not step.sums.projections.shape[0]

    def rank(self, reader: Reader, bound: float) -> int:
        """How many of them stand above the rounding of the fields as they were given."""
        xp, look = reader.place.xp, reader.look
        norm = math.sqrt(float(xp.sum(look.squares)))
        widths = math.sqrt(float(xp.max(look.squares))) + math.sqrt(look.longest)
        shape = (reader.inner, reader.frame.values)
        return rank_above_rounding(to_host(self.singular), self.missed, shape, (norm, widths), bound)

    def modes(self, reader: Tall | Wide, rank: int, energy: float) -> _Modes:
        """The first of them. Near the noise, latents must round as those of new fields will."""
        if isinstance(reader, Wide):
            latents = reader.encoded(self.long[:, :rank])
            return _Modes(self.long[:, :rank].T, self.singular[:rank], latents, energy, self.sizes)
        return _Modes(self.short[:, :rank].T, self.singular[:rank], self.codes[:, :rank], energy, self.sizes)


def _by_iteration(reader: Tall | Wide, options: PcaOptions, name: str) -> _Modes:
    """Modes from subspace iteration, where no Gram matrix fits."""
    if isinstance(options.n_components, float):
        raise ValueError(
            f"n_components={options.n_components} is a share of the energy, which needs the whole spectrum, but "
            f"{reader.frame.name} has too many samples and values for that: give numbers of modes."
        )
    place, xp = reader.place, reader.place.xp
    short = min(reader.shape)
    count = min(options.n_components, short)
    B = orthonormal(uniform((short, min(count + _SPARE, short)), seed=0, stream=_STREAM, place=place, low=-1.0))
    values: Any = None
    for _ in range(_STEPS):
        moved = reader.iterated(B)
        values = to_host(xp.flip(xp.linalg.eigvalsh(B.T @ moved)))[:count].clip(min=0.0)
        B = orthonormal(moved)
    long = reader.frame.values if reader.wide else reader.inner
    found = reader.stage(_directions(B[:, :0], B, False, False), place.zeros(long, 0))
    W, singular, right = _thin_svd(found.P)
    energy = float(found.energies[np.flatnonzero(reader.frame.inner), 0].sum())
    known = to_host(singular[:count])
    rank = max(1, int((known > _noise(reader, energy)).sum()))
    if rank < count:
        _say_the_rank(reader, options, name, rank)
        count = rank
    turn = right.T[:, :count] / (_safe(singular)[:count] if reader.wide else 1.0)
    latents = found.codes @ turn
    reader.log.method = ITERATION
    moved = np.abs(known - np.sqrt(values)) / np.maximum(known, 1e-300)
    reader.log.accuracy = float(moved[:count].max())
    if reader.log.accuracy > _SETTLED:
        options.complain(_unsettled(reader, short))
    modes = W[:, :count].T if reader.wide else (B @ turn).T
    return _Modes(modes, singular[:count], latents, energy, found.energies)


def _unsettled(reader: Reader, short: int) -> str:
    least = min(short, MOST_SHORT)
    exact = f"allow each task {32 * least**2 / 1e9:.2g} GB{'' if least == short else f' and fit to {least} samples'}"
    return (
        f"The last modes of {reader.frame.name} have not settled: in the last pass singular values moved by up to "
        f"{reader.log.accuracy:.1%}, and predictions depend on it. Lower n_components, or {exact}: then modes are "
        "exact."
    )


def _directions(old: Array, new: Array, deep: bool, more: bool) -> Directions:
    return Directions(to_host(old), to_host(new), deep, more)


def _beside(found: Array, vectors: Array) -> Array:
    """Orthonormal directions beside those that were found: twice is enough."""
    for _ in range(2 if found.shape[1] else 0):
        vectors = orthonormal(vectors - found @ (found.T @ vectors))
    return vectors


def _triangle_svd(rows: Array) -> tuple[Array, Array]:
    """Singular values and right singular vectors of many rows, by way of their triangle."""
    xp = place_of(rows).xp
    few = triangle(rows) if rows.shape[0] > rows.shape[1] else rows
    _, singular, right = xp.linalg.svd(few, full_matrices=False)
    return singular, right


def _thin_svd(rows: Array) -> tuple[Array, Array, Array]:
    """U, s, Vᵀ of many rows."""
    xp = place_of(rows).xp
    Q, R = xp.linalg.qr(rows, mode="reduced")
    U, singular, right = xp.linalg.svd(R, full_matrices=False)
    return Q @ U, singular, right


def _safe(singular: Array) -> Any:
    xp = place_of(singular).xp
    return xp.where(singular > 0, singular, xp.ones_like(singular))
