"""The method, stage by stage: from checked parameters and fields to a fitted record.

    PCA of inputs and outputs → energy-matched scales → refinement, if asked → members

In the refined variant the samples are split at random, 80/20. PCAs, anchors of the loss and initial scales come from
the inner part alone; they stay when the scales are chosen, and the readouts are then fitted to all samples.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pcarann.backend.arrays import Array, Place, cuts, place_of, taken
from pcarann.backend.concurrency import concurrently, single_threaded
from pcarann.backend.random import permutation, spread
from pcarann.ensemble.members import Ensemble, KernelMap, RandomMap, Tick, fit_members, resolve_ridge
from pcarann.features.column_units import column_weights
from pcarann.features.kernel import choose_length
from pcarann.features.random_layers import HiddenLayers, anchor_features
from pcarann.features.refine import Refinement, ValidationLoss, refine_scales
from pcarann.features.relevance import channel_weights, learned_metric, power_weights, whitening
from pcarann.features.scales import energy_matched_scales, gain_scales
from pcarann.fitted import Fitted
from pcarann.latent.channels import channel_sizes, fit_channels
from pcarann.latent.crossfit import LeftOut, folds_of, left_out
from pcarann.latent.pca import PCA, Centred
from pcarann.latent.units import Units
from pcarann.latent.weighting import Weighting
from pcarann.readout.direct import ReadoutReport
from pcarann.settings import Settings
from pcarann.symmetry.group import Group
from pcarann.uncertainty.fit_report import FitReport
from pcarann.uncertainty.survey import surveyed, view_of
from pcarann.validation import check_weights

__all__ = ["train"]

INNER_SHARE = 0.8
_SPLIT_STREAM, _COPIES_STREAM = (-3,), (-4,)
_COPIED_ROWS = 256  # fields at a time, so that no copy of all fields is made
_REFINED_ROWS = 6000  # in the validation loss, copies included
_METRIC_ROWS = 3000  # from which a metric is learned, at most
_FEWEST_TO_REFINE = 5
_SMALL = 1_000_000  # numbers in a feature matrix that one core handles as fast as several
_FEW_UNSEEN = 100  # samples: with fewer that the PCA has not seen, some are left out of it for the novelty's sake
_JUDGED_ROWS = 100  # samples, copies included, on which a fit is judged


class _Clock:
    """Seconds by stage."""

    def __init__(self, place: Place):
        self.place = place
        self.seconds: dict[str, float] = {}
        self.begun = self.last = time.perf_counter()

    def lap(self, stage: str, since: float | None = None) -> None:
        """Note the seconds since the stage before, or since its own beginning where stages overlap."""
        self.place.wait()
        now = time.perf_counter()
        self.seconds[stage], self.last = now - (self.last if since is None else since), now

    def stopped(self) -> dict[str, float]:
        return self.seconds | {"total": self.last - self.begun}


def train(
    settings: Settings,
    inputs: Array,
    outputs: Array,
    grids: tuple[tuple[int, ...], tuple[int, ...]],
    tick: Tick,
    names: Sequence[str] = (),
    units: Units = Units(),  # noqa: B008
    together: int = 1,
) -> Fitted:
    """The whole method, stage by stage, for fields that were divided by these units.

    So many samples in a row belong `together`, as the snapshots of a trajectory do.
    """
    place = place_of(inputs)
    clock = _Clock(place)
    group = settings.symmetry.bind(*grids) if settings.symmetry else None
    refine = _refines(settings, int(inputs.shape[0]))
    inner = _inner_samples(int(inputs.shape[0]), settings.seed, together) if refine else None
    samples, count = int(inputs.shape[0]), len(inner[0]) if inner else int(inputs.shape[0])
    complaints: list[str] = []
    watched: list[tuple[Centred, Array, Array]] = []
    weights = [check_weights(settings.quadrature[side], f"quadrature[{side}]", grids[side], place) for side in (0, 1)]
    own_units = weights[0] is None
    if own_units:
        weights[0] = column_weights(inputs, outputs, grids[0])
        own_units = weights[0] is not None
        clock.lap("units")
    channels = _channel_count(grids[0], settings.smoothing) if settings.channels else 1

    def fit_side(side: int) -> tuple[PCA, Array]:
        name, fields = (("inputs", inputs), ("outputs", outputs))[side]
        tick(f"PCA of the {name}", side, 2)
        fit = partial(
            fit_channels,
            1 if side else channels,
            n_components=settings.components[side],
            grid=grids[side],
            weights=weights[side],
            name=name,
            complain=complaints.append,
            **({} if side else {"watch": lambda *seen: watched.append(seen)}),
        )
        begun = None if place.on_host else time.perf_counter()
        found = _fit_pca_on(fields, inner, Copies.of(group, settings, side), fit)
        clock.lap(f"{name}_pca", begun)
        return found

    # A GPU does both at a time: their decompositions are long chains of small kernels.
    larger = 8 * max(math.prod(inputs.shape), math.prod(outputs.shape))
    sides = map(fit_side, (0, 1)) if place.on_host else concurrently(fit_side, (0, 1), place=place, bytes_each=larger)
    pcas, latents = zip(*sides, strict=True)
    for complaint in complaints:
        warnings.warn(complaint, stacklevel=4)  # where the user called fit
    x, y = latents
    weighting = _latent(settings, pcas[0], x, y, samples, count)
    feature_map, energy_scales, refinement = _feature_map(settings, weighting, x, y, samples, count, clock, tick, units)
    wanted = settings.ridge
    if wanted == "refined":
        wanted = settings.refine_ridge if refinement is None or refinement.ridge is None else refinement.ridge
    ridge = resolve_ridge(feature_map, x, y, originals=samples, ridge=wanted)
    order = list(range(samples)) if inner is None else [*inner[0], *inner[1]]
    most = None if settings.regressor == "kernel" else _JUDGED_ROWS
    judged = _judged(order, count, int(x.shape[0]) // samples, together, most)
    members, residuals = fit_members(
        feature_map, x, y, originals=samples, n_members=settings.n_members, ridge=ridge, judged=judged, tick=tick
    )
    clock.lap("members")
    report = _report(members[0].report, residuals, outputs, y, pcas[1], order)
    averaged = (
        (0,) if group is None or settings.symmetry is None else group.subset(settings.symmetry.n_predict, settings.seed)
    )
    folds: list[list[LeftOut]] = []
    if together > 1 or samples - count < _FEW_UNSEEN:
        copied = Copies.of(group, settings, 0).sources(count)
        owners = [row // together for row in order[:count]]
        parts = folds_of([*owners, *(owners[row] for row in copied)], count)
        folds = [[left_out(*seen, fold) for fold in parts] for seen in watched]
    watched.clear()
    fitted = Fitted(
        Ensemble(pcas[0], pcas[1], members, group, averaged),
        x,
        y,
        samples,
        feature_map,
        ridge,
        energy_scales,
        refinement,
        {},
        view=view_of(pcas[0], channels, folds, names, inputs),
        novelty_test=None,
        edge=None,
        report=report,
        pca_samples=count,
        names=tuple(names),
        units=units,
        own_units=own_units,
        copied=Copies.of(group, settings, 0).elements,
        channels=settings.channels,
    )
    # What belongs to samples that the PCA has seen is no news to it.
    fitted = surveyed(fitted, inputs, order, folds, unseen=together == 1)
    clock.lap("novelty")
    return replace(fitted, seconds=clock.stopped())


def _judged(order: list[int], inner: int, copies: int, together: int, most: int | None) -> list[list[int]]:
    """Rows of some samples, of all that belong together with them, and of their copies, the sample's own row first.

    They are samples that the PCAs have not seen, where such are there, and have `most` rows in all, where given.
    """
    samples = len(order)
    candidates = range(inner, samples) if inner < samples else range(samples)
    count = len(candidates) if most is None else max(1, most // (copies * together))
    some = [candidates[i] for i in spread(len(candidates), count)]
    kin: dict[int, list[int]] = {}
    for row, sample in enumerate(order if together > 1 else ()):
        kin.setdefault(sample // together, []).append(row)
    groups = [[row, *(k for k in kin.get(order[row] // together, ()) if k != row)] for row in some]
    return [[row + c * samples for c in range(copies) for row in group] for group in groups]


def _report(
    readout: ReadoutReport, residuals: dict[int, Array], outputs: Array, y: Array, pca: PCA, order: list[int]
) -> FitReport | None:
    if not residuals:
        return None
    rows = sorted(residuals)
    missed = place_of(y).xp.stack([residuals[row] for row in rows])
    return FitReport.of(missed, taken(outputs, [order[row] for row in rows]), taken(y, rows), pca, readout)


def _channel_count(grid: tuple[int, ...], smoothing: float) -> int:
    """Channels of an input grid, or a refusal."""
    if smoothing and len(grid) == 2:
        raise ValueError(
            "smoothing runs along the last two axes of the inputs, one of which counts channels here: leave it at 0."
        )
    if len(grid) < 2:
        shape = ("samples", *grid)
        raise ValueError(
            f"channels=True needs inputs of shape (samples, channels, *grid), found ({', '.join(map(str, shape))}): "
            "they have no channels."
        )
    return grid[0]


def _refines(settings: Settings, samples: int) -> bool:
    """Whether the scales are refined: asked for, meaningful, and with samples enough."""
    if settings.scales != "refined" or settings.regressor == "kernel" or samples >= _FEWEST_TO_REFINE:
        return settings.scales == "refined" and settings.regressor != "kernel"
    warnings.warn(
        f"{samples} samples are too few to refine the scales ({_FEWEST_TO_REFINE} are needed): "
        "using the energy-matched scales.",
        stacklevel=5,
    )
    return False


@dataclass(frozen=True)
class Copies:
    """How the fields of one side move under the elements that are used in the fit."""

    move: Callable[[Array, int], Array]
    elements: tuple[int, ...]
    """The identity first"""
    seed: int

    @classmethod
    def of(cls, group: Group | None, settings: Settings, side: int) -> Copies:
        if group is None or settings.symmetry is None:
            return cls(lambda fields, element: fields, (0,), settings.seed)
        moves = (group.move_inputs, group.move_outputs)
        return cls(moves[side], group.subset(settings.symmetry.n_fit, settings.seed), settings.seed)

    def sources(self, samples: int) -> list[int]:
        """Which of so many fields those are that `with_moved` adds, in its order."""
        if len(self.elements) == 1:
            return []
        order = permutation(samples, seed=self.seed, stream=_COPIES_STREAM)
        return [row for i in range(len(self.elements)) for row in order[i :: len(self.elements)]]

    def with_moved(self, fields: Array) -> Array:
        """The fields, and each once more moved by a random element: their covariance is that of all copies."""
        if len(self.elements) == 1:
            return fields
        place = place_of(fields)
        order = permutation(int(fields.shape[0]), seed=self.seed, stream=_COPIES_STREAM)
        parts = [fields]
        for i, element in enumerate(self.elements):
            rows = place.xp.asarray(order[i :: len(self.elements)], dtype=place.xp.int64, device=place.device)
            parts.append(self.move(place.xp.take(fields, rows, axis=0), element))
        return place.xp.concat(parts, axis=0)

    def encode(self, pca: PCA, fields: Array, among: Array | None, element: int) -> Array:
        """Latents of fields, or of those at the indices `among`, moved by an element."""
        xp = place_of(fields).xp
        count = fields.shape[0] if among is None else among.shape[0]
        parts = cuts(count, _COPIED_ROWS)
        chosen = (fields[part, :] if among is None else xp.take(fields, among[part], axis=0) for part in parts)
        return xp.concat([pca.encode(self.move(rows, element)) for rows in chosen], axis=0)


def _latent(settings: Settings, pca: PCA, x: Array, y: Array, samples: int, count: int) -> Weighting:
    """Relevance and linear term, from the inner samples and, for a learned metric, their copies."""
    inner = x[:count, :]
    linear = whitening(inner) if settings.linear else None
    if isinstance(settings.relevance, str):
        rows = _spread_rows(x.shape[0] // samples, samples, count, place_of(x))
        learned_from = (place_of(x).xp.take(part, rows, axis=0) for part in (x, y))
        if settings.relevance == "channels":
            return Weighting(channel_weights(*learned_from, sizes=channel_sizes(pca)), linear)
        return Weighting(_learned(*learned_from), linear)
    return Weighting(_relevance(settings.relevance, inner), linear)


def _spread_rows(copies: int, samples: int, count: int, place: Place) -> Array:
    """Rows of inner samples, spread over all copies, as many as a metric is learned from."""
    each = min(copies, max(1, _METRIC_ROWS // count))
    some = spread(count, _METRIC_ROWS)
    rows = [((i + c * copies // each) % copies) * samples + i for c in range(each) for i in some]
    return place.xp.asarray(rows, device=place.device)


def _learned(x: Array, y: Array) -> Array:
    metric = power_weights(x, 0.0)
    length, ridge, _ = choose_length(x, y, Weighting(metric))
    return learned_metric(x, y, metric, length=length, ridge=ridge)


def _relevance(wanted: Any, x: Array) -> Array | None:
    if isinstance(wanted, float):
        return power_weights(x, wanted) if wanted else None
    if wanted.shape not in ((x.shape[1],), (x.shape[1], x.shape[1])):
        raise ValueError(
            f"relevance has shape {wanted.shape}, but the inputs have {x.shape[1]} latents: "
            f"({x.shape[1]},) or ({x.shape[1]}, {x.shape[1]}) fits."
        )
    return place_of(x).put(wanted.copy())


def _feature_map(
    settings: Settings,
    weighting: Weighting,
    x: Array,
    y: Array,
    samples: int,
    count: int,
    clock: _Clock,
    tick: Tick,
    units: Units,
) -> tuple[RandomMap | KernelMap, tuple[float, float] | None, Refinement | None]:
    """How members are made: scales by energy matching and refinement, or the length of a kernel."""
    if settings.regressor == "kernel":
        ridge = None if isinstance(settings.ridge, str) else settings.ridge
        length = settings.length or choose_length(x[:samples, :], y[:samples, :], weighting, ridge)[0]
        clock.lap("kernel_length")
        return KernelMap(settings.seed, length, weighting), None, None
    layers = HiddenLayers(settings.seed, 0, (int(x.shape[1]), *settings.widths))
    paper = settings.scales == "energy" or settings.refine_start == "energy"
    inner = weighting.weighted(x[:count, :])
    energy_scales = energy_matched_scales(layers, inner, y[:count, :] if paper else None, units.outputs)
    clock.lap("energy_matching")
    scales = energy_scales
    if settings.gains is not None:
        scales = gain_scales(layers, inner, settings.gains)
    elif isinstance(settings.scales, tuple):
        scales = (settings.scales[0] * units.inputs, settings.scales[1])
    refinement = None
    if count < samples:
        rows = _refinement_rows(x, y, samples, count)
        refinement = _refine(settings, layers, weighting, *rows, energy_scales, tick)
        scales = _offset(energy_scales, refinement.log_offsets)
        clock.lap("refinement")
    return RandomMap(layers, scales, weighting), energy_scales, refinement


def _refinement_rows(x: Array, y: Array, samples: int, count: int) -> tuple[Array, Array, int]:
    """Rows of the validation loss: inner samples with some of their copies, then validation samples as they are."""
    xp = place_of(x).xp
    copies = min(x.shape[0] // samples, max(1, _REFINED_ROWS // count))
    inner = [slice(g * samples, g * samples + count) for g in range(copies)]
    parts = [*inner, slice(count, samples)]
    both = (xp.concat([rows[part, :] for part in parts], axis=0) for rows in (x, y))
    return *both, copies * count


def _inner_samples(n: int, seed: int, together: int = 1) -> tuple[list[int], list[int]]:
    """Split the samples at random: inner training subset, validation subset; what belongs together stays together."""
    if n < 2 * together:
        together = 1
    order = permutation(n // together, seed=seed, stream=_SPLIT_STREAM)
    whole = [sample * together + i for sample in order for i in range(together)]
    count = _inner_count(n // together) * together
    return sorted(whole[:count]), sorted(whole[count:])


def _inner_count(n: int) -> int:
    return min(round(INNER_SHARE * n), n - 1)


def _fit_pca_on(
    fields: Array,
    inner: tuple[list[int], list[int]] | None,
    orbit: Copies,
    fit: Callable[..., tuple[PCA, Array]],
) -> tuple[PCA, Array]:
    """Fit the PCA to all fields, or to the inner ones; return it with all latents: inner, validation, copies."""
    xp = place_of(fields).xp
    sets = [None] if inner is None else [xp.asarray(rows, device=place_of(fields).device) for rows in inner]
    if len(orbit.elements) == 1:
        pca, codes = fit(fields=fields, among=sets[0])
    else:
        chosen = fields if sets[0] is None else xp.take(fields, sets[0], axis=0)
        among = orbit.with_moved(chosen)
        pca, codes = fit(fields=among)
        # Energies are those of the samples: the fields that were added stand for the same ones.
        share = chosen.shape[0] / among.shape[0]
        pca = replace(pca, energy=share * pca.energy, singular_values=math.sqrt(share) * pca.singular_values)
        codes = codes[: chosen.shape[0], :]
    latents = [codes, *(orbit.encode(pca, fields, rows, 0) for rows in sets[1:])]
    latents.extend(orbit.encode(pca, fields, rows, element) for element in orbit.elements[1:] for rows in sets)
    return pca, xp.concat(latents, axis=0) if len(latents) > 1 else latents[0]


def _refine(
    settings: Settings,
    layers: HiddenLayers,
    weighting: Weighting,
    x: Array,
    y: Array,
    n_inner: int,
    energy_scales: tuple[float, float],
    tick: Tick,
) -> Refinement:
    """Refine the scales on member 0, the representative, with anchors from the inner samples."""
    features, _ = anchor_features(layers, x[:n_inner, :], energy_scales, weighting)
    with single_threaded(place_of(x), when=x.shape[0] * sum(settings.widths) < _SMALL):
        return refine_scales(
            ValidationLoss.of(features, x, y, n_inner=n_inner, ridge=settings.refine_ridge),
            start=settings.refine_start,
            with_ridge=settings.ridge == "refined",
            tick=lambda message: tick(message, 0, None),
        )


def _offset(scales: tuple[float, float], eta: tuple[float, float]) -> tuple[float, float]:
    return scales[0] * math.exp(eta[0]), scales[1] * math.exp(eta[1])
