"""Stages that see space on a sheet: û ← û + T⁻¹[ Σⱼ V(j, k) · (T hⱼ)(k) ], averaged over the moves of a symmetry.

Moves, axes that are not in the order of the array, points that repeat and inputs that lack axes are all gathers: what a
layout makes of the numbers 1, 2, … says which value goes where. The constant feature gives a constant correction, which
is added as such. All of it is done in double precision: where a model computes its features in single, a graph is what
the model would be in double, and differs from it by the rounding of the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.ensemble.residual_spread import ResidualSpread
from pcarann.export.graph import Sheet, Value
from pcarann.export.latent_model import write_latent_model
from pcarann.export.space import GridOnSheet, MeshOnSheet, space_on_sheet
from pcarann.export.terms import write_terms
from pcarann.export.written import Written
from pcarann.fitted import Fitted
from pcarann.spatial.channels import Entry, Sight
from pcarann.spatial.features import WIDTHS, Features
from pcarann.spatial.fitted import DRAWN, FittedStages
from pcarann.spatial.layout import Layout
from pcarann.spatial.stage import Scene, Stage

__all__ = ["StagesOnSheet", "write_stages"]

Values = np.ndarray[Any, np.dtype[Any]]


def write_stages(sheet: Sheet, fitted: FittedStages, inputs: Value) -> Written:
    """The prediction of a record for (samples, values) inputs in the user's units."""
    stages = StagesOnSheet(sheet, fitted)
    begun = stages.started(inputs)
    found = [stages.member(k, inputs, begun) for k in range(fitted.members)]
    mean = sum(found[1:], start=found[0]) / fitted.members
    return Written(mean, _spread(sheet, found, mean, fitted.residual_spread))


def _spread(sheet: Sheet, found: Sequence[Value], mean: Value, missed: ResidualSpread | None) -> Value:
    """As in `FittedStages`: members' deviation, drawn to the mean of a field, and residuals of samples held out."""
    known, floor = len(found) - 1, 0.0 if missed is None else to_host(missed.variance)[None, :]
    if not known:
        return mean * 0.0 + np.sqrt(floor)
    squares = [(one - mean) * (one - mean) for one in found]
    variance = sum(squares[1:], start=squares[0]) / known
    whole = sheet.averaged(variance, [1], keep=True)
    return sheet.sqrt((variance * known + whole * DRAWN) / (known + DRAWN) + floor)


class StagesOnSheet:
    """All stages of a record; each may be written many times, and its numbers are there once."""

    def __init__(self, sheet: Sheet, fitted: FittedStages):
        self.sheet, self.fitted = sheet, fitted
        self._scene = _SceneOnSheet(sheet, fitted.chains[0].scene)
        space = space_on_sheet(sheet, fitted.layout.domain)
        self._chains = [[_StageOnSheet(space, fitted.layout, stage) for stage in one.stages] for one in fitted.chains]
        start = fitted.start
        self._mean = None if start.mean is None else to_host(start.mean)[None, :] / fitted.units.outputs

    def member(self, number: int, inputs: Value, begun: Value) -> Value:
        """û of one member in the units inside, from inputs in the user's and the û at the start."""
        a, fields = self._scene.inputs(inputs / self.fitted.units.inputs), begun
        for stage in self._chains[number]:
            fields = fields + self._scene.averaged(stage(a, self._scene.outputs(fields)))
        return fields

    def started(self, inputs: Value) -> Value:
        """û before any stage in the units inside, from inputs in the user's."""
        start, units = self.fitted.start, self.fitted.units
        if start.model is not None:
            inner: Any = getattr(start.model, "fitted_", None)
            if not isinstance(inner, Fitted | FittedStages) or (inner.packing and inner.packing.input_code):
                raise ValueError(f"Stages that start from a {start.name} cannot be written as a graph.")
            write: Any = write_stages if isinstance(inner, FittedStages) else write_latent_model
            found: Value = write(self.sheet, inner, inputs).mean * (inner.units.outputs / units.outputs)
            return found
        if self._mean is not None:
            return self.sheet.repeated(self._mean, inputs)
        values, all_of_them = start.values, math.prod(self.fitted.layout.input_grid)
        some = inputs if values in (None, all_of_them) else self.sheet.gathered(inputs, np.arange(values))
        return some / units.outputs


