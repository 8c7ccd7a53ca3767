"""h(x): two random tanh layers, anchored at quantiles, never trained.

    h⁽¹⁾ = tanh(r₁ (W⁽¹⁾x − c⁽¹⁾)),   h⁽²⁾ = tanh(r₂ (W⁽²⁾h⁽¹⁾ − c⁽²⁾)),   h = (h⁽¹⁾, h⁽²⁾)

The weights are uniform in [−1, 1]. Each neuron's shift c is a quantile of its own projection over the training
samples, at a level drawn once, uniform in [0.1, 0.9], so that every neuron bends where there are data.
Both layers feed the readout: the second does not hide the first (the paper's skip connection).

In memory a neuron's values over all samples are contiguous, because they are sorted for its quantile: matrices of
features are made as (neurons, samples) and handed out transposed.
"""

from __future__ import annotations

from dataclasses import dataclass

from pcarann.arrays import Array, Place, place_of, row_quantiles, tanh_inplace
from pcarann.random import uniform

__all__ = ["HiddenLayers", "RandomFeatures", "anchor_features", "layer_output"]

LOWEST_LEVEL, HIGHEST_LEVEL = 0.1, 0.9


@dataclass(frozen=True)
class HiddenLayers:
    """The random part of one member: weights and levels as functions of (seed, member, layer, index)."""

    seed: int
    member: int
    sizes: tuple[int, int, int]
    """Latent dimension and the two widths: d, n₁, n₂"""

    def weights(self, layer: int, place: Place) -> Array:
        """W of layer 1 or 2, (width, inputs of the layer), uniform in [−1, 1]."""
        shape = (self.sizes[layer], self.sizes[layer - 1])
        return uniform(shape, seed=self.seed, stream=(self.member, layer), place=place, low=-1.0, high=1.0)

    def levels(self, layer: int, place: Place) -> Array:
        """Quantile levels of layer 1 or 2, (width,), uniform in [0.1, 0.9]."""
        shape = (self.sizes[layer],)
        return uniform(
            shape,
            seed=self.seed,
            stream=(self.member, -layer),
            place=place,
            low=LOWEST_LEVEL,
            high=HIGHEST_LEVEL,
        )


@dataclass(frozen=True)
class RandomFeatures:
    """The feature map h of one member, ready to be evaluated."""

    layers: HiddenLayers
    scales: tuple[float, float]
    """r₁, r₂"""
    anchors: tuple[Array, Array]
    """c⁽¹⁾, c⁽²⁾, (width,) each"""
    weights: tuple[Array, Array] | None = None
    """W⁽¹⁾, W⁽²⁾ where they are kept in memory; drawn anew where they are not"""

    def __call__(self, latents: Array) -> Array:
        """Return h of (samples, latent) rows as (samples, n₁ + n₂)."""
        first, second = self.hidden_weights()
        width = self.layers.sizes[1]
        neurons = place_of(latents).empty(width + self.layers.sizes[2], latents.shape[0])
        neurons[:width, :] = layer_output(first @ latents.T, self.anchors[0], self.scales[0])
        neurons[width:, :] = layer_output(second @ neurons[:width, :], self.anchors[1], self.scales[1])
        return neurons.T

    def hidden_weights(self) -> tuple[Array, Array]:
        """W⁽¹⁾ and W⁽²⁾, drawn where they are not kept."""
        if self.weights is not None:
            return self.weights
        place = place_of(self.anchors[0])
        return self.layers.weights(1, place), self.layers.weights(2, place)


def layer_output(projections: Array, anchors: Array, scale: float) -> Array:
    """tanh(r (z − c)) of (neurons, samples) projections z, in their memory."""
    projections -= anchors[:, None]
    projections *= scale
    return tanh_inplace(projections)


def anchor_features(layers: HiddenLayers, latents: Array, scales: tuple[float, float]) -> tuple[RandomFeatures, Array]:
    """Set the anchors from (samples, latent) training latents; return the map and its features of them."""
    place = place_of(latents)
    width = layers.sizes[1]
    neurons = place.empty(width + layers.sizes[2], latents.shape[0])
    weights, anchors = [], []
    inputs = latents.T
    for layer, rows in ((1, slice(0, width)), (2, slice(width, None))):
        weights.append(layers.weights(layer, place))
        projections = weights[-1] @ inputs
        anchors.append(row_quantiles(projections, layers.levels(layer, place)))
        neurons[rows, :] = layer_output(projections, anchors[-1], scales[layer - 1])
        inputs = neurons[:width, :]
    features = RandomFeatures(layers, scales, (anchors[0], anchors[1]), (weights[0], weights[1]))
    return features, neurons.T
