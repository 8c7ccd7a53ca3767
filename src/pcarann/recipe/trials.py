"""Judging a setting: its error on samples that its PCAs and coefficients never saw.

Kernel ridge regression on the latents stands for all settings of the inputs. One eigendecomposition of its matrix,
K = QΛQᵀ, gives the prediction at every ridge, k(X_held, X) Q (Λ + λ)⁻¹ QᵀY; random layers are judged by HHᵀ in the
place of K. Errors are mean relative L² errors of the fields, found from their latents: with orthonormal modes
‖û − u‖² = ‖ŷ − F(u)‖² + ‖u − G(F(u))‖².
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pcarann.backend.arrays import Array, place_of, taken
from pcarann.features.kernel import matern52, median_distance, squared_distances
from pcarann.features.random_layers import HiddenLayers, anchor_features
from pcarann.features.relevance import whitening
from pcarann.features.scales import energy_matched_scales
from pcarann.latent.pca import fit_pca
from pcarann.latent.weighting import Weighting
from pcarann.recipe.choice import KEPT_ENERGY, Choice, fit_input_pca, metric_on

__all__ = ["Fold", "KernelTrial", "random_trial"]

SEARCHED_LENGTHS = tuple(2.0**k for k in range(-2, 10))
RIDGES = tuple(10.0**k for k in range(-14, 1))


@dataclass(frozen=True)
class Fold:
    """Latents of inner samples and of those held out, in PCAs of the inner ones."""

    x: Array
    y: Array
    x_held: Array
    y_held: Array
    missed: Array
    """Squared norm of the held-out outputs that no output latent reaches"""
    sizes: Array
    """Norm of the held-out outputs"""

    def error(self, found: Array) -> float:
        """Mean relative L² error of predicted latents of the held-out samples."""
        xp = place_of(found).xp
        squares = xp.sum((found - self.y_held) ** 2, axis=1) + self.missed
        return float(xp.mean(xp.sqrt(squares) / self.sizes))

    @classmethod
    def of(cls, inputs: Array, outputs: Array, inner: list[int], held: list[int], own_units: bool) -> Fold:
        """Encode (samples, values) inputs and outputs by PCAs of the inner samples."""
        xp = place_of(inputs).xp
        input_pca, x = fit_input_pca(taken(inputs, inner), Choice(own_units=own_units))
        output_pca, y = fit_pca(taken(outputs, inner), KEPT_ENERGY[1], name="outputs")
        truth = taken(outputs, held)
        y_held, sizes = output_pca.encode(truth), xp.linalg.vector_norm(truth, axis=1)
        missed = output_pca.residual(truth, y_held) ** 2
        sizes = xp.where(sizes > 0, sizes, xp.ones_like(sizes))
        return cls(x, y, input_pca.encode(taken(inputs, held)), y_held, missed, sizes)

    def weighting(self, choice: Choice) -> tuple[Array, Array, Weighting]:
        """Inner and held-out latents that a choice keeps, and what it does to them."""
        modes = min(choice.modes or int(self.x.shape[1]), int(self.x.shape[1]))
        x = self.x[:, :modes]
        linear = whitening(x) if choice.linear else None
        return x, self.x_held[:, :modes], Weighting(metric_on(x, self.y, choice), linear)


class KernelTrial:
    """A choice with a kernel on some folds, at any length; distances are found once."""

    def __init__(self, folds: list[Fold], choice: Choice):
        self.folds = folds
        self._parts = [self._prepared(*fold.weighting(choice)) for fold in folds]

    @staticmethod
    def _prepared(x: Array, held: Array, weighting: Weighting) -> tuple[Array, Array, float, Array, Array]:
        near, far = weighting.weighted(x), weighting.weighted(held)
        squares = squared_distances(near, near), squared_distances(far, near)
        if weighting.linear is None:
            return *squares, median_distance(near), 0.0, 0.0
        white = x * weighting.linear
        return *squares, median_distance(near), white @ white.T, (held * weighting.linear) @ white.T

    def error(self, length: float) -> tuple[float, float]:
        """Mean error over the folds at the best ridge, and that ridge."""
        errors = [0.0] * len(RIDGES)
        for fold, (inner, across, unit, linear, linear_across) in zip(self.folds, self._parts, strict=True):
            gram = matern52(inner + 0.0, length * unit) + linear
            cross = matern52(across + 0.0, length * unit) + linear_across
            for i, found in enumerate(_all_ridges(gram, cross, fold.y, 1.0)):
                errors[i] += fold.error(found) / len(self.folds)
        return min(zip(errors, RIDGES, strict=True))


def random_trial(folds: list[Fold], choice: Choice, seed: int) -> tuple[Choice, float]:
    """A choice with random layers at its best ridge, and its mean error over the folds."""
    errors = [0.0] * len(RIDGES)
    unit = 1.0
    for fold in folds:
        x, held, weighting = fold.weighting(choice)
        layers = HiddenLayers(seed, 0, (int(x.shape[1]), *choice.widths))
        scales = energy_matched_scales(layers, weighting.weighted(x), None)
        scales = (scales[0] * math.exp(choice.offsets[0]), scales[1] * math.exp(choice.offsets[1]))
        features, H = anchor_features(layers, x, scales, weighting)
        unit = float(place_of(H).xp.sum(H**2)) / int(H.shape[0]) or 1.0
        for i, found in enumerate(_all_ridges(H @ H.T, features(held) @ H.T, fold.y, unit)):
            errors[i] += fold.error(found) / len(folds)
    error, ridge = min(zip(errors, RIDGES, strict=True))
    return replace(choice, ridge=unit * ridge), error


def _all_ridges(gram: Array, cross: Array, y: Array, unit: float) -> list[Array]:
    """Predictions k(X_held, X)(K + λI)⁻¹Y at every ridge, from one eigendecomposition."""
    xp = place_of(gram).xp
    values, vectors = xp.linalg.eigh(gram)
    values = xp.clip(values, min=0.0)
    left, right = cross @ vectors, vectors.T @ y
    return [left @ (right / (values + unit * ridge)[:, None]) for ridge in RIDGES]
