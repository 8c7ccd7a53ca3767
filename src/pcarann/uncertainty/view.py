"""How inputs are looked at, so that they can be compared with the training data.

Channel by channel, by the leading modes of each: latents, their distance from the centre in units of their spread, and
what the modes miss; and, where the inputs are columns of a table or channels of one value, these by name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, cuts, place_of, to_host
from pcarann.latent.channels import channel_sizes, is_constant, latent_parts
from pcarann.latent.crossfit import LeftOut
from pcarann.latent.pca import PCA, missed
from pcarann.uncertainty.novelty import Names
from pcarann.uncertainty.sight import Sight, Values

__all__ = ["View", "constant_channels", "leading_channels", "view_of"]

_MOST_CHANNELS = 64  # along the first axis of an input
_MOST_COLUMNS = 256  # values along one axis that are looked at one by one
_ROWS = 128  # fields at a time whose residual is measured: of large ones no whole copy is made


@dataclass(frozen=True)
class View:
    """How inputs are looked at: channel by channel, the leading modes of each, and columns by name."""

    sizes: tuple[int, ...]
    """Latents of each channel"""
    modes: tuple[int, ...]
    """Leading ones of them that are looked at"""
    names: tuple[str, ...]
    """Of the columns, or of the channels"""
    constant: tuple[int, ...] = ()
    """Channels that are constant on their grid, each a column"""
    numbers: tuple[int, ...] | None = None
    """Columns that are looked at one by one; None for all, where they are not too many"""
    fields: tuple[tuple[str, int], ...] = ()
    """Name and first column of fields that became columns: these columns are then looked at, a field being a channel"""
    spreads: tuple[float, ...] = ()
    """Standard deviations of these columns over the training inputs, as far as they are looked at"""

    def columns(self, inputs: Array, grid: tuple[int, ...]) -> Array:
        """The columns of (samples, values) inputs, (samples, columns)."""
        if self.numbers is not None:
            return place_of(inputs).xp.take(inputs, _index(self.numbers, inputs), axis=1)
        if self.constant:
            size = int(inputs.shape[1]) // grid[0]
            return place_of(inputs).xp.stack([inputs[:, c * size] for c in self.constant], axis=1)
        return inputs if len(grid) == 1 and grid[0] <= _MOST_COLUMNS else inputs[:, :0]

    def spread_out(self, ends: Values, grid: tuple[int, ...], far: float) -> Values:
        """Ends of the columns that are looked at as those of all columns, far away for the others."""
        if self.numbers is None:
            return ends
        found = np.full(grid[0], far)
        found[list(self.numbers)] = ends
        return found

    def all_names(self, unit: float, shown: Sequence[tuple[float, float]] = (), **words: Any) -> Names:
        """Names in the order of columns and channels, for inputs that were divided by a unit.

        `shown` says for each column how it is read, where they were made of others; `words` are further parts of
        the names.
        """
        which = self.constant or self.numbers
        columns = tuple(self.names[c] for c in which) if which is not None and which != () else self.names
        read = tuple(shown if self.numbers is None else (shown[c] for c in self.numbers)) if shown else ()
        return Names(columns, tuple(name for name, _ in self.fields) or self.names, unit, read, **words)

    def sight(self, pca: PCA, samples: int, inputs: Array, x: Array) -> Sight:
        """What is seen of (samples, values) inputs with latents x, in units of the spread that a PCA of so many had."""
        if self.fields:
            return self._coded(inputs, pca, x)
        residuals = []
        size = int(pca.mean.shape[0]) // len(self.sizes)
        for c, seen in enumerate(self._seen):
            values = slice(c * size, (c + 1) * size)
            weights = None if pca.weights is None else pca.weights[values]
            part = replace(pca, mean=pca.mean[values], modes=pca.modes[seen, values], weights=weights)
            residuals.append(_residuals(part, inputs[:, values], x[:, seen]))
        return self._sight(pca, samples, residuals, self.columns(inputs, pca.grid), x)

    def of_energies(self, pca: PCA, samples: int, energies: Array, columns: Array, x: Array) -> Sight:
        """The same where ‖a − ā‖² of each channel, (samples, channels), and the columns of the inputs are known."""
        residuals = [to_host(missed(energies[:, c], x[:, seen])) for c, seen in enumerate(self._seen)]
        return self._sight(pca, samples, residuals, columns, x)

    def coded(self, inputs: Array) -> Array:
        """The columns of all fields in (samples, values) inputs, one field after another."""
        parts = [inputs[:, start : start + size] for (_, start), size in zip(self.fields, self.sizes, strict=True)]
        return place_of(inputs).xp.concat(parts, axis=1)

    def _coded(self, inputs: Array, pca: PCA, latents: Array) -> Sight:
        x, parts = np.concatenate([to_host(inputs[:, seen]) for seen in self._seen], axis=1), latent_parts(self.modes)
        white = x / np.asarray(self.spreads)
        distance = np.stack([np.sqrt((white[:, part] ** 2).sum(axis=1)) for part in parts], axis=1)
        columns, missed = to_host(self.columns(inputs, pca.grid)), to_host(pca.residual(inputs, latents))
        return Sight(x, distance, distance[:, :0], columns, to_host(latents), missed, parts)

    def source(self, at: int) -> tuple[int, int, int]:
        """The channel of a latent that is looked at, its number there, and where it stands in latents or columns."""
        for c, (part, seen) in enumerate(zip(latent_parts(self.modes), self._seen, strict=True)):
            if at < part.stop:
                return c, at - part.start, seen.start + at - part.start
        raise IndexError(at)

    @property
    def _seen(self) -> list[slice]:
        """Latents of each channel that are looked at, or columns of each field"""
        starts = [start for _, start in self.fields] or [where.start for where in latent_parts(self.sizes)]
        return [slice(start, start + count) for start, count in zip(starts, self.modes, strict=True)]

    def _sight(self, pca: PCA, samples: int, residuals: list[Values], columns: Array, x: Array) -> Sight:
        spread = pca.singular_values / samples**0.5
        spread = place_of(x).xp.where(spread > 0, spread, 1.0)
        kept = [to_host(x[:, seen]) for seen in self._seen]
        pairs = zip(kept, self._seen, strict=True)
        distance = [np.sqrt(((one / to_host(spread[seen])) ** 2).sum(axis=1)) for one, seen in pairs]
        whole = np.concatenate(kept, axis=1)
        residual = np.stack(residuals, 1)
        missed = np.linalg.norm(residual, axis=1)
        return Sight(
            whole, np.stack(distance, 1), residual, to_host(columns), to_host(x), missed, latent_parts(self.modes)
        )


def view_of(
    pca: PCA,
    channels: int,
    folds: list[list[LeftOut]],
    names: Sequence[str],
    constant: tuple[int, ...],
    numbers: tuple[int, ...] | None = None,
    fields: Sequence[tuple[str, slice]] = (),
) -> View:
    """How inputs are to be looked at, of which these channels are constant on their grid.

    `numbers` are columns that are looked at one by one, if not all; `fields` are names and columns of fields that
    became modes, for each of which there are folds.
    """
    sizes = tuple(channel_sizes(pca)) if channels > 1 else (pca.n_components,)
    if fields:
        sizes = tuple(where.stop - where.start for _, where in fields)
    ranks = [min((one.x.shape[1] for one in part), default=size) for size, part in zip(sizes, folds, strict=False)]
    modes = tuple(min(pair) for pair in zip(sizes, ranks or sizes, strict=True))
    leading = leading_channels(pca.grid)
    if fields:
        # The spread in the largest fold, which is the smallest where modes have seen few samples.
        spreads = tuple(
            float(max(np.mean([one.spread[j] for one in part]), np.finfo(float).tiny))
            for part, count in zip(folds, modes, strict=True)
            for j in range(count)
        )
        starts = tuple((name, where.start) for name, where in fields)
        return View(sizes, modes, tuple(names), (), numbers, starts, spreads)
    kind, count = "column", min(math.prod(pca.grid), _MOST_COLUMNS)
    if channels > 1 or constant:
        kind, count = "channel", max(channels, leading)
    return View(sizes, modes, tuple(names) or tuple(f"{kind} {i}" for i in range(count)), constant, numbers)


def _index(numbers: Sequence[int], inputs: Array) -> Array:
    place = place_of(inputs)
    return place.xp.asarray(np.asarray(numbers, dtype=np.int64), device=place.device)


def leading_channels(grid: tuple[int, ...]) -> int:
    """How many channels the first axis of a grid may count; 0 where it counts none."""
    return grid[0] if len(grid) > 1 and grid[0] <= _MOST_CHANNELS else 0


def constant_channels(inputs: Array, grid: tuple[int, ...]) -> tuple[int, ...]:
    """Channels of (samples, values) inputs that have one value on all of their grid, in every sample."""
    channels = leading_channels(grid)
    size = int(inputs.shape[1]) // max(channels, 1)
    return tuple(c for c in range(channels) if is_constant(inputs[:, c * size : (c + 1) * size]))


def _residuals(pca: PCA, inputs: Array, x: Array) -> Values:
    """What the modes miss of inputs, (samples,), on the host."""
    place = place_of(x)
    found = place.empty(x.shape[0])
    for rows in cuts(int(x.shape[0]), _ROWS if place.on_host else int(x.shape[0])):
        found[rows] = pca.residual(inputs[rows, :], x[rows, :])
    return to_host(found)
