"""Latent pairs that the members of an ensemble are fitted to, and sums over them.

    HᵀH = Σ_b H_bᵀH_b,   HᵀY = Σ_b H_bᵀY_b        over blocks b of rows

They go through the hidden layers block by block in this process, or wherever else somebody adds them up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pcarann.backend.arrays import Array, cuts
from pcarann.ensemble.maps import Features
from pcarann.readout.streamed import Block, Streamed, Sums

__all__ = ["ROWS", "Elsewhere", "Pairs", "stream"]

ROWS = 2048
"""Samples at a time through the hidden layers"""

Elsewhere = Callable[[Features], Sums]
"""Sums of features over all rows, made in another process"""


@dataclass(frozen=True)
class Pairs:
    """Rows of latents, those of the samples first, then those of their copies under a symmetry."""

    x: Array
    """(rows, latent)"""
    y: Array
    originals: int
    """Rows that are samples themselves, some of which set the anchors"""
    elsewhere: Elsewhere | None = None
    """Who makes the sums; None for this process"""

    def sums(self, features: Features) -> Sums:
        """Sums of the features of all rows."""
        return (
            Streamed(lambda: stream(features, self.x, self.y)) if self.elsewhere is None else self.elsewhere(features)
        )


def stream(features: Features, x: Array, y: Array, size: int = ROWS) -> Iterator[Block]:
    """Yield features and targets of blocks of rows."""
    for rows in cuts(x.shape[0], size):
        yield features(x[rows, :]), y[rows, :]
