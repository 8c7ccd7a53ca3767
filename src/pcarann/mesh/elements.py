"""Reference cells, and integrals over the cells of a mesh.

    x(ξ) = Σᵢ Nᵢ(ξ) xᵢ,   J = ∂x/∂ξ,   |J| = √det(J Jᵀ),   ∇Nᵢ = Jᵀ (J Jᵀ)⁻¹ ∂Nᵢ/∂ξ

Lines, triangles and tetrahedra have linear shape functions N, quadrilaterals and hexahedra products of linear ones, on
[0, 1]ʳ. Where cells have fewer dimensions than space, ∇ is the gradient along the surface. Corners are numbered as VTK
and meshio do. Simplices are integrated at their centre, the others by two Gauss points for each direction, on which
gradients of linear fields are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sparse

__all__ = ["KINDS", "Block", "Element", "assembled", "inverted"]

Matrix = np.ndarray[Any, np.dtype[np.float64]]
Index = np.ndarray[Any, np.dtype[np.int64]]

_ORDER = {1: [0, 1], 2: [0, 1, 3, 2], 3: [0, 1, 3, 2, 4, 5, 7, 6]}  # of corners in binary, as VTK goes around


@dataclass(frozen=True)
class Element:
    """One kind of cell."""

    name: str
    dimension: int
    """r"""
    is_simplex: bool

    @property
    def nodes(self) -> int:
        """Corners"""
        return self.dimension + 1 if self.is_simplex else 2**self.dimension

    @property
    def corners(self) -> Matrix:
        """(nodes, r)"""
        if self.is_simplex:
            return np.concatenate([np.zeros((1, self.dimension)), np.eye(self.dimension)])
        binary = np.array([corner[::-1] for corner in product((0.0, 1.0), repeat=self.dimension)])
        return binary[_ORDER[self.dimension]]

    def quadrature(self) -> tuple[Matrix, Matrix]:
        """Points (q, r) and weights (q,)."""
        if self.is_simplex:
            return self.corners.mean(axis=0)[None, :], np.array([1 / math.factorial(self.dimension)])
        line = 0.5 + np.array([-0.5, 0.5]) / math.sqrt(3)
        return np.array(list(product(line, repeat=self.dimension))), np.full(2**self.dimension, 0.5**self.dimension)

    def shapes(self, at: Matrix) -> Matrix:
        """N at (…, r): (…, nodes)."""
        if self.is_simplex:
            return np.concatenate([1 - at.sum(axis=-1, keepdims=True), at], axis=-1)
        return np.asarray(np.prod(self._factors(at), axis=-1))

    def shape_slopes(self, at: Matrix) -> Matrix:
        """∂N/∂ξ at (…, r): (…, nodes, r)."""
        if self.is_simplex:
            slopes = np.concatenate([-np.ones((1, self.dimension)), np.eye(self.dimension)])
            return np.broadcast_to(slopes, (*at.shape[:-1], *slopes.shape))
        factors = self._factors(at)
        signs = 2 * self.corners - 1
        found = np.empty(factors.shape)
        for k in range(self.dimension):
            others = [i for i in range(self.dimension) if i != k]
            found[..., k] = signs[:, k] * np.prod(factors[..., others], axis=-1)
        return found

    def _factors(self, at: Matrix) -> Matrix:
        """(…, nodes, r): ξ or 1 − ξ along each direction."""
        found: Matrix = np.where(self.corners == 1, at[..., None, :], 1 - at[..., None, :])
        return found

    def outside(self, at: Matrix) -> Matrix:
        """How far (…, r) coordinates lie outside, 0 inside."""
        inner = self.shapes(at) if self.is_simplex else np.concatenate([at, 1 - at], axis=-1)
        found: Matrix = np.maximum(0.0, -inner.min(axis=-1))
        return found


KINDS = {
    one.name: one
    for one in (
        Element("line", 1, True),
        Element("triangle", 2, True),
        Element("quad", 2, False),
        Element("tetra", 3, True),
        Element("hexahedron", 3, False),
    )
}


@dataclass(frozen=True, eq=False)
class Block:
    """All cells of one kind."""

    element: Element
    cells: Index
    """(n, nodes of a cell)"""

    def jacobians(self, points: Matrix, at: Matrix) -> Matrix:
        """J at (q, r) coordinates of every cell: (n, q, r, d)."""
        found: Matrix = np.einsum("qkr,nkd->nqrd", self.element.shape_slopes(at), points[self.cells])
        return found

    def measured(self, points: Matrix, at: Matrix) -> Matrix:
        """|J| at (q, r) coordinates of every cell: (n, q)."""
        found: Matrix = measure(self.jacobians(points, at))
        return found

    def gradients(self, points: Matrix, at: Matrix) -> tuple[Matrix, Matrix]:
        """∇N (n, q, nodes, d) and |J| (n, q)."""
        jacobians = self.jacobians(points, at)
        slopes = self.element.shape_slopes(at) @ np.swapaxes(inverted(jacobians), -1, -2)
        return slopes, measure(jacobians)


def measure(jacobians: Matrix) -> Matrix:
    """√det(J Jᵀ) of (…, r, d)."""
    if jacobians.shape[-1] == jacobians.shape[-2]:
        return np.asarray(np.abs(np.linalg.det(jacobians)))
    if jacobians.shape[-2:] == (2, 3):  # a product of vectors rounds less than the square root of a small difference
        return np.asarray(np.linalg.norm(np.cross(jacobians[..., 0, :], jacobians[..., 1, :]), axis=-1))
    return np.asarray(np.sqrt(np.maximum(0.0, np.linalg.det(jacobians @ np.swapaxes(jacobians, -1, -2)))))


def inverted(jacobians: Matrix) -> Matrix:
    """Jᵀ (J Jᵀ)⁻¹ of (…, r, d), by singular values: of thin cells J Jᵀ would be singular by rounding."""
    return np.asarray(np.linalg.pinv(jacobians))


def assembled(blocks: list[Block], points: Matrix) -> tuple[Matrix, list[Any], Any]:
    """∫Nᵢ (nodes,), ∫Nᵢ ∂Nⱼ for each direction and ∫∇Nᵢ·∇Nⱼ, (nodes, nodes) and sparse."""
    nodes, directions = points.shape
    lumped, parts = np.zeros(nodes), [sparse.csr_matrix((nodes, nodes)) for _ in range(directions + 1)]
    for block in blocks:
        at, weights = block.element.quadrature()
        shapes = block.element.shapes(at)
        slopes, size = block.gradients(points, at)
        size = size * weights
        np.add.at(lumped, block.cells, size @ shapes)
        local = [np.einsum("nq,qi,nqj->nij", size, shapes, slopes[..., k]) for k in range(directions)]
        local.append(np.einsum("nq,nqid,nqjd->nij", size, slopes, slopes))
        count = block.cells.shape[1]
        rows, columns = np.repeat(block.cells, count, axis=1).reshape(-1), np.tile(block.cells, count).reshape(-1)
        for k, values in enumerate(local):
            parts[k] += sparse.csr_matrix((values.reshape(-1), (rows, columns)), shape=(nodes, nodes))
    return lumped, parts[:-1], parts[-1]
