"""A mesh as the space of stages: what `Domain` offers, at nodes that lie anyhow.

    T f = (Φ W f,  √W (f − Φᵀ Φ W f)),   T⁻¹(c, r) = Φᵀ c + r/√W

Φ are the smoothest M harmonics of the mesh, the rest stands at its nodes as it is. W are the weights of the quadrature,
of mean 1: T keeps norms, ‖T f‖² = Σ wᵢ fᵢ², and is one product of matrices each way. Readouts on the first part are
smooth kernels, weights that fall with the eigenvalue; those on the rest act at every node alone.

Arrays are (samples, nodes, columns) in space and (samples, modes, columns) as harmonics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from pcarann.backend.arrays import Array, place_of
from pcarann.mesh.mesh import Mesh
from pcarann.mesh.stencil import Stencil, applied
from pcarann.mesh.tables import Table
from pcarann.spatial.domain import Domain

__all__ = ["MeshDomain", "Space"]

MODES = 256
_GROWTH = 1.3
_MOST_BANDS = 400

Matrix = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class MeshDomain:
    """A mesh and its smoothest harmonics.

    >>> points = np.random.default_rng(0).uniform(0, 1, (60, 2))
    >>> domain = MeshDomain.of(Mesh(points), modes=20)
    >>> fields = points[None, :, :]
    >>> np.allclose(domain.backward(domain.forward(fields)), fields)
    True
    """

    mesh: Mesh
    values: Matrix
    """Eigenvalues of the Laplacian, (M,)"""
    functions: Matrix
    """Φ, (M, nodes), orthonormal with the weights of the mesh"""

    @classmethod
    def of(cls, mesh: Mesh, modes: int = MODES) -> MeshDomain:
        """With so many harmonics at most; those of a mesh are found once."""
        return cls(mesh, *mesh.harmonics(min(mesh.nodes, modes)))

    @property
    def shape(self) -> tuple[int, ...]:
        """One axis, of all nodes"""
        return (self.mesh.nodes,)

    @property
    def points(self) -> int:
        """All of them"""
        return self.mesh.nodes

    @property
    def dimension(self) -> int:
        """That of the cells"""
        return self.mesh.dimension

    @property
    def directions(self) -> int:
        """Along which there are slopes: all of space"""
        return int(self.mesh.points.shape[1])

    @property
    def is_periodic(self) -> bool:
        """No node is like another"""
        return False

    @property
    def is_complex(self) -> bool:
        """Harmonics are real"""
        return False

    @property
    def modes(self) -> tuple[int, ...]:
        """Harmonics, and nodes where these are not all"""
        return (len(self.values) + (0 if self.is_whole else self.mesh.nodes),)

    def forward(self, fields: Array) -> Array:
        """T: (samples, nodes, columns) to (samples, modes, columns)."""
        xp = place_of(fields).xp
        smooth = xp.matmul(self.analysis.beside(fields), fields)
        if self.is_whole:
            return smooth
        rest = fields - xp.matmul(self.synthesis.beside(fields), smooth)
        rest *= self.roots.beside(fields)
        return xp.concat([smooth, rest], axis=1)

    def backward(self, harmonics: Array) -> Array:
        """T⁻¹"""
        xp = place_of(harmonics).xp
        count = len(self.values)
        smooth = xp.matmul(self.synthesis.beside(harmonics), harmonics[:, :count, :])
        return smooth if self.is_whole else smooth + harmonics[:, count:, :] / self.roots.beside(harmonics)

    def forward_adjoint(self, harmonics: Array) -> Array:
        """T*: the adjoint for sums over nodes, without weights."""
        xp, count = place_of(harmonics).xp, len(self.values)
        smooth, analysis = harmonics[:, :count, :], self.analysis.beside(harmonics).T
        if self.is_whole:
            return xp.matmul(analysis, smooth)
        rest = harmonics[:, count:, :] * self.roots.beside(harmonics)
        return rest + xp.matmul(analysis, smooth - xp.matmul(self.synthesis.beside(harmonics).T, rest))

    def backward_adjoint(self, fields: Array) -> Array:
        """The adjoint of T⁻¹."""
        xp = place_of(fields).xp
        smooth = xp.matmul(self.synthesis.beside(fields).T, fields)
        return smooth if self.is_whole else xp.concat([smooth, fields / self.roots.beside(fields)], axis=1)

    def slopes(self, fields: Array) -> list[Array]:
        """∂ᵢ of fields along every direction of space, in units of the mean distance of nodes."""
        return applied(self.stencils, fields, 1)

    def slopes_adjoint(self, slopes: Sequence[Array]) -> Array:
        """Adjoint of `slopes`."""
        first, *others = (one(slope, 1) for one, slope in zip(self._slopes_back, slopes, strict=True))
        return sum(others, start=first)

    def blurred(self, fields: Array, width: float) -> Array:
        """A mean over nodes around each, about `width` of their distances wide: one over neighbours, width² times."""
        for _ in range(max(1, round(width**2))):
            fields = self.mesh.mean(fields, 1)
        return fields

    def blurred_adjoint(self, fields: Array, width: float) -> Array:
        """Adjoint of `blurred`."""
        for _ in range(max(1, round(width**2))):
            fields = self._mean_back(fields, 1)
        return fields

    def smoothed(self, fields: Array, length: float) -> Array:
        """Φᵀ (1/ℓ² + λ)⁻¹ Φ W, ℓ in units of the shortest side of the mesh; ℓ = ∞ is the inverse Laplacian, no mean."""
        xp = place_of(fields).xp
        smooth = xp.matmul(self.analysis.beside(fields), fields) * self._beside(fields, length)
        return xp.matmul(self.synthesis.beside(fields), smooth)

    def smoothed_adjoint(self, fields: Array, length: float) -> Array:
        """Adjoint of `smoothed`."""
        xp = place_of(fields).xp
        smooth = xp.matmul(self.synthesis.beside(fields).T, fields) * self._beside(fields, length)
        return xp.matmul(self.analysis.beside(fields).T, smooth)

    def damping(self, length: float) -> Matrix:
        """(1/ℓ² + λ)⁻¹ of every harmonic, the largest 1, (M,), on the host."""
        sides = np.sort(np.ptp(self.mesh.points, axis=0))[-self.dimension :]
        factors = (length * float(sides[0])) ** -2.0 + self.values
        inverse = np.divide(1.0, factors, out=np.zeros_like(factors), where=factors > 0)
        found: Matrix = inverse / inverse.max()
        return found

    def _beside(self, fields: Array, length: float) -> Array:
        place = place_of(fields)
        return place.xp.astype(place.put(self.damping(length)), fields.dtype)[None, :, None]

    def bands(self, singles: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The number of the band to which every mode belongs; singles**dimension harmonics stand alone.

        Further bands grow by a factor; the rest at the nodes is the last one. None alone means one band for all.

        >>> MeshDomain.of(Mesh(np.arange(10.0)), modes=8).bands(2)
        array([0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5])
        """
        if singles == 0:
            return np.zeros(self.modes[0], dtype=np.int64)
        count = len(self.values)
        first = min(singles**self.dimension, _MOST_BANDS)
        edges = [float(first)]
        while edges[-1] < count:
            edges.append(edges[-1] * _GROWTH + 1)
        numbers = np.arange(count)
        found = np.where(numbers < first, numbers, first - 1 + np.searchsorted(edges, numbers, side="right"))
        rest = np.full(self.modes[0] - count, found[-1] + 1)
        return np.concatenate([found, rest]).astype(np.int64)

    @cached_property
    def coordinates(self) -> Matrix | None:
        """(1, nodes, fields): x and x² along every direction, from −1 to 1"""
        low, extent = self.mesh.points.min(axis=0), np.ptp(self.mesh.points, axis=0)
        lines = 2 * (self.mesh.points - low) / np.where(extent > 0, extent, 1.0) - 1
        found: Matrix = np.stack([part for line in lines.T for part in (line, line**2)], axis=-1)[None, ...]
        found.flags.writeable = False
        return found

    @property
    def is_whole(self) -> bool:
        """Whether harmonics are as many as nodes, so that there is no rest"""
        return len(self.values) == self.mesh.nodes

    @cached_property
    def _scaled(self) -> tuple[Matrix, float]:
        """Weights of mean 1, and the factor of the functions that makes them orthonormal with these"""
        mean = float(self.mesh.weights.mean())
        return self.mesh.weights / mean, mean**0.5

    @cached_property
    def analysis(self) -> Table:
        """Φ W, (M, nodes)"""
        weights, factor = self._scaled
        return Table(factor * self.functions * weights)

    @cached_property
    def synthesis(self) -> Table:
        """Φᵀ, (nodes, M)"""
        return Table((self._scaled[1] * self.functions).T)

    @cached_property
    def roots(self) -> Table:
        """√W, (1, nodes, 1)"""
        return Table(np.sqrt(self._scaled[0])[None, :, None])

    @cached_property
    def stencils(self) -> tuple[Stencil, ...]:
        """Of the slopes along every direction"""
        distance = float(self.mesh.weights.mean()) ** (1 / self.dimension)
        return tuple(slope * distance for slope in self.mesh.slopes)

    @cached_property
    def _slopes_back(self) -> tuple[Stencil, ...]:
        return tuple(slope.transposed(self.mesh.nodes) for slope in self.stencils)

    @cached_property
    def _mean_back(self) -> Stencil:
        return self.mesh.mean.transposed(self.mesh.nodes)


Space: TypeAlias = Domain | MeshDomain
"""Where stages work"""
