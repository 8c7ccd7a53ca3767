"""Stages one after another, each correcting what those before it left.

Every stage draws fresh features of the û that the stages before it have made, sums over the training samples, and asks
a chooser for its readout. A chooser takes the ridge that does best on samples held out, or the one that a judge likes
best, or ridges that are known already; it ends the chain where nothing is gained any more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Protocol

import numpy as np

from pcarann.backend.arrays import Array, cuts, place_of, taken
from pcarann.backend.random import spread
from pcarann.spatial.bands import Bands, Sums
from pcarann.spatial.channels import Sight
from pcarann.spatial.features import Features
from pcarann.spatial.pairs import LinearizedPair, Pair
from pcarann.spatial.stage import Scene, Stage, Triple, corrections, sample_weights, summed

__all__ = ["Chain", "Chooser", "HeldOut", "Judged", "Known", "Plan", "Step", "grown", "relative_error"]

_LOOKED_AT = 40_000  # points of samples by which channels are standardised
_KEPT = 1 << 26  # values of fields after each of several ridges
_NUMBERS = 1000  # stages that a member may have, as random streams count them


@dataclass(frozen=True)
class Plan:
    """What all stages have in common."""

    n_features: int
    seed: int
    terms: float = 6.0
    """Fields in a mixture, on average"""


@dataclass(frozen=True)
class Step:
    """What one stage did."""

    ridge: float
    error: float
    """Relative error on samples held out, or of the roll-out; NaN where nothing was held out"""
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Chain:
    """The stages of one member."""

    scene: Scene
    stages: tuple[Stage, ...]

    def __call__(self, inputs: Array, fields: Array) -> Array:
        """û after all stages, (samples, values), from the û at the start."""
        for stage in self.stages:
            fields = stage.applied(self.scene, inputs, fields)
        return fields

    def linearized(self, inputs: Array, fields: Array) -> LinearizedPair:
        """û after all stages with its derivative; û before each of them is kept, all else is made again."""
        for stage in self.stages:
            stage.features.sight.require_derivative()
        before = [fields]
        for stage in self.stages:
            before.append(stage.applied(self.scene, inputs, before[-1]))
        steps = list(zip(self.stages, before[:-1], strict=True))

        def push(of_inputs: Array, of_fields: Array) -> Array:
            for stage, here in steps:
                of_fields = stage.pushed(self.scene, (inputs, here), (of_inputs, of_fields))
            return of_fields

        def pull(of_fields: Array) -> Pair:
            of_inputs = place_of(inputs).xp.zeros_like(inputs)
            for stage, here in reversed(steps):
                more, of_fields = stage.pulled(self.scene, (inputs, here), of_fields)
                of_inputs += more
            return of_inputs, of_fields

        return LinearizedPair(before[-1], push, pull)


class Chooser(Protocol):
    """Chooses the readout of a stage."""

    def __call__(self, chain: Chain, features: Features, bands: Bands, sums: Sums) -> tuple[Stage, float] | None:
        """The stage with its readout, and an error; None where the chain shall end."""


def grown(
    scene: Scene, sight: Sight, plan: Plan, samples: Triple, chooser: Chooser, *, most: int, member: int = 0
) -> tuple[Chain, list[Step], Sums | None]:
    """Fit at most so many stages; return them with what each did, and the sums of the last."""
    chain, steps, last, own = Chain(scene, ()), [], None, None
    bands = Bands.of(scene.layout.domain, sight.families.singles)
    some = spread(int(samples.inputs.shape[0]), max(16, _LOOKED_AT // scene.layout.domain.points))
    for number in range(most):
        began = perf_counter()
        looked_at = [side(taken(part, some)) for side, part in zip(_sides(scene), samples[:2], strict=True)]
        draw = partial(Features.drawn, sight, *looked_at, count=plan.n_features, terms=plan.terms, seed=plan.seed)
        features = draw(number=_NUMBERS * member + number).limited(*_in_space(scene, samples))
        sums = summed(scene, features, bands, samples)
        found = chooser(chain, features, bands, sums)
        if found is None:
            break
        stage, error = found
        chain, last = replace(chain, stages=(*chain.stages, stage)), sums
        if number + 1 < most:
            own = stage.applied(scene, samples.inputs, samples.fields, out=own)  # after the first in its own memory
            samples = samples._replace(fields=own)
        place_of(samples.fields).wait()
        steps.append(Step(stage.ridge, error, perf_counter() - began))
    return chain, steps, last


def _in_space(scene: Scene, samples: Triple) -> tuple[Callable[[slice], tuple[Array, Array]], list[slice]]:
    """Inputs and û of some samples in space, and the blocks to ask for."""

    def some(rows: slice) -> tuple[Array, Array]:
        return scene.layout.inputs(samples.inputs[rows, :]), scene.layout.outputs(samples.fields[rows, :])

    most = max(1, _LOOKED_AT // scene.layout.domain.points)
    return some, list(cuts(int(samples.inputs.shape[0]), most))


def _sides(scene: Scene) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    return scene.layout.inputs, scene.layout.outputs


@dataclass
class HeldOut:
    """Chooses ridges by the error on samples held out; the chain ends where it falls by less than a share."""

    samples: Triple
    ridges: Sequence[float]
    least_gain: float

    def __call__(self, chain: Chain, features: Features, bands: Bands, sums: Sums) -> tuple[Stage, float] | None:
        """The best of all ridges."""
        inputs, fields, outputs = self.samples
        count = int(outputs.shape[0])

        def tried(ridges: Sequence[float]) -> list[tuple[Stage, float]]:
            readouts = [sums.readout(ridge) for ridge in ridges]
            errors = np.zeros(len(readouts))
            for rows in cuts(count, max(1, _KEPT // (len(readouts) * int(outputs.shape[1])))):
                found = corrections(chain.scene, features, bands, (inputs[rows, :], fields[rows, :]), readouts)
                share = (rows.stop - rows.start) / count
                errors += [share * relative_error(one, outputs[rows, :]) for one in found]
            stages = [Stage(features, bands, *one) for one in zip(readouts, ridges, strict=True)]
            return list(zip(stages, errors.tolist(), strict=True))

        stage, error = _searched(self.ridges, tried)
        if not error < (1 - self.least_gain) * relative_error(fields, outputs):
            return None
        self.samples = self.samples._replace(fields=stage.applied(chain.scene, inputs, fields))
        return stage, error


@dataclass
class Judged:
    """Chooses ridges by what a judge says of the whole chain, such as the error of a roll-out."""

    judge: Callable[[Chain], float]
    ridges: Sequence[float]
    least_gain: float
    best: float = math.inf

    def __call__(self, chain: Chain, features: Features, bands: Bands, sums: Sums) -> tuple[Stage, float] | None:
        """The best of all ridges; a first stage is always taken, since the next may make its roll-out stable."""

        def tried(ridges: Sequence[float]) -> list[tuple[Stage, float]]:
            stages = [Stage(features, bands, sums.readout(ridge), ridge) for ridge in ridges]
            return [(stage, self.judge(replace(chain, stages=(*chain.stages, stage)))) for stage in stages]

        best = _searched(self.ridges, tried)
        if chain.stages and not best[1] < (1 - self.least_gain) * self.best:
            return None
        self.best = best[1]
        return best


def _searched(
    ridges: Sequence[float], tried: Callable[[Sequence[float]], list[tuple[Stage, float]]]
) -> tuple[Stage, float]:
    """The stage of least error: every other ridge is tried, then those beside the best."""
    found = dict(zip(ridges[::2], tried(ridges[::2]), strict=True))
    middle = ridges.index(min(found, key=lambda ridge: found[ridge][1]))
    beside = [ridge for ridge in ridges[max(0, middle - 1) : middle + 2] if ridge not in found]
    found |= zip(beside, tried(beside) if beside else [], strict=True)
    return min(found.values(), key=lambda one: one[1])


@dataclass
class Known:
    """Takes ridges that were chosen before."""

    ridges: Iterator[float]

    def __call__(self, chain: Chain, features: Features, bands: Bands, sums: Sums) -> tuple[Stage, float] | None:
        """The next of them."""
        ridge = next(self.ridges, None)
        return None if ridge is None else (Stage(features, bands, sums.readout(ridge), ridge), math.nan)


def relative_error(found: Array, truth: Array) -> float:
    """Mean of ‖û − u‖/‖u‖ as stages weigh samples; infinite where something is not finite."""
    xp = place_of(truth).xp
    error = float(xp.mean(xp.sqrt(xp.mean((found - truth) ** 2, axis=1)) * sample_weights(truth)))
    return error if math.isfinite(error) else math.inf
