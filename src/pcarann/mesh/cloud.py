"""Points without cells: every node and its k nearest neighbours.

    weights     volume of the ball to the k-th neighbour, over k
    slopes      g = argmin Σⱼ (fⱼ − fᵢ − g·Δⱼ)²/|Δⱼ|²
    Laplacian   of a graph with weights exp(−|Δ|²/2ρ²), scaled so that fᵀ K f ≈ ∫ |∇f|²
    values      at other points: the linear function that fits best around them, weights 1/|Δ|²

Slopes and values are exact on linear fields wherever neighbours do not lie on a line or a plane.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sparse
from scipy.spatial import cKDTree

from pcarann.mesh.elements import Index, Matrix
from pcarann.mesh.stencil import Stencil

__all__ = ["Cloud"]

_NEIGHBOURS = {1: 4, 2: 9, 3: 18}
_FLAT = 1e-8  # of the largest: neighbours on a line or a plane say nothing about what is across
_FAR = 1.5  # distances to the last neighbour of the nearest node
_NEAR = 1e-6  # of the distance to neighbours: nearer points have the value of the node


@dataclass(frozen=True, eq=False)
class Cloud:
    """A cloud of (nodes, d) points."""

    points: Matrix

    @cached_property
    def _tree(self) -> Any:
        return cKDTree(self.points)

    @property
    def _count(self) -> int:
        return min(_NEIGHBOURS[self.points.shape[1]], len(self.points) - 1)

    @cached_property
    def neighbours(self) -> tuple[Matrix, Index]:
        """Distances and numbers of the neighbours, nearest first, (nodes, k) each, the node itself left out."""
        found = self._tree.query(self.points, k=self._count + 1)
        return found[0][:, 1:], np.asarray(found[1][:, 1:], dtype=np.int64)

    @property
    def weights(self) -> Matrix:
        """(nodes,)"""
        d = self.points.shape[1]
        ball = math.pi ** (d / 2) / math.gamma(d / 2 + 1)
        found: Matrix = ball * self.neighbours[0][:, -1] ** d / self._count
        return found

    def slopes(self) -> list[Stencil]:
        """∂ along every direction."""
        distances, index = self.neighbours
        apart = self.points[index] - self.points[:, None, :]
        weighted = apart / distances[..., None] ** 2
        inverse = np.linalg.pinv(np.swapaxes(weighted, 1, 2) @ apart, rcond=_FLAT, hermitian=True)
        found = weighted @ inverse  # (nodes, k, d)
        nodes = np.concatenate([np.arange(len(index))[:, None], index], axis=1)
        return [_row_stencil(nodes, found[..., i]) for i in range(found.shape[-1])]

    def adjacency(self) -> Any:
        """1 where two nodes are neighbours, of either."""
        _, index = self.neighbours
        rows = np.repeat(np.arange(len(index)), index.shape[1])
        found = sparse.csr_matrix((np.ones(index.size), (rows, index.reshape(-1))), shape=(len(index), len(index)))
        return ((found + found.T) > 0).astype(np.float64)

    def stiffness(self) -> Any:
        """K, sparse."""
        distances, index = self.neighbours
        nodes, d = self.points.shape
        width = distances.mean(axis=1, keepdims=True)
        bells = np.exp(-0.5 * (distances / width) ** 2)
        bells *= (2 * d * self.weights / (bells * distances**2).sum(axis=1))[:, None]
        rows = np.repeat(np.arange(nodes), index.shape[1])
        edges = sparse.csr_matrix((bells.reshape(-1), (rows, index.reshape(-1))), shape=(nodes, nodes))
        edges = (edges + edges.T) / 2
        return sparse.diags(np.asarray(edges.sum(axis=1)).reshape(-1)) - edges

    def interpolation(self, at: Matrix) -> Stencil:
        """Values at (n, d) other points, or a refusal where one is further from all nodes than these are apart."""
        k = min(_NEIGHBOURS[self.points.shape[1]], len(self.points))
        distances, index = self._tree.query(at, k=k)
        distances, index = distances.reshape(len(at), -1), index.reshape(len(at), -1)
        reach = self.neighbours[0][index[:, 0], -1]
        bad = np.flatnonzero(distances[:, 0] > _FAR * reach)
        if len(bad):
            raise ValueError(
                f"{len(bad)} of {len(at)} points are far from all nodes, the first is point {bad[0]} at "
                f"{at[bad[0]].tolist()}."
            )
        apart = (self.points[index] - at[:, None, :]) / reach[:, None, None]
        terms = np.concatenate([np.ones((*apart.shape[:2], 1)), apart], axis=-1)
        weights = 1 / ((distances / reach[:, None]) ** 2 + _NEAR**2)
        weights /= weights.sum(axis=1, keepdims=True)
        weighted = terms * weights[..., None]
        normal = np.swapaxes(weighted, 1, 2) @ terms
        # Directions have units of their own: near a node its weight would make slopes look like nothing.
        units = 1 / np.sqrt(np.maximum(np.einsum("nii->ni", normal), np.finfo(float).tiny))
        normal = normal * units[:, :, None] * units[:, None, :]
        inverse = np.linalg.pinv(normal, rcond=_FLAT, hermitian=True)
        rows = np.einsum("nkt,nt->nk", weighted * units[:, None, :], inverse[:, :, 0] * units[:, :1])
        return Stencil(index, rows)


def _row_stencil(nodes: Index, weights: Matrix) -> Stencil:
    """Weights of neighbours, and of the node itself so that they add up to nothing."""
    return Stencil(nodes, np.concatenate([-weights.sum(axis=1, keepdims=True), weights], axis=1))
