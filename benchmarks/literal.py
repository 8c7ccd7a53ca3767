"""The paper's algorithm as it is printed, in NumPy: what `pcarann` is compared with.

    PCA          full singular value decomposition of the centred fields
    member       c from one np.quantile per neuron; V = argmin ‖HV − Y‖² by np.linalg.lstsq (SVD) on the whole H
    refinement   BFGS on J(η) from η = 0, gradient by finite differences;
                 A = (HᵀH + λI)⁻¹ HᵀY with the p × p matrix, whatever N is
    adaptation   P = (HᵀH + λI)⁻¹, p × p; for each sample
                 k = Ph / (1 + hᵀPh),   V ← V + k(yᵀ − hᵀV),   P ← P − k hᵀP
    spread       all K fields in memory at once

Nothing is shared, blocked or skipped. Random weights and levels are pcarann's own, and so are the signs of the modes
and three documented choices (scales of member 0 shared by all, anchors taken again at the final scales, split of the
samples), so that both sides compute the same model and can be compared number by number.
Paper: the gradient of J is analytical there; where each method starts and stops is what the paper says here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import place_of
from pcarann.features.random_layers import HiddenLayers
from pcarann.features.refine import GRADIENT_TOLERANCE, MOST_ITERATIONS
from pcarann.features.scales import energy_matched_scale
from pcarann.latent.pca import mode_signs
from pcarann.latent.rows import Order
from pcarann.operator import PCARaNN

__all__ = [
    "Ensemble",
    "Member",
    "Modes",
    "Refined",
    "batch_refit",
    "energy_scales",
    "fit_member",
    "fit_modes",
    "inner_latents",
    "recursive_least_squares",
    "refine",
    "same_model",
    "start_recursion",
    "validation_loss",
]

Fields = np.ndarray[Any, Any]
Scales = tuple[float, float]

_HOST = place_of(None)


@dataclass(frozen=True)
class Modes:
    """Mean and modes of a set of fields, (values,) and (components, values)."""

    mean: Fields
    modes: Fields

    def encode(self, fields: Fields) -> Fields:
        """F(a)"""
        return np.asarray((fields - self.mean) @ self.modes.T)

    def decode(self, latents: Fields) -> Fields:
        """G(y)"""
        return np.asarray(self.mean + latents @ self.modes)


def fit_modes(fields: Fields, n_components: int) -> Modes:
    """PCA of (samples, values) fields by a full SVD, no more modes than the fields' numerical rank."""
    mean = fields.mean(axis=0)
    _, singular, modes = np.linalg.svd(fields - mean, full_matrices=False)
    rank = int((singular > max(fields.shape) * np.finfo(float).eps * singular[0]).sum())
    modes = modes[: min(n_components, rank)]
    return Modes(mean, modes * mode_signs(modes)[:, None])


@dataclass(frozen=True)
class Member:
    """Weights, anchors, scales and readout of one network."""

    weights: tuple[Fields, Fields]
    anchors: tuple[Fields, Fields]
    scales: Scales
    readout: Fields

    def features(self, x: Fields) -> Fields:
        """h of (samples, latent) rows, (samples, n₁ + n₂)."""
        h1 = np.tanh(self.scales[0] * (x @ self.weights[0].T - self.anchors[0]))
        h2 = np.tanh(self.scales[1] * (h1 @ self.weights[1].T - self.anchors[1]))
        return np.hstack([h1, h2])

    def __call__(self, x: Fields) -> Fields:
        """Φ(x) = h(x)ᵀV"""
        return np.asarray(self.features(x) @ self.readout)


@dataclass(frozen=True)
class Ensemble:
    """Two PCAs and K members."""

    inputs: Modes
    outputs: Modes
    members: Sequence[Member]

    def all_fields(self, fields: Fields) -> Fields:
        """Predictions of all members, (members, samples, values)."""
        x = self.inputs.encode(fields)
        return np.stack([self.outputs.decode(member(x)) for member in self.members])

    def predict(self, fields: Fields) -> Fields:
        """Mean of the members' fields, one decoding each."""
        return np.asarray(self.all_fields(fields).mean(axis=0))

    def sorted_scores(self, fields: Fields, truth: Fields, floor: float) -> Fields:
        """All nonconformity scores |u − μ| / max{σ, ε}, ascending."""
        every = self.all_fields(fields)
        scores = np.abs(truth - every.mean(axis=0)) / np.maximum(every.std(axis=0, ddof=1), floor)
        return np.sort(scores.ravel())


def same_model(model: PCARaNN) -> Ensemble:
    """The literal ensemble with the weights that a fitted NumPy model found: predictions can be timed without a fit."""
    fitted = model.ensemble_
    members = [
        Member(member.features.hidden_weights(), member.features.anchors, member.features.scales, member.readout)
        for member in fitted.members
    ]
    modes = [Modes(pca.mean, pca.modes) for pca in (fitted.input_pca, fitted.output_pca)]
    return Ensemble(modes[0], modes[1], members)


