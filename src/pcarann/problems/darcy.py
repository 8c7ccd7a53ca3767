"""Darcy flow: from the permeability to the pressure.

    −∇·(a ∇u) = 1   on (0, 1)²,   u = 0 on the boundary,

with a = 12 where μ ≥ 0 and a = 3 elsewhere, μ ~ N(0, (−Δ + 9)⁻²) with zero normal derivative, without its mean mode.

Convention: fields sit at the nodes (i, j)/420 of the public 421² grid, the boundary included, and every 15th is
kept; u is exactly zero on the outer ring. (The public generator draws μ at cell centres, interpolates a to the
nodes with splines, solves there as here, and interpolates u back to cell centres: half a fine cell away.) Other fine
grids with 28m + 1 nodes show the same samples, with the cosine modes of μ that they can hold.

Five-point differences, with the arithmetic mean of a on each edge between two nodes (`solve` takes the harmonic mean
where that is asked for: second order where a jumps half-way between nodes). The system is solved by
conjugate gradients, preconditioned by the Laplacian through sine transforms, Δₕ⁻¹ r = S((S r S)/λ)S: the
preconditioned matrix has its spectrum in [3, 12], hence the condition number 4 on any grid, and the residual falls
by (√4 − 1)/(√4 + 1) = ⅓ in an iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

import numpy as np

from pcarann.backend.arrays import Array, Place, place_of
from pcarann.backend.concurrency import in_pieces
from pcarann.problems.dataset import Generation, OperatorData, Simulation
from pcarann.problems.random_fields import Covariance, neumann_square
from pcarann.problems.spectral import second_difference_eigenvalues, sine_matrix

__all__ = ["POINTS", "PRIOR", "generate", "permeabilities", "simulate", "solve"]

POINTS = 29
"""Points of the data in each direction"""
PRIOR = Covariance(variance=1.0, shift=3.0, power=2.0)
HIGH, LOW = 12.0, 3.0

_MODES = 421  # those of the public grid
_TAG = 10_002
_MOST_ITERATIONS = 200


def generate(
    n: int, *, seed: int = 0, fine: int = 421, tolerance: float = 1e-12, **options: Unpack[Generation]
) -> OperatorData:
    """Return n samples a ↦ u: inputs and outputs (n, 29, 29).

    The solver takes `fine`² nodes, with fine = 28m + 1, until the residual is `tolerance` times the source.
    The `options` are those of every problem (`pcarann.problems.dataset.Generation`).
    """
    points = np.linspace(0, 1, POINTS)
    parameters = {"fine": fine, "tolerance": tolerance}
    simulation = Simulation("darcy", simulate, parameters, {"x": points, "y": points}, block=(32, 128))
    return simulation.generate(n, seed=seed, **options)


def simulate(
    samples: range, place: Place, *, seed: int, fine: int = 421, tolerance: float = 1e-12
) -> tuple[Array, ...]:
    """Return a and u of these samples, on their 29² points."""
    stride, rest = divmod(fine - 1, POINTS - 1)
    if rest or fine < POINTS:
        raise ValueError(f"fine must be {POINTS - 1}m + 1 with m ≥ 1, such as 141 or 421, got {fine}.")

    def piece(part: range) -> tuple[Array, Array]:
        a = permeabilities(part, place, seed=seed, fine=fine)
        u = solve(a, place.zeros(*a.shape) + 1.0, tolerance=tolerance)
        return a[:, ::stride, ::stride], u[:, ::stride, ::stride]

    return in_pieces(piece, samples, place=place, size=4, bytes_each=20 * 8 * max(fine, _MODES) ** 2)


def permeabilities(samples: range, place: Place, *, seed: int, fine: int) -> Array:
    """a on the nodes (i, j)/(fine − 1), (samples, fine, fine)."""
    fields = neumann_square(samples, place, PRIOR, grid=fine, modes=_MODES, seed=seed, tag=_TAG)
    return LOW + (HIGH - LOW) * place.xp.astype(fields >= 0, place.xp.float64)


def solve(
    permeability: Array, source: Array, *, tolerance: float = 1e-12, harmonic: bool = False, most: int | None = None
) -> Array:
    """u with −∇·(a ∇u) = f and u = 0 on the boundary, all (samples, nodes, nodes) with the boundary.

    The residual ends below `tolerance` times the source; ArithmeticError where it does not, in 200 iterations or as
    many as `most` allows: a contrast of 1000 takes 300.
    """
    place = place_of(permeability)
    xp, nodes = place.xp, permeability.shape[-1]
    if not bool(xp.all(permeability > 0)):
        raise ValueError(f"permeability must be positive, found {float(xp.min(permeability)):.3g}.")
    stiffness, inverse_laplacian = _stiffness(permeability, harmonic), _inverse_laplacian(nodes, place)
    residual = source[:, 1:-1, 1:-1] / (nodes - 1) ** 2
    goal = tolerance**2 * _dot(residual, residual)
    direction, u = place.zeros(*permeability.shape), place.zeros(*permeability.shape)
    inner = (slice(None), slice(1, -1), slice(1, -1))
    energy, most = xp.inf, most or _MOST_ITERATIONS
    for _ in range(most):
        active = _dot(residual, residual) > goal
        if not bool(xp.any(active)):
            return u
        preconditioned = inverse_laplacian(residual)
        energy, previous = xp.where(active, _dot(residual, preconditioned), 1.0), energy
        direction *= energy / previous
        direction[inner] += preconditioned
        image = stiffness(direction)
        # A sample that has converged stays as it is, so that it does not depend on the others of its batch.
        length = xp.where(active, energy, 0.0) / xp.where(active, _dot(direction[inner], image), 1.0)
        u += length * direction
        residual = residual - length * image
    raise ArithmeticError(f"conjugate gradients did not converge to {tolerance} in {most} iterations.")


def _stiffness(a: Array, harmonic: bool) -> Callable[[Array], Array]:
    """Return −h²∇·(a ∇·), from (samples, nodes, nodes) that vanish on the boundary to the inner nodes."""
    b = 1 / a if harmonic else a
    along_x = (b[:, 1:, 1:-1] + b[:, :-1, 1:-1]) / 2
    along_y = (b[:, 1:-1, 1:] + b[:, 1:-1, :-1]) / 2
    if harmonic:
        along_x, along_y = 1 / along_x, 1 / along_y

    def apply(u: Array) -> Array:
        flux_x = along_x * (u[:, 1:, 1:-1] - u[:, :-1, 1:-1])
        flux_y = along_y * (u[:, 1:-1, 1:] - u[:, 1:-1, :-1])
        result = flux_x[:, :-1, :] - flux_x[:, 1:, :]
        result += flux_y[:, :, :-1]
        result -= flux_y[:, :, 1:]
        return result

    return apply


def _inverse_laplacian(nodes: int, place: Place) -> Callable[[Array], Array]:
    """Return (−h²Δₕ)⁻¹ on the inner nodes."""
    eigenvalues = second_difference_eigenvalues(nodes - 2)
    inverse = place.put(1 / (eigenvalues[:, None] + eigenvalues))
    S = place.put(sine_matrix(nodes - 2))
    return lambda residual: S @ ((S @ residual @ S) * inverse) @ S


def _dot(left: Array, right: Array) -> Array:
    """Inner product of each sample, (samples, 1, 1)."""
    return place_of(left).xp.sum(left * right, axis=(1, 2), keepdims=True)
