"""Data sets on which an automatic recipe is judged, none of them one of the paper's four problems.

    burgers_rough        u₀ ↦ u(·, 1), ν = 0.05, u₀ ~ N(0, 625(−Δ + 25)⁻²), 1024 points
    burgers_few          the same with ν = 0.02, a rougher u₀ ~ N(0, 8(−Δ + 9)^−1.25) and 120 training samples
    burgers_smooth       ν = 0.02, u₀ of eight falling waves, 256 points, 200 training samples
    elliptic_rough       a ↦ u, −(a u')' = 1, u(0) = u(1) = 0, log a an Ornstein–Uhlenbeck path, 256 points
    plume_table          7 parameters ↦ a plume under wind, 32 × 32
    pipe_table           8 columns in SI units, 3 without effect ↦ the profile of a pipe flow, 16 values
    two_species          u(0) ↦ (u, v)(T), FitzHugh–Nagumo on the periodic square, 2 × 24 × 24
    backward_diffusion   a diffused field with 1 % noise ↦ the field before, 128 points
    lorenz96             x(0) ↦ x(0.2) on the attractor of 16 variables, 3500 training samples
    screened_poisson     f ↦ u, −Δu + 10u³ = f, u = 0 on the boundary, f a sum of rectangles, 64 × 64
    rough_burgers, two_valued, continuous64    rough inputs with 200 training samples (`pcarann.benchmark.rough.cases`)

Each function takes a number of samples and a seed and returns the pairs, in NumPy, in seconds. The solutions are
exact but for rounding (`burgers_*`, `pipe_table`, `backward_diffusion`), for quadrature on the grid of the data
(`elliptic_rough`, `plume_table`), or for the fixed steps that then define the operator (the others).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from pcarann.backend.arrays import place_of
from pcarann.benchmark.rough.cases import CASES as ROUGH
from pcarann.problems.dataset import OperatorData
from pcarann.problems.spectral import second_difference_eigenvalues, sine_matrix, wavenumbers
from pcarann.symmetry.generators import Symmetry

__all__ = ["CASES", "AutoCase"]

Fields = np.ndarray[Any, Any]


@dataclass(frozen=True)
class AutoCase:
    """A data set and its sizes."""

    make: Callable[[int, int], tuple[Fields, Fields]]
    """From a number of samples and a seed to inputs and outputs, (samples, *grid) each"""
    n_train: int
    n_test: int
    kind: Literal["periodic", "bounded", "table"]
    """Whether inputs are fields, on a periodic grid or between ends, or columns of parameters"""
    symmetry: Symmetry | None = None
    """An exact one, to be offered"""

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.make.__name__

    def quick(self) -> AutoCase:
        """The same with few samples."""
        return replace(self, n_train=40, n_test=10)

    def load(self, seed: int = 0) -> tuple[OperatorData, OperatorData]:
        """Return the training and the test part."""
        inputs, outputs = self.make(self.n_train + self.n_test, seed)
        train, test = OperatorData(inputs, outputs, name=self.name).split(self.n_train, self.n_test)
        return train, test


def burgers_rough(n: int, seed: int) -> tuple[Fields, Fields]:
    """From a rough state, of the spectrum of the public data set, to a smoother one."""
    k = np.arange(1, 512)
    initial = _periodic_fields(np.random.default_rng(seed), n, 25 / (4 * math.pi**2 * k**2 + 25), points=1024)
    return initial, cole_hopf(initial, viscosity=0.05, time=1.0)


def burgers_few(n: int, seed: int) -> tuple[Fields, Fields]:
    """From a state whose waves fall like k^−1.25 to one with fronts."""
    k = np.arange(1, 256)
    amplitudes = math.sqrt(8.0) * (4 * math.pi**2 * k**2 + 9) ** -0.625
    initial = _periodic_fields(np.random.default_rng(seed), n, amplitudes, points=512)
    return initial, cole_hopf(initial, viscosity=0.02, time=1.0)


def burgers_smooth(n: int, seed: int) -> tuple[Fields, Fields]:
    """From eight waves to a state with fronts."""
    k = np.arange(1, 9)
    initial = _periodic_fields(np.random.default_rng(seed), n, 0.35 * np.exp(-0.6 * (k - 1)), points=256)
    return initial, cole_hopf(initial, viscosity=0.02, time=1.0)


def elliptic_rough(n: int, seed: int) -> tuple[Fields, Fields]:
    """From a conductivity without a derivative to the temperature of a heated rod."""
    points = 256
    x = np.linspace(0, 1, points)
    covariance = 0.8**2 * np.exp(-np.abs(x[:, None] - x) / 0.2)
    noise = np.random.default_rng(seed).standard_normal((n, points))
    conductivity = np.exp(noise @ np.linalg.cholesky(covariance).T)
    return conductivity, heated_rod(conductivity)


def plume_table(n: int, seed: int) -> tuple[Fields, Fields]:
    """From the place, width and rate of a source, the wind and the diffusivity to the concentration at t = 1.

    The source releases puffs, each a Gaussian of variance σ² + 2Dt around the place where the wind has taken it:
    c(x, 1) = ∫₀¹ q exp(−|x − x₀ − wt|² / 2(σ² + 2Dt)) / 2π(σ² + 2Dt) dt.
    """
    low = np.array([0.3, 0.3, 0.08, 0.5, 0.1, 0.0, 0.001])
    high = np.array([0.6, 0.6, 0.16, 2.0, 0.4, math.pi / 2, 0.01])
    table = np.random.default_rng(seed).uniform(low, high, (n, 7))
    x0, y0, width, rate, speed, angle, diffusivity = table.T[..., None]
    nodes, weights = np.polynomial.legendre.leggauss(16)
    axis = np.linspace(0, 1, 32)
    fields = np.zeros((n, 32, 32))
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        variance = width**2 + 2 * diffusivity * node
        along = np.exp(-((axis - x0 - speed * np.cos(angle) * node) ** 2) / (2 * variance))
        across = np.exp(-((axis - y0 - speed * np.sin(angle) * node) ** 2) / (2 * variance))
        fields += weight * (rate * along / (2 * math.pi * variance))[:, :, None] * across[:, None, :]
    return table, fields


def pipe_table(n: int, seed: int) -> tuple[Fields, Fields]:
    """From eight columns to the velocity of a power-law fluid at 16 radii of a pipe.

    v(r) = m/(m + 1) (p/2Kl)^{1/m} (R^{1 + 1/m} − r^{1 + 1/m}), with the columns: pressure drop p (Pa), ambient
    pressure (Pa), radius R (m), length l (m), consistency K (Pa sᵐ), index m, ambient temperature (K), wall roughness
    (m). The ambient pressure, the temperature and the roughness have no effect.
    """
    low = np.array([1e5, 0.9e5, 1e-3, 0.5, 2.0, 0.7, 280.0, 1e-6])
    high = np.array([2e5, 1.1e5, 2e-3, 1.0, 4.0, 1.0, 320.0, 1e-5])
    table = np.random.default_rng(seed).uniform(low, high, (n, 8))
    pressure, _, radius, length, consistency, index, _, _ = table.T[..., None]
    r = radius * np.linspace(0, 15 / 16, 16)
    power = 1 + 1 / index
    shear = (pressure / (2 * consistency * length)) ** (1 / index)
    return table, shear / power * (radius**power - r**power)


def two_species(n: int, seed: int) -> tuple[Fields, Fields]:
    """From a rough activator, white noise through (−Δ + 40)^−0.75, to activator and inhibitor.

    uₜ = 0.005Δu + u − u³ − v,  vₜ = 0.01Δv + 0.5(u − v), v(0) = 0, to t = 1 in 20 steps, diffusion implicit.
    """
    points, steps, step = 24, 20, 0.05
    k = wavenumbers(points)
    laplacian = 4 * math.pi**2 * (k[:, None] ** 2 + k**2)
    noise = np.random.default_rng(seed).standard_normal((n, points, points))
    spectrum = (laplacian + 40) ** -0.75
    initial = np.fft.ifft2(np.fft.fft2(noise) * spectrum).real * 0.6 / math.sqrt((spectrum**2).mean())
    u, v = initial, np.zeros_like(initial)
    decay_u, decay_v = 1 / (1 + step * 0.005 * laplacian), 1 / (1 + step * 0.01 * laplacian)
    for _ in range(steps):
        explicit_u, explicit_v = u + step * (u - u**3 - v), v + step * 0.5 * (u - v)
        u = np.fft.ifft2(np.fft.fft2(explicit_u) * decay_u).real
        v = np.fft.ifft2(np.fft.fft2(explicit_v) * decay_v).real
    return initial, np.stack([u, v], axis=1)


def backward_diffusion(n: int, seed: int) -> tuple[Fields, Fields]:
    """From a field that diffusion has smoothed, measured with noise of 1 % of its size, to the field before.

    A wave k has lost all but exp(−4π²k² · 5e-4) of itself: a third at k = 5, nearly all at k = 15.
    """
    points = 128
    rng = np.random.default_rng(seed)
    k = np.arange(1, 33)
    before = _periodic_fields(rng, n, 2.0 * (k**2 + 9.0) ** -0.75, points=points)
    decay = np.exp(-4 * math.pi**2 * 5e-4 * wavenumbers(points, half=True) ** 2)
    after = np.fft.irfft(np.fft.rfft(before) * decay, n=points)
    size = np.sqrt((after**2).mean(axis=1, keepdims=True))
    return after + 0.01 * size * rng.standard_normal(after.shape), before


def lorenz96(n: int, seed: int) -> tuple[Fields, Fields]:
    """From a state on the attractor to the state 0.2 later: xⱼ' = (xⱼ₊₁ − xⱼ₋₂)xⱼ₋₁ − xⱼ + 8, Runge–Kutta."""
    state = 8 + np.random.default_rng(seed).standard_normal((n, 16))
    for _ in range(400):  # to t = 10, where the start is forgotten
        state = _lorenz_step(state, 0.025)
    return state, lorenz_later(state)


