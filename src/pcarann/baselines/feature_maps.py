"""Random maps of fields to fields, φ(a; θ): the features of `pcarann.baselines.random_features`.

Two families, after Nelsen and Stuart (2021). In **Fourier space**, for any fields on a line or in the plane,

    φ(a; θ) = ELU(g · 𝓕⁻¹[χ · Σ_c 𝓕a_c · 𝓕θ_c]),   χ(k) = σ(2π|k|δ),   σ(r) = max(0, min(2r, (r + ½)^−β)),

a random convolution of all channels c with Gaussian random fields θ_c ~ N(0, (−Δ + 25)⁻²), by the FFT on the grid
whatever its ends are. One factor g for all θ makes the argument of ELU of root mean square 1 over training inputs, so
that units do not matter; theirs is not adjusted.

By **prediction and correction**, for −∇·(a ∇u) = 1 with u = 0 on the boundary of the square alone. This equation is
−Δu = 1/a + ∇log a · ∇u. With random fields s = σ_γ(θ) pushed towards two values and a_ε smoothed by the heat equation,

    −Δp₀ = 1/a + s₁,   −Δp₁ = 1/a + ∇log a_ε · ∇p₀ + s₂,   φ(a; θ) = p₁.

These features know the equation, its source and its boundary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from scipy.fft import dctn, idctn, irfftn, rfftn

from pcarann.backend.arrays import place_of
from pcarann.backend.random import normal
from pcarann.baselines.fields import Fields

__all__ = ["FeatureMap", "FourierMap", "PredictorCorrector", "fourier_filter"]

_STREAM = 0x6E73  # "ns" in ASCII: no other stream has this number
_FEW = 50  # samples that settle the scale g
_FOURIER_SHIFT, _DARCY_SHIFT = 5.0, 7.5  # τ of θ, as theirs
_THRESHOLDS, _SHARPNESS = (-1 / 3, 1 / 12), 0.15  # of σ_γ
_HEAT = 1e-4  # viscosity times time
_CHUNK = 32  # features at a time, which stay in the cache of a core


class FeatureMap(Protocol):
    """m random maps."""

    def __call__(self, inputs: Fields) -> Fields:
        """Return φⱼ(a), (samples, features, *space), of (samples, channels, *space) fields."""

    def first(self, count: int) -> Self:
        """Return the first of the maps alone."""


@dataclass(frozen=True)
class FourierMap:
    """Random convolutions, and ELU of them."""

    kernels: Fields
    """g χ 𝓕θ, (features, channels, *half spectrum)"""
    space: tuple[int, ...]

    @classmethod
    def drawn(cls, inputs: Fields, n_features: int, *, cutoff: float, decay: float = 4.0, seed: int = 0) -> Self:
        """Draw maps for (samples, channels, *space) inputs; `cutoff` is δ, `decay` is β."""
        space, axes = inputs.shape[2:], tuple(range(2, inputs.ndim))
        k = 2 * math.pi * _half_wavenumbers(space)
        noise = normal((n_features, *inputs.shape[1:]), seed=seed, stream=(_STREAM, 0), place=place_of(None))
        kernels = rfftn(noise, axes=axes) * (fourier_filter(k * cutoff, decay) / (k**2 + _FOURIER_SHIFT**2))
        plain = cls(kernels, space)
        size = math.sqrt(np.mean(plain.first(_FEW).arguments(inputs[:_FEW]) ** 2))
        return replace(plain, kernels=kernels / (size or 1.0))

    def __call__(self, inputs: Fields) -> Fields:
        """φⱼ(a)."""
        found = self.arguments(inputs)
        for sample in found:
            negative = np.minimum(sample, 0.0)
            np.maximum(sample, 0.0, out=sample)
            sample += np.expm1(negative, out=negative)
        return found

    def arguments(self, inputs: Fields) -> Fields:
        """What ELU is applied to."""
        axes = tuple(range(2, inputs.ndim))
        spectra = rfftn(inputs, axes=axes)
        found = np.empty((len(inputs), len(self.kernels), *self.space))
        for start in range(0, len(self.kernels), _CHUNK):
            part = slice(start, start + _CHUNK)
            for n, sample in enumerate(spectra):
                mixed = sum(sample[c] * self.kernels[part, c] for c in range(len(sample)))
                found[n, part] = irfftn(mixed, s=self.space, axes=tuple(axis - 1 for axis in axes))
        return found

    def first(self, count: int) -> Self:
        """Return the first of the maps alone."""
        return replace(self, kernels=self.kernels[:count])


@dataclass(frozen=True)
class PredictorCorrector:
    """Two Poisson equations with random sources, for one channel on (nodes, nodes) with the boundary."""

    gradients: tuple[Fields, Fields]
    """∂ₓ and ∂ᵧ of (−Δ)⁻¹s₁, each (features, nodes, nodes)"""
    solutions: Fields
    """(−Δ)⁻¹s₂, (features, nodes, nodes)"""

    @classmethod
    def drawn(cls, inputs: Fields, n_features: int, *, seed: int = 0) -> Self:
        """Draw maps for (samples, 1, nodes, nodes) inputs."""
        shape = inputs.shape[2:]
        if inputs.shape[1] != 1 or len(shape) != 2 or min(shape) < 3 or not (inputs > 0).all():
            raise ValueError("Features by prediction and correction need positive inputs (samples, nodes, nodes).")
        noise = normal((2, n_features, *shape), seed=seed, stream=(_STREAM, 1), place=place_of(None))
        squares = math.pi**2 * _squares(*(np.arange(n) for n in shape))
        amplitudes = 1 / (squares + _DARCY_SHIFT**2)
        theta = idctn(noise * amplitudes, axes=(2, 3), norm="ortho")
        theta *= math.sqrt(math.prod(shape)) * _DARCY_SHIFT
        low, high = _THRESHOLDS
        solved = _inverse_laplacian(low + (high - low) / (1 + np.exp(-theta / _SHARPNESS)))
        return cls(_gradient(solved[0]), solved[1])

    def __call__(self, inputs: Fields) -> Fields:
        """φⱼ(a)."""
        a = inputs[:, 0]
        along_x, along_y = _gradient(np.log(_smoothed(a)))
        predicted = _gradient(_inverse_laplacian(1 / a))
        known = 1 / a + along_x * predicted[0] + along_y * predicted[1]
        found = np.empty((len(a), *self.solutions.shape))
        for n in range(len(a)):
            for start in range(0, len(self.solutions), _CHUNK):
                part = slice(start, start + _CHUNK)
                source = along_x[n] * self.gradients[0][part]
                source += along_y[n] * self.gradients[1][part]
                source += known[n]
                found[n, part] = _inverse_laplacian(source)
        found += self.solutions
        return found

    def first(self, count: int) -> Self:
        """Return the first of the maps alone."""
        gradients = self.gradients[0][:count], self.gradients[1][:count]
        return replace(self, gradients=gradients, solutions=self.solutions[:count])


def fourier_filter(r: Fields, decay: float) -> Fields:
    """σ(r) = max(0, min(2r, (r + ½)^−β)): it passes a band around r = ½.

    >>> fourier_filter(np.array([0.0, 0.25, 0.5, 1.5]), 4.0).tolist()
    [0.0, 0.5, 1.0, 0.0625]
    """
    return np.asarray(np.maximum(0.0, np.minimum(2 * r, (r + 0.5) ** -decay)))


def _half_wavenumbers(space: tuple[int, ...]) -> Fields:
    """|k| of the real FFT."""
    *full, half = space
    k = [np.fft.fftfreq(n, 1 / n) for n in full] + [np.fft.rfftfreq(half, 1 / half)]
    return np.asarray(np.sqrt(_squares(*k)))


def _squares(*lines: Fields) -> Fields:
    """k₁² + k₂² + … on the grid of these."""
    return np.asarray(sum(k**2 for k in np.meshgrid(*lines, indexing="ij")))


def _inverse_laplacian(source: Fields) -> Fields:
    """p with −Δp = source by five-point differences and p = 0 on the boundary, on the last two axes."""
    (S, first), (Z, second) = (_sines(n) for n in source.shape[-2:])
    p = np.zeros_like(source)
    p[..., 1:-1, 1:-1] = S @ ((S @ source[..., 1:-1, 1:-1] @ Z) / (first[:, None] + second)) @ Z
    return p


def _sines(nodes: int) -> tuple[Fields, Fields]:
    """The orthogonal sine matrix, which is its own inverse, of the inner nodes, and eigenvalues of −∂²."""
    index, h = np.arange(1, nodes - 1), 1 / (nodes - 1)
    return math.sqrt(2 * h) * np.sin(math.pi * h * np.outer(index, index)), (
        2 / h * np.sin(math.pi * h * index / 2)
    ) ** 2


def _gradient(fields: Fields) -> tuple[Fields, Fields]:
    """Second-order differences along the last two axes of the unit square."""
    along_x, along_y = np.gradient(fields, *(1 / (n - 1) for n in fields.shape[-2:]), axis=(-2, -1), edge_order=2)
    return along_x, along_y


def _smoothed(fields: Fields) -> Fields:
    """The heat equation without flux through the boundary, until viscosity × time = 1e-4."""
    squares = math.pi**2 * _squares(*(np.arange(n) for n in fields.shape[-2:]))
    return np.asarray(idctn(dctn(fields, axes=(-2, -1)) * np.exp(-_HEAT * squares), axes=(-2, -1)))
