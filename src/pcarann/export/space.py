"""Space on a sheet: harmonics, slopes, means and smoothing of (samples, *space, columns), as products and gathers.

Every operator along an axis is linear, so that its matrix is what it makes of the unit vectors: harmonics of any ends
and any resolution are those of `pcarann.spatial.axis` to rounding, and a DFT is two real matrices. Harmonics are
(samples, modes, columns), their real parts before their imaginary ones where they are complex.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pcarann.export.graph import Sheet, Value
from pcarann.mesh.stencil import Stencil
from pcarann.spatial.domain import Domain
from pcarann.spatial.mesh_domain import MeshDomain, Space

__all__ = ["GridOnSheet", "MeshOnSheet", "space_on_sheet"]

Matrix = np.ndarray[Any, np.dtype[np.float64]]
Index = np.ndarray[Any, np.dtype[np.int64]]


def space_on_sheet(sheet: Sheet, space: Space) -> GridOnSheet | MeshOnSheet:
    """What writes the operators of a space."""
    return GridOnSheet(sheet, space) if isinstance(space, Domain) else MeshOnSheet(sheet, space)


class GridOnSheet:
    """The operators of a grid."""

    def __init__(self, sheet: Sheet, domain: Domain):
        self.sheet, self.domain = sheet, domain

    def forward(self, fields: Value, columns: int) -> Value:
        """T: (samples, *space, columns) to (samples, modes, columns), twice the columns where it is complex."""
        sizes = [*self.domain.shape, columns]
        for i, axis in enumerate(self.domain.axes):
            if axis.boundary != "periodic":
                fields = self._product(self._real[i][0], fields, sizes, i)
        halved = self.domain.halved
        if halved is None:
            return self.sheet.folded(fields, (math.prod(sizes[:-1]), columns))
        real, imaginary = self._halves[0]
        before = list(sizes)
        parts = (self._product(real, fields, sizes, halved), self._product(imaginary, fields, before, halved))
        for i, (cosine, sine) in self._turns.items():
            parts = self._turned(parts, (cosine, sine), sizes, i)
        flat = [self.sheet.folded(part, (math.prod(sizes[:-1]), columns)) for part in parts]
        return self.sheet.joined(flat, axis=-1)

    def backward(self, harmonics: Value, columns: int) -> Value:
        """T⁻¹: back to (samples, *space, columns)."""
        sizes, halved = [*self.domain.modes, columns], self.domain.halved
        if halved is None:
            fields = self.sheet.folded(harmonics, sizes)
        else:
            ends = (range(columns), range(columns, 2 * columns))
            some = (self.sheet.gathered(harmonics, np.asarray(end), axis=2) for end in ends)
            first, second = (self.sheet.folded(part, sizes) for part in some)
            parts = (first, second)
            for i, (cosine, sine) in self._turns.items():
                parts = self._turned(parts, (cosine, -sine), sizes, i)
            before = list(sizes)
            sides = zip(self._halves[1], parts, (sizes, before), strict=True)
            first, second = (self._product(matrix, part, own, halved) for matrix, part, own in sides)
            fields = first + second
        for i, axis in enumerate(self.domain.axes):
            if axis.boundary != "periodic":
                fields = self._product(self._real[i][1], fields, sizes, i)
        return fields

    def slopes(self, fields: Value) -> list[Value]:
        """∂ᵢ along every axis."""
        return [self._gathered(one, fields, i) for i, one in enumerate(self._slopes)]

    def blurred(self, fields: Value, columns: int, width: float) -> Value:
        """A Gaussian mean along all axes."""
        sizes = [*self.domain.shape, columns]
        for i, axis in enumerate(self.domain.axes):
            fields = self._product(axis.blurred(np.eye(axis.points)[None], 1, width)[0], fields, sizes, i)
        return fields

    def smoothed(self, fields: Value, columns: int, length: float) -> Value:
        """T⁻¹ (1/ℓ² + |q|²)⁻¹ T"""
        return self.backward(self.forward(fields, columns) * self.domain.damping(length)[:, None], columns)

    def _product(self, matrix: Matrix, fields: Value, sizes: list[int], at: int) -> Value:
        """The product with a matrix along an axis of space; `sizes`, without that of the samples, follow."""
        last = at == len(sizes) - 2
        if not last:
            fields = self.sheet.folded(fields, (*sizes[: at + 1], math.prod(sizes[at + 1 :])))
        found = self.sheet("MatMul", matrix, fields)
        sizes[at] = len(matrix)
        return found if last else self.sheet.folded(found, sizes)

    def _turned(self, parts: tuple[Value, Value], turn: tuple[Matrix, Matrix], sizes: list[int], at: int) -> Any:
        """The product of (P + iQ) with real and imaginary parts along an axis whose length stays."""
        (re, im), (P, Q) = parts, turn

        def by(matrix: Matrix, part: Value) -> Value:
            return self._product(matrix, part, sizes, at)

        return by(P, re) - by(Q, im), by(P, im) + by(Q, re)

    def _gathered(self, stencil: Sequence[tuple[Index, Matrix]], fields: Value, at: int) -> Value:
        """Sums over few points along an axis."""
        parts = [self.sheet.gathered(fields, index, axis=at + 1) * weight for index, weight in stencil]
        return sum(parts[1:], start=parts[0])

    @cached_property
    def _real(self) -> dict[int, tuple[Matrix, Matrix]]:
        """There and back along every axis that is no period"""
        axes = {i: axis for i, axis in enumerate(self.domain.axes) if axis.boundary != "periodic"}
        return {
            i: (axis.forward(np.eye(axis.points)[None], 1)[0], axis.backward(np.eye(axis.modes)[None], 1)[0])
            for i, axis in axes.items()
        }

    @cached_property
    def _halves(self) -> tuple[tuple[Matrix, Matrix], tuple[Matrix, Matrix]]:
        """There and back along the period half of whose harmonics are kept, as real and imaginary parts"""
        assert self.domain.halved is not None
        alone = Domain((self.domain.axes[self.domain.halved],))
        there = alone.forward(np.eye(alone.points)[None])[0]
        back = [alone.backward(unit * np.eye(alone.modes[0])[None])[0] for unit in (1, 1j)]
        first, second = back
        return (there.real.copy(), there.imag.copy()), (first, second)

    @cached_property
    def _turns(self) -> dict[int, tuple[Matrix, Matrix]]:
        """The DFT along every other period, P + iQ"""
        others = [
            i for i, axis in enumerate(self.domain.axes) if axis.boundary == "periodic" and i != self.domain.halved
        ]
        found = {i: np.fft.fft(np.eye(self.domain.shape[i]), axis=0, norm="ortho") for i in others}
        return {i: (matrix.real.copy(), matrix.imag.copy()) for i, matrix in found.items()}

    @cached_property
    def _slopes(self) -> list[list[tuple[Index, Matrix]]]:
        """Which points slopes are sums of, with their weights"""
        found = [_rows_of(axis.slope(np.eye(axis.points)[None], 1)[0]) for axis in self.domain.axes]
        beside = [(-1, *(1 for _ in self.domain.axes[i:])) for i in range(len(found))]
        return [[(j, w.reshape(shape)) for j, w in rows] for rows, shape in zip(found, beside, strict=True)]


class MeshOnSheet:
    """The operators of a mesh."""

    def __init__(self, sheet: Sheet, domain: MeshDomain):
        self.sheet, self.domain = sheet, domain

    def forward(self, fields: Value, columns: int) -> Value:
        """T: (samples, nodes, columns) to (samples, modes, columns)."""
        smooth = self._analysed(fields)
        if self.domain.is_whole:
            return smooth
        rest = (fields - self._made(smooth)) * self.domain.roots.host
        return self.sheet.joined([smooth, rest])

    def backward(self, harmonics: Value, columns: int) -> Value:
        """T⁻¹"""
        if self.domain.is_whole:
            return self._made(harmonics)
        count, modes = len(self.domain.values), self.domain.modes[0]
        smooth, rest = (self.sheet.gathered(harmonics, np.arange(*ends)) for ends in ((0, count), (count, modes)))
        return self._made(smooth) + rest / self.domain.roots.host

    def slopes(self, fields: Value) -> list[Value]:
        """∂ᵢ along every direction of space."""
        return self._applied(self.domain.stencils, fields)

    def blurred(self, fields: Value, columns: int, width: float) -> Value:
        """The mean over neighbours, width² times."""
        for _ in range(max(1, round(width**2))):
            (fields,) = self._applied([self.domain.mesh.mean], fields)
        return fields

    def smoothed(self, fields: Value, columns: int, length: float) -> Value:
        """Φᵀ (1/ℓ² + λ)⁻¹ Φ W"""
        return self._made(self._analysed(fields) * self.domain.damping(length)[:, None])

    def _analysed(self, fields: Value) -> Value:
        return self.sheet("MatMul", self.domain.analysis.host, fields)

    def _made(self, smooth: Value) -> Value:
        return self.sheet("MatMul", self.domain.synthesis.host, smooth)

    def _applied(self, stencils: Sequence[Stencil], fields: Value) -> list[Value]:
        """Several stencils on the same fields; those that share their nodes gather once."""
        if not all(one.shares(stencils[0]) for one in stencils):
            return [found for one in stencils for found in self._applied([one], fields)]
        around = self.sheet.gathered(fields, stencils[0].index)
        weights = np.stack([one.weight for one in stencils], axis=1)  # (nodes, stencils, neighbours)
        found = self.sheet("MatMul", weights, around)
        return [self.sheet.gathered(found, np.asarray(i), axis=2) for i in range(len(stencils))]


def _rows_of(matrix: Matrix) -> list[tuple[Index, Matrix]]:
    """A matrix with few entries in each row as pairs of their columns and weights, (rows,) each."""
    counts = np.count_nonzero(matrix, axis=1)
    index = np.argsort(matrix == 0, axis=1, kind="stable")[:, : max(1, int(counts.max()))]
    weight = np.take_along_axis(matrix, index, axis=1)
    return [(index[:, j], weight[:, j]) for j in range(index.shape[1])]
