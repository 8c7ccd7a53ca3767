"""Gaussian random fields N(0, C), drawn from the eigenfunctions of their covariance.

A field is a sum of eigenfunctions φₖ of C with independent normal weights, μ = Σₖ √λₖ ξₖ φₖ. For
C = σ²(−Δ + τ²)^−γ the eigenvalues are

    λₖ = σ² (4π²|k|² + τ²)^−γ   on the periodic unit interval or square, φₖ = e^{2πi k·x}, k ∈ ℤᵈ,
    λₖ = σ² (π²|k|² + τ²)^−γ    on the unit square with ∂μ/∂n = 0, φₖ = cₖ cos(πk₁x) cos(πk₂y), k ∈ ℕ².

A real periodic field is Re Σₖ √λₖ (ξₖ + iηₖ) e^{2πi k·x} over all k: each pair ±k then has the variance 2λₖ.
The mode k = 0 is left out everywhere, as in the public generators: the fields have mean zero over the domain.

The squared exponential exp(−(x−x')²/2l²) on an interval is R Rᵀ with, for s = (x − ½)/l,

    R(x, n) = e^{−s²/2} sⁿ / √n!,   n = 0, 1, …      since  e^{−s²/2} e^{ss'} e^{−s'²/2} = e^{−(s−s')²/2},

so that R Z Rᵀ has the covariance exp(−‖x−x'‖²/2l²) on the square.

Sample i is a function of (seed, tag, i) alone, whatever the batch and the device (up to rounding). The weights
belong to modes and not to points, so that a finer grid shows the same field.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pcarann.backend.arrays import Array, Place
from pcarann.backend.random import normal

__all__ = ["Covariance", "neumann_square", "normals", "periodic_interval", "periodic_square", "squared_exponential"]


@dataclass(frozen=True)
class Covariance:
    """C = σ²(−Δ + τ²)^−γ without its constant mode."""

    variance: float
    """σ²"""
    shift: float
    """τ"""
    power: float
    """γ"""

    def eigenvalues(self, laplacian: Array) -> Array:
        """λ at eigenvalues of −Δ, on the host, and 0 at the constant mode.

        >>> Covariance(variance=8.0, shift=1.0, power=2.0).eigenvalues(np.array([0.0, 1.0]))
        array([0., 2.])
        """
        return np.where(laplacian > 0, self.variance * (laplacian + self.shift**2) ** -self.power, 0.0)


def normals(samples: range, shape: tuple[int, ...], *, seed: int, tag: int, place: Place) -> Array:
    """Standard normal numbers, (samples, *shape), each sample from its own stream (tag, i)."""
    return place.xp.stack([normal(shape, seed=seed, stream=(tag, i), place=place) for i in samples])


def periodic_interval(
    samples: range, place: Place, covariance: Covariance, *, grid: int, modes: int, seed: int, tag: int
) -> Array:
    """Fields on the points j/grid of the periodic interval, (samples, grid), from |k| ≤ modes."""
    weights = normals(samples, (2, modes), seed=seed, tag=tag, place=place)
    k = np.arange(1, min(modes, (grid - 1) // 2) + 1)
    waves = 2 * math.pi * np.outer(k, np.arange(grid)) / grid
    # Over k > 0 alone, each pair ±k in one term, the factor is √(2λₖ).
    scale = np.sqrt(2 * covariance.eigenvalues(4 * math.pi**2 * k**2))[:, None]
    cosines, sines = place.put(scale * np.cos(waves)), place.put(scale * np.sin(waves))
    return weights[:, 0, : len(k)] @ cosines + weights[:, 1, : len(k)] @ sines


def periodic_square(
    samples: range, place: Place, covariance: Covariance, *, grid: int, modes: int, seed: int, tag: int
) -> Array:
    """Fields on the points (i, j)/grid of the periodic square, (samples, grid, grid), from |k₁|, |k₂| ≤ modes."""
    kept = min(modes, (grid - 1) // 2)
    inner = slice(modes - kept, modes + kept + 1)
    size = 2 * modes + 1
    weights = normals(samples, (2, size, size), seed=seed, tag=tag, place=place)[:, :, inner, inner]
    k = np.arange(-kept, kept + 1)
    laplacian = 4 * math.pi**2 * (k[:, None] ** 2 + k**2)
    scale = place.put(np.sqrt(covariance.eigenvalues(laplacian)))
    waves = 2 * math.pi * np.outer(np.arange(grid), k) / grid
    cosines, sines = place.put(np.cos(waves)), place.put(np.sin(waves))
    real, imaginary = weights[:, 0, ...] * scale, weights[:, 1, ...] * scale
    # Re{(C + iS)(ξ + iη)(C + iS)ᵀ} = (Cξ − Sη)Cᵀ − (Sξ + Cη)Sᵀ
    return (cosines @ real - sines @ imaginary) @ cosines.T - (sines @ real + cosines @ imaginary) @ sines.T


def neumann_square(
    samples: range, place: Place, covariance: Covariance, *, grid: int, modes: int, seed: int, tag: int
) -> Array:
    """Fields on the points (i, j)/(grid − 1) of the closed square, (samples, grid, grid), from k₁, k₂ < modes."""
    kept = min(modes, grid)
    k = np.arange(kept)
    laplacian = math.pi**2 * (k[:, None] ** 2 + k**2)
    scale = place.put(np.sqrt(covariance.eigenvalues(laplacian)))
    weights = normals(samples, (modes, modes), seed=seed, tag=tag, place=place)[:, :kept, :kept] * scale
    # cos(πkx) has the mean square ½, the constant 1.
    waves = np.cos(math.pi * np.outer(np.arange(grid), k) / (grid - 1)) * np.where(k > 0, math.sqrt(2), 1.0)
    basis = place.put(waves)
    return basis @ weights @ basis.T


def squared_exponential(samples: range, place: Place, *, grid: int, length: float, seed: int, tag: int) -> Array:
    """Fields of covariance exp(−‖x−x'‖²/2l²) on the points (i, j)/(grid − 1), (samples, grid, grid)."""
    factor = squared_exponential_factor(np.linspace(0, 1, grid), length)
    terms = factor.shape[1]
    R = place.put(factor)
    return R @ normals(samples, (terms, terms), seed=seed, tag=tag, place=place) @ R.T


def squared_exponential_factor(points: Array, length: float) -> Array:
    """R(x, n), (points, terms), of points in [0, 1].

    R(x, n)² are the probabilities of a Poisson variable of mean s² ≤ 1/4l²: ten standard deviations and 30 terms
    past the mean leave less than 1e-16.
    """
    s = (points - 0.5) / length
    mean = 1 / (2 * length) ** 2
    n = np.arange(math.ceil(mean + 10 * math.sqrt(mean) + 30))
    root_factorials = np.array([math.exp(math.lgamma(order + 1) / 2) for order in n])
    return np.exp(-(s**2) / 2)[:, None] * s[:, None] ** n / root_factorials
