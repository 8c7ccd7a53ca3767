"""In which cell points lie, and where in it: values between nodes.

    x = Σᵢ Nᵢ(ξ) xᵢ   is solved for ξ by Newton's method, and   f(x) = Σᵢ Nᵢ(ξ) fᵢ

A cell that holds a point has its centre no further away than its own radius. Cells are tried nearest centre first, more
and more of them, until a cell is found or no other can be the one. On a surface, ξ is that of the nearest point of the
cell's tangent, and a point may lie a little above or below it, or over an edge between two cells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial import cKDTree

from pcarann.mesh.elements import Block, Index, Matrix, inverted
from pcarann.mesh.stencil import Stencil

__all__ = ["located"]

_INSIDE = 1e-6  # of a cell: rounding of points on its edge
_ABOVE = 0.1  # of a cell's size: how far facets are from the smooth surface that they stand for
_STEPS = 12  # of Newton's method, which converges quadratically in convex cells
_FIRST, _MORE = 8, 4  # cells tried at first, and how many times more then


def located(blocks: Sequence[Block], points: Matrix, at: Matrix) -> Stencil:
    """The stencil from nodes to other points (n, d), or a refusal of those outside."""
    width = max(block.element.nodes for block in blocks)
    index, weight = np.zeros((len(at), width), dtype=np.int64), np.zeros((len(at), width))
    worst = np.full(len(at), np.inf)
    for block in blocks:
        search = _Search(block, points)
        open_ = np.flatnonzero(worst > _INSIDE)
        cells, coordinates, outside = search(at[open_])
        better = outside < worst[open_]
        rows, cells, coordinates = open_[better], cells[better], coordinates[better]
        worst[rows] = outside[better]
        index[rows], weight[rows] = 0, 0.0
        index[rows, : block.element.nodes] = block.cells[cells]
        weight[rows, : block.element.nodes] = block.element.shapes(coordinates)
    solid = blocks[0].element.dimension == points.shape[1]
    bad = np.flatnonzero(~(worst <= (_INSIDE if solid else _ABOVE)))
    if len(bad):
        raise ValueError(
            f"{len(bad)} of {len(at)} points lie outside the mesh, the first is point {bad[0]} at "
            f"{at[bad[0]].tolist()}."
        )
    return Stencil(index, weight)


class _Search:
    """The cells of one kind, by their centres."""

    def __init__(self, block: Block, points: Matrix):
        self.block, self.points = block, points
        corners = points[block.cells]
        self.centres = corners.mean(axis=1)
        self.radii = np.linalg.norm(corners - self.centres[:, None, :], axis=-1).max(axis=1)
        self.tree = cKDTree(self.centres)

    def __call__(self, at: Matrix) -> tuple[Index, Matrix, Matrix]:
        """Cell, coordinates in it and how far outside, of every point; the best that there is."""
        cells = np.zeros(len(at), dtype=np.int64)
        coordinates = np.zeros((len(at), self.block.element.dimension))
        outside = np.full(len(at), np.inf)
        rows, tried, reach = np.arange(len(at)), 0, float(self.radii.max()) * (1 + _ABOVE)
        while len(rows) and tried < len(self.centres):
            most = min(len(self.centres), max(_FIRST, tried * _MORE))
            near, found = self.tree.query(at[rows], k=np.arange(tried + 1, most + 1))
            for j in range(most - tried):
                here, far = self._coordinates(at[rows], found[:, j])
                better = far < outside[rows]
                some = rows[better]
                cells[some], coordinates[some], outside[some] = found[better, j], here[better], far[better]
            tried = most
            rows = rows[(outside[rows] > _INSIDE) & (near[:, -1] <= reach)]
        return cells, coordinates, outside

    def _coordinates(self, at: Matrix, cells: Index) -> tuple[Matrix, Matrix]:
        """ξ of one point in one cell each, and how far outside it is."""
        element, corners = self.block.element, self.points[self.block.cells[cells]]
        found = np.broadcast_to(element.corners.mean(axis=0), (len(at), element.dimension)).copy()
        for _ in range(1 if element.is_simplex else _STEPS):
            left = at - np.einsum("nk,nkd->nd", element.shapes(found), corners)
            jacobians = np.einsum("nkr,nkd->nrd", element.shape_slopes(found), corners)
            step = np.einsum("nd,ndr->nr", left, inverted(jacobians))
            found = np.clip(found + step, -0.5, 1.5) if not element.is_simplex else found + step
        left = at - np.einsum("nk,nkd->nd", element.shapes(found), corners)
        above = np.linalg.norm(left, axis=1) / self.radii[cells]
        allowed = _INSIDE if element.dimension == corners.shape[-1] else _ABOVE
        return found, np.where(above > allowed, np.inf, element.outside(found))
