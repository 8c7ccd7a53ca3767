"""The readout of a stream: rows that come in blocks, more of them than fit into memory.

    HᵀH = Σ H_bᵀH_b,   HᵀY = Σ H_bᵀY_b        over the blocks b

Where a Cholesky factor of the sum is not safe, a second pass updates the triangle of a QR factorisation of (H Y) block
by block; with very many features, for which that takes too long, the ridge is raised instead until a Cholesky factor
exists, which is at the rounding of HᵀH, and the report says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from pcarann.backend.arrays import Array, place_of
from pcarann.backend.linalg import cholesky, inverse_of_lower, triangle
from pcarann.readout.direct import ReadoutReport, RidgeFactor, Solution, condition_of, minimum_norm, stacked

__all__ = ["Block", "NormalEquations", "Streamed", "Sums", "solve_streamed_readout", "solve_sums"]
__all__ += ["joined_triangle", "missed_moment", "triangle_of"]

Block = tuple[Array, Array]
"""Features and targets of some rows, (samples, features) and (samples, outputs)"""

_EPS = 2.0**-52
# Without refinement, which would need the rows again, the solution must keep the digits itself.
_SAFE_CONDITION = 1e11
_ORTHOGONAL_FEATURES = 1500  # at most: a QR factorisation costs ten times as much and more
_EXACT_CONDITION, _REFINEMENT_STEPS = 1e8, 2
_LEAST_SHIFT = 2.0  # times eps times the trace of HᵀH


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

    @staticmethod
    def add(parts: list[NormalEquations]) -> NormalEquations:
        """All of these together."""
        found = parts[0]
        for one in parts[1:]:
            sums = (found.normal + one.normal, found.moment + one.moment, found.energy + one.energy)
            found = NormalEquations(*sums, found.samples + one.samples)
        return found


class Sums(Protocol):
    """Sums over all rows, made again whenever they are asked for."""

    def normal(self) -> NormalEquations:
        """HᵀH and HᵀY."""

    def missed(self, readout: Array) -> Array:
        """Hᵀ(Y − HV), from the rows themselves."""

    def triangle(self) -> Array:
        """R of a QR factorisation of (H Y)."""


@dataclass(frozen=True)
class Streamed:
    """Sums over blocks that come one after another."""

    blocks: Callable[[], Iterable[Block]]

    def normal(self) -> NormalEquations:
        """HᵀH and HᵀY."""
        return NormalEquations.of(self.blocks())

    def missed(self, readout: Array) -> Array:
        """Hᵀ(Y − HV), from the rows themselves."""
        return missed_moment(self.blocks(), readout)

    def triangle(self) -> Array:
        """R of a QR factorisation of (H Y)."""
        return triangle_of(self.blocks())


def solve_streamed_readout(blocks: Callable[[], Iterable[Block]], ridge: float = 0.0) -> Solution:
    """Return V with all that it came from, for rows that come in blocks."""
    return solve_sums(Streamed(blocks), ridge)


def solve_sums(rows: Sums, ridge: float) -> Solution:
    """Return V with all that it came from, for rows of which sums can be had."""
    sums = rows.normal()
    size = int(sums.normal.shape[0])
    many = size > _ORTHOGONAL_FEATURES
    factor = _shifted_cholesky(sums.normal, ridge, insist=many)
    if factor is None or not (many or factor.condition <= _SAFE_CONDITION):
        return _orthogonal(rows.triangle(), ridge, size)
    V = factor.solve(sums.moment)
    if factor.condition > _EXACT_CONDITION:
        for _ in range(_REFINEMENT_STEPS):
            V = V + factor.solve(rows.missed(V) - factor.ridge * V)
    report = ReadoutReport("cholesky", "primal", None, math.sqrt(factor.condition), factor.ridge)
    return Solution(V, report, False, factor.solve)


def missed_moment(blocks: Iterable[Block], V: Array) -> Array:
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
    ridge = max(ridge, _LEAST_SHIFT * _EPS * trace) or 1.0 if insist else ridge
    while True:
        shifted = normal + ridge * place.eye(size) if ridge else normal
        lower = cholesky(shifted)
        if lower is not None:
            factor = RidgeFactor(lower, "cholesky", False, ridge, inverse=inverse_of_lower(lower))
            return replace(factor, condition=condition_of(shifted, factor))
        if not insist:
            return None
        ridge *= 10


def triangle_of(blocks: Iterable[Block]) -> Array:
    """R of a QR factorisation of (H Y), whose rows are taken in block by block."""
    R: Array = None
    for H, Y in blocks:
        both = place_of(H).xp.concat([H, Y], axis=1)
        R = triangle(both) if R is None else joined_triangle([R, both])
    return R


def joined_triangle(parts: list[Array]) -> Array:
    """R of what these are the triangles of, one on top of another."""
    return triangle(place_of(parts[0]).xp.concat(parts, axis=0))


def _orthogonal(R: Array, ridge: float, size: int) -> Solution:
    """Least squares from the triangle of (H Y; √λI 0), which has more rows than H has columns."""
    R = triangle(stacked(R[:, :size], R[:, size:], ridge))
    found = minimum_norm(R[:, :size], R[:, size:])
    return replace(found, report=replace(found.report, ridge=ridge), left=None)  # U would be that of the triangle
