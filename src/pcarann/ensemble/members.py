"""K members on one pair of PCAs: mean and spread.

    û⁽ᵏ⁾ = G_U(V⁽ᵏ⁾ᵀ h⁽ᵏ⁾(F_A(a))),   μ = mean over k,   σ² = Σₖ (û⁽ᵏ⁾ − μ)² / (K − 1)

The members differ in their random weights alone. Since G_U is affine, the mean of the fields is the field of the
mean latents: it costs one decoding. The spread costs K decodings of latent deviations, summed in blocks of
samples, so that K full-size fields never exist together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal, TypeVar

from pcarann.backend.arrays import Array, Place, contiguous, cuts, place_of, taken
from pcarann.backend.concurrency import concurrently
from pcarann.backend.random import spread
from pcarann.features.kernel import KernelFeatures, landmark_features
from pcarann.features.random_layers import HiddenLayers, RandomFeatures, anchor_features
from pcarann.latent.pca import PCA
from pcarann.latent.weighting import Weighting
from pcarann.readout.direct import (
    Block,
    NormalEquations,
    ReadoutReport,
    solve_readout,
    solve_streamed_readout,
    transposed_product,
)
from pcarann.readout.leave_out import left_out_residuals
from pcarann.readout.ridge import choose_ridge, spectrum_of_rows, spectrum_of_sums
from pcarann.symmetry.group import Group

__all__ = [
    "Ensemble",
    "Features",
    "KernelMap",
    "Member",
    "RandomMap",
    "fit_members",
    "padded",
    "resolve_ridge",
    "stream",
]

Tick = Callable[[str, int, int | None], None]
"""Progress: (stage, steps done, steps in all where known)."""

Result = TypeVar("Result")

Features = RandomFeatures | KernelFeatures
"""A feature map h of one member"""

_ROWS = 2048  # samples at a time through the hidden layers
_ANCHOR_ROWS = 4096  # that anchors are taken from and features are kept of, at most; more rows are streamed
_ENCODED_ROWS = 256  # fields at a time through the PCA, which makes a centred copy of them
# Samples travel in multiples of this, the last block padded with zeros: BLAS rounds differently for other shapes,
# and a prediction should not depend on the samples beside it.
_TILE = 64
_KERNEL_JUDGES = 8  # of which each can judge but the few samples that are no landmarks of it
_JUDGES = 1  # members that predict what they have not seen, so that a fit can be judged
_FIELD_BYTES = 1 << 26  # memory of one block of fields while their spread is summed
_KEPT_WEIGHT_BYTES = 1 << 30  # hidden weights stay in memory up to here, and are drawn at each use beyond


@dataclass(frozen=True)
class RandomMap:
    """How members are made of two random layers."""

    layers: HiddenLayers
    scales: tuple[float, float]
    weighting: Weighting

    def features(self, member: int, x: Array, anchors: list[int]) -> tuple[RandomFeatures, Array]:
        """The map of a member, anchored at some of the (samples, latent) training rows, and its features of those."""
        return anchor_features(replace(self.layers, member=member), taken(x, anchors), self.scales, self.weighting)

    @property
    def random_seed(self) -> int:
        """Of which all random numbers are a function"""
        return self.layers.seed

    def working_bytes(self, rows: int, originals: int) -> int:
        """Memory of the fit of one member to so many rows at a time."""
        size, n1, n2 = self.layers.sizes
        return 8 * n1 * (size + n2) + 4 * 8 * rows * (n1 + n2 + size)


@dataclass(frozen=True)
class KernelMap:
    """How members are made of a kernel."""

    seed: int
    length: float
    """In medians of the distance between training latents"""
    weighting: Weighting

    def features(self, member: int, x: Array, anchors: list[int]) -> tuple[KernelFeatures, Array]:
        """The map of a member, its landmarks among all (samples, latent) rows, and its features of some of them."""
        made = self.made(member, x)
        return made, made(taken(x, anchors))

    def made(self, member: int, x: Array) -> KernelFeatures:
        """The map of a member alone."""
        return landmark_features(x, self.length, member=member, seed=self.seed, weighting=self.weighting)

    @property
    def random_seed(self) -> int:
        """Of which all random numbers are a function"""
        return self.seed

    def working_bytes(self, rows: int, originals: int) -> int:
        """Memory of the fit of one member to so many rows at a time."""
        return 4 * 8 * (rows + originals) * originals


FeatureMap = RandomMap | KernelMap


@dataclass(frozen=True)
class Member:
    """One feature map with its fitted readout."""

    features: Features
    coefficients: Array
    """Of the predictors, (features, output latent): V itself for random layers, α for a kernel"""
    report: ReadoutReport

    @classmethod
    def of(cls, features: Features, readout: Array, report: ReadoutReport) -> Member:
        """A member with the readout V of its features."""
        return cls(features, contiguous(features.coefficients(readout)), report)

    @property
    def readout(self) -> Array:
        """V, (features, output latent)"""
        return self.features.readout(self.coefficients)

    def __call__(self, x: Array) -> Array:
        """Φ(x) = h(x)ᵀV for (samples, latent) rows."""
        return transposed_product(self.features.predictors(x).T, self.coefficients)


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

    @property
    def place(self) -> Place:
        """Where all arrays of the ensemble live."""
        return place_of(self.output_pca.mean)

    def with_readouts(self, readouts: list[Array]) -> Ensemble:
        """Return the same ensemble with other readouts, one per member."""
        members = zip(self.members, readouts, strict=True)
        return replace(self, members=tuple(Member.of(member.features, V, member.report) for member, V in members))

    def over_members(self, function: Callable[[Member], Result], samples: int) -> Iterator[Result]:
        """Yield function(member) in order, where the function makes features of that many samples."""
        bytes_each = self.members[0].features.working_bytes(samples)
        return concurrently(function, self.members, place=self.place, bytes_each=bytes_each)

    def encode(self, inputs: Array) -> Array:
        """Latents F_A(a) of (samples, values) inputs."""
        x = self.place.empty(inputs.shape[0], self.input_pca.n_components)
        for rows in _blocks(inputs.shape[0], _ENCODED_ROWS):
            x[rows, :] = self.input_pca.encode(padded(inputs[rows, :]))[: rows.stop - rows.start, :]
        return x

    def orbit(self, inputs: Array) -> list[Array]:
        """Latents of the inputs, moved by each element that predictions are averaged over, the identity first."""
        group = self.group
        return [self.encode(inputs if group is None or g == 0 else group.move_inputs(inputs, g)) for g in self.averaged]

    def mean_fields(self, orbit: list[Array]) -> Array:
        """μ for the latents of an orbit, as (samples, values)."""
        fields = self.place.zeros(orbit[0].shape[0], self.output_pca.mean.shape[0])
        size = max(_TILE, _ROWS // len(orbit) // _TILE * _TILE)
        for rows in cuts(orbit[0].shape[0], size):
            total: Array = 0.0
            for latents in self._latents([x[rows, :] for x in orbit]):
                total = total + latents
            total = total / len(self.members)
            if len(orbit) == 1:
                self.output_pca.decode(total, fields[rows, :])
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
            yield rows, *_spread(self._averaged_members([x[rows, :] for x in orbit]))

    def _blocks_alone(self, x: Array, size: int) -> Iterator[tuple[slice, Array, Array]]:
        """Yield (rows, μ, σ) without a symmetry: the spread is summed over deviations of latents."""
        for outer in cuts(x.shape[0], _ROWS):
            latents = self.place.xp.stack(list(self._latents([x[outer, :]])))
            for start in range(0, outer.stop - outer.start, size):
                mean, std = self._mean_and_std(latents[:, start : min(start + size, latents.shape[1]), :])
                rows = slice(outer.start + start, min(outer.start + start + size, outer.stop))
                count = rows.stop - rows.start
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
            yield g, self.output_pca.decode(latents[i * size : (i + 1) * size, :])

    def _moved_back(self, fields: Array, element: int) -> Array:
        """Undo an element on (samples, values) outputs."""
        if self.group is None or element == 0:
            return fields
        return self.group.move_outputs(fields, self.group.inverse(element))

    def _latents(self, orbit: list[Array]) -> Iterator[Array]:
        """Yield each member's output latents of (samples, latent) parts, padded to whole tiles, one below another."""
        x = self.place.xp.concat([padded(part) for part in orbit], axis=0) if len(orbit) > 1 else padded(orbit[0])
        return self.over_members(lambda member: member(x), x.shape[0])

    def _mean_and_std(self, latents: Array) -> tuple[Array, Array]:
        """μ and σ of (members, samples, latent) predictions."""
        xp = self.place.xp
        centre = xp.mean(latents, axis=0)
        mean = self.output_pca.decode(centre)
        if len(self.members) == 1:
            return mean, xp.zeros_like(mean)
        squares = self.place.zeros(*mean.shape)
        for k in range(len(self.members)):
            deviation = (latents[k, :, :] - centre) @ self.output_pca.modes
            deviation *= deviation
            squares += deviation
        squares /= len(self.members) - 1
        return mean, xp.sqrt(squares)


