"""Factorisations and triangular solves that the Array API standard lacks.

A Cholesky factorisation that reports failure instead of raising, triangular solves, R without Q. Libraries differ in
these most of all, so that this module, like `arrays`, asks which of them it has.
"""

from __future__ import annotations

from typing import Any

import array_api_compat as compat
import numpy as np

from pcarann.backend.arrays import Array, place_of

__all__ = [
    "cholesky",
    "few_eigenvectors",
    "inverse_of_lower",
    "inverse_root",
    "orthonormal",
    "rounded",
    "solve_cholesky",
    "solve_hermitian",
    "solve_lower",
    "triangle",
]

_SOLVED_AT_ONCE = 32  # unknowns of a triangular system that are not halved further
_LARGE, _FEW = 2048, 8  # rows of a matrix from which on some of its eigenvectors cost half of all, and their share


def rounded(number: float) -> float:
    """Return the ten digits of a chosen number that do not depend on how sums of some thousand terms were rounded.

    >>> rounded(0.1 + 0.2), rounded(12345678.901234)
    (0.3, 12345678.9)
    """
    return float(f"{number:.10g}")


def cholesky(matrix: Array) -> Array | None:
    """Return L with L Lᵀ = matrix, or None where the matrix is not numerically positive definite."""
    xp = compat.array_namespace(matrix)
    if compat.is_torch_array(matrix):
        factor, info = xp.linalg.cholesky_ex(matrix)
        return None if int(info) else factor
    try:
        factor = xp.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    return factor if bool(xp.all(xp.isfinite(factor))) else None


def solve_lower(lower: Array, rhs: Array, *, transposed: bool = False) -> Array:
    """Solve L z = rhs, or Lᵀ z = rhs, for a lower triangular L and a matrix rhs."""
    xp = compat.array_namespace(lower)
    if compat.is_torch_array(lower):
        return xp.linalg.solve_triangular(lower.mT if transposed else lower, rhs, upper=transposed)
    return _substituted(lower, rhs, transposed, xp)


def _substituted(lower: Array, rhs: Array, transposed: bool, xp: Any) -> Array:
    """Solve by halves, so that nearly all the work is matrix products.

    SciPy's triangular solve holds Python's lock, so that members fitted side by side wait for each other, and brings a
    second BLAS, whose threads take the cores from NumPy's.
    """
    n = int(lower.shape[0])
    if n <= _SOLVED_AT_ONCE:
        return xp.linalg.solve(lower.T if transposed else lower, rhs)
    parts = slice(0, n // 2), slice(n // 2, n)
    first, last = reversed(parts) if transposed else parts
    between = lower[parts[1], parts[0]]
    head = _substituted(lower[first, first], rhs[first, :], transposed, xp)
    rest = rhs[last, :] - (between.T if transposed else between) @ head
    tail = _substituted(lower[last, last], rest, transposed, xp)
    return xp.concat([tail, head] if transposed else [head, tail], axis=0)


def few_eigenvectors(matrix: Array, count: int) -> tuple[Array, Array] | None:
    """Return the first eigenvectors of a large Hermitian matrix and their eigenvalues, largest first.

    None where all of them are as cheap, as they are on a GPU.
    """
    n = int(matrix.shape[0])
    if not isinstance(matrix, np.ndarray) or n < _LARGE or _FEW * count > n:
        return None
    from scipy.linalg import LinAlgError, eigh

    try:
        values, vectors = eigh(matrix, subset_by_index=(n - count, n - 1), driver="evr", check_finite=False)
    except LinAlgError:
        return None
    return np.ascontiguousarray(vectors[:, ::-1]), np.ascontiguousarray(values[::-1])


def triangle(matrix: Array) -> Array:
    """Return R of a QR factorisation, without the twice as dear Q where the library allows that."""
    xp = compat.array_namespace(matrix)
    if compat.is_numpy_array(matrix):
        return np.linalg.qr(matrix, mode="r")
    return xp.linalg.qr(matrix, mode="r" if compat.is_torch_array(matrix) else "reduced")[1]


def inverse_of_lower(lower: Array) -> Array | None:
    """Return L⁻¹ on a GPU; None on a CPU.

    A triangular solve on a GPU is a long chain of small kernels: one inverse and matrix products are faster from the
    second solve on. On a CPU the two cost the same, and the solves are more accurate.
    """
    place = place_of(lower)
    return solve_lower(lower, place.eye(lower.shape[0])) if place.on_cuda else None


def solve_cholesky(lower: Array, rhs: Array) -> Array:
    """Solve L Lᵀ z = rhs."""
    return solve_lower(lower, solve_lower(lower, rhs), transposed=True)


def solve_hermitian(matrix: Array, rhs: Array) -> Array:
    """Solve with a positive definite matrix, or a stack of them, real or complex; NaN where one is not numerically."""
    xp = compat.array_namespace(matrix)
    if compat.is_torch_array(matrix):
        factor, info = xp.linalg.cholesky_ex(matrix)
        found = xp.cholesky_solve(rhs, factor)
        return xp.where((info == 0)[..., None, None], found, xp.full_like(found, float("nan")))
    try:
        xp.linalg.cholesky(matrix)  # tells alone: NumPy has no solve with a factor, and SciPy's holds a lock
        return xp.linalg.solve(matrix, rhs)
    except np.linalg.LinAlgError:
        if matrix.ndim > 2:
            return xp.stack([solve_hermitian(*pair) for pair in zip(matrix, rhs, strict=True)])
        return xp.full_like(rhs, float("nan"))


def orthonormal(matrix: Array) -> Array:
    """Return an orthonormal basis of the span of the columns."""
    return place_of(matrix).xp.linalg.qr(matrix, mode="reduced")[0]


def inverse_root(gram: Array) -> Array | None:
    """Return L⁻¹ for LLᵀ = the Gram matrix of nearly orthonormal vectors; None where they are far from that."""
    place, lower = place_of(gram), cholesky(gram)
    if lower is None or not float(place.xp.min(place.xp.linalg.diagonal(lower))) > 0.5:
        return None
    return solve_lower(lower, place.eye(gram.shape[0]))
