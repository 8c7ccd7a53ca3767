"""The smoothest functions on a mesh: K φ = λ W φ.

K is the stiffness matrix, or the Laplacian of a graph, W the diagonal of lumped masses. Nothing is asked at the
boundary, so that slopes across it vanish (Neumann) and the first function of every connected part is a constant. The
functions are orthonormal, Σ wᵢ φₖ(i) φₗ(i) = δₖₗ, as ψ = √W φ are eigenvectors of a symmetric matrix.

Small meshes are solved densely, others by Lanczos' method around a shift just below 0, from a fixed vector: one machine
finds the same numbers every time. Where eigenvalues coincide, as on a square, others may find other functions of the
same span.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sparse
import scipy.sparse.linalg

from pcarann.backend.arrays import place_of
from pcarann.backend.concurrency import single_threaded
from pcarann.mesh.elements import Matrix

__all__ = ["Harmonics", "solved"]

_DENSE = 700  # nodes up to which LAPACK is as fast as Lanczos
_SHARE = 3  # of all functions: beyond a third, Lanczos is the slower one
_SHIFT = 0.1  # of the mean eigenvalue among those sought, as counted by Weyl's law
_NOTHING = 1e-10  # of the largest eigenvalue: rounding of 0


class Harmonics(NamedTuple):
    """Eigenvalues and eigenfunctions of the Laplacian."""

    values: Matrix
    """λ, (count,), ascending"""
    functions: Matrix
    """φ, (count, nodes)"""


def solved(stiffness: Any, weights: Matrix, count: int) -> Harmonics:
    """The `count` smallest eigenpairs."""
    roots = np.sqrt(weights)
    scaled = sparse.diags(1 / roots) @ stiffness @ sparse.diags(1 / roots)
    scaled = (scaled + scaled.T) / 2
    nodes = len(weights)
    with single_threaded(
        place_of(None)
    ):  # threads would wait for one another: one is faster, and rounds alike anywhere
        if nodes <= _DENSE or count * _SHARE >= nodes:
            values, vectors = scipy.linalg.eigh(scaled.toarray(), subset_by_index=[0, count - 1], driver="evr")
        else:
            values, vectors = _around_nothing(scaled.tocsc(), count)
    order = np.argsort(values, kind="stable")
    values = np.where(values < _NOTHING * float(scaled.diagonal().max()), 0.0, values)[order]
    return Harmonics(values, _signed(vectors[:, order].T / roots))


def _around_nothing(matrix: Any, count: int) -> tuple[Matrix, Matrix]:
    """Lanczos' method on (A − σ)⁻¹, σ < 0, which is positive and needs no pivots."""
    nodes = matrix.shape[0]
    shift = -_SHIFT * float(matrix.diagonal().mean()) * count / nodes
    factors = scipy.sparse.linalg.splu(
        (matrix - shift * sparse.eye(nodes)).tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    inverse = scipy.sparse.linalg.LinearOperator(matrix.shape, matvec=factors.solve, dtype=np.float64)
    begin = np.random.default_rng(0).standard_normal(nodes)
    found: tuple[Matrix, Matrix] = scipy.sparse.linalg.eigsh(
        matrix, k=count, sigma=shift, which="LM", v0=begin, OPinv=inverse
    )
    return found


def _signed(functions: Matrix) -> Matrix:
    """Positive at the first node where a function has half of its size or more."""
    size = np.abs(functions)
    first = np.argmax(size >= 0.5 * size.max(axis=1, keepdims=True), axis=1)
    signs = np.sign(functions[np.arange(len(functions)), first])
    return np.ascontiguousarray(functions * signs[:, None])
