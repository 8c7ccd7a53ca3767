"""K members on one pair of PCAs: mean and spread.

    û⁽ᵏ⁾ = G_U(V⁽ᵏ⁾ᵀ h⁽ᵏ⁾(F_A(a))),   μ = mean over k,   σ² = Σₖ (û⁽ᵏ⁾ − μ)² / (K − 1)

The members differ in their random weights alone. One or two of them, and those of a kernel, do not show how wrong their
mean is: there σ² counts what left-out samples show (`pcarann.ensemble.residual_spread`).

Since G_U is affine, the mean of the fields is the field of the mean latents: it costs one decoding. The spread costs K
decodings of latent deviations, summed in blocks of samples, so that K full-size fields never exist together.

Samples travel in tiles, so that a prediction does not depend on what is beside it; a tile costs its 64 rows. Cores
share members or samples, and products stay on one thread each: a batch is the same bytes on any number of threads. Few
samples go one by one, and cost their own arithmetic; they differ from the same ones in a large batch by rounding alone.
Readouts of nearly dependent features amplify rounding: where that was seen on training samples, few samples travel in a
tile too, unless the ensemble was prepared (`pcarann.ensemble.prepared`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from pcarann.backend.arrays import Array, Place, cuts, place_of, taken, to_host
from pcarann.backend.concurrency import concurrently, least_seconds, single_threaded, unhurried
from pcarann.backend.random import spread
from pcarann.ensemble.members import Member
from pcarann.ensemble.pairs import ROWS
from pcarann.ensemble.prepared import Prepared
from pcarann.ensemble.residual_spread import ResidualSpread
from pcarann.latent.pca import PCA
from pcarann.latent.resampled import Target, resampled
from pcarann.symmetry.generators import Symmetry
from pcarann.symmetry.group import Group

__all__ = ["Ensemble", "padded"]

Result = TypeVar("Result")

_ENCODED_ROWS = 256  # fields at a time through the PCA, which makes a centred copy of them
# Samples travel in multiples of this, the last block padded with zeros: BLAS rounds differently for other shapes,
# and a prediction should not depend on the samples beside it.
_TILE = 64
_PIECE = 16 * _TILE  # samples that one core takes where there is one member
_FEW = 8  # rows that go one by one: from here on, one tile costs less
_PROBED, _JUDGES, _STEADY = 3, 2, 1e-10  # training rows and members that are looked at; what rounding may change
_WORTH = 4e7  # multiplications that take some milliseconds
_FIELD_BYTES = 1 << 26  # memory of one block of fields while their spread is summed


@dataclass(frozen=True)
class Ensemble:
    """The fitted surrogate: F_A, K random feature maps with readouts, G_U."""

    input_pca: PCA
    output_pca: PCA
    members: tuple[Member, ...]
    group: Group | None = None
    """Symmetry of the problem, where one is known"""
    averaged: tuple[int, ...] = (0,)
    """Elements of the group over which predictions are averaged"""
    steady: bool = False
    """Whether samples that go one by one were seen to differ from those in a tile by rounding alone"""
    prepared: Prepared | None = None
    """What was kept for calls with few samples, where it was asked for"""
    residual_spread: ResidualSpread | None = None
    """What left-out samples show of the error; None for three members or more of random layers"""

    @property
    def place(self) -> Place:
        """Where all arrays of the ensemble live."""
        return place_of(self.output_pca.mean)

    def tried(self, x: Array) -> Ensemble:
        """The same ensemble, which knows from some (samples, latent) training rows whether it is steady."""
        rows = taken(x, spread(int(x.shape[0]), _PROBED))
        xp, tile = self.place.xp, padded(rows)
        for member in self.members[:_JUDGES] if self.place.on_host else ():
            whole = member(tile)[: rows.shape[0], :]
            few = replace(member, quick=None).few(rows)
            if float(xp.max(xp.abs(few - whole))) > _STEADY * float(xp.max(xp.abs(whole))):
                return replace(self, steady=False)
        return replace(self, steady=True)

    def with_readouts(self, readouts: list[Array]) -> Ensemble:
        """Return the same ensemble with other readouts, one per member."""
        pairs = zip(self.members, readouts, strict=True)
        members = tuple(Member.of(member.features, V, member.report) for member, V in pairs)
        return replace(self, members=members, prepared=self.prepared and Prepared.of(members, self.prepared.memory))

    def on(self, target: Any, inputs: Any, symmetry: Symmetry | None) -> Ensemble:
        """Return the same ensemble with outputs, and inputs if asked, on another grid, or a refusal."""
        input_pca, output_pca, group = self.input_pca, self.output_pca, self.group
        wanted_outputs, grid = Target.of(target, output_pca.grid), output_pca.grid
        output_pca, residual_spread = resampled(output_pca, wanted_outputs), self.residual_spread
        if residual_spread is not None and output_pca is not self.output_pca:
            residual_spread = residual_spread.moved(
                lambda fields: self.place.put(wanted_outputs(to_host(fields), grid))
            )
        if inputs is not None:
            wanted = Target.of(inputs, input_pca.grid, "inputs")
            if wanted.points is not None:
                raise ValueError("inputs must be the shape of another grid: points have no quadrature.")
            input_pca = resampled(input_pca, wanted)
        if self.group is not None:
            if symmetry is None:
                raise ValueError("The model was fitted with a symmetry that is not among its parameters: set it again.")
            group = symmetry.rebound(input_pca.grid, output_pca.grid)
            if group.order != self.group.order:
                raise ValueError(
                    f"The symmetry has {group.order} elements on the new grids, but {self.group.order} on those of the "
                    "training: fit with one that has as many on both."
                )
        pcas = replace(self, input_pca=input_pca, output_pca=output_pca)
        return replace(pcas, group=group, residual_spread=residual_spread)

    def over_members(
        self, function: Callable[[Member], Result], samples: int, seconds: float = math.inf
    ) -> Iterator[Result]:
        """Yield function(member) in order, where the function makes features of that many samples in such a time."""
        bytes_each = self.members[0].features.working_bytes(samples)
        return concurrently(function, self.members, place=self.place, bytes_each=bytes_each, seconds_each=seconds)

    def encode(self, inputs: Array) -> Array:
        """Latents F_A(a) of (samples, values) inputs."""
        if self._one_by_one(int(inputs.shape[0])):
            with unhurried(self.place, _seconds(self.input_pca, 1)):
                return self.place.xp.concat([self.input_pca.encode(inputs[row, :]) for row in cuts(inputs.shape[0], 1)])
        x = self.place.empty(inputs.shape[0], self.input_pca.n_components)

        def encode(rows: slice) -> None:
            x[rows, :] = self.input_pca.encode(padded(inputs[rows, :]))[: rows.stop - rows.start, :]

        self._shared(encode, int(inputs.shape[0]), self.input_pca, _ENCODED_ROWS)
        return x

    def orbit(self, inputs: Array) -> list[Array]:
        """Latents of the inputs, moved by each element that predictions are averaged over, the identity first."""
        group = self.group
        return [self.encode(inputs if group is None or g == 0 else group.move_inputs(inputs, g)) for g in self.averaged]

    def mean_fields(self, orbit: list[Array]) -> Array:
        """μ for the latents of an orbit, as (samples, values)."""
        fields = self.place.zeros(orbit[0].shape[0], self.output_pca.mean.shape[0])
        size = max(_TILE, ROWS // len(orbit) // _TILE * _TILE)
        for rows in cuts(orbit[0].shape[0], size):
            total: Array = 0.0
            for latents in self._latents([x[rows, :] for x in orbit]):
                total = total + latents
            total = total / len(self.members)
            if len(orbit) == 1:
                self._decoded(total, fields[rows, :])
                continue
            for g, mean in self._moved_parts(total):
                fields[rows, :] += self._moved_back(mean[: rows.stop - rows.start, :], g)
            fields[rows, :] /= len(orbit)
        return fields

    def field_blocks(self, orbit: list[Array]) -> Iterator[tuple[slice, Array, Array]]:
        """Yield (rows, μ, σ) for blocks of the latents of an orbit."""
        values = self.output_pca.mean.shape[0]
        if len(orbit) == 1:
            size = max(_TILE, _FIELD_BYTES // (8 * values) // _TILE * _TILE)
            yield from self._blocks_alone(orbit[0], size)
            return
        size = max(1, _FIELD_BYTES // (8 * values * len(self.members)))
        for rows in cuts(orbit[0].shape[0], size):
            part = [x[rows, :] for x in orbit]
            fields = self._averaged_members(part)
            mean = self.place.xp.mean(fields, axis=0)
            fields -= mean
            yield rows, mean, self._std(partial(_squares, fields), self._relative(part), mean)

    def member_blocks(
        self, orbit: list[Array], members: bool, directions: bool = False
    ) -> Iterator[tuple[slice, list[Array]]]:
        """Yield (rows, fields) for blocks of the latents of an orbit: the mean, then those of each member if asked.

        Then, if asked, μ + √v L for each direction L of left-out residuals, where there are such.
        """
        known = self.residual_spread if directions else None
        steps = [] if known is None else known.steps()
        copies = 1 + len(self.members) * members + len(steps)
        size = max(_TILE, _FIELD_BYTES // (8 * copies * int(self.output_pca.mean.shape[0])) // _TILE * _TILE)
        for rows in cuts(orbit[0].shape[0], size):
            part = [x[rows, :] for x in orbit]
            if members:
                fields = self._averaged_members(part)
                found = [self.place.xp.mean(fields, axis=0), *(fields[k, :, :] for k in range(len(self.members)))]
            else:
                found = [self.mean_fields(part)]
            size_of_step = self._relative(part) ** 0.5 if steps else 0.0
            yield rows, [*found, *(found[0] + size_of_step * step for step in steps)]

    def output_energies(self) -> Array:
        """Σ over training samples of the squares of centred outputs, (1, values), as their modes hold it.

        It is the same wherever a symmetry moves it; what moves with a sign has none as a square.
        """
        xp, group = self.place.xp, self.group
        squares = xp.sum((self.output_pca.modes * self.output_pca.singular_values[:, None]) ** 2, axis=0)[None, :]
        if group is None:
            return squares
        return sum(xp.abs(group.move_outputs(squares, g)) for g in self.averaged) / len(self.averaged)

    def _blocks_alone(self, x: Array, size: int) -> Iterator[tuple[slice, Array, Array]]:
        """Yield (rows, μ, σ) without a symmetry: the spread is summed over deviations of latents."""
        for outer in cuts(x.shape[0], ROWS):
            latents = self.place.xp.stack(list(self._latents([x[outer, :]])))
            for start in range(0, outer.stop - outer.start, size):
                some = latents[:, start : min(start + size, latents.shape[1]), :]
                rows = slice(outer.start + start, min(outer.start + start + size, outer.stop))
                count = rows.stop - rows.start
                mean, std = self._mean_and_std(some, self._relative([x[rows, :]]))
                yield rows, mean[:count, :], std[:count, :]

    def _averaged_members(self, orbit: list[Array]) -> Array:
        """Each member's fields, averaged over the group: (members, samples, values)."""
        samples = orbit[0].shape[0]
        fields = self.place.zeros(len(self.members), samples, self.output_pca.mean.shape[0])
        for k, latents in enumerate(self._latents(orbit)):
            for g, mean in self._moved_parts(latents):
                fields[k, :, :] += self._moved_back(mean[:samples, :], g)
        fields /= len(orbit)
        return fields

    def _moved_parts(self, latents: Array) -> Iterator[tuple[int, Array]]:
        """Yield each averaged element with the fields of its part of the latents of an orbit."""
        size = latents.shape[0] // len(self.averaged)
        for i, g in enumerate(self.averaged):
            yield g, self._decoded(latents[i * size : (i + 1) * size, :])

    def _moved_back(self, fields: Array, element: int) -> Array:
        """Undo an element on (samples, values) outputs."""
        if self.group is None or element == 0:
            return fields
        return self.group.move_outputs(fields, self.group.inverse(element))

    def _latents(self, orbit: list[Array]) -> Iterator[Array]:
        """Yield each member's output latents of (samples, latent) parts, padded to whole tiles, one below another."""
        xp = self.place.xp
        alone = self._one_by_one(sum(int(part.shape[0]) for part in orbit))
        parts = orbit if alone else [padded(part) for part in orbit]
        x = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
        samples = int(x.shape[0])
        if len(self.members) == 1 and self.place.by_numpy and not alone:
            return iter([self._alone_in_pieces(x)])
        return self.over_members(lambda m: m.few(x) if alone else m(x), samples, self.members[-1].seconds(samples))

    def _alone_in_pieces(self, x: Array) -> Array:
        """The one member's output latents: cores share the samples, so that its products stay on one thread each."""
        member, size = self.members[0], min(_PIECE, int(x.shape[0]))
        parts = concurrently(
            lambda rows: member(x[rows, :]),
            cuts(int(x.shape[0]), _PIECE),
            place=self.place,
            bytes_each=member.features.working_bytes(size),
            seconds_each=member.seconds(size),
        )
        return self.place.xp.concat(list(parts))

    def _one_by_one(self, rows: int) -> bool:
        """Whether so many rows go each by itself."""
        return (self.steady or self.prepared is not None) and rows <= _FEW and self.place.on_host

    def _decoded(self, latents: Array, out: Array | None = None) -> Array:
        """Fields of (rows, latent) output latents, into `out` if given."""
        pca, samples = self.output_pca, int(latents.shape[0])
        fields = self.place.empty(samples, pca.mean.shape[0]) if out is None else out
        count = int(fields.shape[0])  # padded latents are more
        if not self._one_by_one(samples):

            def decode(rows: slice) -> None:
                if rows.start < count:
                    pca.decode(latents[rows, :], fields[rows.start : min(rows.stop, count), :])

            self._shared(decode, samples, pca)
            return fields
        with unhurried(self.place, _seconds(pca, samples)):
            for row in cuts(samples, 1):
                pca.decode(latents[row, :], fields[row, :])
        return fields

    def _shared(self, function: Callable[[slice], object], samples: int, pca: PCA, most: int | None = None) -> None:
        """Call a function of rows for all samples: cores share them, and products with modes stay on one thread.

        A GPU takes them at once, or so many at a time at `most`.
        """
        size = _rows_at_once(pca) if self.place.by_numpy else most or max(_TILE, samples)
        costs = 3 * 8 * size * int(pca.mean.shape[0]), _seconds(pca, size)
        blocks = _blocks(samples, size)
        for _ in concurrently(function, blocks, place=self.place, bytes_each=costs[0], seconds_each=costs[1]):
            pass

    def _relative(self, orbit: list[Array]) -> Array | float:
        """v of the latents of an orbit, (samples, 1), in whole tiles; 1 without a posterior."""
        if self.residual_spread is None or self.residual_spread.posterior is None:
            return 1.0
        whole: Array = self.residual_spread.relative([padded(part) for part in orbit])
        return whole[: orbit[0].shape[0], :]

    def _std(self, squares: Callable[[], Array], relative: Array | float, mean: Array) -> Array:
        """σ of predictions like the mean, where `squares` sums the members' deviations and v is `relative`."""
        xp, known, members = self.place.xp, self.residual_spread, len(self.members)
        if members == 1 and known is None:
            return xp.zeros_like(mean)
        variance: Array = 0.0
        if members > 1 and not (known is not None and known.alone):
            variance = squares() / (members - 1)
        return xp.sqrt(variance if known is None else variance + relative * known.variance + xp.zeros_like(mean))

    def _mean_and_std(self, latents: Array, relative: Array | float) -> tuple[Array, Array]:
        """μ and σ of (members, samples, latent) predictions, padded to whole tiles, and v of the samples."""
        xp = self.place.xp
        centre = xp.mean(latents, axis=0)
        mean = self._decoded(centre)

        def squared() -> Array:
            squares = self.place.zeros(*mean.shape)
            if self._one_by_one(int(mean.shape[0])):
                with single_threaded(self.place):
                    for row in range(int(mean.shape[0])):
                        deviations = (latents[:, row, :] - centre[row, :]) @ self.output_pca.modes
                        squares[row, :] = xp.sum(deviations * deviations, axis=0)
                return squares

            def add(rows: slice) -> None:
                part = squares[rows, :]
                for k in range(len(self.members)):
                    deviation = (latents[k, rows, :] - centre[rows, :]) @ self.output_pca.modes
                    deviation *= deviation
                    part += deviation

            self._shared(add, int(mean.shape[0]), self.output_pca)
            return squares

        if not isinstance(relative, float) and int(relative.shape[0]) < int(mean.shape[0]):
            relative = padded(relative)
        return mean, self._std(squared, relative, mean)


