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

Rows may also come as a stream, more of them than fit into memory: HᵀH and HᵀY are then sums over its blocks. Where
Cholesky is not safe, a second pass updates the triangle of a QR factorisation of (H Y) block by block; with very many
features, for which that takes too long, the ridge is raised instead until a Cholesky factor exists, which is at the
rounding of HᵀH, and the report says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from pcarann.backend.arrays import Array, place_of
from pcarann.backend.linalg import cholesky, inverse_of_lower, solve_cholesky, solve_lower, triangle
from pcarann.backend.random import uniform

__all__ = [
    "Block",
    "NormalEquations",
    "ReadoutReport",
    "RidgeFactor",
    "Solution",
    "factorise",
    "factorise_normal",
    "fit_readout",
    "fit_streamed_readout",
    "ridge_readout",
    "solve_readout",
    "solve_streamed_readout",
    "transposed_product",
]

Solver = Literal["cholesky", "qr", "svd"]
Block = tuple[Array, Array]
"""Features and targets of some rows, (samples, features) and (samples, outputs)"""

_EPS = 2.0**-52
# Largest condition number of the normal matrix for Cholesky: the first solution then has two digits or more, and
# each step of refinement adds as many again.
_SAFE_CONDITION = 1e13
# Without refinement, which would need the rows again, the solution must keep the digits itself.
_SAFE_STREAM_CONDITION = 1e11
_ORTHOGONAL_FEATURES = 1500  # in a stream, at most: a QR factorisation costs ten times as much and more
# Below this a solution has nine digits or more at once, and a step of refinement would cost more than it is worth.
_ACCURATE_CONDITION = 1e6
# A condition number promises too little: seven digits of V, eight of what it fits, are often there without a step.
_SETTLED, _FITTED = 1e-7, 5e-9
_REFINEMENT_STEPS = 6
_EXACT_CONDITION, _STREAM_REFINEMENT_STEPS = 1e8, 2
_LEAST_SHIFT = 2.0  # times eps times the trace of HᵀH
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


@dataclass(frozen=True)
class RidgeFactor:
    """Lower triangular L with L Lᵀ = HᵀH + λI (primal) or HHᵀ + λI (dual)."""

    lower: Array
    solver: Solver
    dual: bool
    ridge: float
    condition: float
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
    factor = _safe_cholesky(features, ridge)
    return _orthogonal_factor(features, ridge, features.shape[1] > features.shape[0]) if factor is None else factor


def ridge_readout(features: Array, targets: Array, ridge: float) -> Array:
    """Return V for λ > 0 without a report; an unsafe primal takes no Q, since the right sides become columns of H."""
    factor = _safe_cholesky(features, ridge)
    if factor is not None:
        return factor.readout(features, targets)
    size = int(features.shape[1])
    if size > features.shape[0]:
        return _orthogonal_factor(features, ridge, True).readout(features, targets)
    R = triangle(_stacked(features, targets, ridge))
    return solve_lower(R[:size, :size].T, R[:size, size:], transposed=True)


def _stacked(features: Array, targets: Array, ridge: float) -> Array:
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
    dual = features.shape[1] > features.shape[0]
    factor = _safe_cholesky(features, ridge)
    V = _refined_cholesky(factor, features, targets) if factor else None
    if V is None and ridge:
        factor = _orthogonal_factor(features, ridge, dual)
        V = factor.readout(features, targets)
    if V is None or factor is None:
        return _svd_readout(features, targets)
    report = ReadoutReport(factor.solver, _form(dual), None, math.sqrt(factor.condition), ridge)
    return Solution(V, report, dual, factor.solve)


@dataclass(frozen=True)
class NormalEquations:
    """What is left of streamed rows."""

    normal: Array
    """HᵀH"""
    moment: Array
    """HᵀY"""
    energy: float
    """‖Y‖²"""
    samples: int

    @classmethod
    def of(cls, blocks: Iterable[Block]) -> NormalEquations:
        """Add the blocks up."""
        normal: Array = 0.0
        moment: Array = 0.0
        energy, samples = 0.0, 0
        for H, Y in blocks:
            normal = H.T @ H + normal
            moment = H.T @ Y + moment
            energy += float(place_of(Y).xp.sum(Y**2))
            samples += int(H.shape[0])
        return cls(normal, moment, energy, samples)


def fit_streamed_readout(blocks: Callable[[], Iterable[Block]], ridge: float = 0.0) -> tuple[Array, ReadoutReport]:
    """Return V and how it was computed, for rows that come in blocks; `blocks()` starts the stream anew."""
    found = solve_streamed_readout(blocks, ridge)
    return found.readout, found.report


def solve_streamed_readout(blocks: Callable[[], Iterable[Block]], ridge: float = 0.0) -> Solution:
    """Return V with all that it came from, for rows that come in blocks."""
    sums = NormalEquations.of(blocks())
    size = int(sums.normal.shape[0])
    many = size > _ORTHOGONAL_FEATURES
    factor = _shifted_cholesky(sums.normal, ridge, insist=many)
    if factor is None or not (many or factor.condition <= _SAFE_STREAM_CONDITION):
        return _streamed_orthogonal(blocks(), ridge, size)
    V = factor.solve(sums.moment)
    if factor.condition > _EXACT_CONDITION:
        for _ in range(_STREAM_REFINEMENT_STEPS):
            V = V + factor.solve(_missed_moment(blocks(), V) - factor.ridge * V)
    report = ReadoutReport("cholesky", "primal", None, math.sqrt(factor.condition), factor.ridge)
    return Solution(V, report, False, factor.solve)


