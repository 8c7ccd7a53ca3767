"""The method, stage by stage: from checked parameters and fields to a fitted record.

    PCA of inputs and outputs → energy-matched scales → refinement, if asked → members

In the refined variant the samples are split at random, 80/20. PCAs, anchors of the loss and initial scales come from
the inner part alone; they stay when the scales are chosen, and the readouts are then fitted to all samples.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pcarann.arrays import Array, Place, place_of, single_threaded
from pcarann.conformal import Calibration
from pcarann.ensemble import Ensemble, Tick, fit_members
from pcarann.features import HiddenLayers, anchor_features
from pcarann.novelty import Reach
from pcarann.online import Adaptation, Start
from pcarann.pca import PCA, fit_pca
from pcarann.random import permutation
from pcarann.refine import Refinement, ValidationLoss, refine_scales
from pcarann.scales import energy_matched_scales
from pcarann.validation import (
    check_choice,
    check_components,
    check_count,
    check_number,
    check_seed,
    check_weights,
)

__all__ = ["Fitted", "Settings", "train"]

INNER_SHARE = 0.8
_SPLIT_STREAM = (-3,)
_FEWEST_TO_REFINE = 5
_SMALL = 1_000_000  # numbers in a feature matrix that one core handles as fast as several


@dataclass(frozen=True)
class Fitted:
    """All that a fit found. Replaced as a whole, never edited."""

    ensemble: Ensemble
    x: Array
    """Latents of the training inputs, (samples, latent)"""
    y: Array
    """Latents of the training outputs, (samples, latent)"""
    energy_scales: tuple[float, float]
    refinement: Refinement | None
    seconds: dict[str, float]
    reach: Reach
    adaptation: Adaptation | None = None
    n_adapted: int = 0
    calibration: Calibration | None = None
    stale: bool = False
    """Whether the model was adapted after its last calibration"""


@dataclass(frozen=True)
class Settings:
    """The estimator's parameters, checked."""

    components: tuple[int | float, int | float]
    widths: tuple[int, int]
    n_members: int
    scales: Literal["refined", "energy"] | tuple[float, float]
    ridge: float
    refine_ridge: float
    refine_start: Literal["scan", "energy"]
    adapt_ridge: float
    adapt_start: Start
    forgetting: float
    quadrature: tuple[Any, Any]
    seed: int

    @classmethod
    def of(cls, model: Any) -> Settings:
        """Check every parameter, or refuse in one sentence."""
        widths, scales, quadrature = model.widths, model.scales, model.quadrature
        if not isinstance(widths, tuple | list | np.ndarray) or len(widths) != 2:
            raise ValueError(f"widths must be a pair (n₁, n₂), got {widths!r}.")
        if isinstance(scales, tuple | list | np.ndarray) and len(scales) == 2:
            scales = (check_number(scales[0], "scales", above=0), check_number(scales[1], "scales", above=0))
        elif not isinstance(scales, str) or scales not in ("refined", "energy"):
            raise ValueError(f"scales must be 'refined', 'energy' or a pair (r₁, r₂), got {scales!r}.")
        if quadrature is not None and (not isinstance(quadrature, tuple | list) or len(quadrature) != 2):
            raise ValueError("quadrature must be None or a pair (input weights, output weights).")
        return cls(
            components=check_components(model.n_components),
            widths=(check_count(widths[0], "widths"), check_count(widths[1], "widths")),
            n_members=check_count(model.n_members, "n_members"),
            scales=scales,
            ridge=check_number(model.ridge, "ridge", least=0.0),
            refine_ridge=check_number(model.refine_ridge, "refine_ridge", above=0.0),
            refine_start=check_choice(model.refine_start, "refine_start", ("scan", "energy")),
            adapt_ridge=check_number(model.adapt_ridge, "adapt_ridge", above=0.0),
            adapt_start=check_choice(model.adapt_start, "adapt_start", ("least-squares", "ridge")),
            forgetting=check_number(model.forgetting, "forgetting", above=0.0, most=1.0),
            quadrature=(None, None) if quadrature is None else (quadrature[0], quadrature[1]),
            seed=check_seed(model.random_state),
        )


class _Clock:
    """Seconds by stage."""

    def __init__(self, place: Place):
        self.place = place
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, stage: str) -> None:
        self.place.wait()
        now = time.perf_counter()
        self.seconds[stage], self.last = now - self.last, now


