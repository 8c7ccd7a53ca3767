"""The method, stage by stage: from checked parameters and fields to a fitted record.

    PCA of inputs and outputs → weights of the latents → scales, refined if asked → members → what the fit is worth

Every stage works on one frozen record of rows (`pcarann.latent.rows`): latents of the samples, then of their copies
under a symmetry. In the refined variant PCAs, anchors of the loss and initial scales come from the inner samples
alone; they stay when the scales are chosen, and the readouts are then fitted to all samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, place_of, taken
from pcarann.backend.concurrency import single_threaded
from pcarann.backend.progress import Clock, Tick
from pcarann.containers.coding import Recoding
from pcarann.containers.packing import Packing, packed
from pcarann.ensemble.maps import KernelMap, RandomMap
from pcarann.ensemble.mean_and_spread import Ensemble
from pcarann.ensemble.members import fit_members, resolve_ridge
from pcarann.ensemble.pairs import Elsewhere, Pairs
from pcarann.ensemble.residual_spread import FEW_MEMBERS, ResidualSpread, residual_rows
from pcarann.features.column_units import column_weights, hint_at_strangers
from pcarann.features.kernel import KernelFeatures, choose_length
from pcarann.features.posterior import KernelPosterior
from pcarann.features.random_layers import HiddenLayers, anchor_features
from pcarann.features.refine import Refinement, refine_scales
from pcarann.features.relevance import weighting_of
from pcarann.features.scales import energy_matched_scales, gain_scales
from pcarann.features.validation_loss import ValidationLoss
from pcarann.fitted import Fitted
from pcarann.latent.channels import channel_count, channel_sizes, fit_channels
from pcarann.latent.crossfit import LeftOut, folds_of, left_out
from pcarann.latent.pca import PCA, Centred
from pcarann.latent.repeats import joint_groups
from pcarann.latent.rows import LeaveOut, Order, TrainingRows
from pcarann.latent.smoothing import Smoothing
from pcarann.latent.source import Measured, PcaOptions, Source
from pcarann.latent.units import Units
from pcarann.latent.weighting import Weighting
from pcarann.readout.direct import ReadoutReport
from pcarann.settings import USUAL_COMPONENTS, Settings
from pcarann.symmetry.copies import Copies
from pcarann.symmetry.group import Group
from pcarann.uncertainty.fit_report import FitReport
from pcarann.uncertainty.sight import Sight
from pcarann.uncertainty.survey import survey
from pcarann.uncertainty.view import View, constant_channels, view_of
from pcarann.validation import check_fields, check_pair_lengths, check_weights, column_names, required, warn_user

__all__ = ["Grids", "Samples", "checked_pairs", "order_of", "plain_samples", "train"]

_REFINED_ROWS = 6000  # in the validation loss, copies included
_FEWEST_TO_REFINE = 5
_SMALL = 1_000_000  # numbers in a feature matrix that one core handles as fast as several
_FEW_UNSEEN = 100  # samples: with fewer that the PCA has not seen, some are left out of it for the novelty's sake
_JUDGED_ROWS = 1000  # samples, copies included, on which the error is estimated

Watched = tuple[Centred, Array, Array]
"""Centred fields, their Gram matrix and its leading eigenvectors: what a PCA without some samples is made from"""

Grids = tuple[tuple[int, ...], tuple[int, ...]]
"""Shapes of an input and of an output"""


def checked_pairs(X: Any, y: Any, device: str | None, least: int) -> tuple[Array, Array, Grids, Units]:
    """Inputs and outputs, checked, in units in which they can be squared; their grids; the units."""
    place = place_of(X, device).computing
    inputs, input_grid = check_fields(X, "X", place, least=least)
    outputs, output_grid = check_fields(required(y), "y", place, scalar=True, least=least)
    check_pair_lengths(inputs.shape[0], outputs.shape[0])
    units = Units.of(inputs, outputs)
    return *units.divided(inputs, outputs), (input_grid, output_grid), units


@dataclass(frozen=True)
class Samples:
    """The fields that a fit is given, checked, in units in which they can be squared, inputs smoothed."""

    inputs: Array | Source
    """(samples, values)"""
    outputs: Array | Source
    grids: tuple[tuple[int, ...], tuple[int, ...]]
    units: Units
    smoothing: Smoothing
    names: tuple[str, ...] = ()
    """Of the columns, where the inputs have them"""
    groups: Sequence[int] | None = None
    """Label of each sample: those of one group, as snapshots of a trajectory and repeats, are never split"""
    numbers: tuple[int, ...] | None = None
    """Columns that novelty looks at one by one; None for all"""
    parts: Mapping[str, slice] | None = None
    """Values of each output by name, where there are several"""
    fields: tuple[tuple[str, slice], ...] = ()
    """Name and columns of each field that became modes, where inputs were made of parts"""
    recoding: Recoding | None = None
    """Codes of the inputs without some samples, where they were made of parts"""
    elsewhere: Callable[[Array, Array], Elsewhere | None] | None = None
    """Who may take latent pairs to where sums over them are made"""
    looked: float = 0.0
    """Seconds that a first look at fields that are not in memory took"""

    @property
    def place(self) -> Place:
        """Where they are computed with"""
        return self.inputs.place if isinstance(self.inputs, Source) else place_of(self.inputs)


@dataclass(frozen=True)
class _Encoded:
    """Samples as latents."""

    pcas: tuple[PCA, PCA]
    rows: TrainingRows
    copies: Copies
    """Of the inputs"""
    channels: int
    watched: list[Watched]
    own_units: bool
    """Whether the columns of the inputs were given units of their own"""
    measured: list[Measured | None]
    """What is kept of inputs and outputs, where they are not in memory"""


def plain_samples(
    X: Any, y: Any, settings: Settings, together: int, device: str | None
) -> tuple[Settings, Samples, Packing | None]:
    """Settings and samples of a fit to what is in memory, and what to remember of what they were made of."""
    pair = packed(X, y, mesh=settings.fields.mesh, device=device, seed=settings.seed)
    settings = settings.with_packed(pair)
    inputs, outputs, grids, units = checked_pairs(pair.X, pair.y, device, least=2)
    if inputs.shape[0] % together:
        raise ValueError(f"together={together} must divide the number of samples, found {inputs.shape[0]}.")
    smoothing = Smoothing.of(inputs, grids[0], settings.fields.smoothing)
    inputs = smoothing(inputs, grids[0])
    if pair.packing is None and len(grids[0]) == 1:
        hint_at_strangers(inputs)
    names = pair.names or column_names(X, grids[0])
    about = (names, joint_groups(inputs, outputs, together), pair.numbers, pair.parts, pair.fields, pair.recoding)
    samples = Samples(inputs, outputs, grids, units, smoothing, *about)
    return settings, samples, pair.packing


def train(settings: Settings, samples: Samples, tick: Tick) -> Fitted:
    """The whole method, stage by stage."""
    clock = Clock(samples.place, {"first_look": samples.looked} if samples.looked else None)
    group = settings.symmetry.bind(*samples.grids) if settings.symmetry else None
    encoded = _encode(settings, samples, group, tick, clock)
    rows = encoded.rows
    weighting = weighting_of(
        rows, settings.relevance, linear=settings.linear, sizes=lambda: channel_sizes(encoded.pcas[0])
    )
    feature_map, energy_scales, refinement = _feature_map(settings, weighting, rows, samples.units, tick, clock)
    wanted = settings.ridge
    if wanted == "refined":
        wanted = settings.refine.ridge if refinement is None or refinement.ridge is None else refinement.ridge
    pairs = Pairs(rows.x, rows.y, rows.samples, samples.elsewhere and samples.elsewhere(rows.x, rows.y))
    ridge = resolve_ridge(feature_map, pairs, wanted, _distinct(rows))
    judged = rows.judged(_JUDGED_ROWS)
    members, residuals = fit_members(
        feature_map, pairs, n_members=settings.n_members, ridge=ridge, judged=judged, tick=tick
    )
    clock.lap("members")
    report = _report(members[0].report, residuals, samples, encoded)
    pca = encoded.pcas[0]
    folds = _left_out_folds(encoded) if samples.recoding is None else _recoded_folds(encoded, samples, samples.recoding)
    measured = encoded.measured[0]
    constant = constant_channels(samples.inputs, pca.grid) if measured is None else measured.constant
    view = view_of(pca, encoded.channels, folds, samples.names, constant, samples.numbers, samples.fields)
    only_folds = rows.order.grouped or samples.recoding is not None
    novelty_test, edge = survey(view, pca, rows, _look(view, encoded, samples), folds, only_folds)
    clock.lap("novelty")
    averaged = group.subset(settings.symmetry.n_predict, settings.seed) if group and settings.symmetry else (0,)
    ensemble = Ensemble(*encoded.pcas, members, group, averaged).tried(rows.x)
    with single_threaded(samples.place):
        known = _residual_spread(ensemble, residuals, judged, samples, encoded, ridge)
    clock.lap("spread")
    return Fitted(
        replace(ensemble, residual_spread=known),
        rows.x,
        rows.y,
        rows.samples,
        feature_map,
        ridge,
        energy_scales,
        refinement,
        clock.stopped(),
        view=view,
        novelty_test=novelty_test,
        edge=edge,
        report=report,
        pca_samples=rows.order.inner,
        names=samples.names,
        units=samples.units,
        own_units=encoded.own_units,
        smoothing=samples.smoothing,
        copied=encoded.copies.elements,
        channels=settings.fields.channels,
    )


def _encode(settings: Settings, samples: Samples, group: Group | None, tick: Tick, clock: Clock) -> _Encoded:
    """Fit the PCAs of both sides, to the inner samples where scales are refined, and encode all samples."""
    place, grids = samples.place, samples.grids
    order = order_of(settings, int(samples.inputs.shape[0]), samples.groups)
    given = settings.fields.quadrature
    weights = [check_weights(given[i], f"fields.quadrature[{i}]", grids[i], place) for i in (0, 1)]
    own_units = False
    if weights[0] is None and not isinstance(samples.inputs, Source):
        weights[0] = column_weights(samples.inputs, samples.outputs, grids[0])
        own_units = weights[0] is not None
        clock.lap("units")
    channels = channel_count(grids[0], settings.fields.smoothing) if settings.fields.channels else 1
    elements = group.subset(settings.symmetry.n_fit, settings.seed) if group and settings.symmetry else (0,)
    copies = [Copies(group, elements, settings.seed, side) for side in (0, 1)]
    few_unseen = order.grouped or len(order.samples) - order.inner < _FEW_UNSEEN
    few_unseen = few_unseen and samples.recoding is None
    complaints: list[str] = []
    watched: list[Watched] = []
    measured: list[Measured | None] = [None, None]

    def fit_side(side: int) -> tuple[PCA, Array]:
        name, fields = (("inputs", samples.inputs), ("outputs", samples.outputs))[side]
        tick(f"PCA of the {name}", side, 2)
        watch = (lambda *seen: watched.append(seen)) if side == 0 and few_unseen else None
        if isinstance(fields, Source):
            asked = (settings.components[side], grids[side], weights[side], 1 if side else channels)
            pca, latents, measured[side] = fields.encoded(order, PcaOptions(*asked, complaints.append, watch))
            clock.lap(f"{name}_pca")
            return pca, latents
        fit = partial(
            fit_channels,
            1 if side else channels,
            n_components=settings.components[side],
            grid=grids[side],
            weights=weights[side],
            name=name,
            complain=complaints.append,
            **({} if watch is None else {"watch": watch}),
        )
        found = copies[side].fit_pca(fields, order.parts, fit)
        clock.lap(f"{name}_pca")
        return found

    (input_pca, x), (output_pca, y) = fit_side(0), fit_side(1)
    for complaint in complaints:
        if settings.components != USUAL_COMPONENTS or not complaint.startswith("n_components="):
            warn_user(complaint)  # of a number that nobody asked for there is nothing to say
    rows = TrainingRows(x, y, order)
    return _Encoded((input_pca, output_pca), rows, copies[0], channels, watched, own_units, measured)


def order_of(settings: Settings, count: int, groups: Sequence[int] | None) -> Order:
    """Inner samples first where the scales are refined: asked for, meaningful, and with samples enough."""
    if settings.refines and count >= _FEWEST_TO_REFINE:
        return Order.split(count, settings.seed, groups=groups)
    if settings.refines:
        warn_user(
            f"{count} samples are too few to refine the scales ({_FEWEST_TO_REFINE} are needed): "
            "using the energy-matched scales."
        )
    return Order.whole(count, groups=groups)


def _feature_map(
    settings: Settings, weighting: Weighting, rows: TrainingRows, units: Units, tick: Tick, clock: Clock
) -> tuple[RandomMap | KernelMap, tuple[float, float] | None, Refinement | None]:
    """How members are made: scales by energy matching and refinement, or the length of a kernel."""
    if settings.kernel is not None:
        ridge = None if isinstance(settings.ridge, str) else settings.ridge
        x, y = (taken(part, rows.firsts) for part in (rows.x, rows.y))
        length = settings.kernel.length or choose_length(x, y, weighting, ridge)[0]
        clock.lap("kernel_length")
        return KernelMap(settings.seed, length, weighting), None, None
    settings.refuse_too_wide((int(rows.x.shape[1]), int(rows.y.shape[1])), rows.samples)
    layers = HiddenLayers(settings.seed, 0, (int(rows.x.shape[1]), *settings.widths))
    paper = settings.scales == "energy" or settings.refine.start == "energy"
    x, y = rows.inner
    x = weighting.weighted(x)
    energy_scales = scales = energy_matched_scales(layers, x, y if paper else None, units.outputs)
    clock.lap("energy_matching")
    refinement = None
    if settings.gains is not None:
        scales = gain_scales(layers, x, settings.gains)
    elif isinstance(settings.scales, tuple):
        scales = (settings.scales[0] * units.inputs, settings.scales[1])
    elif rows.order.inner < rows.samples:
        refinement = _refined(settings, RandomMap(layers, energy_scales, weighting), rows, tick)
        first, second = (r * math.exp(e) for r, e in zip(energy_scales, refinement.log_offsets, strict=True))
        scales = (first, second)
        clock.lap("refinement")
    return RandomMap(layers, scales, weighting), energy_scales, refinement


def _refined(settings: Settings, start: RandomMap, rows: TrainingRows, tick: Tick) -> Refinement:
    """Refine the scales on member 0, the representative, with anchors from the inner samples."""
    x, y, n_inner = rows.validated(_REFINED_ROWS)
    features, _ = anchor_features(start.layers, x[:n_inner, :], start.scales, start.weighting)
    loss = ValidationLoss.of(features, x, y, n_inner=n_inner, ridge=settings.refine.ridge)
    with single_threaded(place_of(x), when=x.shape[0] * sum(settings.widths) < _SMALL):
        return refine_scales(
            loss,
            start=settings.refine.start,
            with_ridge=settings.ridge == "refined",
            tick=lambda message: tick(message, 0, None),
        )


def _distinct(rows: TrainingRows) -> list[int] | None:
    """Rows of one sample of each group, with their copies; None where no sample is repeated."""
    firsts = rows.firsts
    if len(firsts) == rows.samples:
        return None
    return [row + c * rows.samples for c in range(rows.copies) for row in firsts]


def _left_out_folds(encoded: _Encoded) -> list[list[LeftOut]]:
    """What input PCAs say of samples that they have not seen, channel by channel, where validation samples are few."""
    order = encoded.rows.order
    copied, owners = encoded.copies.sources(order.inner), order.owners
    parts = folds_of([*owners, *(owners[row] for row in copied)], order.inner) if encoded.watched else []
    folds = [[left_out(*seen, fold) for fold in parts] for seen in encoded.watched]
    encoded.watched.clear()  # as large as the fields
    return folds


def _recoded_folds(encoded: _Encoded, samples: Samples, recoding: Recoding) -> list[list[LeftOut]]:
    """What is seen of samples whose fields were coded without them, field by field."""
    order, known, unit = encoded.rows.order, recoding.samples, samples.units.inputs
    row_of = {sample: row for row, sample in enumerate(order.samples)}
    rows = [row_of[sample] for sample in known]
    by_fold = [recoding.without(fold, unit) for fold in folds_of([order.groups[sample] for sample in known])]
    return [
        [replace(one, rows=[rows[i] for i in one.rows], others=[rows[i] for i in one.others]) for one in field]
        for field in zip(*by_fold, strict=True)
    ]


def _look(view: View, encoded: _Encoded, samples: Samples) -> Callable[[slice], Sight]:
    """What is seen of a part of the training inputs."""
    pca, rows, measured = encoded.pcas[0], encoded.rows, encoded.measured[0]

    def look(part: slice) -> Sight:
        x = rows.x[part, :]
        if measured is None:
            return view.sight(pca, rows.order.inner, taken(samples.inputs, rows.order.samples[part]), x)
        columns = measured.firsts[part, :][:, list(view.constant)]
        return view.of_energies(pca, rows.order.inner, measured.energies[part, :], columns, x)

    return look


def _residual_spread(
    ensemble: Ensemble,
    residuals: dict[int, Array],
    judged: Sequence[LeaveOut],
    samples: Samples,
    encoded: _Encoded,
    ridge: float,
) -> ResidualSpread | None:
    """What left-out samples show of the error, where the members show too little of it.

    Where no sample was left out, the deviations of the outputs from their mean stand for residuals: an upper bound.
    """
    features, rows, pca = ensemble.members[0].features, encoded.rows, encoded.pcas[1]
    if len(ensemble.members) > FEW_MEMBERS and not isinstance(features, KernelFeatures):
        return None
    known = residual_rows(sorted(residuals) or list(range(rows.samples)), len(ensemble.averaged))
    if isinstance(samples.outputs, Source):
        known = known[: samples.outputs.most_rows]
    which, y = [rows.order.samples[row] for row in known], taken(rows.y, known)
    truth = samples.outputs.rows(which) if isinstance(samples.outputs, Source) else taken(samples.outputs, which)
    latents = place_of(y).xp.stack([residuals[row] for row in known]) if residuals else y
    # What modes leave of fields that they were fitted to is less than what they leave of others.
    inner, modes = rows.order.inner, pca.n_components
    seen = [(inner / max(1, inner - 1 - modes)) ** 0.5 if row < inner else 1.0 for row in known]
    missed = latents @ pca.modes + (truth - pca.decode(y)) * samples.place.put(np.asarray(seen))[:, None]
    posterior = None
    if isinstance(features, KernelFeatures):
        groups = [one.rows for one in judged if one.rows[0] in residuals]
        posterior = KernelPosterior.of(rows.x, features.length, features.weighting, ridge, groups)
    return ResidualSpread.of(missed, posterior, ensemble.group, ensemble.averaged)


def _report(
    readout: ReadoutReport, residuals: dict[int, Array], samples: Samples, encoded: _Encoded
) -> FitReport | None:
    if not residuals:
        return None
    rows, pca, measured, judged = encoded.rows, encoded.pcas[1], encoded.measured[1], sorted(residuals)
    missed = place_of(rows.y).xp.stack([residuals[row] for row in judged])
    y = taken(rows.y, judged)
    groups = [rows.order.groups[rows.order.samples[row]] for row in judged]
    if measured is None:
        truth = taken(samples.outputs, [rows.order.samples[row] for row in judged])
        return FitReport.of(missed, truth, y, pca, readout, samples.parts, groups)
    energies, sizes = taken(measured.energies, judged)[:, 0], taken(measured.sizes[:, None], judged)[:, 0]
    outside = place_of(y).xp.clip(energies - place_of(y).xp.sum(y**2, axis=1), min=0.0)
    found = FitReport.of_sizes(missed, outside, sizes, y, readout, groups)
    if not samples.parts or not isinstance(samples.outputs, Source):
        return found
    some = slice(0, samples.outputs.most_rows)
    truth = samples.outputs.rows([rows.order.samples[row] for row in judged[some]])
    return replace(found, parts=FitReport.of(missed[some, :], truth, y[some, :], pca, readout, samples.parts).parts)
