"""Weighted sums over few nodes: what derivatives, means and interpolations at nodes are.

    (S f)ᵢ = Σⱼ wᵢⱼ f(nᵢⱼ),   j = 1…k

Rows with fewer than k nodes are padded by weights of 0. A loop over j gathers and adds, on any library and device, and
nothing sparse is needed beside the fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from pcarann.backend.arrays import Array, place_of
from pcarann.mesh.tables import Table

__all__ = ["Stencil", "applied"]

Matrix = np.ndarray[Any, np.dtype[np.float64]]
Index = np.ndarray[Any, np.dtype[np.int64]]


class Stencil:
    """One weighted sum for each of n rows.

    >>> stencil = Stencil(np.array([[0, 1], [1, 2]]), np.array([[-1.0, 1.0], [-1.0, 1.0]]))
    >>> stencil(np.array([[0.0, 1.0, 4.0]]), axis=1)
    array([[1., 3.]])
    """

    def __init__(self, index: Any, weight: Any):
        nodes, weights = np.asarray(index, dtype=np.int64), np.asarray(weight, dtype=np.float64)
        if nodes.ndim != 2 or nodes.shape != weights.shape:
            raise ValueError(f"index and weight must be two (n, k) arrays, found {nodes.shape} and {weights.shape}.")
        self._index, self._weight = Table(nodes.T), Table(weights.T)

    @classmethod
    def of_matrix(cls, matrix: Any) -> Stencil:
        """The rows of a sparse matrix."""
        return cls.of_matrices([matrix])[0]

    @classmethod
    def of_matrices(cls, matrices: Sequence[Any]) -> list[Stencil]:
        """Those of several sparse matrices, which then gather the same nodes: `applied` does so once for all."""
        pattern = sum(abs(matrix) for matrix in matrices).tocsr()
        pattern.sort_indices()
        counts = np.diff(pattern.indptr)
        at = np.arange(pattern.nnz) - np.repeat(pattern.indptr[:-1], counts)
        rows = np.repeat(np.arange(pattern.shape[0]), counts)
        index = np.zeros((pattern.shape[0], max(1, int(counts.max(initial=0)))), dtype=np.int64)
        index[rows, at] = pattern.indices
        shared, found = Table(index.T), []
        for matrix in matrices:
            weight = np.zeros(index.shape)
            weight[rows, at] = np.asarray(matrix.tocsr()[rows, pattern.indices]).reshape(-1)
            one = cls(index, weight)
            one._index = shared
            found.append(one)
        return found

    @property
    def index(self) -> Index:
        """(n, k)"""
        found: Index = self._index.host.T
        return found

    @property
    def weight(self) -> Matrix:
        """(n, k)"""
        found: Matrix = self._weight.host.T
        return found

    def __call__(self, fields: Array, axis: int = -1) -> Array:
        """The sums along an axis of nodes, which becomes one of rows."""
        return applied([self], fields, axis)[0]

    def transposed(self, nodes: int) -> Stencil:
        """The adjoint: from values at rows back to so many nodes.

        >>> stencil = Stencil(np.array([[0, 1], [1, 2]]), np.array([[-1.0, 1.0], [-1.0, 1.0]]))
        >>> stencil.transposed(3)(np.array([[1.0, 10.0]]), axis=1)
        array([[-1., -9., 10.]])
        """
        rows = np.repeat(np.arange(self.index.shape[0]), self.index.shape[1])
        entries = (self.weight.reshape(-1), (self.index.reshape(-1), rows))
        return Stencil.of_matrix(sparse.coo_matrix(entries, shape=(nodes, self.index.shape[0])).tocsr())

    def __mul__(self, factor: float) -> Stencil:
        found = Stencil(self.index, self.weight * factor)
        found._index = self._index
        return found

    def __repr__(self) -> str:
        return f"Stencil({self.index.shape[0]} rows of {self.index.shape[1]} nodes)"

    def shares(self, other: Stencil) -> bool:
        """Whether both gather the same nodes."""
        return self._index is other._index

    def tables(self, fields: Array) -> tuple[Array, Array]:
        """Index and weight as (k, n), beside fields."""
        return self._index.beside(fields), self._weight.beside(fields)


def applied(stencils: Sequence[Stencil], fields: Array, axis: int = -1) -> list[Array]:
    """Several stencils on the same fields; those that share their nodes gather once."""
    if not all(stencil.shares(stencils[0]) for stencil in stencils):
        return [one for stencil in stencils for one in applied([stencil], fields, axis)]
    xp, at = place_of(fields).xp, axis % fields.ndim
    tables = [stencil.tables(fields) for stencil in stencils]
    index, along = tables[0][0], (1,) * (fields.ndim - 1 - at)
    found: list[Array] = []
    for j in range(int(index.shape[0])):
        gathered = xp.take(fields, index[j, :], axis=at)
        parts = [gathered * xp.reshape(weight[j, :], (-1, *along)) for _, weight in tables]
        if not found:
            found = parts
        else:
            for i, part in enumerate(parts):
                found[i] += part
    return found