def screened_poisson(n: int, seed: int) -> tuple[Fields, Fields]:
    """From a source of twelve rectangles to the potential."""
    source = _rectangles(np.random.default_rng(seed), n, 64)
    return source, screened(source)


def cole_hopf(initial: Fields, *, viscosity: float, time: float) -> Fields:
    """Burgers' equation uₜ + u uₓ = ν uₓₓ on the periodic unit interval, exactly, for u₀ of mean zero.

    u = −2ν φₓ/φ, where φₜ = ν φₓₓ and φ(·, 0) = exp(−∫u₀ / 2ν).
    """
    points = initial.shape[-1]
    wave = 2j * math.pi * wavenumbers(points, half=True)
    modes = np.fft.rfft(initial)
    integral = np.fft.irfft(np.divide(modes, wave, out=np.zeros_like(modes), where=wave != 0), n=points)
    exponent = -integral / (2 * viscosity)
    start = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    spectrum = np.fft.rfft(start) * np.exp(viscosity * time * (wave**2).real)
    return -2 * viscosity * np.fft.irfft(wave * spectrum, n=points) / np.fft.irfft(spectrum, n=points)


def screened(source: Fields) -> Fields:
    """−Δu + 10u³ = f on the square, by a fixed number of steps of (−Δ + 40)u ← f + 40u − 10u³.

    In the sine transform the Laplacian of five points is diagonal.
    """
    points, shift = source.shape[-1], 40.0
    S = sine_matrix(points)
    eigenvalues = (points + 1) ** 2 * second_difference_eigenvalues(points)
    inverse = 1 / (eigenvalues[:, None] + eigenvalues + shift)
    u = np.zeros_like(source)
    for _ in range(20):
        u = S @ (inverse * (S @ (source + shift * u - 10 * u**3) @ S)) @ S
    return u