def _missed_moment(blocks: Iterable[Block], V: Array) -> Array:
    """Hᵀ(Y − HV), from the rows themselves."""
    total: Array = 0.0
    for H, Y in blocks:
        total = H.T @ (Y - H @ V) + total
    return total


def _shifted_cholesky(normal: Array, ridge: float, *, insist: bool) -> RidgeFactor | None:
    """Factor HᵀH + λI, with the least larger λ for which that is possible if one insists."""
    place = place_of(normal)
    size = int(normal.shape[0])
    # The rounding of HᵀH: below it the factor may exist, but says nothing.
    trace = float(place.xp.linalg.trace(normal))
    if not math.isfinite(trace):
        raise ValueError("The features are not finite: the data are too large, rescale them.")
    least = _LEAST_SHIFT * _EPS * trace
    ridge = max(ridge, least) if insist else ridge
    while True:
        shifted = normal + ridge * place.eye(size) if ridge else normal
        lower = cholesky(shifted)
        if lower is not None:
            factor = RidgeFactor(lower, "cholesky", False, ridge, 0.0, inverse=inverse_of_lower(lower))
            return replace(factor, condition=_condition(shifted, factor))
        if not insist:
            return None
        ridge = max(10 * ridge, least) or 1.0


def _streamed_orthogonal(blocks: Iterable[Block], ridge: float, size: int) -> Solution:
    """Least squares from the triangle of (H Y; √λI 0), whose rows are taken in block by block."""
    R: Array = None
    for H, Y in blocks:
        xp = place_of(H).xp
        R = triangle(_stacked(H, Y, ridge) if R is None else xp.concat([R, xp.concat([H, Y], axis=1)], axis=0))
    found = _svd_readout(R[:, :size], R[:, size:], interpolates=False)
    return replace(found, report=replace(found.report, form="primal", ridge=ridge))


def _safe_cholesky(features: Array, ridge: float) -> RidgeFactor | None:
    """Factor the smaller normal matrix of H by Cholesky; None where too few digits would be left."""
    dual = features.shape[1] > features.shape[0]
    return factorise_normal(features @ features.T if dual else features.T @ features, ridge, dual=dual)


def factorise_normal(normal: Array, ridge: float, *, dual: bool) -> RidgeFactor | None:
    """Factor HHᵀ (dual) or HᵀH by Cholesky, after adding λ to it in place; None where too few digits would be left."""
    if ridge:
        normal += ridge * place_of(normal).eye(normal.shape[0])
    lower = cholesky(normal)
    if lower is None:
        return None
    factor = RidgeFactor(lower, "cholesky", dual, ridge, 0.0, inverse=inverse_of_lower(lower))
    condition = _condition(normal, factor)
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


def _svd_readout(features: Array, targets: Array, *, interpolates: bool = True) -> Solution:
    """Minimum-norm least squares: V = Σ vᵢ uᵢᵀY / sᵢ over the singular values that stand above rounding."""
    xp = place_of(features).xp
    left, singular, right = xp.linalg.svd(features, full_matrices=False)
    cut = max(features.shape) * _EPS * float(singular[0])
    rank = int(xp.sum(xp.astype(singular > cut, xp.int64)))
    V = right[:rank, :].T @ ((left[:, :rank].T @ targets) / singular[:rank, None])
    condition = float(singular[0] / singular[rank - 1]) if rank else 1.0
    dual = interpolates and rank == features.shape[0]
    basis = (left[:, :rank] if dual else right[:rank, :].T) / singular[:rank]
    report = ReadoutReport("svd", _form(features.shape[1] > features.shape[0]), rank, condition)
    return Solution(V, report, dual, lambda rhs: basis @ (basis.T @ rhs))


def _form(dual: bool) -> Literal["primal", "dual"]:
    return "dual" if dual else "primal"


def _orthogonal_factor(features: Array, ridge: float, dual: bool) -> RidgeFactor:
    """Factor by QR of H (or Hᵀ) stacked on √λ I: no product HᵀH is ever formed."""
    place = place_of(features)
    matrix = features.T if dual else features
    size = matrix.shape[1]
    stacked = place.xp.concat([matrix, math.sqrt(ridge) * place.eye(size)], axis=0)
    Q, R = place.xp.linalg.qr(stacked, mode="reduced")
    factor = RidgeFactor(R.T, "qr", dual, ridge, 0.0, Q[: matrix.shape[0], :])
    return replace(factor, condition=_condition(R.T @ R, factor))


def _condition(normal: Array, factor: RidgeFactor) -> float:
    """Estimate cond(L Lᵀ): Frobenius norm times the norm of the inverse, found by a few inverse power steps."""
    place = place_of(normal)
    vectors = uniform((normal.shape[0], _PROBES), seed=0, stream=(1,), place=place, low=-1.0)
    growth: Array = 0.0
    for _ in range(_PROBE_STEPS):
        vectors /= place.xp.linalg.vector_norm(vectors, axis=0)
        vectors = factor.solve(vectors)
        growth = place.xp.max(place.xp.linalg.vector_norm(vectors, axis=0))
    condition = float(growth * place.xp.linalg.vector_norm(normal))
    return condition if math.isfinite(condition) else math.inf
