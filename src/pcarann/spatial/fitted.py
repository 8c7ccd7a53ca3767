"""All that a fit of stages found, in one record that is replaced as a whole and never edited."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, cuts, place_of, to_host
from pcarann.backend.linearized import Linearized, in_blocks
from pcarann.containers.packing import Packing
from pcarann.latent.units import Units
from pcarann.spatial.bands import Sums
from pcarann.spatial.chain import Chain
from pcarann.spatial.fitting import Grown
from pcarann.spatial.layout import Layout
from pcarann.spatial.report import StagesReport
from pcarann.spatial.stage import Triple, sample_sizes, summed
from pcarann.spatial.start import Start
from pcarann.spatial.terms import Terms
from pcarann.uncertainty.bands import Block
from pcarann.uncertainty.conformal import Calibration
from pcarann.uncertainty.fingerprints import Fingerprints, Recognised, numbers_of
from pcarann.uncertainty.monitor import History
from pcarann.validation import check_fields, refuse_grid, warn_user

__all__ = ["BEYOND", "DRAWN", "FittedStages", "Levels", "Range", "levels_of", "range_of"]

_AT_A_TIME = 1 << 25  # values of all members' fields on a CPU
_AT_A_TIME_GPU = 1 << 29
DRAWN = 2.0
"""Degrees of freedom that the mean of a field counts for in a spread"""
BEYOND = 0.1
"""How far beside the range of the training data inputs are still like these, in ranges"""

BETWEEN = 0.05
"""How far from a level, of their range, values lie between levels"""
_MOST_LEVELS, _REPEATED = 6, 2.5  # values of a number that has levels; times that each is there on average

Range = tuple[tuple[float, ...], tuple[float, ...]]
"""Least and largest value of every component"""
Levels = tuple[tuple[float, ...], ...]
"""Values of every component that is a number with few of them; none for others"""


@dataclass(frozen=True, eq=False)
class FittedStages:
    """Stages after a start, for every member."""

    start: Start
    chains: tuple[Chain, ...]
    units: Units
    output_size: float
    """Root mean square of the output values of the training set, in the units inside"""
    value_range: Range
    """Of the inputs of the training set, in the units inside"""
    samples: int
    report: StagesReport
    seconds: Mapping[str, float]
    sums: tuple[Sums, ...] = ()
    """Of the last stage of every member, where they were kept"""
    calibration: Calibration | None = None
    calibrated: int = 0
    """The state that the calibration belongs to"""
    state: int = 0
    """Counts the changes of the readouts"""
    packing: Packing | None = None
    """What inputs and outputs were made of, where they were more than plain arrays"""
    history: History | None = None
    known: Fingerprints | None = None
    """Of the samples that stages were fitted to; None in older files"""
    levels: Levels = ()
    """Of the inputs, in the units inside; empty where they are not known"""

    @classmethod
    def of(
        cls, grown: Grown, samples: Triple, start: Start, units: Units, judged: tuple[float, int], known: Range
    ) -> FittedStages:
        """What a fit to these samples has found, with its error before any stage and the samples held out for it."""
        xp = place_of(samples.outputs).xp
        size = float(xp.sqrt(xp.mean(sample_sizes(samples.outputs) ** 2)))
        report = grown.report(start.name, *judged)
        return cls(start, grown.chains, units, size, known, int(samples.inputs.shape[0]), report, {}, grown.sums)

    @property
    def layout(self) -> Layout:
        """How fields lie in arrays"""
        return self.chains[0].scene.layout

    @property
    def place(self) -> Place:
        """Where all arrays are"""
        stages = self.chains[0].stages
        return place_of(stages[0].readout if stages else self.start.mean)

    @property
    def output_grid(self) -> tuple[int, ...]:
        """Shape of one predicted field"""
        return self.layout.output_grid

    @property
    def terms(self) -> Terms | None:
        """Those that stages see"""
        stages = self.chains[0].stages
        return stages[0].features.sight.terms if stages else None

    @property
    def stale(self) -> bool:
        """Whether the readouts changed after the last calibration"""
        return self.calibration is not None and self.calibrated != self.state

    @property
    def how(self) -> dict[str, Any]:
        """Options that a prediction was asked with: there are none"""
        return {}

    def refuse_shape(self, shape: tuple[int, ...]) -> None:
        """Refuse inputs of a shape (samples, …) that is not theirs."""
        refuse_grid(shape[1:], tuple(self.layout.input_grid), "X", "Staged")

    def outputs(self, fields: Array) -> Array:
        """Outputs as they were handed in, to the units inside."""
        return fields / self.units.outputs

    def handed(self, fields: Array) -> Array:
        """Outputs in the units inside, to those that are handed out."""
        return fields * self.units.outputs

    @property
    def members(self) -> int:
        """How many there are"""
        return len(self.chains)

    def member_step(self, member: int, inputs: Array) -> Array:
        """The prediction of one member, (samples, values), in the user's units."""
        return self.handed(self.chains[member](inputs / self.units.inputs, self._started(inputs)))

    def linearized(self, inputs: Array) -> Linearized:
        """The mean of the members with its derivative, (samples, values), in the user's units."""
        return self._linearized(self.chains, inputs)

    def member_linearized(self, member: int, inputs: Array) -> Linearized:
        """The prediction of one member with its derivative, (samples, values), in the user's units."""
        return self._linearized(self.chains[member : member + 1], inputs)

    def _linearized(self, chains: Sequence[Chain], inputs: Array) -> Linearized:
        """Some members, by blocks of samples: û before every stage is kept of a block."""
        values = math.prod(self.output_grid) * sum(1 + len(chain.stages) for chain in chains)
        size = max(1, (_AT_A_TIME if self.place.on_host else _AT_A_TIME_GPU) // values)
        return in_blocks(lambda rows: self._block(chains, inputs[rows, :]), int(inputs.shape[0]), size)

    def _block(self, chains: Sequence[Chain], inputs: Array) -> Linearized:
        """û = start and then the chain, the mean over some of them: dû = chain′(da, start′ da)."""
        xp, count = self.place.xp, len(chains)
        units, start = self.units, self.start.linearized(inputs)
        given, begun = inputs / units.inputs, self.outputs(start.value)
        found = [chain.linearized(given, begun) for chain in chains]

        def push(tangents: Array) -> Array:
            of_inputs, of_start = tangents / units.inputs, self.outputs(start.push(tangents))
            changes = [one.push(of_inputs, of_start) for one in found]
            return self.handed(sum(changes[1:], start=changes[0]) / count)

        def pull(cotangents: Array) -> Array:
            parts = [one.pull(cotangents * (units.outputs / count)) for one in found]
            of_inputs, of_start = (sum(side[1:], start=side[0]) for side in zip(*parts, strict=True))
            return of_inputs / units.inputs + start.pull(of_start / units.outputs)

        return Linearized(self.handed(xp.mean(xp.stack([one.value for one in found]), axis=0)), push, pull)

    def after_each(self, inputs: Array) -> list[Array]:
        """û of the first member before any stage and after each, (samples, values), in the user's units."""
        given, found, chain = inputs / self.units.inputs, [self._started(inputs)], self.chains[0]
        for stage in chain.stages:
            found.append(stage.applied(chain.scene, given, found[-1]))
        return [self.handed(fields) for fields in found]

    def blocks(self, inputs: Array) -> Iterator[Block]:
        """Mean and deviation of the members by blocks of samples, in the units inside; inputs in the user's."""
        xp = self.place.xp
        samples = int(inputs.shape[0])
        values = math.prod(self.output_grid) * self.members
        for rows in cuts(samples, max(1, _AT_A_TIME // values) if self.place.on_host else samples):
            begun, given = self._started(inputs[rows, :]), inputs[rows, :] / self.units.inputs
            fields = xp.stack([chain(given, begun) for chain in self.chains])
            mean = xp.mean(fields, axis=0)
            yield rows, mean, self._spread(fields), None

    def member_blocks(self, X: Array, members: bool) -> Iterator[tuple[slice, list[Array]]]:
        """Mean fields by blocks of samples, then those of each member if asked, in units inside; X as handed over."""
        inputs = check_fields(X, "X", self.place, grid=self.layout.input_grid, owner="Staged")[0]
        if said := self.warning(inputs):
            warn_user(said)
        return self._member_blocks(inputs, members)

    def _member_blocks(self, inputs: Array, members: bool) -> Iterator[tuple[slice, list[Array]]]:
        values = math.prod(self.output_grid) * self.members
        for rows in cuts(int(inputs.shape[0]), max(1, _AT_A_TIME // values)):
            begun, given = self._started(inputs[rows, :]), inputs[rows, :] / self.units.inputs
            fields = [chain(given, begun) for chain in self.chains]
            yield rows, [sum(fields) / self.members, *(fields if members else ())]

    def _spread(self, fields: Array) -> Array:
        """Deviation of (members, samples, values) fields, drawn to the mean of a field where members are few.

        Two members agree by chance at some points, where a spread of nothing would promise too much.
        """
        xp = self.place.xp
        if self.members < 2:
            return xp.zeros_like(fields[0, ...])
        variance = xp.var(fields, axis=0, correction=1)
        mean = xp.mean(variance, axis=1, keepdims=True)
        known = self.members - 1
        return xp.sqrt((known * variance + DRAWN * mean) / (known + DRAWN))

    def warning(self, inputs: Array) -> str | None:
        """What to say of inputs, in the user's units, that leave the range of the training data."""
        xp = self.place.xp
        given = self.layout.inputs(inputs / self.units.inputs)
        low, high = (self.place.put(np.asarray(end)) for end in self.value_range)
        margin = BEYOND * (high - low)
        outside = (given < low - margin) | (given > high + margin)
        count = int(xp.sum(xp.astype(xp.any(outside, axis=tuple(range(1, outside.ndim))), xp.int64)))
        if not count:
            return self._between(given)
        component = int(xp.argmax(xp.astype(xp.any(outside, axis=tuple(range(outside.ndim - 1))), xp.int64)))
        ends = [float(end[component]) * self.units.inputs for end in (low, high)]
        which = f" of component {component}" if len(self.value_range[0]) > 1 else ""
        where = f"values outside the range of the training data{which}, {ends[0]:.4g} to {ends[1]:.4g}: do not trust"
        if int(inputs.shape[0]) == 1:
            return f"This input has {where} its prediction."
        return f"{count} of {int(inputs.shape[0])} inputs have {where} their predictions."

    def _between(self, given: Array) -> str | None:
        """What to say of inputs, in the units inside, that lie between levels of a component."""
        samples = int(given.shape[0])
        for component, levels in enumerate(self.levels):
            if len(levels) < 2:
                continue
            values = to_host(given[..., component]).reshape(samples, -1)
            apart = np.abs(values[:, :, None] - np.asarray(levels)).min(axis=2).max(axis=1)
            new = apart > BETWEEN * (levels[-1] - levels[0])
            if new.any():
                which = f" of component {component}" if len(self.value_range[0]) > 1 else ""
                told = ", ".join(f"{level * self.units.inputs:.4g}" for level in levels)
                where = f"values between the levels{which} of the training data, {told}: do not trust"
                if samples == 1:
                    return f"This input has {where} its prediction."
                return f"{int(new.sum())} of {samples} inputs have {where} their predictions."
        return None

    def adapted(self, inputs: Array, outputs: Array, forgetting: float) -> FittedStages:
        """The last stage's readouts solved anew from the sums of all samples; earlier stages stay as they are."""
        begun, given, truth = self._started(inputs), inputs / self.units.inputs, self.outputs(outputs)
        keeping = forgetting ** int(inputs.shape[0])
        chains, kept = [], []
        for chain, sums in zip(self.chains, self.sums, strict=True):
            *earlier, last = chain.stages
            before = replace(chain, stages=tuple(earlier))(given, begun)
            new = summed(chain.scene, last.features, last.bands, Triple(given, before, truth), self.output_size)
            kept.append(sums.merged(new, keeping))
            chains.append(replace(chain, stages=(*earlier, replace(last, readout=kept[-1].readout(last.ridge)))))
        return replace(self, chains=tuple(chains), sums=tuple(kept), state=self.state + 1).remembering(inputs, outputs)

    def remembering(self, inputs: Array, outputs: Array) -> FittedStages:
        """The record that knows further (samples, values) pairs, as they were handed in, as used."""
        new = self.fingerprints(inputs, outputs)
        return self if self.known is None else replace(self, known=self.known.joined(new))

    def fingerprints(self, inputs: Array, outputs: Array) -> Fingerprints:
        """Those of (samples, values) pairs, as they were handed in."""
        return Fingerprints.of(inputs / self.units.inputs, self.outputs(outputs))

    def marks(self, inputs: Array, outputs: Array) -> Any:
        """What (samples, values) pairs, as they were handed in, leave to be recognised by, (samples, 4)"""
        return numbers_of(inputs / self.units.inputs, self.outputs(outputs))

    def recognised(self, marks: Any) -> Recognised:
        """Which of the samples that have left these were learned before."""
        if self.known is None or self.layout.trained:
            return Recognised.unknown(len(marks))
        return self.known.matched(marks)

    def _started(self, inputs: Array) -> Array:
        return self.outputs(self.start(inputs))


def range_of(layout: Layout, inputs: Array, unit: float) -> Range:
    """The range of (samples, values) inputs, component by component, in such a unit."""
    xp = place_of(inputs).xp
    fields = layout.inputs(inputs)
    others = tuple(range(fields.ndim - 1))
    low, high = (tuple((to_host(end(fields, axis=others)) / unit).tolist()) for end in (xp.min, xp.max))
    return low, high


def levels_of(layout: Layout, inputs: Array, unit: float) -> Levels:
    """The values of components of (samples, values) inputs that are numbers, where these are few and repeat."""
    fields = to_host(layout.inputs(inputs)) / unit
    flat = fields.reshape(len(fields), -1, fields.shape[-1])
    found: list[tuple[float, ...]] = []
    for component in range(flat.shape[2]):
        values = np.unique(flat[:, 0, component])
        constant = bool((np.ptp(flat[:, :, component], axis=1) == 0).all())
        few = constant and 1 < len(values) <= _MOST_LEVELS and len(flat) >= _REPEATED * len(values)
        found.append(tuple(values.tolist()) if few else ())
    return tuple(found)
