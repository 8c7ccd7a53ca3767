"""One setting of the estimator as `auto` chooses it, and what it means for the samples at hand."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

from pcarann.backend.arrays import Array, place_of, taken, to_host
from pcarann.backend.random import spread
from pcarann.features.random_layers import HiddenLayers
from pcarann.features.relevance import learned_metric, power_weights
from pcarann.features.scales import energy_matched_scales
from pcarann.latent.pca import PCA, fit_pca
from pcarann.latent.smoothing import Smoothing
from pcarann.latent.weighting import Weighting
from pcarann.options import Fields, Kernel
from pcarann.symmetry.generators import Symmetry

__all__ = ["DEFAULT", "ENERGY", "KEPT_ENERGY", "Choice", "chosen_parameters", "fit_input_pca", "metric_on"]

KEPT_ENERGY = (1 - 1e-9, 1 - 1e-10)
"""Shares of the energy of inputs and outputs that their modes hold"""
_MOST_MODES = 400
METRIC_ROWS = 4000  # samples at most from which the metric is learned


@dataclass(frozen=True)
class Choice:
    """One setting of the estimator."""

    plain: str = ""
    """"refined" or "energy": the estimator as it comes, with these scales; what follows up to `widths` has no effect"""
    own_units: bool = False
    """Whether each input value is measured in units of its own spread"""
    smoothing: float = 0.0
    modes: int | None = None
    """Input modes that are kept; None for all"""
    power: float = 0.0
    """The parameter `relevance`, α: weights s^(−α) of latents with spread s"""
    steps: int = 0
    """Learning steps of the metric"""
    diagonal: bool = False
    """Whether the learned metric has one weight for each latent"""
    learned_at: tuple[float, float] = (4.0, 1e-10)
    """Length and ridge of the kernel from which the metric is learned"""
    linear: bool = False
    regressor: str = "kernel"
    length: float = 4.0
    ridge: float | str = 1e-10
    offsets: tuple[float, float] = (0.0, 0.0)
    """Of the scales of random layers, η"""
    widths: tuple[int, int] = (0, 0)
    symmetry: bool = False
    copies: int | None = None
    """Elements of the symmetry that are used; None for as many as were offered"""
    members: int | None = None
    """None for as many as the estimator has by itself"""

    @property
    def setting(self) -> Choice:
        """What is left without length and ridge, which are tuned in every trial: two choices with the same are one."""
        learned_at = self.learned_at if self.steps else Choice.learned_at
        return replace(self, length=Choice.length, ridge=Choice.ridge, learned_at=learned_at)

    @property
    def name(self) -> str:
        """For people, not for the search."""
        layers = f"random layers, offsets {self.offsets[0]:g}, {self.offsets[1]:g}"
        searched = "kernel" if self.is_kernel else layers
        kind = {"refined": "default", "energy": "energy-matched"}.get(self.plain, searched)
        parts = [
            (self.own_units, "own unit for each input"),
            (self.smoothing, f"smoothing {self.smoothing:g}"),
            (self.modes, f"{self.modes} modes"),
            (self.steps, f"{'weights' if self.diagonal else 'metric'} learned in {self.steps} step(s)"),
            (self.power, f"{'from ' * bool(self.steps)}relevance={self.power:g}"),
            (self.linear, "linear term"),
            (isinstance(self.ridge, str), f"ridge by {self.ridge}"),
            (self.symmetry, "symmetry" if self.copies is None else f"symmetry by {self.copies} elements"),
            (self.members, f"{self.members} member(s)"),
        ]
        return ", ".join([kind, *(text for said, text in parts if said)])

    @property
    def is_kernel(self) -> bool:
        """Whether a kernel stands in the place of random layers."""
        return not self.plain and self.regressor == "kernel"

    def with_symmetry(self) -> Choice:
        """The setting beside a symmetry: no smoothing, and a metric learned by the fit, in the PCA of all copies."""
        without = replace(self, symmetry=True, smoothing=0.0)
        return replace(without, steps=1, diagonal=False, power=0.0) if self.steps else without


DEFAULT, ENERGY = Choice(plain="refined"), Choice(plain="energy")


def chosen_parameters(
    choice: Choice, inputs: Array, outputs: Array, grid: tuple[int, ...], symmetry: Symmetry | None = None
) -> dict[str, Any]:
    """Parameters of the estimator that a choice means for these samples."""
    parameters = {} if choice.plain else _searched_parameters(choice, inputs, outputs, grid)
    if choice.plain == "energy":
        parameters["scales"] = "energy"
    if choice.members is not None:
        parameters["n_members"] = choice.members
    if choice.symmetry and symmetry is not None:
        few = choice.copies  # and no more than were offered
        limited = symmetry if few is None else symmetry.using(fit=few, predict=min(few, symmetry.n_predict or few))
        parameters["symmetry"] = limited
    return parameters


def _searched_parameters(choice: Choice, inputs: Array, outputs: Array, grid: tuple[int, ...]) -> dict[str, Any]:
    fields = Smoothing.of(inputs, grid, choice.smoothing)(inputs, grid)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="n_components=.* is more than there are")
        pca, x = fit_input_pca(fields, choice)
        _, y = fit_pca(outputs, KEPT_ENERGY[1], name="outputs")
    some = spread(int(x.shape[0]), METRIC_ROWS)
    metric = metric_on(taken(x, some), taken(y, some), choice) if choice.steps else None
    quadrature = None
    if choice.own_units or len(grid) == 1:  # said in either case: columns of a table have their own units by default
        weights = _own_unit_weights(fields) if choice.own_units else place_of(fields).zeros(math.prod(grid)) + 1.0
        quadrature = (to_host(weights).reshape(grid), None)
    parameters: dict[str, Any] = {
        "n_components": (pca.n_components, KEPT_ENERGY[1]),
        "ridge": choice.ridge,
        "linear": choice.linear,
        "relevance": choice.power if metric is None else "learned" if choice.symmetry else to_host(metric),
        "fields": Fields(smoothing=choice.smoothing, quadrature=quadrature),
    }
    if choice.regressor == "kernel":
        return parameters | {"regressor": Kernel(choice.length)}
    layers = HiddenLayers(0, 0, (pca.n_components, *choice.widths))
    weights = metric_on(x, y, choice) if metric is None else metric
    scales = energy_matched_scales(layers, Weighting(weights).weighted(x), None)
    offset = [scale * math.exp(eta) for scale, eta in zip(scales, choice.offsets, strict=True)]
    return parameters | {"widths": choice.widths, "scales": (offset[0], offset[1])}


def metric_on(x: Array, y: Array, choice: Choice) -> Array | None:
    """The weights or metric that a choice means for these (samples, latent) rows."""
    if not choice.steps:
        return power_weights(x, choice.power) if choice.power else None
    metric = power_weights(x, choice.power)
    length, ridge = choice.learned_at
    for _ in range(choice.steps):
        metric = learned_metric(x, y, metric, length=length, ridge=ridge, diagonal=choice.diagonal)
    return metric


def _own_unit_weights(inputs: Array) -> Array:
    """1 / s² of each input value over the samples, s its spread: the quadrature that measures it in its own unit."""
    xp = place_of(inputs).xp
    spread = xp.std(inputs, axis=0)
    return 1.0 / xp.where(spread > 0, spread, xp.ones_like(spread)) ** 2


def fit_input_pca(inputs: Array, choice: Choice) -> tuple[PCA, Array]:
    """The input PCA that a choice means, with the latents of the inputs."""
    weights = _own_unit_weights(inputs) if choice.own_units else None
    wanted: float | int = KEPT_ENERGY[0] if choice.modes is None else choice.modes
    pca, x = fit_pca(inputs, wanted, weights=weights, name="inputs")
    if pca.n_components > _MOST_MODES:
        pca, x = fit_pca(inputs, _MOST_MODES, weights=weights, name="inputs")
    return pca, x
