"""F and G: centred principal component analysis of fields.

For fields a₁, …, a_N on a grid with inner product ⟨a, b⟩ = Σⱼ wⱼ aⱼ bⱼ (w = 1 in the paper), with mean ā and
leading modes φ₁, …, φ_d, orthonormal in that inner product,

    encode   F(a) = (⟨a − ā, φ₁⟩, …, ⟨a − ā, φ_d⟩)
    decode   G(y) = ā + Σₖ yₖ φₖ

The modes come from the smaller of the two Gram matrices, N × N or values × values, which is twenty times
cheaper than a singular value decomposition of the fields; a small decomposition inside the found subspace
(Rayleigh–Ritz) makes them orthonormal, ordered and exact to rounding. Modes too small for a
Gram matrix come in stages (`graded`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from pcarann.backend.arrays import Array, contiguous, cuts, place_of, taken, to_host
from pcarann.backend.concurrency import concurrently
from pcarann.backend.linalg import few_eigenvectors, inverse_root, orthonormal
from pcarann.backend.random import uniform
from pcarann.latent.graded import graded_modes

__all__ = ["PCA", "Centred", "fit_pca", "leading_eigenvectors", "missed", "mode_signs"]

_EPS = 2.0**-52
# Rounding of the fields is at most this share of their norm: a singular value above it always counts.
RANK_TOLERANCE = 10 * _EPS
# Gram eigenvalues below this share of the first have lost half their digits or more.
GRAM_TOLERANCE = 1e4 * _EPS
# Above this share of the first, a Gram eigenvalue has eleven digits, and so have the latents that are read off it.
_READ_TOLERANCE = 1e-5
_CUT = 1 << 14  # values of fields that are encoded or decoded, at a time on a CPU
_BLOCK, _GPU_BLOCK = 1 << 21, 1 << 27  # numbers of centred fields at a time


@dataclass(frozen=True)
class PCA:
    """Mean and modes of a set of fields; `encode` is the paper's F, `decode` its G."""

    mean: Array
    """ā, (values,)"""
    modes: Array
    """φ, (components, values)"""
    singular_values: Array
    """Of the centred fields, (components,)"""
    energy: float
    """Σᵢ ‖aᵢ − ā‖², of which the modes hold Σ singular_values²"""
    grid: tuple[int, ...]
    """Shape of one field"""
    weights: Array | None = None
    """w, (values,); None for 1"""

    @property
    def n_components(self) -> int:
        """The number of modes, d."""
        return int(self.modes.shape[0])

    @property
    def explained_energy(self) -> float:
        """Share of the training fields' energy that the modes hold."""
        return min(float((self.singular_values**2).sum()) / self.energy, 1.0) if self.energy else 1.0

    def encode(self, fields: Array) -> Array:
        """F(a): (samples, values) fields to (samples, components) latents."""
        latents: Array = 0.0
        for values in self._cuts():
            centred = fields[:, values] - self.mean[values]
            if self.weights is not None:
                centred *= self.weights[values]
            latents = latents + centred @ self.modes[:, values].T
        return latents

    def decode(self, latents: Array, out: Array | None = None) -> Array:
        """G(y): (samples, components) latents to (samples, values) fields, the first of them into `out` if given."""
        fields = place_of(latents).empty(latents.shape[0], self.mean.shape[0]) if out is None else out
        for values in self._cuts():
            fields[:, values] = (latents @ self.modes[:, values])[: fields.shape[0], :] + self.mean[values]
        return fields

    def encode_change(self, fields: Array) -> Array:
        """F′: changes of (samples, values) fields to those of their latents."""
        return (fields if self.weights is None else fields * self.weights) @ self.modes.T

    def encode_adjoint(self, latents: Array) -> Array:
        """F′ᵀ: (samples, components) to (samples, values)."""
        fields = latents @ self.modes
        return fields if self.weights is None else fields * self.weights

    def decode_change(self, latents: Array) -> Array:
        """G′: changes of (samples, components) latents to those of their fields."""
        return latents @ self.modes

    def decode_adjoint(self, fields: Array) -> Array:
        """G′ᵀ: (samples, values) to (samples, components)."""
        return fields @ self.modes.T

    def residual(self, fields: Array, latents: Array) -> Array:
        """Norm of what the modes miss of each field, ‖a − G(F(a))‖, (samples,), given its latents F(a).

        The modes are orthonormal, so ‖a − G(F(a))‖² = ‖a − ā‖² − ‖F(a)‖²: no decoding.
        """
        return missed(self.energies(fields), latents)

    def energies(self, fields: Array) -> Array:
        """‖a − ā‖² of (samples, values) fields, (samples,)."""
        xp = place_of(fields).xp
        total: Array = 0.0
        for values in self._cuts():
            squares = fields[:, values] - self.mean[values]
            squares *= squares
            if self.weights is not None:
                squares *= self.weights[values]
            total = total + xp.sum(squares, axis=1)
        return total

    def _cuts(self) -> Iterator[slice]:
        """Values at a time: on a CPU so few that what is made of them stays in the cache."""
        values = int(self.mean.shape[0])
        return cuts(values, _CUT if place_of(self.mean).on_host else values)


