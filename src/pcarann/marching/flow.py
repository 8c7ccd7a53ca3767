"""One state of a step model, and how it is rolled out from the snapshots given.

    û(t) = Φ̂(û(t − s), c(t − s)),   û = u at the times that are given,   |û| ≤ 3 max |u|, in training or given

Each member of the ensemble rolls out its own trajectory, so that the spread at late times has grown with the flow. Mean
and spread over the members are summed while they come (Welford), in blocks of samples: memory does not grow with the
number of members, nor with that of samples beyond what is handed out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, cuts
from pcarann.backend.patience import look_up
from pcarann.marching.controls import beside, checked_controls
from pcarann.marching.coordinates import Coordinates
from pcarann.marching.rollout_spread import RolloutSpread
from pcarann.marching.step import StepState
from pcarann.marching.trajectories import Trajectories, refuse_no_trajectories, snapshots_of
from pcarann.marching.watch import HELD, Reach, Watch
from pcarann.uncertainty.bands import Block
from pcarann.uncertainty.conformal import Calibration
from pcarann.uncertainty.fingerprints import Recognised
from pcarann.uncertainty.monitor import History
from pcarann.validation import check_fields, refuse_grid, warn_user

__all__ = ["Departure", "Flow"]

_BLOCK_BYTES, _FEWEST_ROWS = 1 << 28, 8  # of one block of roll-outs; samples in it
_COPIES = 5  # of a block's trajectories that are in memory together


@dataclass(frozen=True)
class Departure:
    """Where roll-outs begin, and what acts on them."""

    given: list[Array]
    """The last snapshots, as many as a step needs, (samples, values) each, in the user's units"""
    acting: Array | None
    """(samples, window, p)"""

    def __len__(self) -> int:
        return int(self.given[0].shape[0])

    def part(self, rows: slice) -> Departure:
        """Some of the samples."""
        acting = None if self.acting is None else self.acting[rows, :, :]
        return Departure([one[rows, :] for one in self.given], acting)

    def inputs(self, t: int, fields: Array) -> Array:
        """States from which step t departs, with what acts on them."""
        return beside(fields, None if self.acting is None else self.acting[:, t, :])