class _SceneOnSheet:
    """Fields in space, moved by all elements of a symmetry, as further samples; and back."""

    def __init__(self, sheet: Sheet, scene: Scene):
        self.sheet, self.count = sheet, len(scene.averaged)
        layout = scene.layout
        self.shape = layout.domain.shape
        grids = (layout.input_grid, layout.output_grid)
        inputs, outputs = (np.arange(1.0, math.prod(grid) + 1)[None, :] for grid in grids)
        moved = [[layout.inputs(scene.moved_inputs(inputs, e))[0] for e in scene.averaged]]
        moved += [[layout.outputs(scene.moved_outputs(outputs, e))[0] for e in scene.averaged]]
        self._inputs, self._outputs = (_Gather.of(one, math.prod(grid)) for one, grid in zip(moved, grids, strict=True))
        self._size = self.count * layout.domain.points * layout.n_outputs
        apart = np.arange(1.0, self._size + 1).reshape(self.count, 1, *self.shape, layout.n_outputs)
        back = [scene.moved_back(layout.flat(a), e)[0] for a, e in zip(apart, scene.averaged, strict=True)]
        self._back = _Gather.of(back, self._size)

    def inputs(self, flat: Value) -> Value:
        """(samples, values) inputs as (samples and elements, *space, components)."""
        return self._apart(self._inputs(self.sheet, flat), self._inputs.index.shape[1:])

    def outputs(self, flat: Value) -> Value:
        """(samples, values) outputs as (samples and elements, *space, components)."""
        return self._apart(self._outputs(self.sheet, flat), self._outputs.index.shape[1:])

    def averaged(self, fields: Value) -> Value:
        """Corrections in space moved back, their mean over elements, (samples, values)."""
        found = self._back(self.sheet, self._apart(fields, (self._size,)))
        return found if self.count == 1 else self.sheet.averaged(found, [1])

    def _apart(self, fields: Value, shape: Sequence[int]) -> Value:
        """Of another shape, where samples become one for each element, or come together again."""
        return (self.sheet.folded if self.count == 1 else self.sheet.reshaped)(fields, shape)


class _Gather:
    """Which value, counted from 1, goes where, with what sign."""

    def __init__(self, numbers: Values, source: int):
        self.index = (np.abs(numbers) - 1).astype(np.int64)
        self._sign = None if (numbers > 0).all() else np.sign(numbers)
        self._flat = self.index[0] if len(numbers) == 1 else self.index
        straight = len(numbers) == 1 and np.array_equal(self.index.reshape(-1), np.arange(source))
        self._straight = straight and self._sign is None

    @classmethod
    def of(cls, moved: Sequence[Values], source: int) -> _Gather:
        return cls(np.stack(moved), source)

    def __call__(self, sheet: Sheet, flat: Value) -> Value:
        """(samples, elements, …) of (samples, values); without elements where there is one."""
        if self._straight:
            return flat
        found = sheet.gathered(flat, self._flat)
        return found if self._sign is None else found * (self._sign[0] if len(self.index) == 1 else self._sign)


class _StageOnSheet:
    """One stage: its correction of û in space."""

    def __init__(self, space: GridOnSheet | MeshOnSheet, layout: Layout, stage: Stage):
        self.space, self.layout, self.sight = space, layout, stage.features.sight
        self._reads = _Channels(space, layout, stage.features)
        features = stage.features
        self._mixing, self._biases = to_host(features.mixing), to_host(features.biases)
        readout = to_host(stage.readout)
        self._labels, self._readout = stage.bands.labels, _real(readout[:, :-1, :])
        domain = layout.domain
        one = stage.bands.products(domain.forward(np.ones((1, *domain.shape, 1))), readout[:, -1:, :])
        self._constant = domain.backward(one)

    def __call__(self, inputs: Value, fields: Value) -> Value:
        """(samples, *space, components)"""
        sheet, space = self.space.sheet, self.space
        channels = self._reads(inputs, fields)
        modes, (features, columns) = len(self._labels), self._readout.shape[1:]
        hidden = sheet.tanh(sheet.joined(self._local(channels), axis=-1) @ self._mixing + self._biases)
        count = int(self._mixing.shape[1]) + self._reads.count
        harmonics = space.forward(sheet.joined([hidden, channels], axis=-1), count)
        weights = sheet.gathered(sheet.constant(self._readout), self._labels, axis=0)
        spectrum = sheet.folded(harmonics, (modes, 1, features)) @ weights
        change = space.backward(sheet.folded(spectrum, (modes, columns)), self.layout.n_outputs)
        return sheet("Add", change, self._constant)

    def _local(self, channels: Value) -> list[Value]:
        """Local operators on every channel."""
        reach, space = self.sight.families.reach, self.space
        parts = [channels]
        if reach > 0:
            parts += space.slopes(channels)
        for width in WIDTHS if reach > 1 else ():
            mean = space.blurred(channels, self._reads.count, width)
            parts += [mean, *space.slopes(mean)]
        return parts


