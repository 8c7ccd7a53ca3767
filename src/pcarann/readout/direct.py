"""V: the readout, the only part that is fitted.

    minimise ‖HV − Y‖² + λ‖V‖²        H (samples, features), Y (samples, outputs)

For λ = 0 the solution of least norm is taken. With N samples and p features the system is the smaller of

    primal, p ≤ N:   V = (HᵀH + λI)⁻¹ HᵀY
    dual,   p > N:   V = Hᵀ (HHᵀ + λI)⁻¹ Y

Both square the condition number of H. A Cholesky factorisation is used while an estimate of that square leaves
digits to spare, and steps of iterative refinement, V += (…)⁻¹ applied to the residual Y − HV, give back the digits
it cost: in the primal where those are more than a few, in the dual where the first seven digits are not there yet.
Otherwise the factor comes from orthogonal transformations of H itself: the QR factorisation of H stacked on √λ I for a
ridge, the singular value decomposition, with singular values below max(N, p)·eps of the first dropped, for plain least
squares.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from pcarann.backend.arrays import Array, place_of
from pcarann.backend.linalg import cholesky, inverse_of_lower, solve_cholesky, solve_lower, triangle
from pcarann.backend.random import uniform

__all__ = [
    "ReadoutReport",
    "RidgeFactor",
    "Solution",
    "condition_of",
    "factorise",
    "factorise_normal",
    "fit_readout",
    "minimum_norm",
    "ridge_readout",
    "solve_readout",
    "stacked",
    "transposed_product",
]

Solver = Literal["cholesky", "qr", "svd"]

_EPS = 2.0**-52
# Largest condition number of the normal matrix for Cholesky: the first solution then has two digits or more, and
# each step of refinement adds as many again.
_SAFE_CONDITION = 1e13
# Below this a solution has nine digits or more at once, and a step of refinement would cost more than it is worth.
_ACCURATE_CONDITION = 1e6
# A condition number promises too little: seven digits of V, eight of what it fits, are often there without a step.
_SETTLED, _FITTED = 1e-7, 5e-9
_REFINEMENT_STEPS = 6
_REFINED_TO = 1e-10
_PROBES, _PROBE_STEPS = 4, 2


@dataclass(frozen=True)
class ReadoutReport:
    """How a readout was computed."""

    solver: Solver
    form: Literal["primal", "dual"]
    rank: int | None
    """Numerical rank of H; None where it was not computed, since the factorisation did not need it"""
    condition: float
    """Estimated condition number of H, the ridge included"""
    ridge: float = 0.0
    """λ in use: the one asked for, or more where a stream could not be factored with it"""


@dataclass(frozen=True)
class Solution:
    """A readout, how it was computed, and the matrix M that was factored for it."""

    readout: Array
    """V, (features, outputs)"""
    report: ReadoutReport
    dual: bool
    """Whether M is HHᵀ + λI; HᵀH + λI otherwise, or its pseudo-inverse in M⁻¹"""
    solve: Callable[[Array], Array]
    """M⁻¹ times a matrix"""
    left: tuple[Array, Array] | None = None
    """U, (samples, rank), and ε²/σ² with ε the rounding of σ, (rank,), where a decomposition found a rank below both"""


@dataclass(frozen=True)
class RidgeFactor:
    """Lower triangular L with L Lᵀ = HᵀH + λI (primal) or HHᵀ + λI (dual)."""

    lower: Array
    solver: Solver
    dual: bool
    ridge: float
    condition: float = math.inf
    """Estimated condition number of L Lᵀ"""
    basis: Array | None = None
    """Q of H = Q Lᵀ (primal) or Hᵀ = Q Lᵀ (dual), where the factor came from a QR factorisation"""
    inverse: Array | None = None
    """L⁻¹ where products with it are cheaper than solves"""

    def solve(self, rhs: Array) -> Array:
        """(L Lᵀ)⁻¹ rhs"""
        return solve_cholesky(self.lower, rhs) if self.inverse is None else self.inverse.T @ (self.inverse @ rhs)

    def readout(self, features: Array, targets: Array) -> Array:
        """The ridge solution V for these features H and targets Y."""
        if self.basis is None:
            return features.T @ self.solve(targets) if self.dual else self.solve(features.T @ targets)
        if self.dual:
            return self.basis @ solve_lower(self.lower, targets)
        return solve_lower(self.lower, self.basis.T @ targets, transposed=True)


def factorise(features: Array, ridge: float) -> RidgeFactor:
    """Factor the smaller normal matrix of H for λ > 0: by Cholesky where that is safe, by QR otherwise."""
    return _safe_cholesky(features, ridge) or _orthogonal_factor(features, ridge)


def ridge_readout(features: Array, targets: Array, ridge: float) -> Array:
    """Return V for λ > 0 without a report; an unsafe primal takes no Q, since the right sides become columns of H."""
    factor = _safe_cholesky(features, ridge)
    if factor is not None:
        return factor.readout(features, targets)
    if _is_dual(features):
        return _orthogonal_factor(features, ridge).readout(features, targets)
    size = int(features.shape[1])
    R = triangle(stacked(features, targets, ridge))
    return solve_lower(R[:size, :size].T, R[:size, size:], transposed=True)


def stacked(features: Array, targets: Array, ridge: float) -> Array:
    """(H Y; √λI 0), whose least squares are the ridge regression of Y on H."""
    place = place_of(features)
    size = int(features.shape[1])
    below = place.xp.concat([math.sqrt(ridge) * place.eye(size), place.zeros(size, targets.shape[1])], axis=1)
    return place.xp.concat([place.xp.concat([features, targets], axis=1), below], axis=0)


def fit_readout(features: Array, targets: Array, ridge: float = 0.0) -> tuple[Array, ReadoutReport]:
    """Return V, (features, outputs), and how it was computed.

    >>> import numpy as np
    >>> V, report = fit_readout(np.array([[1.0, 1.0], [1.0, -1.0], [0.0, 0.0]]), np.array([[3.0], [1.0], [7.0]]))
    >>> print(V.T.round(12), report.solver, report.form)
    [[2. 1.]] cholesky primal
    """
    found = solve_readout(features, targets, ridge)
    return found.readout, found.report


def solve_readout(features: Array, targets: Array, ridge: float = 0.0) -> Solution:
    """Return V with all that it came from."""
    factor = _safe_cholesky(features, ridge)
    V = _refined_cholesky(factor, features, targets) if factor else None
    if factor is None or V is None:
        if not ridge:
            return minimum_norm(features, targets)
        factor = _orthogonal_factor(features, ridge)
        V = factor.readout(features, targets)
    report = ReadoutReport(factor.solver, _form(factor.dual), None, math.sqrt(factor.condition), ridge)
    return Solution(V, report, factor.dual, factor.solve)


def _is_dual(features: Array) -> bool:
    return bool(features.shape[1] > features.shape[0])


def _form(dual: bool) -> Literal["primal", "dual"]:
    return "dual" if dual else "primal"


def _safe_cholesky(features: Array, ridge: float) -> RidgeFactor | None:
    """Factor the smaller normal matrix of H by Cholesky; None where too few digits would be left."""
    dual = _is_dual(features)
    return factorise_normal(features @ features.T if dual else features.T @ features, ridge, dual=dual)


def factorise_normal(normal: Array, ridge: float, *, dual: bool) -> RidgeFactor | None:
    """Factor HHᵀ (dual) or HᵀH by Cholesky, after adding λ to it in place; None where too few digits would be left."""
    if ridge:
        normal += ridge * place_of(normal).eye(normal.shape[0])
    lower = cholesky(normal)
    if lower is None:
        return None
    factor = RidgeFactor(lower, "cholesky", dual, ridge, inverse=inverse_of_lower(lower))
    condition = condition_of(normal, factor)
    return replace(factor, condition=condition) if condition <= _SAFE_CONDITION else None


def _refined_cholesky(factor: RidgeFactor, features: Array, targets: Array) -> Array | None:
    """Solve by Cholesky, then correct by the residual of the normal equations, formed from H itself.

    Each step shrinks the error by about the size of the first correction; None where it does not shrink enough.
    """
    H, Y = features, targets
    norm = place_of(H).xp.linalg.vector_norm
    solution = factor.solve(Y if factor.dual else H.T @ Y)
    V = transposed_product(H, solution) if factor.dual else solution
    if factor.condition <= _ACCURATE_CONDITION or (factor.dual and _settled(factor, H, V, solution, Y)):
        return V
    rate = 0.0
    for _ in range(_REFINEMENT_STEPS):
        missed = Y - transposed_product(H.T, V)
        step = factor.solve((missed if factor.dual else H.T @ missed) - factor.ridge * solution)
        solution += step
        size = float(norm(step)) / (float(norm(solution)) or 1.0)
        rate = rate or size
        V = transposed_product(H, solution) if factor.dual else solution
        if size * rate <= _REFINED_TO:
            return V
    return None


def _settled(factor: RidgeFactor, H: Array, V: Array, B: Array, Y: Array) -> bool:
    """Whether the dual solution V = HᵀB fits to eight digits, and a step of refinement would leave seven of V.

    Judged on a few random combinations of the outputs: a tenth of the work of the step.
    """
    place = place_of(H)
    mixing = uniform((Y.shape[1], _PROBES), seed=0, stream=(2,), place=place, low=-1.0)
    targets, mixed = Y @ mixing, V @ mixing
    missed = targets - factor.ridge * (B @ mixing) - H @ mixed
    step = factor.solve(missed)
    # Hᵀ times the step has the square ⟨step, HHᵀ step⟩, which is ⟨step, missed⟩ up to the ridge.
    total = place.xp.sum
    fits = total(missed**2) <= _FITTED**2 * total(targets**2)
    return bool(fits & (total(step * missed) <= _SETTLED**2 * total(mixed**2)))


def transposed_product(rows: Array, coefficients: Array) -> Array:
    """HᵀB for rows H, as (BᵀH)ᵀ: BLAS is a third faster with the few outputs along its rows."""
    return (coefficients.T @ rows).T


def minimum_norm(features: Array, targets: Array) -> Solution:
    """Minimum-norm least squares: V = Σ vᵢ uᵢᵀY / sᵢ over the singular values that stand above rounding."""
    xp = place_of(features).xp
    left, singular, right = xp.linalg.svd(features, full_matrices=False)
    cut = max(features.shape) * _EPS * float(singular[0])
    rank = int(xp.sum(xp.astype(singular > cut, xp.int64)))
    V = right[:rank, :].T @ ((left[:, :rank].T @ targets) / singular[:rank, None])
    condition = float(singular[0] / singular[rank - 1]) if rank else 1.0
    dual = rank == features.shape[0]
    basis = (left[:, :rank] if dual else right[:rank, :].T) / singular[:rank]
    report = ReadoutReport("svd", _form(_is_dual(features)), rank, condition)
    found = None if dual else (left[:, :rank], (cut / singular[:rank]) ** 2)
    return Solution(V, report, dual, lambda rhs: basis @ (basis.T @ rhs), found)


def _orthogonal_factor(features: Array, ridge: float) -> RidgeFactor:
    """Factor by QR of H (or Hᵀ) stacked on √λ I: no product HᵀH is ever formed."""
    place, dual = place_of(features), _is_dual(features)
    matrix = features.T if dual else features
    size = matrix.shape[1]
    stacked = place.xp.concat([matrix, math.sqrt(ridge) * place.eye(size)], axis=0)
    Q, R = place.xp.linalg.qr(stacked, mode="reduced")
    factor = RidgeFactor(R.T, "qr", dual, ridge, basis=Q[: matrix.shape[0], :])
    return replace(factor, condition=condition_of(R.T @ R, factor))


def condition_of(normal: Array, factor: RidgeFactor) -> float:
    """Estimate cond(L Lᵀ): Frobenius norm times the norm of the inverse, found by a few inverse power steps."""
    place = place_of(normal)
    vectors = uniform((normal.shape[0], _PROBES), seed=0, stream=(1,), place=place, low=-1.0)
    norm = place.xp.linalg.vector_norm
    for _ in range(_PROBE_STEPS):
        vectors = factor.solve(vectors / norm(vectors, axis=0))
    condition = float(place.xp.max(norm(vectors, axis=0)) * norm(normal))
    return condition if math.isfinite(condition) else math.inf