def heated_rod(conductivity: Fields) -> Fields:
    """−(a u')' = 1 between zero ends: a u' = c − x with the c for which u(1) = 0, so u(x) = ∫₀ˣ (c − s)/a(s) ds."""
    x = np.linspace(0, 1, conductivity.shape[1])
    weighted, plain = _integral(x / conductivity, x), _integral(1 / conductivity, x)
    return weighted[:, -1:] / plain[:, -1:] * plain - weighted


def lorenz_later(state: Fields) -> Fields:
    """The state 0.2 later."""
    for _ in range(8):
        state = _lorenz_step(state, 0.025)
    return state


def _periodic_fields(rng: np.random.Generator, n: int, amplitudes: Fields, *, points: int) -> Fields:
    """Sums of waves k = 1, 2, … with normal weights of the given standard deviations, without a mean."""
    weights = rng.standard_normal((n, 2, len(amplitudes))) * amplitudes * math.sqrt(2)
    modes = np.zeros((n, points // 2 + 1), dtype=complex)
    modes[:, 1 : len(amplitudes) + 1] = (weights[:, 0] - 1j * weights[:, 1]) * (points / 2)
    return np.fft.irfft(modes, n=points)


def _rectangles(rng: np.random.Generator, n: int, points: int) -> Fields:
    """Sums of twelve rectangles with normal heights, sides of a tenth to a half."""
    line = np.linspace(0, 1, points)[:, None]
    centres, halves = rng.uniform(0, 1, (n, 2, 1, 12)), rng.uniform(0.05, 0.25, (n, 2, 1, 12))
    inside = (np.abs(line - centres) < halves).astype(float)
    heights = 30 * rng.standard_normal((n, 1, 12))
    return (heights * inside[:, 0]) @ inside[:, 1].transpose(0, 2, 1)


def _integral(values: Fields, x: Fields) -> Fields:
    """∫₀ˣ by the trapezoidal rule."""
    areas = np.diff(x) * (values[:, 1:] + values[:, :-1]) / 2
    return np.concatenate([np.zeros((len(values), 1)), np.cumsum(areas, axis=1)], axis=1)


def _lorenz_step(x: Fields, step: float) -> Fields:
    k1 = _lorenz(x)
    k2 = _lorenz(x + step / 2 * k1)
    k3 = _lorenz(x + step / 2 * k2)
    return x + step / 6 * (k1 + 2 * (k2 + k3) + _lorenz(x + step * k3))


def _lorenz(x: Fields) -> Fields:
    return (np.roll(x, -1, axis=1) - np.roll(x, 2, axis=1)) * np.roll(x, 1, axis=1) - x + 8


def rough_burgers(n: int, seed: int) -> tuple[Fields, Fields]:
    """From a state whose waves fall like 1/k to the state at t = 0.2."""
    return _rough("rough_burgers", n, seed)


def two_valued(n: int, seed: int) -> tuple[Fields, Fields]:
    """From a conductivity of 1 or 10 on blocks to the temperature."""
    return _rough("two_valued", n, seed)


def continuous64(n: int, seed: int) -> tuple[Fields, Fields]:
    """From a rough conductivity to the temperature."""
    return _rough("continuous64", n, seed)


def _rough(name: str, n: int, seed: int) -> tuple[Fields, Fields]:
    inputs, outputs = ROUGH[name].simulate(range(n), place_of(np.zeros(1)), seed=seed)
    return np.asarray(inputs), np.asarray(outputs)


CASES = {
    case.name: case
    for case in (
        AutoCase(burgers_rough, 1000, 200, "periodic"),
        AutoCase(burgers_few, 120, 200, "periodic"),
        AutoCase(burgers_smooth, 200, 200, "periodic", Symmetry.shifts(-1)),
        AutoCase(elliptic_rough, 500, 200, "bounded"),
        AutoCase(plume_table, 300, 200, "table"),
        AutoCase(pipe_table, 400, 200, "table"),
        AutoCase(two_species, 600, 150, "periodic"),
        AutoCase(backward_diffusion, 800, 200, "periodic"),
        AutoCase(lorenz96, 3500, 200, "periodic", Symmetry.shifts(-1)),
        AutoCase(screened_poisson, 400, 150, "bounded", Symmetry.dihedral()),
        AutoCase(rough_burgers, 200, 200, "periodic"),
        AutoCase(two_valued, 200, 100, "bounded"),
        AutoCase(continuous64, 200, 100, "bounded"),
    )
}
