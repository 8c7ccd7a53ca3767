"""The validation loss J of scales and ridge, with its gradient.

    J(η) = ‖H_val A − Y_val‖² / (N_val d),   A = (HᵀH + λI)⁻¹ HᵀY      H, Y of the inner training samples

All random weights and anchors stay fixed, so that everything up to W⁽¹⁾x is computed once. With E = H_val A − Y_val,
R = Y − HA, G = H_valᵀE and Z = (HᵀH + λI)⁻¹G, the gradient with respect to the features is, up to 2 / (N_val d),

    ∂J/∂H_val = E Aᵀ,      ∂J/∂H = R Zᵀ − (HZ) Aᵀ.

In the dual, with K = HHᵀ + λI and B = K⁻¹Y, everything stays N × N: A = HᵀB, HZ = K⁻¹HG, and
R Zᵀ = B (G − Hᵀ(HZ))ᵀ, which never divides by λ. The chain rule through the two layers costs one product with W⁽²⁾.

The ridge λ can be a third variable, with

    ∂J/∂log λ = −λ ⟨Z, A⟩ · 2 / (N_val d),      ⟨Z, A⟩ = ⟨HZ, B⟩ in the dual.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from pcarann.backend.arrays import Array, cuts, place_of, tanh_inplace
from pcarann.backend.concurrency import concurrently
from pcarann.features.random_layers import RandomFeatures
from pcarann.readout.direct import factorise, factorise_normal, ridge_readout, transposed_product

__all__ = ["ValidationLoss", "bounded_exp"]

# exp(±20) is far outside any useful scale; the offsets are held inside it so that nothing overflows.
WIDEST_OFFSET = 20.0
_BLOCK = 1 << 20  # features at a time on a CPU

Result = TypeVar("Result")


@dataclass(frozen=True)
class _Errors:
    """What J and its gradient are made of."""

    E: Array
    """H_val A − Y_val"""
    R: Array
    """Y − HA in the primal, B in the dual"""
    HZ: Array
    product: float
    """⟨Z, A⟩"""
    right: Array | None = None
    """(Z, A) in the primal, (G − HᵀHZ, A) in the dual; None where it is still to be made, as (H_valᵀE − HᵀHZ, HᵀB)"""


@dataclass(frozen=True)
class ValidationLoss:
    """J(η) of one member, with all that does not depend on η computed once."""

    projections: Array
    """W⁽¹⁾x − c⁽¹⁾, (samples, n₁): the inner training rows, then the validation rows"""
    weights: Array
    """W⁽²⁾"""
    anchors: Array
    """c⁽²⁾"""
    scales: tuple[float, float]
    """r̄₁, r̄₂"""
    targets: Array
    """y, (samples, outputs), rows as in `projections`"""
    n_inner: int
    ridge: float
    """λ"""
    linear: Array | None = None
    """The linear term x / s, (samples, latent), where there is one: it does not depend on η"""

    @classmethod
    def of(cls, features: RandomFeatures, x: Array, y: Array, *, n_inner: int, ridge: float) -> ValidationLoss:
        """Prepare J for a feature map and latents whose first `n_inner` rows are the inner training samples."""
        first, second = features.hidden_weights()
        projections = features.weighting.weighted(x) @ first.T - features.anchors[0]
        linear = None if features.weighting.linear is None else x * features.weighting.linear
        return cls(projections, second, features.anchors[1], features.scales, y, n_inner, ridge, linear)

    def __call__(self, eta: tuple[float, float]) -> float:
        """J(η)"""
        return self.scan((eta[0],), (eta[1],))[eta[0], eta[1]]

    def scan(self, first: tuple[float, ...], second: tuple[float, ...]) -> dict[tuple[float, float], float]:
        """J on the grid of all (η₁, η₂); the product with W⁽²⁾ is shared along η₂."""
        place = place_of(self.projections)

        def along_second(eta1: float) -> list[float]:
            h1 = tanh_inplace(self.projections * self._scale(0, eta1))
            z2 = h1 @ self.weights.T - self.anchors
            shared = None  # products with the inner rows, as far as they do not depend on η₂; in the dual alone
            if self._layers[-1].stop > self.n_inner:
                shared = self._products(h1)
                shared = shared if self.linear is None else shared + self._products(self.linear)
            return [self._scan_loss(h1, tanh_inplace(z2 * self._scale(1, eta2)), shared) for eta2 in second]

        bytes_each = 4 * 8 * self.projections.shape[0] * (self.projections.shape[1] + self.anchors.shape[0])
        rows = list(concurrently(along_second, first, place=place, bytes_each=bytes_each))
        return {(e1, e2): rows[i][j] for i, e1 in enumerate(first) for j, e2 in enumerate(second)}

    def at_ridge(self, factor: float) -> ValidationLoss:
        """The same loss with λ times a factor."""
        return replace(self, ridge=self.ridge * factor)

    def with_gradient(self, eta: tuple[float, float]) -> tuple[float, tuple[float, float, float]]:
        """J(η) and (∂J/∂η₁, ∂J/∂η₂, ∂J/∂log λ)."""
        xp = place_of(self.projections).xp
        scales = self._scale(0, eta[0]), self._scale(1, eta[1])
        features, z2 = self._features(scales)
        loss, (left, right), by_ridge = self._loss_and_gradient(features)
        first, second, _ = self._layers

        def through_layers(rows: slice) -> tuple[Array, Array]:
            gradient = left[rows, :] @ right.T
            # tanh' = 1 − tanh², and ∂r/∂η = r.
            d2 = gradient[:, second]
            d2 *= 1.0 - features[rows, second] ** 2
            d1 = gradient[:, first]
            d1 += (scales[1] * d2) @ self.weights
            d1 *= 1.0 - features[rows, first] ** 2
            return xp.sum(d1 * self.projections[rows, :]), xp.sum(d2 * z2[rows, :])

        sums = list(self._over_rows(through_layers))
        by_scales = [sum(float(pair[layer]) for pair in sums) for layer in (0, 1)]
        return loss, (scales[0] * by_scales[0], scales[1] * by_scales[1], by_ridge)

    def _features(self, scales: tuple[float, float]) -> tuple[Array, Array]:
        """All features, (samples, features), and W⁽²⁾h⁽¹⁾ − c⁽²⁾."""
        place = place_of(self.projections)
        first, second, last = self._layers
        features = place.empty(self.projections.shape[0], last.stop)
        z2 = place.empty(self.projections.shape[0], self.anchors.shape[0])
        if self.linear is not None:
            features[:, last] = self.linear

        def fill(rows: slice) -> None:
            features[rows, first] = tanh_inplace(self.projections[rows, :] * scales[0])
            z2[rows, :] = features[rows, first] @ self.weights.T - self.anchors
            features[rows, second] = tanh_inplace(z2[rows, :] * scales[1])

        list(self._over_rows(fill))
        return features, z2

    @property
    def _layers(self) -> tuple[slice, slice, slice]:
        """Columns of the features: h⁽¹⁾, h⁽²⁾, linear term."""
        n1 = int(self.projections.shape[1])
        both = n1 + int(self.anchors.shape[0])
        n_linear = 0 if self.linear is None else int(self.linear.shape[1])
        return slice(0, n1), slice(n1, both), slice(both, both + n_linear)

    def _over_rows(self, function: Callable[[slice], Result]) -> Iterator[Result]:
        """Yield function(rows) for blocks of rows, several at a time on a CPU; all rows at once on a GPU."""
        place = place_of(self.projections)
        samples, width = int(self.projections.shape[0]), self._layers[-1].stop
        size = max(1, _BLOCK // width) if place.on_host else samples
        return concurrently(function, cuts(samples, size), place=place, bytes_each=4 * 8 * size * width)

    def _scale(self, layer: int, eta: float) -> float:
        return self.scales[layer] * bounded_exp(eta)

    def _products(self, rows: Array) -> Array:
        """Products of all rows with the inner ones; those among the inner ones are symmetric, half the work."""
        inner = rows[: self.n_inner, :]
        return place_of(rows).xp.concat([inner @ inner.T, rows[self.n_inner :, :] @ inner.T], axis=0)

    def _scan_loss(self, h1: Array, h2: Array, shared: Array | None) -> float:
        """J of features h1, h2 from N × N products alone where that is safe."""
        n = self.n_inner
        if shared is not None:
            products = self._products(h2)
            products += shared
            factor = factorise_normal(products[:n, :], self.ridge, dual=True)
            if factor is not None:
                prediction = products[n:, :] @ factor.solve(self.targets[:n, :])
                return self._mean_square(prediction - self.targets[n:, :])
        features = place_of(h1).xp.concat([h1, h2] if self.linear is None else [h1, h2, self.linear], axis=1)
        prediction = features[n:, :] @ ridge_readout(features[:n, :], self.targets[:n, :], self.ridge)
        return self._mean_square(prediction - self.targets[n:, :])

    def _loss_and_gradient(self, features: Array) -> tuple[float, tuple[Array, Array], float]:
        """J, the factors of ∂J/∂H, (samples, k) and (features, k) with k twice the outputs, and ∂J/∂log λ."""
        n, outputs = self.n_inner, int(self.targets.shape[1])
        left = place_of(features).zeros(features.shape[0], 2 * outputs)
        found = self._from_products(features) or self._from_readout(features)
        left[:n, :outputs], left[:n, outputs:], left[n:, outputs:] = found.R, -found.HZ, found.E
        right = found.right
        if right is None:
            right = transposed_product(features, place_of(left).xp.roll(left, outputs, axis=1))
        unit = 2.0 / math.prod(found.E.shape)
        left *= unit
        return self._mean_square(found.E), (left, right), -self.ridge * unit * found.product

    def _from_products(self, features: Array) -> _Errors | None:
        """E, B and HZ from products of rows alone, in the dual; None where that is not safe."""
        n = self.n_inner
        if features.shape[1] <= n:
            return None
        products = self._products(features)
        factor = factorise_normal(products[:n, :], self.ridge, dual=True)
        if factor is None:
            return None
        cross = products[n:, :]
        B = factor.solve(self.targets[:n, :])
        E = cross @ B - self.targets[n:, :]
        HZ = factor.solve(cross.T @ E)
        return _Errors(E, B, HZ, float(place_of(B).xp.sum(HZ * B)))

    def _from_readout(self, features: Array) -> _Errors:
        n = self.n_inner
        xp = place_of(features).xp
        H, H_val, Y = features[:n, :], features[n:, :], self.targets[:n, :]
        factor = factorise(H, self.ridge)
        A = factor.readout(H, Y)
        E = H_val @ A - self.targets[n:, :]
        G = H_val.T @ E
        if factor.dual:
            HZ = factor.solve(H @ G)
            R, Z = factor.solve(Y), G - H.T @ HZ
            product = xp.sum(HZ * R)
        else:
            R, Z = Y - H @ A, factor.solve(G)
            HZ = H @ Z
            product = xp.sum(Z * A)
        return _Errors(E, R, HZ, float(product), xp.concat([Z, A], axis=1))

    @staticmethod
    def _mean_square(error: Array) -> float:
        return float(place_of(error).xp.mean(error**2))


def bounded_exp(log: float) -> float:
    """exp of a log-offset, held inside what cannot overflow."""
    return math.exp(min(max(log, -WIDEST_OFFSET), WIDEST_OFFSET))
