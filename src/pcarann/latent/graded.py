"""Modes below √eps of the first, and how many of them are real.

A Gram matrix squares the singular values, so modes below √eps of the first are lost in it. Where modes that deep
are asked for (fields smoothed by diffusion), they come in stages, each from orthogonal iteration on what the
stages before have left: a stage finds modes down to √eps of its own first, and subtracts them.

Such modes can be real far below eps s₁. Rounding moves entry aᵢⱼ by an independent error of variance
(eps |aᵢⱼ|)² / 12, and a matrix E of independent errors of deviation ρ |aᵢⱼ| has

    ‖E‖ ≲ ρ (maxᵢ ‖aᵢ‖ + maxⱼ ‖a.ⱼ‖)    (Bandeira and van Handel, 2016)

with the rows aᵢ and columns a.ⱼ of the fields, which is ρ ‖A‖ (1/√N + 1/√values) for entries of like size. Modes
below are noise. Its level ρ is eps/√12, or more where the arithmetic that made the fields left more: what remains
after k modes tells.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of, to_host
from pcarann.backend.linalg import inverse_root, orthonormal
from pcarann.backend.random import uniform

__all__ = ["graded_modes", "rank_above_rounding"]

_EPS = 2.0**-52
# A stage keeps the modes above this share of its first: rounding has turned them by less than √eps.
_STAGE_TOLERANCE = math.sqrt(_EPS)
# Orthogonal iteration with 10 spare vectors (Halko, Martinsson and Tropp, 2011, recommend 5 to 10 of them).
_SPARE, _ITERATIONS = 10, 2


def graded_modes(remainder: Array, start: Array, bound: float, *, given: Array) -> tuple[Array, Array]:
    """Return the modes, (components, values), and singular values of centred fields that stand above rounding.

    As many as `start`, leading eigenvectors of the smaller Gram matrix, has columns at most. Rounding is judged by the
    fields as they were `given`, mean included; a singular value above `bound` always counts. They are subtracted in
    place.
    """
    basis, singular = _staged_modes(remainder, start)
    missed = float(place_of(remainder).xp.linalg.vector_norm(remainder))
    rank = rank_above_rounding(to_host(singular), missed, given.shape, _sizes(given), bound)
    return basis[:, :rank].T, singular[:rank]


def _staged_modes(remainder: Array, start: Array) -> tuple[Array, Array]:
    """Return modes and singular values by stages, as many as `start` has columns; subtract them in place.

    The first stage starts from the eigenvectors of the Gram matrix, good down to √eps. Below they are
    arbitrary, and may miss what is left, so that the later stages start from random ones.
    """
    place = place_of(remainder)
    samples, values = remainder.shape
    count = start.shape[1]
    found, singular = place.zeros(values, 0), place.zeros(0)
    while found.shape[1] < count:
        left = count - found.shape[1]
        if found.shape[1]:
            size = (values, min(left + _SPARE, values - found.shape[1]))
            start = uniform(size, seed=0, stream=(found.shape[1],), place=place, low=-1.0)
        elif samples <= values:
            start = remainder.T @ start
        basis = _iterated(remainder, start, found)
        U, sizes, right = place.xp.linalg.svd(remainder @ basis, full_matrices=False)  # Rayleigh–Ritz
        V, host = basis @ right.T, to_host(sizes)
        if not np.isfinite(host).all():
            raise ValueError("The singular values of the fields are not finite: are the fields?")
        keep = min(left, int((host >= _STAGE_TOLERANCE * host[0]).sum()))
        _subtract(remainder, U[:, :keep], V[:, :keep])
        found = place.xp.concat([found, V[:, :keep]], axis=1)
        singular = place.xp.concat([singular, sizes[:keep]])
    return found, singular


def _subtract(matrix: Array, U: Array, V: Array) -> None:
    """A ← (I − UUᵀ) A (I − VVᵀ) in place, for singular vectors U, V of A.

    Modes that are rounded miss the true ones by δ ≈ eps, so that s₁ u₁ δᵀ would stay, and be found as a mode of size
    eps s₁, had it not u₁ on its left. The second pass with V removes what the first has left of its own rounding.
    """
    matrix -= (matrix @ V) @ V.T
    matrix -= U @ (U.T @ matrix)
    matrix -= (matrix @ V) @ V.T


def _iterated(matrix: Array, start: Array, found: Array) -> Array:
    """Orthogonal iteration B ← orth(Aᵀ orth(A B)), kept orthogonal to the modes found before."""
    basis = _orthonormal_to(found, start)
    for _ in range(_ITERATIONS):
        basis = _orthonormal_to(found, matrix.T @ orthonormal(matrix @ basis))
    return basis


def _orthonormal_to(found: Array, matrix: Array) -> Array:
    """Orthonormalise the columns beside the modes found: twice is enough (Parlett)."""
    basis = orthonormal(matrix)
    for _ in range(2 if found.shape[1] else 0):
        basis = basis - found @ (found.T @ basis)
        to_orthonormal = inverse_root(basis.T @ basis)  # nearly orthonormal they are, and QR is ten times dearer
        basis = orthonormal(basis) if to_orthonormal is None else basis @ to_orthonormal.T
    return basis


def rank_above_rounding(
    singular: Any, remainder: float, shape: tuple[int, int], size: tuple[float, float], bound: float
) -> int:
    """Return how many modes stand above rounding: all before the first that does not, and at least one.

    Noise of level ρ |aᵢⱼ| has energy (ρ ‖A‖)², of which the share (1 − j/N)(1 − j/values) lies outside j modes.
    If mode j + 1 and all after it are noise, their energy therefore gives ρ: at least eps/√12, and the floor is no
    more than the bound.
    """
    norm, width = size
    before = np.arange(singular.size)
    outside = (1 - before / shape[0]) * (1 - before / shape[1])
    energies = (singular**2)[::-1].cumsum()[::-1] + remainder**2
    levels = np.sqrt(energies / outside) / norm if norm else np.zeros(singular.size)
    floors = np.minimum(np.maximum(levels, _EPS / math.sqrt(12)) * width, bound)
    noise = np.flatnonzero(singular <= floors)
    return max(1, int(noise[0]) if noise.size else singular.size)


def _sizes(fields: Array) -> tuple[float, float]:
    """Return ‖A‖ and maxᵢ ‖aᵢ‖ + maxⱼ ‖a.ⱼ‖ of the fields as they were given."""
    xp = place_of(fields).xp
    squares = fields**2
    rows, columns = xp.sum(squares, axis=1), xp.sum(squares, axis=0)
    return math.sqrt(float(xp.sum(rows))), math.sqrt(float(xp.max(rows))) + math.sqrt(float(xp.max(columns)))
