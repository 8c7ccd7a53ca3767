"""F and G: centred principal component analysis of fields.

For fields a₁, …, a_N on a grid with inner product ⟨a, b⟩ = Σⱼ wⱼ aⱼ bⱼ (w = 1 in the paper), with mean ā and
leading modes φ₁, …, φ_d, orthonormal in that inner product,

    encode   F(a) = (⟨a − ā, φ₁⟩, …, ⟨a − ā, φ_d⟩)
    decode   G(y) = ā + Σₖ yₖ φₖ

The modes come from the smaller of the two Gram matrices, N × N or values × values, which is twenty times
cheaper than a singular value decomposition of the fields. A Gram matrix squares the singular values, so modes
below √eps of the first are lost in it: where modes that deep are asked for, a block power step with orthonormal
bases brings them back. A small singular value decomposition inside the found subspace
(Rayleigh–Ritz) then makes the modes orthonormal, ordered and exact to rounding.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

from pcarann.arrays import Array, Place, cholesky, contiguous, place_of, solve_lower, to_host
from pcarann.random import uniform

__all__ = ["PCA", "fit_pca"]

_EPS = 2.0**-52
# A singular value counts while it exceeds the rounding error of the data it was computed from.
_RANK_TOLERANCE = 10 * _EPS
# Gram eigenvalues below this share of the first have lost half their digits or more.
_GRAM_TOLERANCE = 1e4 * _EPS


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
        held = float((self.singular_values**2).sum()) if self.energy else 1.0
        return min(held / self.energy, 1.0) if self.energy else 1.0

    def encode(self, fields: Array) -> Array:
        """F(a): (samples, values) fields to (samples, components) latents."""
        centred = fields - self.mean
        return (centred if self.weights is None else centred * self.weights) @ self.modes.T

    def decode(self, latents: Array) -> Array:
        """G(y): (samples, components) latents to (samples, values) fields."""
        fields = latents @ self.modes
        fields += self.mean
        return fields

    def residual(self, fields: Array, latents: Array) -> Array:
        """Norm of what the modes miss of each field, ‖a − G(F(a))‖, (samples,), given its latents F(a).

        The modes are orthonormal, so ‖a − G(F(a))‖² = ‖a − ā‖² − ‖F(a)‖²: no decoding.
        """
        xp = place_of(fields).xp
        squares = (fields - self.mean) ** 2
        total = xp.sum(squares if self.weights is None else squares * self.weights, axis=1)
        return xp.sqrt(xp.clip(total - xp.sum(latents**2, axis=1), min=0.0))


def fit_pca(
    fields: Array,
    n_components: int | float,
    *,
    grid: tuple[int, ...] | None = None,
    weights: Array | None = None,
    name: str = "fields",
) -> tuple[PCA, Array]:
    """Fit a PCA to (samples, values) fields; return it with the latents of those fields.

    `n_components` is a number of modes, or a share of the energy in (0, 1). A field has no more modes than
    values, so a larger number means all of them; data of lower rank clip it further, with a warning.

    >>> import numpy as np
    >>> pca, latents = fit_pca(np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]]), 1)
    >>> print(np.abs(pca.modes), np.abs(latents[:, 0]))
    [[1. 0.]] [2. 0. 2.]
    """
    place = place_of(fields)
    xp = place.xp
    mean = xp.mean(fields, axis=0)
    centred = fields - mean
    root = None if weights is None else xp.sqrt(weights)
    if root is not None:
        centred *= root
    size = _norm(mean if root is None else mean * root) * math.sqrt(fields.shape[0])
    basis, energy = _leading_basis(centred, n_components)
    left, singular, right = xp.linalg.svd(centred @ basis, full_matrices=False)
    modes = (basis @ right.T).T
    latents = left * singular
    sign = _signs(modes, place)
    rank = _rank(to_host(singular), math.hypot(size, math.sqrt(energy)), n_components, fields, name)
    modes = (modes * sign[:, None])[:rank, :]
    pca = PCA(
        mean=mean,
        modes=contiguous(modes if root is None else modes / root),
        singular_values=contiguous(singular[:rank]),
        energy=energy,
        grid=tuple(fields.shape[1:]) if grid is None else grid,
        weights=weights,
    )
    return pca, contiguous((latents * sign)[:, :rank])


def _leading_basis(centred: Array, n_components: int | float) -> tuple[Array, float]:
    """Return an orthonormal (values, components) basis of the leading modes, and the total energy."""
    xp = place_of(centred).xp
    samples, values = centred.shape
    wide = samples <= values
    energies, vectors = xp.linalg.eigh(centred @ centred.T if wide else centred.T @ centred)
    spectrum = to_host(energies)[::-1].clip(min=0.0)
    count = _count(spectrum, n_components, min(samples, values))
    leading = xp.flip(vectors, axis=1)[:, :count]
    energy = float(spectrum.sum())
    if spectrum[count - 1] > _GRAM_TOLERANCE * spectrum[0]:
        return _nearly_orthonormal(centred.T @ leading, energies[-count:]) if wide else leading, energy
    basis = _orthonormal(centred.T @ leading if wide else leading)
    return _orthonormal(centred.T @ _orthonormal(centred @ basis)), energy


def _count(spectrum: Any, n_components: int | float, most: int) -> int:
    """Return how many modes are asked for, given the energies in descending order."""
    if isinstance(n_components, float):
        held = spectrum.cumsum()
        return int((held < n_components * held[-1]).sum()) + 1 if held[-1] else 1
    return min(n_components, most)


def _rank(singular: Any, size: float, n_components: int | float, fields: Array, name: str) -> int:
    """Return how many computed modes stand above rounding (at least one); warn where fewer than asked."""
    rank = max(1, int((singular > _RANK_TOLERANCE * size).sum()))
    if not isinstance(n_components, float):
        wanted = min(n_components, fields.shape[1])
        if rank < wanted:
            warnings.warn(
                f"n_components={n_components} was asked for, but the {fields.shape[0]} {name} have rank {rank}: "
                f"using {rank} modes.",
                stacklevel=6,  # where the user called fit
            )
    return rank


def _nearly_orthonormal(basis: Array, energies: Array) -> Array:
    """Orthonormalise AᵀU, columns already orthogonal to 1e-4, through the Cholesky factor of a small Gram matrix."""
    basis /= place_of(basis).xp.sqrt(place_of(basis).xp.flip(energies))
    lower = cholesky(basis.T @ basis)
    return _orthonormal(basis) if lower is None else solve_lower(lower, basis.T).T


def _orthonormal(matrix: Array) -> Array:
    return place_of(matrix).xp.linalg.qr(matrix, mode="reduced")[0]


def _signs(modes: Array, place: Place) -> Array:
    """Return ±1 per mode, so that each has a positive product with one fixed random field.

    The usual rule, largest entry positive, is a tie for every antisymmetric mode, and rounding then decides.
    """
    xp = place.xp
    direction = uniform((modes.shape[1],), seed=0, stream=(0,), place=place, low=-1.0)
    return 1.0 - 2.0 * xp.astype(modes @ direction < 0, xp.float64)


def _norm(vector: Array) -> float:
    return float(place_of(vector).xp.linalg.vector_norm(vector))