class _Channels:
    """What a stage sees at every point, standardised and clipped."""

    def __init__(self, space: GridOnSheet | MeshOnSheet, layout: Layout, features: Features):
        self.space, self.sight = space, features.sight
        self.counts = (layout.n_inputs, layout.n_outputs)
        self.count = int(features.shift.shape[0])
        self._shift, self._scale, self._limit = (
            to_host(one) for one in (features.shift, features.scale, features.limit)
        )
        self._runs = _runs(self.sight, *self.counts)
        self._constants = [part for part in (layout.domain.coordinates, _host(self.sight.fixed)) if part is not None]

    def __call__(self, inputs: Value, fields: Value) -> Value:
        """(samples, *space, channels)"""
        sheet = self.space.sheet
        sides = ((inputs, self.sight.steep, self.counts[0]), (fields, True, self.counts[1]))
        sources = sheet.joined([one for side in sides for one in self._looked(*side)], axis=-1)
        parts = []
        for left, right in self._runs:
            part = sheet.gathered(sources, left, axis=-1)
            parts.append(part if right is None else part * sheet.gathered(sources, right, axis=-1))
        if self.sight.terms is not None:
            shapes = tuple((*self.sight.domain.shape, count) for count in self.counts)
            parts.append(write_terms(sheet, self.sight.terms, (inputs, fields), shapes))
        parts += [sheet.repeated(one, fields) for one in self._constants]
        scaled = (sheet.joined(parts, axis=-1) - self._shift) * self._scale
        return sheet.minimum(sheet.maximum(scaled, -self._limit), self._limit)

    def _looked(self, state: Value, steep: bool, columns: int) -> list[Value]:
        """x, ∂x, S x, ∂S x, as far as they are wanted."""
        found = [state, *(self.space.slopes(state) if steep else ())]
        if self.sight.families.smoothed is None:
            return found
        smooth = self.space.smoothed(state, columns, float(self.sight.families.smoothed))
        return [*found, smooth, *self.space.slopes(smooth)]


def _runs(sight: Sight, n_inputs: int, n_fields: int) -> list[tuple[Values, Values | None]]:
    """Channels in their order, as columns of all sources side by side: some of them, or products of two."""
    of_inputs = 1 + sight.domain.directions * sight.steep
    of_inputs += (1 + sight.domain.directions) * (sight.families.smoothed is not None)
    found: list[tuple[Values, Values | None]] = []

    def first(source: int) -> int:
        return source * n_inputs if source < of_inputs else of_inputs * n_inputs + (source - of_inputs) * n_fields

    def columns(entry: Entry) -> list[tuple[int, int]]:
        if isinstance(entry, int):
            return [(first(entry) + i, 0) for i in range(n_inputs if entry < of_inputs else n_fields)]
        (a, i), (b, j) = entry
        return [(first(a) + i, first(b) + j)]

    for alone, run in groupby(sight.recipe(n_inputs, n_fields), key=lambda entry: isinstance(entry, int)):
        left, right = np.asarray([pair for entry in run for pair in columns(entry)], dtype=np.int64).T
        found.append((left.copy(), None if alone else right.copy()))
    return found


def _real(readout: Values) -> Values:
    """Weights of real and imaginary parts side by side, which give such parts."""
    if not np.iscomplexobj(readout):
        return readout
    V, W = readout.real, readout.imag
    return np.concatenate([np.concatenate([V, W], axis=2), np.concatenate([-W, V], axis=2)], axis=1)


def _host(array: Any) -> Values | None:
    return None if array is None else to_host(array)
