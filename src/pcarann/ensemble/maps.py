"""How members are made: feature maps of two random layers, or of a kernel, that differ by chance alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pcarann.backend.arrays import Array, taken
from pcarann.backend.concurrency import least_seconds
from pcarann.features.kernel import MOST_LANDMARKS, KernelFeatures, landmark_features
from pcarann.features.random_layers import HiddenLayers, RandomFeatures, anchor_features
from pcarann.latent.weighting import Weighting

__all__ = ["FeatureMap", "Features", "KernelMap", "RandomMap"]

Features = RandomFeatures | KernelFeatures
"""A feature map h of one member"""


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

    def working_bytes(self, rows: int, n_originals: int) -> int:
        """Memory of the fit of one member to so many rows at a time."""
        size, n1, n2 = self.layers.sizes
        return 8 * n1 * (size + n2) + 4 * 8 * rows * (n1 + n2 + size)

    def seconds(self, rows: int) -> float:
        """What the fit of one member to so many rows takes on one core at best: its sums."""
        features = sum(self.layers.sizes)
        return least_seconds(rows * features * min(rows, features))


@dataclass(frozen=True)
class KernelMap:
    """How members are made of a kernel."""

    seed: int
    length: float
    """In medians of the distance between training latents"""
    weighting: Weighting

    def features(self, member: int, x: Array, anchors: list[int]) -> tuple[KernelFeatures, Array]:
        """The map of a member, its landmarks among all (samples, latent) rows, and its features of some of them."""
        features = self.map_of(member, x)
        return features, features(taken(x, anchors))

    def map_of(self, member: int, x: Array) -> KernelFeatures:
        """The map of a member alone."""
        return landmark_features(x, self.length, member=member, seed=self.seed, weighting=self.weighting)

    @property
    def random_seed(self) -> int:
        """Of which all random numbers are a function"""
        return self.seed

    def working_bytes(self, rows: int, n_originals: int) -> int:
        """Memory of the fit of one member to so many rows at a time."""
        return 4 * 8 * (rows + n_originals) * n_originals

    def seconds(self, rows: int) -> float:
        """What the fit of one member to so many rows takes on one core at best: its features, and their sums."""
        return least_seconds(2 * rows * min(rows, MOST_LANDMARKS) ** 2)


FeatureMap = RandomMap | KernelMap