def fit_members(
    feature_map: FeatureMap,
    x: Array,
    y: Array,
    *,
    originals: int,
    n_members: int,
    ridge: float,
    judged: Sequence[Sequence[int]] = (),
    tick: Tick = lambda stage, done, total: None,
) -> tuple[tuple[Member, ...], dict[int, Array]]:
    """Fit members 0, …, K − 1 to (samples, latent) rows; return them with the residuals of judged rows.

    The first `anchored` rows are the samples themselves, some of which set the anchors; those after are copies under a
    symmetry, and are streamed. A judged sample is given by its row and those of its copies: its residual is the mean
    over the first members, which predict it without it.
    """

    anchors = spread(originals, _ANCHOR_ROWS)

    judges = min(n_members, _JUDGES if isinstance(feature_map, RandomMap) else _KERNEL_JUDGES) if judged else 0

    def fit_member(k: int) -> tuple[Member, Sequence[Sequence[int]], Array | None]:
        features, H = feature_map.features(k, x, anchors)
        groups = features.judgeable(judged) if k < judges else ()
        kept, targets = groups, y
        if _direct(features, x, anchors):
            H = H if x.shape[0] == len(anchors) else features(x)
            found = solve_readout(H, y, ridge)
        else:
            del H
            found = solve_streamed_readout(lambda: stream(features, x, y), ridge)
            if groups:
                rows = [row for group in groups for row in group]
                H, targets, kept = features(taken(x, rows)), taken(y, rows), _counted(groups)
        residuals = left_out_residuals(found, H, targets, kept) if groups else None
        return Member.of(_forgetful(features, n_members), found.readout, found.report), groups, residuals

    members: list[Member] = []
    left: dict[int, list[Array]] = {}
    rows = min(int(x.shape[0]), max(len(anchors), _ROWS))
    bytes_each = feature_map.working_bytes(rows, len(anchors))
    for member, groups, missed in concurrently(fit_member, range(n_members), place=place_of(x), bytes_each=bytes_each):
        members.append(member)
        if missed is not None:
            for i, group in enumerate(groups):
                left.setdefault(group[0], []).append(missed[i, :])
        tick("fitting members", len(members), n_members)
    return tuple(members), {row: sum(parts) / len(parts) for row, parts in left.items()}


