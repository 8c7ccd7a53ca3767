"""Inputs of several channels, each with a PCA of its own.

Snapshots of a history, or several coefficient fields, differ in size, in unit and in what they say. A joint PCA mixes
them by size alone. Here channel c of an input a = (a₁, …, a_C) has its own modes φ_c, and

    F(a) = (F₁(a₁), …, F_C(a_C)),

so that weights can be given to channels (`pcarann.features.relevance`). Modes that live in different channels are
orthogonal: together they are a PCA like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from pcarann.backend.arrays import Array, place_of, to_host
from pcarann.latent.pca import PCA, fit_pca

__all__ = ["channel_count", "channel_of", "channel_sizes", "fit_channels", "is_constant", "joined_pcas", "latent_parts"]


def fit_channels(
    channels: int,
    fields: Array,
    n_components: int | float,
    *,
    grid: tuple[int, ...],
    weights: Array | None = None,
    **options: Any,
) -> tuple[PCA, Array]:
    """Fit a PCA to each of so many equal parts of (samples, values) fields; `n_components` counts for each part.

    Options are those of `fit_pca`. Of a channel that is a number in the form of a field, another in each sample, nobody
    expects many modes: that it has one is no complaint.
    """
    if channels == 1:
        return fit_pca(fields, n_components, grid=grid, weights=weights, **options)
    place = place_of(fields)
    xp = place.xp
    size = int(fields.shape[1]) // channels
    pcas, latents, parts = [], [], latent_parts([size] * channels)
    for part in parts:
        mine = None if weights is None else weights[part]
        number = is_constant(fields[:, part]) and not is_constant(fields[:, part].T)
        said = {"complain": _nobody} if number else {}
        pca, codes = fit_pca(fields[:, part], n_components, grid=(size,), weights=mine, **options | said)
        pcas.append(pca)
        latents.append(codes)
    return joined_pcas(pcas, grid, weights), xp.concat(latents, axis=1)


def joined_pcas(pcas: Sequence[PCA], grid: tuple[int, ...], weights: Array | None) -> PCA:
    """The PCA of fields whose channels have these, one after another."""
    place = place_of(pcas[0].mean)
    xp, sizes = place.xp, [int(pca.mean.shape[0]) for pca in pcas]
    modes = place.zeros(sum(pca.n_components for pca in pcas), sum(sizes))
    for pca, rows, part in zip(pcas, latent_parts([p.n_components for p in pcas]), latent_parts(sizes), strict=True):
        modes[rows, part] = pca.modes
    return PCA(
        mean=xp.concat([pca.mean for pca in pcas]),
        modes=modes,
        singular_values=xp.concat([pca.singular_values for pca in pcas]),
        energy=sum(pca.energy for pca in pcas),
        grid=grid,
        weights=weights,
    )


def is_constant(fields: Array) -> bool:
    """Whether each of (samples, values) fields has one value on all of its grid."""
    xp = place_of(fields).xp
    return float(xp.max(xp.abs(fields - fields[:, :1]))) <= 1e-12 * float(xp.max(xp.abs(fields)))


def _nobody(_: str) -> None:
    """Nobody is told."""


def latent_parts(sizes: Sequence[int]) -> list[slice]:
    """The latents of each channel, for channels of so many latents.

    >>> latent_parts([2, 3])
    [slice(0, 2, None), slice(2, 5, None)]
    """
    return [slice(end - size, end) for end, size in zip(accumulate(sizes), sizes, strict=True)]


def channel_sizes(pca: PCA) -> list[int]:
    """The number of latents of each channel of a PCA by channels."""
    owner = channel_of(pca)
    return [int((owner == c).sum()) for c in range(pca.grid[0])]


def channel_of(pca: PCA) -> Any:
    """The channel in which each mode lives, (latent,), on the host."""
    modes = to_host(pca.modes).reshape(pca.n_components, pca.grid[0], -1)
    return (modes**2).sum(axis=2).argmax(axis=1)


def channel_count(grid: tuple[int, ...], smoothing: float) -> int:
    """Channels of an input grid, or a refusal."""
    if smoothing and len(grid) == 2:
        raise ValueError(
            "fields.smoothing runs along the last two axes of the inputs, one of which counts channels here: leave it "
            "at 0."
        )
    if len(grid) < 2:
        shape = ("samples", *grid)
        raise ValueError(
            "fields.channels=True needs inputs of shape (samples, channels, *grid), "
            f"found ({', '.join(map(str, shape))}): they have no channels."
        )
    return grid[0]
