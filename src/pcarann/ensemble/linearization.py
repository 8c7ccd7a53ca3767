"""The mean prediction of an ensemble with its derivative, as a chain of those of its parts.

    μ(a) = 1/|G| Σ_g g⁻¹ G_U(1/K Σₖ Φₖ(F_A(g a)))        forward and, transposed, back

Slopes of the members' features are kept where they fit; else they are made again, block by block of samples, whenever
the derivative is multiplied with something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pcarann.backend.arrays import Array, cuts
from pcarann.backend.linearized import Linearized
from pcarann.ensemble.mean_and_spread import Ensemble
from pcarann.ensemble.members import Member
from pcarann.ensemble.pairs import ROWS

__all__ = ["linearized_mean"]

Result = TypeVar("Result")

_KEPT_BYTES = 1 << 28  # of features and slopes of all members
_DEARER = 3  # than a prediction: features, their slopes, and a product with them


def linearized_mean(ensemble: Ensemble, orbit: list[Array]) -> Linearized:
    """From (samples, values) inputs whose latents the orbit holds, to (samples, values) of their mean prediction."""
    xp, count = ensemble.place.xp, len(orbit)
    latents = _mean_latents(ensemble, orbit[0] if count == 1 else xp.concat(orbit, axis=0))
    moves = _Moves(ensemble, int(orbit[0].shape[0]))

    def push(tangents: Array) -> Array:
        moved = (ensemble.input_pca.encode_change(one) for one in moves.inputs(tangents))
        return moves.averaged(latents.push(xp.concat(list(moved), axis=0)), ensemble.output_pca.decode_change)

    def pull(cotangents: Array) -> Array:
        moved = (ensemble.output_pca.decode_adjoint(one) for one in moves.averaged_adjoint(cotangents))
        return moves.inputs_adjoint(latents.pull(xp.concat(list(moved), axis=0)), ensemble.input_pca.encode_adjoint)

    return Linearized(moves.averaged(latents.value, ensemble.output_pca.decode), push, pull)


@dataclass(frozen=True, eq=False)
class _Moves:
    """Copies of samples under the elements that predictions are averaged over, one block below another."""

    ensemble: Ensemble
    samples: int

    def inputs(self, fields: Array) -> list[Array]:
        """g a for every element."""
        group = self.ensemble.group
        return [fields if group is None else group.move_inputs(fields, g) for g in self.ensemble.averaged]

    def inputs_adjoint(self, latents: Array, fields_of: Callable[[Array], Array]) -> Array:
        """The adjoint of `inputs`, for fields that are made of the blocks of these latents."""
        group, total = self.ensemble.group, 0.0
        for g, block in self._blocks(latents):
            fields = fields_of(block)
            total = total + (fields if group is None else group.move_inputs_adjoint(fields, g))
        return total

    def averaged(self, latents: Array, fields_of: Callable[[Array], Array]) -> Array:
        """The mean of g⁻¹ u over all elements, for fields that are made of the blocks of these latents."""
        group, total = self.ensemble.group, 0.0
        for g, block in self._blocks(latents):
            fields = fields_of(block)
            total = total + (fields if group is None else group.move_outputs(fields, group.inverse(g)))
        return total / len(self.ensemble.averaged)

    def averaged_adjoint(self, fields: Array) -> list[Array]:
        """The adjoint of `averaged`, for every element."""
        group, elements = self.ensemble.group, self.ensemble.averaged
        if group is None:
            return [fields]
        return [group.move_outputs_adjoint(fields, group.inverse(g)) / len(elements) for g in elements]

    def _blocks(self, rows: Array) -> list[tuple[int, Array]]:
        size = self.samples
        return [(g, rows[i * size : (i + 1) * size, :]) for i, g in enumerate(self.ensemble.averaged)]


def _mean_latents(ensemble: Ensemble, x: Array) -> Linearized:
    """The mean over the members of Φ at (samples, latent) rows."""
    members = _Members(ensemble, x)
    features = 8 * int(x.shape[0]) * max(member.features.terms for member in ensemble.members)
    if 2 * features * len(ensemble.members) <= _KEPT_BYTES:
        members.kept.update(members.each(lambda member: (member.features.member, member.linearized(x)), x.shape[0]))
    value = members.mean(lambda record, _: record.value)
    return Linearized(
        value,
        lambda t: members.mean(lambda record, rows: record.push(t[rows, :])),
        lambda c: members.mean(lambda record, rows: record.pull(c[rows, :])),
    )


@dataclass(frozen=True, eq=False)
class _Members:
    """All members at the same rows."""

    ensemble: Ensemble
    x: Array
    kept: dict[int, Linearized] = field(default_factory=dict)
    """Records of all rows, by the number of the member; empty where they would not fit"""

    def each(self, function: Callable[[Member], Result], samples: int) -> Iterator[Result]:
        """Yield function(member) in order, where the function makes records of that many samples, or uses them."""
        double = replace(self.ensemble.members[-1], quick=None)  # which records are made of
        return self.ensemble.over_members(function, samples, _DEARER * double.seconds(samples))

    def mean(self, product: Callable[[Linearized, slice], Array]) -> Array:
        """The mean over the members of what is made of their records."""
        rows = int(self.x.shape[0])
        parts = [self._mean(product, some) for some in cuts(rows, rows if self.kept else ROWS)]
        return parts[0] if len(parts) == 1 else self.ensemble.place.xp.concat(parts, axis=0)

    def _mean(self, product: Callable[[Linearized, slice], Array], rows: slice) -> Array:
        def of_member(member: Member) -> Array:
            kept = self.kept.get(member.features.member)
            return product(member.linearized(self.x[rows, :]) if kept is None else kept, rows)

        total: Array = 0.0
        for part in self.each(of_member, rows.stop - rows.start):
            total = total + part
        return total / len(self.ensemble.members)
