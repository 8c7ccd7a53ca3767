"""Backward heat: from the final temperature to the history that led there.

    uₜ = α (uₓₓ + u_yy),   (x, y) ∈ (0, 1)²,   t ∈ (0, 1],   u = 0 on the boundary,   α = 0.05,

from u₀ = sin(πx) sin(πy) g with g ~ N(0, exp(−‖x−x'‖²/2l²)), l = 0.2. The input is u at t = 1, the output u at
t = 0, 0.05, …, 0.95.

The 64 × 64 points (i, j)/63 contain the boundary, where u = 0 exactly. Sine transforms diagonalise the five-point
Laplacian of the 62 × 62 inner points, −Δₕ = 63²(D ⊗ I + I ⊗ D), so that a step Δt = 0.005 of Crank and Nicolson is
one factor per mode,

    g(λ) = (1 − ½ Δt α λ) / (1 + ½ Δt α λ),   λ_pq = 4 · 63² (sin²(πp/126) + sin²(πq/126)),

and u at the n-th snapshot is S(g^{10n} ∘ S u₀ S)S: no time stepping.
"""

from __future__ import annotations

import math
from typing import Unpack

import numpy as np

from pcarann.backend.arrays import Array, Place, place_of
from pcarann.backend.concurrency import in_pieces
from pcarann.problems.dataset import Generation, OperatorData, Simulation
from pcarann.problems.random_fields import squared_exponential
from pcarann.problems.spectral import second_difference_eigenvalues, sine_matrix

__all__ = ["SNAPSHOTS", "evolve", "generate", "initial_states", "simulate"]

SNAPSHOTS = 20
"""Snapshots from t = 0 to 0.95"""

_TAG = 10_004


def generate(
    n: int,
    *,
    seed: int = 0,
    diffusivity: float = 0.05,
    length: float = 0.2,
    grid: int = 64,
    steps: int = 10,
    **options: Unpack[Generation],
) -> OperatorData:
    """Return n samples u(1) ↦ u(0), …, u(0.95): inputs (n, grid, grid), outputs (n, 20, grid, grid).

    `steps` are the Crank–Nicolson steps between two snapshots.
    The `options` are those of every problem (`pcarann.problems.dataset.Generation`).
    """
    points = np.linspace(0, 1, grid)
    coordinates = {"t": np.arange(SNAPSHOTS) / SNAPSHOTS, "x": points, "y": points}
    parameters = {"diffusivity": diffusivity, "length": length, "grid": grid, "steps": steps}
    simulation = Simulation("backward_heat", simulate, parameters, coordinates, block=(250, 250))
    return simulation.generate(n, seed=seed, **options)


def simulate(
    samples: range,
    place: Place,
    *,
    seed: int,
    diffusivity: float = 0.05,
    length: float = 0.2,
    grid: int = 64,
    steps: int = 10,
) -> tuple[Array, ...]:
    """Return u(1) and the 20 snapshots before it, of these samples."""

    def piece(part: range) -> tuple[Array, Array]:
        initial = initial_states(part, place, seed=seed, grid=grid, length=length)
        states = evolve(initial, diffusivity=diffusivity, times=SNAPSHOTS, steps=steps)
        return states[:, -1, ...], states[:, :-1, ...]

    return in_pieces(piece, samples, place=place, size=10, bytes_each=100 * 8 * grid**2)


def initial_states(samples: range, place: Place, *, seed: int, grid: int, length: float) -> Array:
    """u₀ = sin(πx) sin(πy) g on the closed grid, (samples, grid, grid), exactly zero on the boundary."""
    envelope = np.sin(math.pi * np.linspace(0, 1, grid))
    envelope[[0, -1]] = 0.0
    fields = squared_exponential(samples, place, grid=grid, length=length, seed=seed, tag=_TAG)
    return fields * place.put(np.outer(envelope, envelope))


def evolve(initial: Array, *, diffusivity: float, times: int, steps: int) -> Array:
    """u at t = 0, 1/times, …, 1 from (samples, grid, grid) states, (samples, times + 1, grid, grid)."""
    place = place_of(initial)
    samples, grid = initial.shape[:2]
    inner = grid - 2
    eigenvalues = (grid - 1) ** 2 * second_difference_eigenvalues(inner)
    z = diffusivity / (2 * times * steps) * (eigenvalues[:, None] + eigenvalues)
    decay = ((1 - z) / (1 + z)) ** (steps * np.arange(times + 1)[:, None, None])
    S = place.put(sine_matrix(inner))
    modes = S @ initial[:, 1:-1, 1:-1] @ S
    states = place.zeros(samples, times + 1, grid, grid)
    states[:, :, 1:-1, 1:-1] = S @ (modes[:, None, ...] * place.put(decay)) @ S
    return states
