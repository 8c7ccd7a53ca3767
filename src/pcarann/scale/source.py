"""Lazy fields as a fit asks for them: `Lazy` is a `pcarann.latent.source.Source`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, taken
from pcarann.latent.channels import joined_pcas
from pcarann.latent.pca import PCA
from pcarann.latent.rows import Order
from pcarann.latent.smoothing import Smoothing
from pcarann.latent.source import Measured, PcaOptions, Source
from pcarann.latent.units import unit_of
from pcarann.scale.blockwork import Frame
from pcarann.scale.engine import Budget
from pcarann.scale.fields import checked_lazy, matrix_of, rows_of
from pcarann.scale.pca import lazy_pca
from pcarann.scale.reading import Tall, Wide, reader_of
from pcarann.scale.report import Log, SideReport
from pcarann.uncertainty.view import leading_channels

__all__ = ["Lazy"]

_CONSTANT = 1e-12  # of their size, by which values of a constant channel may differ


@dataclass(frozen=True, eq=False)
class Lazy(Source):
    """One side of a fit, whose fields are read by blocks."""

    matrix: Any
    """A Dask array, (samples, values)"""
    place: Place
    name: str
    grid: tuple[int, ...]
    budget: Budget
    log: Log
    readers: tuple[Tall | Wide, ...] = ()
    """Of each channel, after the first look"""
    unit: float = 1.0

    @classmethod
    def of(cls, array: Any, name: str, place: Place, least: int) -> Lazy:
        """A lazy array, checked as far as that needs no numbers."""
        array = checked_lazy(array, name, scalar=name == "y", least=least)
        return cls(matrix_of(array), place, name, tuple(int(n) for n in array.shape[1:]), Budget.now(), Log())

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Samples, values"""
        return int(self.matrix.shape[0]), int(self.matrix.shape[1])

    @property
    def report(self) -> SideReport:
        """What was done"""
        log = self.log
        return SideReport(self.name, log.method, log.accuracy, log.passes, log.blocks, log.read)

    @property
    def most_rows(self) -> int:
        """Fields that fit into memory beside all else"""
        return max(2, self.budget.each // (32 * self.shape[1]))

    def rows(self, which: list[int]) -> Array:
        """The fields of some samples, in memory."""
        return self.place.put(rows_of(self.matrix, which))

    def smoothed(self, width: float) -> tuple[Lazy, Smoothing]:
        """The same fields smoothed, and how: whether axes are periodic is seen in some of them."""
        if not width:
            return self, Smoothing()
        some = spread_rows(self)
        smoothing = Smoothing.of(self.rows(some), self.grid, width)
        matrix = self.matrix.rechunk({1: -1}, method="tasks").astype(np.float64)
        matrix = matrix.map_blocks(_smoothed, smoothing, self.grid, dtype=np.float64, meta=np.empty((0, 0)))
        return replace(self, matrix=matrix), smoothing

    def looked_at(self, order: Order, weights: Array | None, channels: int) -> Lazy:
        """The same after the first pass over all samples, or a refusal of what is not finite; in units that fit."""
        found = self.read(order, weights, channels)
        largest = max(reader.look.largest for reader in found.readers)
        bad = sum(reader.look.bad for reader in found.readers)
        if bad:
            first = min(reader.look.first_bad for reader in found.readers if reader.look.first_bad >= 0)
            keep = f"keep = da.isfinite({self.name}).all(axis=tuple(range(1, {self.name}.ndim))).compute()"
            raise ValueError(
                f"{self.name} contains NaN or infinity: {bad} value(s), the first in sample {first}. To drop such "
                f"samples, use {keep}, then X[keep] and y[keep]."
            )
        unit = unit_of(largest)
        if unit == 1.0:
            return found
        scaled = replace(self, matrix=self.matrix.astype(np.float64) / unit, unit=unit)
        return scaled.read(order, weights, channels)

    def read(self, order: Order, weights: Array | None, channels: int) -> Lazy:
        """The same after a first pass, whatever that has found."""
        inner = np.zeros(self.shape[0], dtype=bool)
        inner[order.samples[: order.inner]] = True
        root = None if weights is None else np.sqrt(np.asarray(weights))
        size = self.shape[1] // channels
        readers = []
        for c in range(channels):
            values = slice(c * size, (c + 1) * size)
            leading = leading_channels(self.grid) if self.name == "X" else 0
            mine = None if root is None else root[values]
            frame = Frame(self.place, self.name, mine, inner, leading if channels == 1 else 1, size)
            with np.errstate(over="ignore", invalid="ignore"):
                readers.append(reader_of(self.matrix[:, values], frame, self.budget, self.log))
        return replace(self, readers=tuple(readers))

    def encoded(self, order: Order, options: PcaOptions) -> tuple[PCA, Array, Measured]:
        """The PCA of the inner samples, the latents of all in the order of rows, and what is kept of the fields."""
        name = "inputs" if self.name == "X" else "outputs"
        pcas, latents, sizes = [], [], []
        for reader in self.readers:
            grid = options.grid if len(self.readers) == 1 else (self.shape[1] // len(self.readers),)
            weights = None if reader.frame.root is None else reader.place.put(reader.frame.root**2)
            pca, codes, found = lazy_pca(reader, replace(options, grid=grid, weights=weights), name)
            pcas.append(pca)
            latents.append(taken(codes, order.samples))
            sizes.append(found[order.samples])
        whole = pcas[0] if len(pcas) == 1 else joined_pcas(pcas, options.grid, options.weights)
        return whole, self.place.xp.concat(latents, axis=1), self._measured(sizes, order)

    def _measured(self, sizes: list[Any], order: Order) -> Measured:
        lows = np.concatenate([reader.lows for reader in self.readers], axis=1)
        highs = np.concatenate([reader.highs for reader in self.readers], axis=1)
        largest = np.maximum(np.abs(lows), np.abs(highs)).max(axis=0, initial=0.0)
        same = (highs - lows).max(axis=0, initial=0.0) <= _CONSTANT * largest
        energies = np.stack([one[:, 0] for one in sizes], axis=1)
        put = self.place.put
        return Measured(
            put(energies),
            put(sum(one[:, 1] for one in sizes)),
            put(lows[order.samples]),
            tuple(int(c) for c in np.flatnonzero(same)),
        )


def spread_rows(lazy: Lazy, most: int = 256) -> list[int]:
    """Some samples, no more than fit into the memory of a task."""
    from pcarann.backend.random import spread

    return spread(lazy.shape[0], min(most, lazy.most_rows))


def _smoothed(block: Any, smoothing: Smoothing, grid: tuple[int, ...]) -> Any:
    return smoothing(np.ascontiguousarray(block), grid)
