"""K members on one pair of PCAs: mean and spread.

    û⁽ᵏ⁾ = G_U(V⁽ᵏ⁾ᵀ h⁽ᵏ⁾(F_A(a))),   μ = mean over k,   σ² = Σₖ (û⁽ᵏ⁾ − μ)² / (K − 1)

The members differ in their random weights alone. Since G_U is affine, the mean of the fields is the field of the
mean latents: it costs one decoding. The spread costs K decodings of latent deviations, summed in blocks of
samples, so that K full-size fields never exist together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from pcarann.arrays import Array, Place, concurrently, contiguous, place_of
from pcarann.features import HiddenLayers, RandomFeatures, anchor_features
from pcarann.pca import PCA
from pcarann.readout import ReadoutReport, fit_readout

__all__ = ["Ensemble", "Member", "fit_members"]

Tick = Callable[[str, int, int | None], None]
"""Progress: (stage, steps done, steps in all where known)."""

Result = TypeVar("Result")

_ROWS = 2048  # samples at a time through the hidden layers
_ENCODED_ROWS = 256  # fields at a time through the PCA, which makes a centred copy of them
# Samples travel in multiples of this, the last block padded with zeros: BLAS rounds differently for other shapes,
# and a prediction should not depend on the samples beside it.
_TILE = 64
_FIELD_BYTES = 1 << 26  # memory of one block of fields while their spread is summed
_KEPT_WEIGHT_BYTES = 1 << 28  # hidden weights stay in memory up to here, and are drawn at each use beyond


@dataclass(frozen=True)
class Member:
    """One random feature map with its fitted readout."""

    features: RandomFeatures
    readout: Array
    """V, (n₁ + n₂, output latent)"""
    report: ReadoutReport

    def __call__(self, x: Array) -> Array:
        """Φ(x) = h(x)ᵀV for (samples, latent) rows."""
        return self.features(x) @ self.readout


@dataclass(frozen=True)
class Ensemble:
    """The fitted surrogate: F_A, K random feature maps with readouts, G_U."""

    input_pca: PCA
    output_pca: PCA
    members: tuple[Member, ...]

    @property
    def place(self) -> Place:
        """Where all arrays of the ensemble live."""
        return place_of(self.output_pca.mean)

    @property
    def scales(self) -> tuple[float, float]:
        """(r₁, r₂), shared by all members."""
        return self.members[0].features.scales

    def with_readouts(self, readouts: list[Array]) -> Ensemble:
        """Return the same ensemble with other readouts, one per member."""
        members = zip(self.members, readouts, strict=True)
        return replace(self, members=tuple(replace(member, readout=contiguous(V)) for member, V in members))

    def over_members(self, function: Callable[[Member], Result], samples: int) -> Iterator[Result]:
        """Yield function(member) in order, where the function makes features of that many samples."""
        bytes_each = _working_bytes(self.members[0].features.layers.sizes, samples)
        return concurrently(function, self.members, place=self.place, bytes_each=bytes_each)

    def encode(self, inputs: Array) -> Array:
        """Latents F_A(a) of (samples, values) inputs."""
        x = self.place.empty(inputs.shape[0], self.input_pca.n_components)
        for rows in _blocks(inputs.shape[0], _ENCODED_ROWS):
            x[rows, :] = self.input_pca.encode(_padded(inputs[rows, :]))[: rows.stop - rows.start, :]
        return x

    def mean_fields(self, x: Array) -> Array:
        """μ for (samples, latent) inputs, as (samples, values)."""
        fields = self.place.empty(x.shape[0], self.output_pca.mean.shape[0])
        for rows in _blocks(x.shape[0], _ROWS):
            total = 0.0
            for latents in self._latents(x[rows, :]):
                total = total + latents
            mean = self.output_pca.decode(total / len(self.members))
            fields[rows, :] = mean[: rows.stop - rows.start, :]
        return fields

    def field_blocks(self, x: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Yield (rows, μ, σ) for blocks of the (samples, latent) inputs."""
        size = max(_TILE, _FIELD_BYTES // (8 * self.output_pca.mean.shape[0]) // _TILE * _TILE)
        for outer in _blocks(x.shape[0], _ROWS):
            latents = self.place.xp.stack(list(self._latents(x[outer, :])))
            for start in range(0, outer.stop - outer.start, size):
                mean, std = self._mean_and_std(latents[:, start : min(start + size, latents.shape[1]), :])
                rows = slice(outer.start + start, min(outer.start + start + size, outer.stop))
                count = rows.stop - rows.start
                yield rows, mean[:count, :], std[:count, :]

    def _latents(self, x: Array) -> Iterator[Array]:
        """Yield each member's output latents of (samples, latent) inputs, padded to whole tiles."""
        padded = _padded(x)
        return self.over_members(lambda member: member(padded), padded.shape[0])

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
    layers: HiddenLayers,
    x: Array,
    y: Array,
    scales: tuple[float, float],
    *,
    n_members: int,
    ridge: float,
    tick: Tick = lambda stage, done, total: None,
) -> tuple[Member, ...]:
    """Fit members 0, …, K − 1 to (samples, latent) inputs and outputs, at shared scales."""
    size, n1, n2 = layers.sizes
    weight_bytes = 8 * n1 * (size + n2)
    keep = n_members * weight_bytes <= _KEPT_WEIGHT_BYTES

    def fit_member(k: int) -> Member:
        features, H = anchor_features(replace(layers, member=k), x, scales)
        readout, report = fit_readout(H, y, ridge)
        return Member(features if keep else replace(features, weights=None), contiguous(readout), report)

    members = []
    bytes_each = _working_bytes(layers.sizes, x.shape[0])
    for member in concurrently(fit_member, range(n_members), place=place_of(x), bytes_each=bytes_each):
        members.append(member)
        tick("fitting members", len(members), n_members)
    return tuple(members)


def _working_bytes(sizes: tuple[int, int, int], samples: int) -> int:
    """Memory of one member at work: its hidden weights, its features and three copies of their size."""
    return 8 * sizes[1] * (sizes[0] + sizes[2]) + 4 * 8 * samples * (sizes[1] + sizes[2])


def _blocks(n: int, size: int) -> Iterator[slice]:
    """Cut n rows into blocks of whole tiles, at most `size` rows each, and one last block of what is left."""
    whole = n // _TILE * _TILE
    for start in range(0, whole, size):
        yield slice(start, min(start + size, whole))
    if whole < n:
        yield slice(whole, n)


def _padded(rows: Array) -> Array:
    """Append zero rows up to a whole number of tiles."""
    missing = -rows.shape[0] % _TILE
    place = place_of(rows)
    return place.xp.concat([rows, place.zeros(missing, rows.shape[1])], axis=0) if missing else rows