def train(
    settings: Settings,
    inputs: Array,
    outputs: Array,
    grids: tuple[tuple[int, ...], tuple[int, ...]],
    tick: Tick,
) -> Fitted:
    """The whole method, stage by stage."""
    place = place_of(inputs)
    clock = _Clock(place)
    refine = settings.scales == "refined"
    if refine and inputs.shape[0] < _FEWEST_TO_REFINE:
        warnings.warn(
            f"{inputs.shape[0]} samples are too few to refine the scales ({_FEWEST_TO_REFINE} are needed): "
            "using the energy-matched scales.",
            stacklevel=3,
        )
        refine = False
    inner = _inner_samples(inputs.shape[0], settings.seed) if refine else None
    pcas, latents = [], []
    for fields, side in ((inputs, 0), (outputs, 1)):
        name = ("inputs", "outputs")[side]
        tick(f"PCA of the {name}", side, 2)
        weights = check_weights(settings.quadrature[side], f"quadrature[{side}]", grids[side], place)
        pca, codes = _fit_pca_on(fields, inner, settings.components[side], grids[side], weights, name)
        pcas.append(pca)
        latents.append(codes)
        clock.lap(f"{name}_pca")
    x, y = latents
    layers = HiddenLayers(settings.seed, 0, (pcas[0].n_components, *settings.widths))
    count = len(inner[0]) if inner else x.shape[0]
    energy_scales = energy_matched_scales(layers, x[:count, :], y[:count, :])
    clock.lap("energy_matching")
    refinement = None
    scales = energy_scales if isinstance(settings.scales, str) else settings.scales
    if refine:
        refinement = _refine(settings, layers, x, y, count, energy_scales, tick)
        scales = _offset(energy_scales, refinement.log_offsets)
        clock.lap("refinement")
    members = fit_members(layers, x, y, scales, n_members=settings.n_members, ridge=settings.ridge, tick=tick)
    clock.lap("members")
    clock.seconds["total"] = sum(clock.seconds.values())
    return Fitted(
        Ensemble(pcas[0], pcas[1], members),
        x,
        y,
        energy_scales,
        refinement,
        clock.seconds,
        Reach.of(pcas[0], inputs, x, range(x.shape[0]) if inner is None else [*inner[0], *inner[1]]),
    )


def _inner_samples(n: int, seed: int) -> tuple[list[int], list[int]]:
    """Split the samples at random: inner training subset, validation subset."""
    order = permutation(n, seed=seed, stream=_SPLIT_STREAM)
    count = min(round(INNER_SHARE * n), n - 1)
    return sorted(order[:count]), sorted(order[count:])


def _fit_pca_on(
    fields: Array,
    inner: tuple[list[int], list[int]] | None,
    n_components: int | float,
    grid: tuple[int, ...],
    weights: Array | None,
    name: str,
) -> tuple[PCA, Array]:
    """Fit the PCA to all fields, or to the inner ones alone; return it with all latents, inner rows first."""
    if inner is None:
        return fit_pca(fields, n_components, grid=grid, weights=weights, name=name)
    place = place_of(fields)
    rows = [place.xp.asarray(index, device=place.device) for index in inner]
    pca, codes = fit_pca(place.xp.take(fields, rows[0], axis=0), n_components, grid=grid, weights=weights, name=name)
    others = pca.encode(place.xp.take(fields, rows[1], axis=0))
    return pca, place.xp.concat([codes, others], axis=0)


def _refine(
    settings: Settings,
    layers: HiddenLayers,
    x: Array,
    y: Array,
    n_inner: int,
    energy_scales: tuple[float, float],
    tick: Tick,
) -> Refinement:
    """Refine the scales on member 0, the representative, with anchors from the inner samples."""
    features, _ = anchor_features(layers, x[:n_inner, :], energy_scales)
    loss = ValidationLoss.of(features, x, y, n_inner=n_inner, ridge=settings.refine_ridge)
    with single_threaded(place_of(x), when=x.shape[0] * sum(settings.widths) < _SMALL):
        return refine_scales(loss, start=settings.refine_start, tick=lambda message: tick(message, 0, None))


def _offset(scales: tuple[float, float], eta: tuple[float, float]) -> tuple[float, float]:
    return scales[0] * math.exp(eta[0]), scales[1] * math.exp(eta[1])