@dataclass(frozen=True)
class Flow:
    """A roll-out of one state of the step, over one window."""

    model: StepState
    step: int
    window: int
    """Snapshots that are predicted"""
    calibration: Calibration | None = None
    calibrated: int = 0
    """The state of the model that the calibration belongs to"""
    n_controls: int = 0
    controls: Any = None
    """Those of this roll-out, as they were handed over"""
    reach: Reach | None = None
    """Range of the training snapshots, where it is known"""
    history: History | None = None
    coordinates: Coordinates | None = None
    """Those of the training trajectories, where they had labels"""
    spread: RolloutSpread | None = None
    """What roll-outs that were held out show of the error, where the members show too little"""

    @property
    def place(self) -> Place:
        """Where all arrays are"""
        return self.model.place

    @property
    def output_grid(self) -> tuple[int, ...]:
        """Shape of what is predicted, (later times, *grid)"""
        return (self.window, *self.model.output_grid)

    @property
    def output_size(self) -> float:
        """Root mean square of the values of the training snapshots"""
        return self.model.output_size

    @property
    def state(self) -> int:
        """Counts the changes of the step"""
        return self.model.state

    @property
    def packing(self) -> None:
        """Trajectories are plain arrays"""
        return None

    @property
    def members(self) -> int:
        """Of the step, each of which rolls out a trajectory of its own"""
        return self.model.members

    @property
    def residual_spread(self) -> None:
        """Roll-outs have a spread of their own"""
        return None

    @property
    def stale(self) -> bool:
        """Whether the step was changed after the last calibration."""
        return self.calibration is not None and self.calibrated != self.state

    def outputs(self, fields: Array) -> Array:
        """Outputs as they were handed in, to the units inside."""
        return self.model.outputs(fields)

    def handed(self, fields: Array) -> Array:
        """Outputs in the units inside, to those that are handed out."""
        return self.model.handed(fields)

    def marks(self, inputs: Array, outputs: Array | None) -> Any:
        """What trajectories leave to be recognised by, (samples × window, 4), of each later pair.

        They are (samples, values) of the snapshots given and of those that follow; without these, nothing is known.
        """
        if outputs is None or not hasattr(self.model, "marks"):
            return np.zeros((int(inputs.shape[0]) * self.window, 0))
        xp, grid = self.place.xp, self.model.output_grid
        X, y = (xp.reshape(part, (int(part.shape[0]), -1, *grid)) for part in (inputs, outputs))
        first = int(X.shape[1]) - self.step
        whole = Trajectories.of(X, y, self.controls, step=self.step, first=first, wanted=self.n_controls)
        pairs = (xp.reshape(part, (int(part.shape[0]), -1)) for part in whole.pairs())
        return self.model.marks(*pairs)

    def recognised(self, marks: Any) -> Recognised:
        """Which trajectories were learned: those of whose later pairs the step has learned half.

        Pairs that trajectories have in common, at rest, tell nothing.
        """
        if not hasattr(self.model, "recognised"):
            return Recognised.unknown(len(marks) // self.window)
        found: Recognised = self.model.recognised(marks)
        return found.by_group(self.window)

    def exceeded(self, X: Any) -> Any:
        """Which trajectories begin with snapshots far larger than all of the training, (samples,) of bool, if known."""
        if self.reach is None:
            return None
        snapshots = snapshots_of(X, "X", self.place)
        samples = int(snapshots.shape[0])
        flat = self.place.xp.reshape(snapshots, (samples * int(snapshots.shape[1]), -1))
        return self.reach.exceeded(self.outputs(flat)).reshape(samples, -1).max(axis=1) > HELD

    @property
    def how(self) -> dict[str, Any]:
        """Options of `predict` that it was asked with"""
        return {"steps": self.window} | ({} if self.controls is None else {"controls": self.controls})

    def refuse_unaligned(self, X: Any, y: Any = None) -> None:
        """Raise ValueError where times of labelled trajectories are uneven, or others than those of the fit."""
        if self.coordinates is None:
            Coordinates.of(X, y)
        else:
            self.coordinates.refuse_other(X, y)

    def refuse_shape(self, shape: tuple[int, ...]) -> None:
        """Refuse snapshots of a shape that is not theirs, or controls that do not belong to them."""
        refuse_no_trajectories(shape, "X")
        self._acting(shape)
        refuse_grid(shape[2:], tuple(self.model.output_grid), "X", "Marching")

    def _acting(self, shape: tuple[int, ...]) -> Array | None:
        """The controls of each step from snapshots of this shape, (samples, departures, p), or a refusal."""
        if shape[1] < self.step:
            raise ValueError(f"X must be (samples, times, *grid) with {self.step} snapshots or more, found {shape}.")
        departures = shape[1] + self.window - self.step
        return checked_controls(
            self.controls, self.place, samples=shape[0], departures=departures, wanted=self.n_controls
        )

    def departing(self, X: Any) -> Departure:
        """The last snapshots of X, as many as a step needs, and the controls of each step, or a refusal."""
        self.refuse_unaligned(X)
        snapshots = snapshots_of(X, "X", self.place)
        acting, times = self._acting(tuple(int(n) for n in snapshots.shape)), int(snapshots.shape[1])
        last, grid = range(times - self.step, times), self.model.output_grid
        given = [check_fields(snapshots[:, t, ...], "X", self.place, grid=grid, owner="Marching")[0] for t in last]
        return Departure(given, None if acting is None else acting[:, times - self.step :, :])

    def repeated(self, copies: int) -> Flow:
        """The same for all samples so many times, one time after another."""
        if self.controls is None or copies == 1:
            return self
        return replace(self, controls=self.place.xp.concat([self.place.put(self.controls)] * copies, axis=0))

    def mean_and_std(self, departure: Departure) -> tuple[Array, Array]:
        """Mean and deviation of the members' trajectories, (samples, window, values), in units inside.

        The deviation counts what trajectories held out show, where that is kept.
        """
        xp, members = self.place.xp, self.model.members
        mean = self.rolled_out(departure, 0)
        squares = xp.zeros_like(mean)
        with np.errstate(over="ignore", invalid="ignore"):
            for k in range(1, members):
                found = self.rolled_out(departure, k)
                missed = found - mean
                mean = mean + missed / (k + 1)
                found -= mean
                found *= missed
                squares += found
            variance = xp.clip(squares / max(members - 1, 1), min=0.0)
            return mean, xp.sqrt(variance if self.spread is None else variance + self.spread.variance(self.window))

    def rolled_out(self, departure: Departure, member: int) -> Array:
        """A member's trajectory from the snapshots given, (samples, window, values), in units inside."""
        window, most = list(departure.given), self.most(departure.given)
        with np.errstate(over="ignore", invalid="ignore"):
            for t in range(self.window):
                look_up()
                found = self.model.member_step(member, departure.inputs(t, window[t]))
                window.append(found if most is None else self.place.xp.clip(found, -most, most))
            return self.place.xp.stack([self.model.outputs(one) for one in window[self.step :]], axis=1)

    def most(self, given: list[Array]) -> Array | None:
        """|value| beyond which no roll-out goes, (samples, 1), in the user's units; None where nothing is known."""
        if self.reach is None:
            return None
        xp = self.place.xp
        most = self.model.handed(xp.zeros_like(given[0][:, :1]) + self.reach.largest)
        for fields in given:
            most = xp.maximum(most, xp.max(xp.abs(fields), axis=1, keepdims=True))
        return HELD * most

    def inputs_along(self, departure: Departure, mean: Array) -> Iterator[Array]:
        """Inputs of each step along mean trajectories (samples, window, values), in the user's units."""
        for t in range(self.window):
            look_up()
            fields = departure.given[t] if t < self.step else self.handed(mean[:, t - self.step, :])
            yield departure.inputs(t, fields)

    def parts(self, samples: int) -> Iterator[slice]:
        """Blocks of samples that are rolled out together."""
        values = int(np.prod(self.output_grid))
        return cuts(samples, max(_FEWEST_ROWS, _BLOCK_BYTES // (8 * _COPIES * values)))

    def blocks(self, departure: Departure) -> Iterator[Block]:
        """μ, σ, δ of roll-outs by blocks of samples, then a warning where some left the training data."""
        xp = self.place.xp
        watch = Watch(self.model, self.step, self.window, self.reach)
        for rows in self.parts(len(departure)):
            part = departure.part(rows)
            mean, std = self.mean_and_std(part)
            with np.errstate(over="ignore", invalid="ignore"):
                beyond = watch.block(self.inputs_along(part, mean), mean)
            flat = (rows.stop - rows.start, -1)
            yield (
                rows,
                xp.reshape(mean, flat),
                xp.reshape(std, flat),
                None if beyond is None else xp.reshape(beyond, flat),
            )
        with np.errstate(over="ignore", invalid="ignore"):
            said = watch.said()
        if said:
            warn_user(said)

    def member_blocks(self, X: Any, members: bool, directions: bool = False) -> Iterator[tuple[slice, list[Array]]]:
        """Mean roll-outs by blocks of samples, then those of each member if asked; X as handed over.

        Then, if asked, the mean plus e √p, as if all values and steps erred together, where this is kept. A warning
        comes last, where some left the training data.
        """
        return self._member_blocks(self.departing(X), members, directions)

    def _member_blocks(
        self, departure: Departure, members: bool, directions: bool
    ) -> Iterator[tuple[slice, list[Array]]]:
        watch = Watch(self.model, self.step, self.window, self.reach)
        values, copies = int(np.prod(self.output_grid)), _COPIES + self.model.members
        for rows in cuts(len(departure), max(1, _BLOCK_BYTES // (8 * copies * values))):
            part = departure.part(rows)
            found = [self.rolled_out(part, k) for k in range(self.model.members)]
            with np.errstate(over="ignore", invalid="ignore"):
                mean = sum(found) / len(found)
                watch.block(self.inputs_along(part, mean), mean)
            flat = (rows.stop - rows.start, -1)
            kept = self.spread if directions else None
            moved = [] if kept is None else [mean + kept.variance(self.window) ** 0.5]
            yield rows, [self.place.xp.reshape(one, flat) for one in (mean, *(found if members else ()), *moved)]
        if said := watch.said():
            warn_user(said)