def fit_pca(
    fields: Array,
    n_components: int | float,
    *,
    among: Array | None = None,
    grid: tuple[int, ...] | None = None,
    weights: Array | None = None,
    name: str = "fields",
    complain: Callable[[str], None] = warnings.warn,
    watch: Callable[[Centred, Array, Array], None] = lambda centred, gram, vectors: None,
) -> tuple[PCA, Array]:
    """Fit a PCA to (samples, values) fields, or to those at the indices `among`; return it with their latents.

    `n_components` is a number of modes, or a share of the energy in (0, 1). A field has no more modes than
    values, so a larger number means all of them; data of lower rank clip it further, which `complain` is told.
    `watch` is shown the centred fields, their Gram matrix and its leading eigenvectors.

    >>> import numpy as np
    >>> pca, latents = fit_pca(np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]]), 1)
    >>> print(np.abs(pca.modes), np.abs(latents[:, 0]))
    [[1. 0.]] [2. 0. 2.]
    """
    xp = place_of(fields).xp
    root = None if weights is None else xp.sqrt(weights)
    centred = Centred.of(fields, among, root)
    level = float(xp.linalg.vector_norm(centred.mean if root is None else centred.mean * root))
    gram = centred.gram()
    start, energies, energy = leading_eigenvectors(gram, n_components)
    watch(centred, gram, start)
    bound = RANK_TOLERANCE * math.hypot(level * math.sqrt(centred.shape[0]), math.sqrt(energy))
    last = float(energies[-1])
    mean = centred.mean
    if last > GRAM_TOLERANCE * float(energies[0]) and last > bound**2:
        modes, singular, latents = _ritz_modes(centred, gram, start, energies)
    else:
        chosen, latents = fields if among is None else xp.take(fields, among, axis=0), None
        matrix = centred.whole()
        # The mean is rounded too; left in, its error would be a mode of its own: the same for every field.
        shift = xp.mean(matrix, axis=0)
        matrix -= shift
        mean = mean + (shift if root is None else shift / root)
        modes, singular = graded_modes(matrix, start, bound, given=chosen if root is None else chosen * root)
        rank = int(modes.shape[0])
        if not isinstance(n_components, float) and rank < min(n_components, chosen.shape[1]):
            found = f"the {chosen.shape[0]} {name} have rank {rank}: using {rank} modes."
            complain(f"n_components={n_components} is more than there are, as {found}")
    sign = mode_signs(modes)
    modes = modes * sign[:, None]
    pca = PCA(
        mean=mean,
        modes=contiguous(modes if root is None else modes / root),
        singular_values=contiguous(singular),
        energy=energy,
        grid=tuple(fields.shape[1:]) if grid is None else grid,
        weights=weights,
    )
    # Near the noise, latents must round as those of new fields will.
    return pca, contiguous(pca.encode(chosen) if latents is None else latents * sign)