def _counted(groups: Sequence[Sequence[int]]) -> list[range]:
    """The same groups of rows where only these rows are kept, one after another."""
    ends = list(accumulate(len(group) for group in groups))
    return [range(end - len(group), end) for end, group in zip(ends, groups, strict=True)]


def resolve_ridge(
    feature_map: FeatureMap, x: Array, y: Array, *, originals: int, ridge: float | Literal["gcv"]
) -> float:
    """Return the ridge, chosen on member 0 where none is given: the members differ by chance alone."""
    if not isinstance(ridge, str):
        return ridge
    anchors = spread(originals, _ANCHOR_ROWS)
    features, H = feature_map.features(0, x, anchors)
    if _direct(features, x, anchors):
        return choose_ridge(spectrum_of_rows(H if x.shape[0] == len(anchors) else features(x), y))
    return choose_ridge(spectrum_of_sums(NormalEquations.of(stream(features, x, y))))


def _direct(features: Features, x: Array, anchors: list[int]) -> bool:
    """Whether all rows are handled at once: few of them, or fewer than features."""
    return bool(x.shape[0] == len(anchors) or x.shape[0] < features.count)


def stream(features: Features, x: Array, y: Array) -> Iterator[Block]:
    """Yield features and targets of blocks of rows."""
    for rows in cuts(x.shape[0], _ROWS):
        yield features(x[rows, :]), y[rows, :]


def _forgetful(features: Features, n_members: int) -> Features:
    """Drop hidden weights where those of all members would not fit: they can be drawn again."""
    if not isinstance(features, RandomFeatures):
        return features
    size, n1, n2 = features.layers.sizes
    keep = n_members * 8 * n1 * (size + n2) <= _KEPT_WEIGHT_BYTES
    return features if keep else replace(features, weights=None)


def _spread(fields: Array) -> tuple[Array, Array]:
    """Mean and standard deviation over the members of (members, samples, values) fields."""
    xp = place_of(fields).xp
    mean = xp.mean(fields, axis=0)
    if fields.shape[0] == 1:
        return mean, xp.zeros_like(mean)
    fields -= mean
    fields *= fields
    return mean, xp.sqrt(xp.sum(fields, axis=0) / (fields.shape[0] - 1))


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
