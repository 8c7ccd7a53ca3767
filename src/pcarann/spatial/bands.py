"""Ridge regressions by bands of wavenumbers, and the sums that they need.

    V_b = (Σ w² Hᴴ H + λ t I)⁻¹ Σ w² Hᴴ r,   rows: all samples and all modes k of band b,   w = 1/‖u‖

H(k) being the harmonics of the features and r(k) those of what is left to explain. t is the mean of all diagonals, so
that λ is relative and one for all bands, but for those that rounding has made indefinite. Rows beyond a few tens for
each unknown change nothing: of large bands, every sample gives some of its modes, in turn, and they count for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, cuts, place_of, to_host
from pcarann.backend.concurrency import concurrently, cores, single_threaded
from pcarann.backend.linalg import solve_hermitian
from pcarann.backend.random import permutation
from pcarann.spatial.mesh_domain import Space

__all__ = ["Bands", "Sums"]

_STREAM = (-25,)
_SOLVED = 16  # bands at a time on a CPU: threads that solve for one keep each other waiting
_RAISED = 12  # times by ten
_FEW_COLUMNS = 3  # for which weights of all modes, side by side, are faster than a product for each band
Index = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class Bands:
    """Which modes share their weights."""

    labels: Index
    """The band of every mode"""

    @classmethod
    def of(cls, domain: Space, singles: int) -> Bands:
        """So many wavenumbers of every axis stand alone."""
        return cls(domain.bands(singles))

    @property
    def count(self) -> int:
        """The number of bands"""
        return int(self.labels.max()) + 1

    @cached_property
    def modes(self) -> list[Index]:
        """The modes of every band, in a random order"""
        order = np.asarray(permutation(len(self.labels), seed=0, stream=_STREAM))
        return [order[self.labels[order] == band] for band in range(self.count)]

    def taken(self, samples: int, most: int) -> list[int]:
        """Modes that a sample gives to every band, so that no band has many more than `most` rows."""
        return [min(len(modes), -(-most // samples)) for modes in self.modes]

    def chosen(self, numbers: Index, taken: Sequence[int]) -> Index:
        """(samples, modes taken), band after band: the modes that the samples with these numbers give, in turn."""
        sizes, counts = self._sizes, np.asarray(taken)
        firsts = np.cumsum(sizes) - sizes
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        turns = (numbers[:, None] * np.repeat(counts, counts) + within) % np.repeat(sizes, counts)
        found: Index = self._order[turns + np.repeat(firsts, counts)]
        return found

    @cached_property
    def _order(self) -> Index:
        """All modes, band after band"""
        return np.concatenate(self.modes)

    @cached_property
    def _sizes(self) -> Index:
        return np.asarray([len(modes) for modes in self.modes])

    def products(self, harmonics: Array, readout: Array) -> Array:
        """Σⱼ V(j, k) H(k, j) for (samples, modes, features) and (bands, features, columns)."""
        place = place_of(harmonics)
        xp = place.xp
        columns = int(readout.shape[-1])
        labels = xp.asarray(self.labels, device=place.device)
        if place.on_cuda:  # hundreds of small products would be as many launches
            swapped = xp.permute_dims(xp.astype(harmonics, readout.dtype), (1, 0, 2))
            return xp.permute_dims(swapped @ xp.take(readout, labels, axis=0), (1, 0, 2))
        if columns <= max(_FEW_COLUMNS, int(harmonics.shape[0])):
            adjoint = xp.conj(readout) if xp.isdtype(readout.dtype, "complex floating") else readout
            every = (xp.take(adjoint[..., c], labels, axis=0) for c in range(columns))
            return xp.stack([xp.vecdot(one[None, :, :], harmonics) for one in every], axis=-1)
        sorted_modes = xp.take(harmonics, xp.asarray(self._order, device=place.device), axis=1)
        found = xp.empty((*harmonics.shape[:2], columns), dtype=readout.dtype, device=place.device)
        start = 0
        for band, size in enumerate(self._sizes):
            part = slice(start, start + int(size))
            found[:, part, :] = sorted_modes[:, part, :] @ readout[band, ...]
            start += int(size)
        return xp.take(found, xp.asarray(np.argsort(self._order), device=place.device), axis=1)

    def products_adjoint(self, harmonics: Array, readout: Array) -> Array:
        """Adjoint of `products`, conj(V)(j, k) c(k): (samples, modes, columns) to (samples, modes, features)."""
        place = place_of(harmonics)
        xp = place.xp
        columns = int(readout.shape[-1])
        labels = xp.asarray(self.labels, device=place.device)
        weights = xp.conj(readout) if xp.isdtype(readout.dtype, "complex floating") else readout
        if columns <= _FEW_COLUMNS:
            first, *others = (
                harmonics[..., c : c + 1] * xp.take(weights[..., c], labels, axis=0)[None, :, :] for c in range(columns)
            )
            return sum(others, start=first)
        swapped = xp.permute_dims(harmonics, (1, 0, 2)) @ xp.matrix_transpose(xp.take(weights, labels, axis=0))
        return xp.permute_dims(swapped, (1, 0, 2))


@dataclass(frozen=True, eq=False)
class Sums:
    """Σ Hᴴ H and Σ Hᴴ r of every band."""

    gram: Array
    """(bands, features, features)"""
    moment: Array
    """(bands, features, columns)"""

    @classmethod
    def none(cls, bands: int, features: int, columns: int, place: Place, is_complex: bool) -> Sums:
        """Of no samples."""
        kind = place.xp.complex128 if is_complex else place.xp.float64
        shapes = (bands, features, features), (bands, features, columns)
        return cls(*(place.xp.zeros(shape, dtype=kind, device=place.device) for shape in shapes))

    def add(self, parts: Sequence[tuple[Array, Array]], taken: Sequence[int], counts: Sequence[float]) -> None:
        """Add pairs of (samples, modes taken, features) and (samples, modes taken, columns), in place.

        Modes are sorted by bands; those taken of a band count for so many.
        """
        place = place_of(self.gram)
        xp = place.xp
        ends = np.cumsum([0, *taken])
        each = [count / some for count, some in zip(counts, taken, strict=True)]

        def added(bands: Sequence[int]) -> None:
            """Bands of which as many modes are taken: a stack of products."""
            modes = np.concatenate([np.arange(ends[band], ends[band + 1]) for band in bands])
            rows, left = (self._stacked([part[side] for part in parts], modes, len(bands)) for side in (0, 1))
            adjoint = xp.matrix_transpose(xp.conj(rows) if self.gram.dtype != xp.float64 else rows)
            index = xp.asarray(np.asarray(bands), device=place.device)
            weights = place.put(np.asarray([each[band] for band in bands]))[:, None, None]
            self.gram[index, ...] += weights * (adjoint @ rows)
            self.moment[index, ...] += weights * (adjoint @ left)

        size = int(self.gram.shape[-1]) ** 2 * 32
        for _ in concurrently(added, _alike(taken, place.on_cuda), place=place, bytes_each=size):
            pass

    def _stacked(self, parts: Sequence[Array], modes: Index, bands: int) -> Array:
        """(bands, rows, columns) of some modes of (samples, modes, columns) arrays, in double precision."""
        xp = place_of(self.gram).xp
        whole = slice(int(modes[0]), int(modes[-1]) + 1)
        if whole.stop - whole.start == len(modes):
            found = xp.concat([part[:, whole, :] for part in parts], axis=0)
        else:
            index = xp.asarray(modes, device=place_of(self.gram).device)
            found = xp.concat([xp.take(part, index, axis=1) for part in parts], axis=0)
        samples, _, columns = found.shape
        found = xp.permute_dims(xp.reshape(found, (samples, bands, -1, columns)), (1, 0, 2, 3))
        return xp.reshape(xp.astype(found, self.gram.dtype, copy=False), (bands, -1, columns))

    def merged(self, other: Sums, keeping: float = 1.0) -> Sums:
        """These sums, times a factor, and others."""
        return Sums(keeping * self.gram + other.gram, keeping * self.moment + other.moment)

    def readout(self, ridge: float) -> Array:
        """V, (bands, features, columns).

        Sums of bands far above the mean may be indefinite by rounding: their λ is raised, up to 12 times by ten.
        """
        place = place_of(self.gram)
        xp = place.xp
        weight = ridge * (float(xp.mean(xp.real(xp.linalg.diagonal(self.gram)))) or 1.0)
        found = self._solved(self.gram, self.moment, weight)
        for _ in range(_RAISED):
            bad = np.flatnonzero(to_host(xp.any(xp.isnan(found), axis=(1, 2))))
            if not len(bad):
                break
            weight *= 10.0
            index = xp.asarray(bad, device=place.device)
            found[index, ...] = self._solved(
                xp.take(self.gram, index, axis=0), xp.take(self.moment, index, axis=0), weight
            )
        return found

    def _solved(self, gram: Array, moment: Array, weight: float) -> Array:
        """Some bands; NaN where one cannot be solved."""
        place = place_of(gram)
        identity = weight * place.eye(gram.shape[-1])
        if place.on_cuda:
            return solve_hermitian(gram + identity, moment)

        def solved(bands: slice) -> Array:
            return solve_hermitian(gram[bands, ...] + identity, moment[bands, ...])

        some = max(1, min(_SOLVED, -(-int(gram.shape[0]) // cores())))
        size = int(gram.shape[-1]) ** 2 * 64 * some
        with single_threaded(place):
            parts = concurrently(solved, cuts(int(gram.shape[0]), some), place=place, bytes_each=size)
            return place.xp.concat(list(parts))


def _alike(taken: Sequence[int], together: bool) -> list[list[int]]:
    """Bands to sum at once: on a GPU all of which as many modes are taken, as each alone would be launches apart.

    >>> _alike([1, 2, 1], True), _alike([1, 2, 1], False)
    ([[0, 2], [1]], [[0], [1], [2]])
    """
    if not together:
        return [[band] for band in range(len(taken))]
    return [[band for band, count in enumerate(taken) if count == some] for some in sorted(set(taken))]