def _squares(deviations: Array) -> Array:
    """Σ over the members of the squares of (members, samples, values) deviations, in their memory."""
    deviations *= deviations
    return place_of(deviations).xp.sum(deviations, axis=0)


def _seconds(pca: PCA, samples: int) -> float:
    """What encoding or decoding so many fields takes on one core at best."""
    count = pca.n_components * int(pca.mean.shape[0])
    return least_seconds(count * samples, 8 * count)


def _rows_at_once(pca: PCA) -> int:
    """Samples that are worth a thread of their own, in whole tiles: a function of the modes alone."""
    each = pca.n_components * int(pca.mean.shape[0])
    return _TILE * min(max(1, round(_WORTH / each / _TILE)), 64)


def _blocks(n: int, size: int) -> Iterator[slice]:
    """Cut n rows into blocks of whole tiles, at most `size` rows each, and one last block of what is left."""
    whole = n // _TILE * _TILE
    yield from cuts(whole, size)
    if whole < n:
        yield slice(whole, n)


def padded(rows: Array) -> Array:
    """Append zero rows up to a whole number of tiles."""
    missing = -rows.shape[0] % _TILE
    place = place_of(rows)
    return place.xp.concat([rows, place.zeros(missing, rows.shape[1])], axis=0) if missing else rows