def _quantiles(projections: Fields, levels: Fields) -> Fields:
    """For each neuron, the quantile of its projections at its level."""
    return np.array([np.quantile(z, level) for z, level in zip(projections.T, levels, strict=True)])


def _anchored(layers: HiddenLayers, x: Fields, scales: Scales) -> Member:
    """A member without readout."""
    W1, W2 = layers.weights(1, _HOST), layers.weights(2, _HOST)
    c1 = _quantiles(x @ W1.T, layers.levels(1, _HOST))
    h1 = np.tanh(scales[0] * (x @ W1.T - c1))
    c2 = _quantiles(h1 @ W2.T, layers.levels(2, _HOST))
    return Member((W1, W2), (c1, c2), scales, np.empty((0, 0)))


def fit_member(layers: HiddenLayers, x: Fields, y: Fields, scales: Scales) -> Member:
    """Least squares by singular value decomposition of the whole feature matrix."""
    member = _anchored(layers, x, scales)
    return replace(member, readout=np.linalg.lstsq(member.features(x), y, rcond=None)[0])


def energy_scales(layers: HiddenLayers, x: Fields, y: Fields) -> Scales:
    """(r̄₁, r̄₂), the second from pilot features of the first layer."""
    _, n1, n2 = layers.sizes
    S_X, S_Y = (float((rows**2).sum(axis=1).mean()) for rows in (x, y))
    first = energy_matched_scale(S_X, S_Y, width=n1, share=0.7)
    projections = x @ layers.weights(1, _HOST).T
    pilot = np.tanh(first * (projections - _quantiles(projections, layers.levels(1, _HOST))))
    S_H = float((pilot**2).sum(axis=1).mean())
    return first, energy_matched_scale(S_H, S_Y, width=n2, share=0.3)


def inner_latents(
    inputs: Fields, outputs: Fields, components: tuple[int, int], seed: int
) -> tuple[Modes, Modes, Fields, Fields, int]:
    """PCAs of the inner 80 %, the latents of all samples with the inner rows first, and how many those are."""
    inner, validation = Order.split(len(inputs), seed).parts
    modes = [fit_modes(fields[inner], n) for fields, n in zip((inputs, outputs), components, strict=True)]
    order = [*inner, *validation]
    return modes[0], modes[1], modes[0].encode(inputs[order]), modes[1].encode(outputs[order]), len(inner)


def validation_loss(eta: Sequence[float], member: Member, x: Fields, y: Fields, n_inner: int, ridge: float) -> float:
    """J(η) of an anchored member whose scales are r̄."""
    scales = (member.scales[0] * math.exp(eta[0]), member.scales[1] * math.exp(eta[1]))
    H = replace(member, scales=scales).features(x[:n_inner])
    A = np.linalg.solve(H.T @ H + ridge * np.eye(H.shape[1]), H.T @ y[:n_inner])
    H_val = replace(member, scales=scales).features(x[n_inner:])
    return float(((H_val @ A - y[n_inner:]) ** 2).mean())


@dataclass(frozen=True)
class Refined:
    """What BFGS found."""

    scales: Scales
    log_offsets: Scales
    loss: float
    iterations: int
    evaluations: int


def refine(
    layers: HiddenLayers, x: Fields, y: Fields, n_inner: int, scales: Scales, ridge: float, *, as_ours: bool = False
) -> Refined:
    """BFGS on J from η = 0 with SciPy's finite differences and tolerances; or on log J with our tolerance."""
    from scipy.optimize import minimize

    member = _anchored(layers, x[:n_inner], scales)

    def objective(eta: Fields) -> float:
        loss = validation_loss(eta, member, x, y, n_inner, ridge)
        return math.log(loss) if as_ours else loss

    options = {"gtol": GRADIENT_TOLERANCE, "maxiter": MOST_ITERATIONS} if as_ours else {}
    found = minimize(objective, np.zeros(2), method="BFGS", options=options)
    eta = (float(found.x[0]), float(found.x[1]))
    refined = (scales[0] * math.exp(eta[0]), scales[1] * math.exp(eta[1]))
    loss = math.exp(found.fun) if as_ours else float(found.fun)
    return Refined(refined, eta, loss, int(found.nit), int(found.nfev))


def start_recursion(H: Fields, ridge: float) -> Fields:
    """P = (HᵀH + λI)⁻¹"""
    return np.linalg.inv(H.T @ H + ridge * np.eye(H.shape[1]))


def batch_refit(old: Fields, new: Fields, targets: Fields, ridge: float) -> Fields:
    """V = (HᵀH + λI)⁻¹ HᵀY over old rows, whose features are at hand, and new ones."""
    H = np.concatenate([old, new])
    return np.linalg.solve(H.T @ H + ridge * np.eye(H.shape[1]), H.T @ targets)


def recursive_least_squares(P: Fields, V: Fields, H: Fields, Y: Fields) -> tuple[Fields, Fields]:
    """Take in new rows one by one; return P and V."""
    for h, y in zip(H, Y, strict=True):
        Ph = P @ h
        gain = Ph / (1.0 + h @ Ph)
        V = V + np.outer(gain, y - h @ V)
        P = P - np.outer(gain, h @ P)
    return P, V
