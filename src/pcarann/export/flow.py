"""A roll-out on a sheet: û(t) = Φ̂(û(t − s), c(t − s)), for each member by itself, step by step.

The step is written once for each member and copied for each time, so that its numbers are in a file once. Values are
held at three times the largest one of the training or of the start, as in `pcarann.marching.flow`; where the step is a
model of latents, what leaving the data adds grows from step to step along the mean, as in `pcarann.marching.watch`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.export.graph import Graph, Sheet, Value
from pcarann.export.latent_model import write_looks, write_member
from pcarann.export.stages import StagesOnSheet
from pcarann.export.written import Written
from pcarann.fitted import Fitted
from pcarann.marching.flow import Flow
from pcarann.marching.watch import HELD
from pcarann.spatial.fitted import FittedStages

__all__ = ["write_flow", "write_step"]


def write_flow(sheet: Sheet, flow: Flow, inputs: Value) -> Written:
    """The prediction of a roll-out for (samples, values): the last snapshots in the user's units, then the controls."""
    rolling = _Rolling(sheet, flow, inputs)
    found = [sheet.joined(rolling.rolled_out(write_step(flow.model, k))) for k in range(flow.model.members)]
    mean = reduce(add, found) / len(found)
    variance = reduce(add, ((one - mean) * (one - mean) for one in found)) / max(len(found) - 1, 1)
    floor = 0.0 if flow.spread is None else to_host(flow.spread.variance(flow.window)).reshape(1, -1)
    deviation = sheet.sqrt(variance + floor)
    if not isinstance(flow.model, Fitted) or flow.model.novelty_test is None:
        return Written(mean, deviation)
    return Written(mean, deviation, *rolling.outside(flow.model, mean))


class _Rolling:
    """Where a roll-out begins, what acts on it, and how far it goes."""

    def __init__(self, sheet: Sheet, flow: Flow, inputs: Value):
        self.sheet, self.flow, self.values = sheet, flow, math.prod(flow.model.output_grid)
        self.given = [self._part(inputs, t * self.values, self.values) for t in range(flow.step)]
        first, count = flow.step * self.values, flow.n_controls
        self._acting = [self._part(inputs, first + t * count, count) for t in range(flow.window)] if count else []
        self._most = None if flow.reach is None else self._held(flow.model.handed(flow.reach.largest))

    def rolled_out(self, step: Graph) -> list[Value]:
        """Snapshots of one member, in the units inside."""
        states = list(self.given)
        for t in range(self.flow.window):
            (found,) = self.sheet.copied(step, self.departing(t, states[t]))
            if self._most is not None:
                found = self.sheet.minimum(self.sheet.maximum(found, -self._most), self._most)
            states.append(found)
        return [self.flow.outputs(one) for one in states[self.flow.step :]]

    def departing(self, t: int, state: Value) -> Value:
        """The state from which step t departs, with what acts on it as constant fields behind it."""
        if not self._acting:
            return state
        constant = np.repeat(np.arange(self.flow.n_controls), self.values)
        return self.sheet.joined([state, self.sheet.gathered(self._acting[t], constant)])

    def outside(self, model: Fitted, mean: Value) -> tuple[Value | None, Value]:
        """δ along the mean, (samples, window and values), and the p-value of the input of each step."""
        sheet, looks = self.sheet, _looks(model, self._inputs)
        growing: list[Value] = []
        p = []
        for t in range(self.flow.window):
            here = self._part(mean, t * self.values, self.values)
            earlier = t - self.flow.step
            state = self.given[t] if earlier < 0 else model.handed(self._part(mean, earlier * self.values, self.values))
            *beyond, found = sheet.copied(looks, self.departing(t, state), here)
            growing += [one if earlier < 0 else growing[earlier] + one for one in beyond]
            p.append(sheet.folded(found, (1,)))
        return sheet.joined(growing) if growing else None, sheet.joined(p)

    @property
    def _inputs(self) -> int:
        return (1 + self.flow.n_controls) * self.values

    def _part(self, rows: Value, start: int, count: int) -> Value:
        return self.sheet.gathered(rows, np.arange(start, start + count))

    def _held(self, largest: float) -> Value:
        """|value| beyond which no roll-out goes, (samples, 1)."""
        sizes = [self.sheet.greatest(self.sheet("Abs", one), [1], keep=True) for one in self.given]
        return reduce(self.sheet.maximum, sizes, self.sheet.constant(float(largest))) * HELD


def write_step(model: Any, member: int) -> Graph:
    """One step of a member, from (samples, values) to such in the user's units."""
    write: Callable[[Sheet, Value], Value]
    if isinstance(model, FittedStages):
        values = math.prod(model.layout.input_grid)

        def write(sheet: Sheet, inputs: Value) -> Value:
            stages = StagesOnSheet(sheet, model)
            return stages.member(member, inputs, stages.started(inputs))
    elif isinstance(model, Fitted):
        values = math.prod(model.ensemble.input_pca.grid)

        def write(sheet: Sheet, inputs: Value) -> Value:
            return write_member(sheet, model, member, inputs)
    else:
        raise ValueError(f"A flow of {type(model).__name__} cannot be written as a graph.")
    sheet = Sheet()
    found = model.handed(write(sheet, sheet.input("inputs", (values,))))
    return _exact(sheet.graph({"outputs": (found, (math.prod(model.output_grid),))}))


def _looks(model: Fitted, inputs: int) -> Graph:
    """δ, where the model knows it, and the p-value, of the input of a step whose mean prediction is known."""
    sheet, values = Sheet(), math.prod(model.output_grid)
    state, mean = sheet.input("inputs", (inputs,)), sheet.input("mean", (values,))
    beyond, p = write_looks(sheet, model, state, mean)
    found = {} if beyond is None else {"beyond": (beyond, (values,))}
    return _exact(sheet.graph(found | {"p": (p, ())}))


def _exact(graph: Graph) -> Graph:
    """The same all in double precision: members differ by less than single precision leaves of each."""
    return replace(graph, nodes=tuple(replace(node, loose=False) for node in graph.nodes))
