"""One setting of the estimator as `auto` chooses it, and what it means for the samples at hand."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any

from pcarann.arrays import Array, place_of, to_host
from pcarann.features import HiddenLayers, Latent
from pcarann.pca import PCA, fit_pca
from pcarann.relevance import learned_metric, power_weights
from pcarann.scales import energy_matched_scales
from pcarann.smoothing import Smoothing

__all__ = ["KEPT_ENERGY", "AutoReport", "Choice", "chosen_parameters", "fit_input_pca", "metric_on"]

KEPT_ENERGY = (1 - 1e-9, 1 - 1e-10)
"""Shares of the energy of inputs and outputs that their modes hold"""
_MOST_MODES = 400
_METRIC_ROWS = 4000  # samples at most from which the metric is learned


@dataclass(frozen=True)
class Choice:
    """One setting of the estimator."""

    unit: bool = False
    """Whether each input value is measured in units of its own spread"""
    smoothing: float = 0.0
    modes: int | None = None
    """Input modes that are kept; None for all"""
    power: float = 0.0
    steps: int = 0
    """Learning steps of the metric"""
    diagonal: bool = False
    """Whether the learned metric has one weight for each latent"""
    learned_at: tuple[float, float] = (4.0, 1e-10)
    """Length and ridge of the kernel from which the metric is learned"""
    linear: bool = False
    regressor: str = "kernel"
    length: float = 4.0
    ridge: float = 1e-10
    offsets: tuple[float, float] = (0.0, 0.0)
    """Of the scales of random layers, η"""
    widths: tuple[int, int] = (0, 0)
    symmetry: bool = False


@dataclass
class AutoReport:
    """What was tried, what it gave, and what was chosen."""

    trials: list[tuple[str, float]] = field(default_factory=list)
    """Each trial with its validation error"""
    choice: Choice = field(default_factory=Choice)
    error: float = math.inf
    """Validation error of the choice"""
    seconds: float = 0.0
    stopped: bool = False
    """Whether the budget ended the search"""

    def __str__(self) -> str:
        chosen = self.choice
        lines = [f"{len(self.trials)} settings tried in {self.seconds:.1f} s; validation error {self.error:.3g} with"]
        kernel = f"a kernel of length {chosen.length:g} medians"
        layers = f"random layers of {chosen.widths[0]} and {chosen.widths[1]} neurons"
        lines.append(f"  regressor  {kernel if chosen.regressor == 'kernel' else layers}, ridge {chosen.ridge:.0e}")
        lines.append(
            f"  inputs     {'all modes' if chosen.modes is None else f'{chosen.modes} modes'}, {_metric(chosen)}"
        )
        if chosen.unit:
            lines.append("  units      each input value in units of its own spread")
        if chosen.smoothing:
            lines.append(f"  smoothing  of the inputs by {chosen.smoothing:g} of their axes")
        lines.append(f"  linear     {'with' if chosen.linear else 'without'} a linear term")
        if any(text.startswith("symmetry") for text, _ in self.trials):
            lines.append(f"  symmetry   {'used' if chosen.symmetry else 'not used: it raised the error'}")
        if self.stopped:
            lines.append("  The budget ended the search: a larger one may find better.")
        return "\n".join(lines)


def _metric(chosen: Choice) -> str:
    if chosen.steps:
        return f"{'weights' if chosen.diagonal else 'a metric'} learned in {chosen.steps} step(s)"
    return f"latents weighted by their spread to the power {-chosen.power:g}" if chosen.power else "latents as they are"


def chosen_parameters(choice: Choice, inputs: Array, outputs: Array, grid: tuple[int, ...]) -> dict[str, Any]:
    """Parameters of the estimator that a choice means for these samples."""
    fields = Smoothing.of(inputs, grid, choice.smoothing)(inputs, grid)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="n_components=.* was asked for")
        pca, x = fit_input_pca(fields, choice)
        _, y = fit_pca(outputs, KEPT_ENERGY[1], name="outputs")
    rows = slice(0, min(_METRIC_ROWS, int(x.shape[0])))
    metric = metric_on(x[rows, :], y[rows, :], choice) if choice.steps else None
    made: dict[str, Any] = {
        "n_components": (pca.n_components, KEPT_ENERGY[1]),
        "regressor": choice.regressor,
        "ridge": choice.ridge,
        "linear": choice.linear,
        "relevance": choice.power if metric is None else "learned" if choice.symmetry else to_host(metric),
        "smoothing": choice.smoothing,
    }
    if choice.unit:
        made["quadrature"] = (to_host(_unit_weights(fields)).reshape(grid), None)
    if choice.regressor == "kernel":
        return made | {"length": choice.length}
    layers = HiddenLayers(0, 0, (pca.n_components, *choice.widths))
    weights = metric_on(x, y, choice) if metric is None else metric
    scales = energy_matched_scales(layers, Latent(weights).weighted(x), y)
    offset = [scale * math.exp(eta) for scale, eta in zip(scales, choice.offsets, strict=True)]
    return made | {"widths": choice.widths, "scales": (offset[0], offset[1])}


def metric_on(x: Array, y: Array, choice: Choice) -> Array | None:
    """The weights or metric that a choice means for these (samples, latent) rows."""
    if not choice.steps:
        return power_weights(x, choice.power) if choice.power else None
    metric = power_weights(x, choice.power)
    length, ridge = choice.learned_at
    for _ in range(choice.steps):
        metric = learned_metric(x, y, metric, length=length, ridge=ridge, diagonal=choice.diagonal)
    return metric


def _unit_weights(inputs: Array) -> Array:
    """1 / s² of each input value over the samples, s its spread: the quadrature that measures it in its own unit."""
    xp = place_of(inputs).xp
    spread = xp.std(inputs, axis=0)
    return 1.0 / xp.where(spread > 0, spread, xp.ones_like(spread)) ** 2


def fit_input_pca(inputs: Array, choice: Choice) -> tuple[PCA, Array]:
    """The input PCA that a choice means, with the latents of the inputs."""
    weights = _unit_weights(inputs) if choice.unit else None
    wanted: float | int = KEPT_ENERGY[0] if choice.modes is None else choice.modes
    pca, x = fit_pca(inputs, wanted, weights=weights, name="inputs")
    if pca.n_components > _MOST_MODES:
        pca, x = fit_pca(inputs, _MOST_MODES, weights=weights, name="inputs")
    return pca, x
