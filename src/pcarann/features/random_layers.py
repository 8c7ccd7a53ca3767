"""h(x): two random tanh layers, anchored at quantiles, never trained.

    h⁽¹⁾ = tanh(r₁ (W⁽¹⁾x − c⁽¹⁾)),   h⁽²⁾ = tanh(r₂ (W⁽²⁾h⁽¹⁾ − c⁽²⁾)),   h = (h⁽¹⁾, h⁽²⁾)

The weights are uniform in [−1, 1]. Each neuron's shift c is a quantile of its own projection over the training
samples, at a level drawn once, uniform in [0.1, 0.9], so that every neuron bends where there are data.
Both layers feed the readout: the second does not hide the first (the paper's skip connection).

Two options go past the paper (`pcarann.latent.weighting`): relevance weights w on the way into the first layer, and a
linear term, with which linear physics costs no neurons: h = (h⁽¹⁾(w ⊙ x), h⁽²⁾, x / s).

In memory a neuron's values over all samples are contiguous, because they are sorted for its quantile: matrices of
features are made as (neurons, samples) and handed out transposed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from pcarann.backend.arrays import Array, Place, cuts, place_of, product_into, row_quantiles, tanh_inplace
from pcarann.backend.concurrency import least_seconds
from pcarann.backend.linearized import Linearized
from pcarann.backend.random import uniform
from pcarann.latent.weighting import Weighting

__all__ = ["HiddenLayers", "RandomFeatures", "anchor_features", "layer_output"]

LEVELS = (0.1, 0.9)
_BLOCK = 1 << 17  # numbers at a time on a CPU while a neuron's values are sorted and bent: they stay in the cache


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
        stream, (low, high) = (self.member, -layer), LEVELS
        return uniform((self.sizes[layer],), seed=self.seed, stream=stream, place=place, low=low, high=high)


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
    weighting: Weighting = field(default_factory=Weighting)

    def __call__(self, latents: Array) -> Array:
        """Return h of (samples, latent) rows as (samples, features)."""
        neurons, rows = self.weighting.neurons(self.layers.sizes, latents)
        inputs = self.weighting.weighted(latents).T
        for layer, weights in enumerate(self.hidden_weights()):
            projections = product_into(neurons[rows[layer], :], weights, inputs)
            inputs = layer_output(projections, self.anchors[layer], self.scales[layer])
        return neurons.T

    def linearized(self, latents: Array) -> Linearized:
        """`predictors` of (samples, latent) rows with their derivative: tanh′ = 1 − tanh², times the scale.

        Slopes are kept, (neurons, samples); weights that are not kept are drawn again.
        """
        xp, (n1, n2) = place_of(latents).xp, self.layers.sizes[1:]
        features, linear, scales = self(latents), self.weighting.linear, self.scales
        first, second = scales[0] * (1 - features.T[:n1, :] ** 2), scales[1] * (1 - features.T[n1 : n1 + n2, :] ** 2)

        def push(tangents: Array) -> Array:
            W1, W2 = self.hidden_weights()
            layer = first * (W1 @ self.weighting.weighted(tangents).T)
            parts = [layer, second * (W2 @ layer)]
            parts += [] if linear is None else [(tangents * linear).T]
            return xp.concat(parts, axis=0).T

        def pull(cotangents: Array) -> Array:
            W1, W2 = self.hidden_weights()
            C = cotangents.T
            layer = first * (C[:n1, :] + W2.T @ (second * C[n1 : n1 + n2, :]))
            found = self.weighting.weighted_back((W1.T @ layer).T)
            return found if linear is None else found + cotangents[:, n1 + n2 :] * linear

        return Linearized(features, push, pull)

    def predictors(self, latents: Array) -> Array:
        """What predictions are combinations of: the features themselves."""
        return self(latents)

    def coefficients(self, readout: Array) -> Array:
        """Of the predictors, for a readout V of the features: V itself."""
        return readout

    def readout(self, coefficients: Array) -> Array:
        """V of coefficients: the inverse of `coefficients`."""
        return coefficients

    @property
    def terms(self) -> int:
        """The number of predictors."""
        return self.count

    @property
    def member(self) -> int:
        """Which member of the ensemble these are."""
        return self.layers.member

    @property
    def count(self) -> int:
        """The number of features, p."""
        return sum(self.layers.sizes[1:]) + (self.layers.sizes[0] if self.weighting.linear is not None else 0)

    def working_bytes(self, samples: int) -> int:
        """Memory of one member at work: its hidden weights, its features and three copies of their size."""
        size, n1, n2 = self.layers.sizes
        return 8 * n1 * (size + n2) + 4 * 8 * samples * self.count

    def seconds(self, samples: int) -> float:
        """What the products for so many samples take on one core at best; no limit where weights are drawn."""
        size, n1, n2 = self.layers.sizes
        count = n1 * (size + n2)
        return math.inf if self.weights is None else least_seconds(count * samples, 8 * count)

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


def _anchored(weights: Array, inputs: Array, levels: Array, scale: float, out: Array) -> Array:
    """Write tanh(r (Wx − c)) of (inputs, samples) into (neurons, samples) memory; return the anchors c."""
    place = place_of(out)
    product_into(out, weights, inputs)
    anchors = place.empty(out.shape[0])
    size = max(1, _BLOCK // out.shape[1]) if place.on_host else out.shape[0]
    for rows in cuts(out.shape[0], size):
        anchors[rows] = row_quantiles(out[rows, :], levels[rows])
        layer_output(out[rows, :], anchors[rows], scale)
    return anchors


def anchor_features(
    layers: HiddenLayers, latents: Array, scales: tuple[float, float], weighting: Weighting | None = None
) -> tuple[RandomFeatures, Array]:
    """Set the anchors from (samples, latent) training latents; return the map and its features of them."""
    place = place_of(latents)
    weighting = weighting or Weighting()
    neurons, blocks = weighting.neurons(layers.sizes, latents)
    weights, anchors = [], []
    inputs = weighting.weighted(latents).T
    for layer, rows in enumerate(blocks, start=1):
        weights.append(layers.weights(layer, place))
        anchors.append(_anchored(weights[-1], inputs, layers.levels(layer, place), scales[layer - 1], neurons[rows, :]))
        inputs = neurons[rows, :]
    features = RandomFeatures(layers, scales, (anchors[0], anchors[1]), (weights[0], weights[1]), weighting)
    return features, neurons.T
