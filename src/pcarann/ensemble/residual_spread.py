"""The spread that left-out samples show, for ensembles whose members say too little of their own error.

    σ²(x) = s²(x) + v(x) c,   c = mean (u − û)² over samples that were left out of the fit

One member has no deviation, two agree by chance, and members of a kernel differ only in their landmarks. The second
moment C of left-out residuals says what they miss: c is its diagonal, for each output value. s² is the variance of the
members, where there are two of random layers. v is 1 for random layers; for a kernel it is the posterior variance
relative to that of left-out samples (`pcarann.features.posterior`), and s² is 0.

C is kept as its 8 leading directions L_j and the variance of each value that they leave over:

    C ≈ Σⱼ L_jᵀ L_j + diag(rest),   so that w C wᵀ = Σⱼ (w · L_j)² + Σ w² rest for a linear functional w,

which takes what is left over as uncorrelated between values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from pcarann.backend.arrays import Array, contiguous, place_of
from pcarann.backend.random import spread
from pcarann.features.posterior import KernelPosterior
from pcarann.symmetry.group import Group

__all__ = ["DIRECTIONS", "FEW_MEMBERS", "ResidualSpread", "residual_rows"]

FEW_MEMBERS = 2
"""Members of random layers up to which residuals stand beside their deviation"""
DIRECTIONS = 8
_MOST, _FEWEST = 100, 8  # residual fields, copies under a symmetry included; samples that they come from at least


def residual_rows(rows: list[int], elements: int = 1) -> list[int]:
    """Left-out rows whose residual fields are made; with more elements of a symmetry, fewer rows."""
    return [rows[i] for i in spread(len(rows), max(_FEWEST, _MOST // elements))]


@dataclass(frozen=True)
class ResidualSpread:
    """Second moment of left-out residuals, in the units inside."""

    directions: Array
    """L, (directions, values)"""
    rest: Array
    """Variance of each value that the directions leave over, (values,)"""
    posterior: KernelPosterior | None = None
    """v of a kernel; None for 1"""

    @classmethod
    def of(
        cls,
        residuals: Array,
        posterior: KernelPosterior | None = None,
        group: Group | None = None,
        averaged: tuple[int, ...] = (0,),
    ) -> ResidualSpread:
        """From residual fields (samples, values), with copies under the elements that predictions are averaged over.

        It is a little larger than their second moment, by 1 + 1/samples: few of them tell less.
        """
        xp, samples = place_of(residuals).xp, int(residuals.shape[0])
        fields = residuals * ((1 + 1 / samples) / (samples * len(averaged))) ** 0.5
        if group is not None:
            fields = xp.concat([group.move_outputs(fields, group.inverse(g)) for g in averaged], axis=0)
        _, vectors = xp.linalg.eigh(fields @ fields.T)
        vectors = vectors[:, -min(DIRECTIONS, *(int(n) for n in fields.shape)) :]
        directions = contiguous(vectors.T @ fields)
        directions = xp.where(xp.sum(directions, axis=1)[:, None] < 0, -directions, directions)
        rest = xp.clip(xp.sum(fields**2, axis=0) - xp.sum(directions**2, axis=0), min=0.0)
        return cls(directions, rest, posterior)

    @cached_property
    def variance(self) -> Array:
        """c, (values,)"""
        return place_of(self.rest).xp.sum(self.directions**2, axis=0) + self.rest

    @property
    def alone(self) -> bool:
        """Whether the deviation of the members is left out, as that of a kernel's"""
        return self.posterior is not None

    def relative(self, orbit: list[Array]) -> Array | float:
        """v of the latents of an orbit, on average over it, (samples, 1)."""
        if self.posterior is None:
            return 1.0
        return (sum(self.posterior(part) for part in orbit) / len(orbit))[:, None]

    def moved(self, fields_of: Callable[[Array], Array]) -> ResidualSpread:
        """The same on another grid, to which (fields, values) are interpolated."""
        xp = place_of(self.rest).xp
        found = fields_of(xp.concat([self.directions, xp.sqrt(self.rest)[None, :]], axis=0))
        return ResidualSpread(contiguous(found[:-1, :]), contiguous(found[-1, :] ** 2), self.posterior)

    def projected(self, weights: Array) -> ResidualSpread:
        """That of linear functionals with (k, values) weights."""
        return ResidualSpread(self.directions @ weights.T, (weights**2) @ self.rest, self.posterior)

    def steps(self) -> list[Array]:
        """Directions L_j, scaled so that their squares sum to those of all of C, (values,) each."""
        xp = place_of(self.rest).xp
        held, all_of_it = (float(xp.sum(one)) for one in (self.directions**2, self.variance))
        scaled = self.directions * (all_of_it / held) ** 0.5 if held > 0 else self.directions
        return [scaled[j, :] for j in range(int(scaled.shape[0]))]
