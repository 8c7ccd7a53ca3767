"""Fields that are not in memory together, as a fit needs them.

A fit asks four things of its fields: their PCA, their latents, and ‖a − ā‖² and ‖a‖² of each sample. All else it does
with latents. `Source` is who answers where the fields themselves are somewhere else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pcarann.backend.arrays import Array, Place
from pcarann.latent.pca import PCA
from pcarann.latent.rows import Order

__all__ = ["Measured", "PcaOptions", "Source"]


@dataclass(frozen=True)
class Measured:
    """What is kept of fields that are not, in the order of the rows."""

    energies: Array
    """‖a − ā‖² of each channel, (samples, channels)"""
    sizes: Array
    """‖a‖², (samples,)"""
    firsts: Array
    """The first value of each channel that the first axis of a grid may count, (samples, channels)"""
    constant: tuple[int, ...]
    """Which of those have one value on all of their grid, in every sample"""


@dataclass(frozen=True)
class PcaOptions:
    """What a PCA is asked for."""

    n_components: int | float
    grid: tuple[int, ...]
    weights: Array | None = None
    channels: int = 1
    complain: Callable[[str], None] = lambda said: None
    watch: Callable[..., None] | None = None
    """Shown the centred fields, their Gram matrix and its leading eigenvectors, where it is there"""


class Source(ABC):
    """(samples, values) fields that are read when they are needed."""

    place: Place
    shape: tuple[int, int]

    @abstractmethod
    def encoded(self, order: Order, options: PcaOptions) -> tuple[PCA, Array, Measured]:
        """The PCA of the inner samples, the latents of all in the order of rows, and what is kept of the fields."""

    @property
    @abstractmethod
    def most_rows(self) -> int:
        """Fields that fit into memory beside all else"""

    @abstractmethod
    def rows(self, which: list[int]) -> Any:
        """The fields of some samples, in memory."""