@dataclass(frozen=True)
class Centred:
    """A: the rows √w (a − ā), made block by block where they are used. A copy of all fields might not fit."""

    fields: Array
    among: Array | None
    mean: Array
    root: Array | None

    @classmethod
    def of(cls, fields: Array, among: Array | None, root: Array | None) -> Centred:
        """Centre the chosen fields. Many samples of few values are gathered at once; of few samples only blocks are."""
        place = place_of(fields)
        if among is not None and among.shape[0] > fields.shape[1]:
            fields, among = place.xp.take(fields, among, axis=0), None
        centred = cls(fields, among, place.zeros(fields.shape[1]), None)
        if among is None:
            return replace(centred, mean=place.xp.mean(fields, axis=0), root=root)
        for _, values, mean in centred._over_blocks(lambda block, *_: place.xp.mean(block, axis=0)):
            centred.mean[values] = mean
        return replace(centred, root=root)

    @property
    def shape(self) -> tuple[int, int]:
        """(samples, values)"""
        samples = self.fields.shape[0] if self.among is None else self.among.shape[0]
        return int(samples), int(self.fields.shape[1])

    @property
    def wide(self) -> bool:
        """Whether AAᵀ is the smaller Gram matrix."""
        return self.shape[0] <= self.shape[1]

    def rows(self, which: list[int]) -> Array:
        """Some of its rows"""
        indices = which if self.among is None else [int(i) for i in to_host(self.among)[which]]
        block = taken(self.fields, indices) - self.mean
        return block if self.root is None else block * self.root

    def whole(self) -> Array:
        """A itself"""
        return self._block(slice(0, self.shape[0]), slice(0, self.shape[1]))

    def gram(self) -> Array:
        """AAᵀ or AᵀA, the smaller"""
        total: Array = 0.0
        for _, _, product in self._over_blocks(lambda block, *_: block @ block.T if self.wide else block.T @ block):
            total = total + product
        return total

    def times(self, basis: Array) -> Array:
        """A times a (values, k) matrix"""
        total = place_of(basis).zeros(self.shape[0], basis.shape[1])
        for rows, _, product in self._over_blocks(lambda block, rows, values: block @ basis[values, :]):
            total[rows, :] += product
        return total

    def combined(self, vectors: Array) -> Array:
        """Combinations of the fields, VᵀA for a (samples, k) matrix V: (k, values)"""
        total = place_of(vectors).zeros(vectors.shape[1], self.shape[1])
        for _, values, product in self._over_blocks(lambda block, rows, values: vectors[rows, :].T @ block):
            total[:, values] += product
        return total

    def _over_blocks(self, function: Callable[[Array, slice, slice], Array]) -> Iterator[tuple[slice, slice, Array]]:
        """Yield (rows, values, function(block, rows, values)); blocks are cut along the longer side."""
        samples, values = self.shape
        place = place_of(self.fields)
        most = _BLOCK if place.on_host else _GPU_BLOCK
        length, size = max(samples, values), max(1, most // min(samples, values))
        every = (slice(0, samples), slice(0, values))
        parts = [(every[0], part) if self.wide else (part, every[1]) for part in cuts(length, size)]

        def on_block(part: tuple[slice, slice]) -> tuple[slice, slice, Array]:
            return *part, function(self._block(*part), *part)

        return concurrently(on_block, parts, place=place, bytes_each=3 * 8 * most)

    def _block(self, rows: slice, values: slice) -> Array:
        if self.among is None:
            block = self.fields[rows, values] - self.mean[values]
        else:
            block = place_of(self.fields).xp.take(self.fields[:, values], self.among[rows], axis=0)
            block -= self.mean[values]
        if self.root is not None:
            block *= self.root[values]
        return block


def leading_eigenvectors(gram: Array, n_components: int | float) -> tuple[Array, Array, float]:
    """Return eigenvectors of the smaller Gram matrix for the modes asked for, their energies, and the total energy."""
    xp = place_of(gram).xp
    if not isinstance(n_components, float) and (few := few_eigenvectors(gram, n_components)):
        return *few, float(xp.linalg.trace(gram))
    energies, vectors = xp.linalg.eigh(gram)
    spectrum = to_host(energies)[::-1].clip(min=0.0)
    if isinstance(n_components, float):
        held = spectrum.cumsum()
        count = int((held < n_components * held[-1]).sum()) + 1 if held[-1] else 1
    else:
        count = min(n_components, int(gram.shape[0]))
    return xp.flip(vectors, axis=1)[:, :count], xp.flip(energies)[:count], float(spectrum.sum())


def _ritz_modes(centred: Centred, gram: Array, vectors: Array, energies: Array) -> tuple[Array, Array, Array]:
    """Return modes, (components, values), singular values and latents inside the span of resolved Gram eigenvectors.

    That span has the basis B = AᵀU or U itself, orthonormal to 1e-4; T B with T = L⁻¹ and BBᵀ = LLᵀ is so to rounding.
    Projections on strong modes are products with the Gram matrix, A(AᵀU) = (AAᵀ)U; on weak ones the fields are needed.
    """
    place = place_of(vectors)
    xp = place.xp
    strong = int(xp.sum(xp.astype(energies > _READ_TOLERANCE * energies[0], xp.int64))) if centred.wide else 0
    basis = vectors.T
    if centred.wide:
        vectors = vectors / xp.sqrt(energies)
        basis = centred.combined(vectors)
    to_orthonormal = inverse_root(basis @ basis.T)
    if to_orthonormal is None:
        basis, to_orthonormal, strong = orthonormal(basis.T).T, place.eye(basis.shape[0]), 0
    projections = gram @ vectors[:, :strong] if strong else place.zeros(centred.shape[0], 0)
    if strong < basis.shape[0]:
        projections = xp.concat([projections, centred.times(basis[strong:, :].T)], axis=1)
    left, singular, right = xp.linalg.svd(projections @ to_orthonormal.T, full_matrices=False)
    return (right @ to_orthonormal) @ basis, singular, left * singular


def missed(energies: Array, latents: Array) -> Array:
    """What modes miss of fields, (samples,), of which ‖a − ā‖² and the latents are known."""
    xp = place_of(latents).xp
    return xp.sqrt(xp.clip(energies - xp.sum(latents**2, axis=1), min=0.0))


def mode_signs(modes: Array) -> Array:
    """Return ±1 per mode, so that each has a positive product with one fixed random field.

    The usual rule, largest entry positive, is a tie for every antisymmetric mode, and rounding then decides.
    """
    place = place_of(modes)
    direction = uniform((modes.shape[1],), seed=0, stream=(0,), place=place, low=-1.0)
    return 1.0 - 2.0 * place.xp.astype(modes @ direction < 0, place.xp.float64)
