"""The ridge λ of the readout, chosen in closed form from one factorisation.

With H = U Σ Wᵀ the ridge solution smooths the targets by S = U diag(f) Uᵀ, f = σ² / (σ² + λ). Two estimates of its
error on new samples, for all λ at the cost of one decomposition, c = UᵀY:

    gcv   (1/N) ‖(I − S) Y‖² / (1 − tr S / N)²,      ‖(I − S) Y‖² = ‖Y‖² − ‖c‖² + Σⱼ (1 − fⱼ)² ‖cⱼ‖²
    loo   (1/N) Σᵢ ‖(Y − SY)ᵢ‖² / (1 − Sᵢᵢ)²         each sample predicted by all the others

Generalised cross-validation, by which λ is chosen, needs HᵀH, HᵀY and ‖Y‖² alone, so that rows may be streamed. Leaving
one out compares features of different kinds, each at its λ. Both are written for
1 − f = λ / (σ² + λ), which stays exact where the features interpolate and λ → 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pcarann.backend.arrays import Array, place_of
from pcarann.backend.linalg import rounded
from pcarann.readout.streamed import NormalEquations

__all__ = ["Spectrum", "choose_ridge", "spectrum_of_gram", "spectrum_of_rows", "spectrum_of_sums"]

# Ridges tried, as powers of ten times the largest σ²: from the rounding of HHᵀ to where all is smoothed away.
_LOWEST, _HIGHEST, _STEPS_A_DECADE = -14.0, 1.0, 4
_EPS = 2.0**-52


@dataclass(frozen=True)
class Spectrum:
    """H and Y as the criteria need them."""

    squares: Array
    """σ², (rank,)"""
    coefficients: Array
    """c = UᵀY, (rank, outputs)"""
    energy: float
    """‖Y‖²"""
    samples: int
    left: Array | None = None
    """U, (samples, rank), where the rows are at hand"""
    targets: Array | None = None
    """Y, likewise"""

    def gcv(self, ridge: float) -> float:
        """Generalised cross-validation at λ."""
        xp = place_of(self.squares).xp
        kept = ridge / (self.squares + ridge)
        missed = 0.0 if self._complete else max(self.energy - float(xp.sum(self.coefficients**2)), 0.0)
        residual = missed + float(xp.sum((kept[:, None] * self.coefficients) ** 2))
        freedom = self.samples - self.squares.shape[0] + float(xp.sum(kept))
        return self.samples * residual / freedom**2 if freedom > 0 else math.inf

    def loo(self, ridge: float) -> float:
        """Mean squared error of leaving one sample out, at λ."""
        assert self.left is not None
        assert self.targets is not None
        xp = place_of(self.squares).xp
        kept = ridge / (self.squares + ridge)
        # Y − SY = (I − UUᵀ)Y + U (1 − f) c, and likewise its diagonal
        squares = self.left**2
        residual, slack = self.left @ (kept[:, None] * self.coefficients), squares @ kept
        if not self._complete:
            residual += self.targets - self.left @ self.coefficients
            slack += xp.clip(1.0 - xp.sum(squares, axis=1), min=0.0)
        return float(xp.mean(xp.sum((residual / slack[:, None]) ** 2, axis=1)))

    @property
    def _complete(self) -> bool:
        """Whether U spans all samples: I − UUᵀ is 0 then, and its rounding would outweigh 1 − f as λ → 0."""
        return bool(self.squares.shape[0] == self.samples)


def spectrum_of_rows(features: Array, targets: Array) -> Spectrum:
    """Decompose H, (samples, features), with its targets Y, (samples, outputs)."""
    xp = place_of(features).xp
    if features.shape[1] >= features.shape[0]:
        return spectrum_of_gram(features @ features.T, targets)
    squares, right = _significant(*xp.linalg.eigh(features.T @ features))
    return _spectrum(squares, (features @ right) / xp.sqrt(squares), targets)


def spectrum_of_gram(gram: Array, targets: Array) -> Spectrum:
    """Decompose HHᵀ, (samples, samples), with the targets Y."""
    return _spectrum(*_significant(*place_of(gram).xp.linalg.eigh(gram)), targets)


def _spectrum(squares: Array, left: Array, targets: Array) -> Spectrum:
    energy = float(place_of(targets).xp.sum(targets**2))
    return Spectrum(squares, left.T @ targets, energy, int(targets.shape[0]), left, targets)


def spectrum_of_sums(sums: NormalEquations) -> Spectrum:
    """Decompose the sums of streamed rows; leave-one-out needs the rows, and cannot follow."""
    xp = place_of(sums.normal).xp
    squares, right = xp.linalg.eigh(sums.normal)
    squares, right = _significant(squares, right, sums.samples)
    coefficients = (right.T @ sums.moment) / xp.sqrt(squares)[:, None]
    return Spectrum(squares, coefficients, sums.energy, sums.samples)


def choose_ridge(spectrum: Spectrum) -> float:
    """Return the ridge of least generalised cross-validation.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> H = rng.standard_normal((60, 20))
    >>> noisy = H[:, :3] @ np.ones((3, 1)) + 3 * rng.standard_normal((60, 1))
    >>> clean = H[:, :3] @ np.ones((3, 1))
    >>> ridges = [choose_ridge(spectrum_of_rows(H, y)) for y in (clean, noisy)]
    >>> ridges[0] < 1e-9 < 1 < ridges[1]
    True
    """
    if not spectrum.squares.shape[0]:
        return 1.0
    largest = rounded(float(spectrum.squares[-1]))
    count = round((_HIGHEST - _LOWEST) * _STEPS_A_DECADE) + 1
    ridges = [largest * 10 ** (_LOWEST + i / _STEPS_A_DECADE) for i in range(count)]
    return min(ridges, key=spectrum.gcv)


def _significant(squares: Array, vectors: Array, most: int | None = None) -> tuple[Array, Array]:
    """Drop the eigenpairs that are rounding of the largest, and those past `most`."""
    xp = place_of(squares).xp
    cut = squares.shape[0] * _EPS * float(squares[-1])
    rank = int(xp.sum(xp.astype(squares > cut, xp.int64)))
    rank = rank if most is None else min(rank, most)
    return squares[squares.shape[0] - rank :], vectors[:, squares.shape[0] - rank :]
