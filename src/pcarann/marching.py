"""Time marching for evolution problems: one step of the flow, learned from all pairs, rolled out.

Snapshots of an autonomous flow obey u(t + s) = Φ(u(t)) for every t. A trajectory of T snapshots therefore holds T − s
training pairs of one map between single snapshots, which is smoother and easier to learn than the map from the first
half of the trajectory to all of its second half. Predictions apply it again and again:

    û(t) = Φ̂(û(t − s)),   û = u at the times that are given.

Each member of the ensemble rolls out its own trajectory, so that the spread at late times has grown with the flow.
Calibration and intervals are those of the whole predicted window, and `partial_fit` adapts the step. A roll-out that
leaves the data from which the step was learned is reported at the step where it does, and its intervals widen from
there on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

from pcarann.backend.arrays import Array, Place, largest, place_of
from pcarann.backend.locking import writing
from pcarann.ensemble.members import Member
from pcarann.fitted import Fitted
from pcarann.operator import PCARaNN
from pcarann.storage.document import described, described_calibration
from pcarann.storage.formats import Document, Tensors
from pcarann.surrogate import Surrogate
from pcarann.uncertainty.bands import Block
from pcarann.uncertainty.conformal import Calibration
from pcarann.uncertainty.fit_report import FitReport
from pcarann.validation import check_count, check_fields, warn_user

__all__ = ["Marching"]


class Marching(Surrogate):
    """Surrogate of a flow: a `PCARaNN` of one step, rolled out from the last snapshots given.

    Inputs are (samples, times, *grid) and outputs the following snapshots, (samples, later times, *grid), equally
    spaced in time across both.

    Parameters
    ----------
    model : PCARaNN
        The surrogate of one step, unfitted; its parameters are used, the object itself is left alone.
    step : int
        Snapshots from which one step leads on, at most the number of input snapshots.
    first : int
        Pairs that begin before this snapshot are not used: early transients may be unlike what is predicted.

    Examples
    --------
    >>> import numpy as np
    >>> from pcarann import Marching, PCARaNN
    >>> angle = np.random.default_rng(0).uniform(0, 6, (80, 1)) + 0.3 * np.arange(12)
    >>> wave = np.cos(angle[:, :, None] + np.linspace(0, 6, 32))          # (samples, times, points)
    >>> model = Marching(PCARaNN(n_components=0.999999, widths=(60, 30), n_members=3)).fit(wave[:60, :4], wave[:60, 4:])
    >>> bool(np.abs(model.predict(wave[60:, :4]) - wave[60:, 4:]).max() < 1e-2)
    True
    """

    def __init__(self, model: PCARaNN | None = None, step: int = 1, first: int = 0):
        self.model = model
        self.step = step
        self.first = first

    def fit(self, X: Array, y: Array) -> Marching:
        """Learn the step from all pairs of snapshots in trajectories X, then y."""
        with writing(self):
            starts, ends = self._pairs(X, y, self.step)
            model: PCARaNN = clone(self.model) if self.model is not None else PCARaNN()
            samples, window = (int(n) for n in np.shape(y)[:2])
            model.fit(starts, ends, together=int(starts.shape[0]) // samples)
            self._marched = Marched(model, int(self.step), window)
        return self

    @property
    def marched_(self) -> Marched:
        """All that the fit found, in one record"""
        return self._found("marched_")

    @marched_.setter
    def marched_(self, record: Marched) -> None:
        with writing(self):
            self._marched = record

    @property
    def model_(self) -> PCARaNN:
        """The fitted surrogate of one step"""
        return self._found("model_").model

    @property
    def fit_report_(self) -> FitReport:
        """What the fit of one step is worth, on trajectories left out of it; a roll-out adds such errors up."""
        return self._found("fit_report_").model.fit_report_

    def partial_fit(self, X: Array, y: Array) -> Marching:
        """Adapt the step to the pairs of new trajectories; the calibration no longer holds then."""
        with writing(self):
            if not hasattr(self, "_marched"):
                return self.fit(X, y)
            marched = self._marched
            model = copy(marched.model)
            starts, ends = self._pairs(X, y, marched.step)
            self._marched = replace(marched, model=model.partial_fit(starts, ends))
        return self

    @property
    def fitted_(self) -> Flow:
        """What the roll-out is at this moment"""
        marched = self._found("fitted_")
        return Flow(marched.model.fitted_, marched.step, marched.window, marched.calibration, marched.calibrated)

    def _found(self, name: str) -> Marched:
        if not hasattr(self, "_marched"):
            raise AttributeError(f"{name} exists after fit only: this Marching is not fitted yet.")
        found: Marched = self._marched
        return found

    def _blocks(self, X: Array, fitted: Flow) -> tuple[int, Iterable[Block]]:
        given = fitted.given(X)
        mean, std = fitted.mean_and_std(given)
        beyond, said = fitted.surveyed(given, mean)
        if said:
            warn_user(said)
        samples = int(mean.shape[0])
        flat = [None if part is None else fitted.place.xp.reshape(part, (samples, -1)) for part in (mean, std, beyond)]
        return samples, [(slice(0, samples), flat[0], flat[1], flat[2])]

    def _described(self) -> tuple[Document, Tensors]:
        marched = self.marched_
        document, tensors = described(marched.model.fitted_, marched.model.get_params(deep=False))
        calibration = described_calibration(marched.calibration, "marching", tensors)
        facts = {"step": marched.step, "first": int(self.first), "window": marched.window}
        return document | {"marching": {**facts, "calibration": calibration, "calibrated": marched.calibrated}}, tensors

    def _calibrated(self, calibration: Calibration, state: int) -> None:
        self._marched = replace(self._marched, calibration=calibration, calibrated=state)

    def _pairs(self, X: Array, y: Array, step: int) -> tuple[Array, Array]:
        """All (u(t), u(t + s)) of the trajectories, (samples × pairs, *grid) each."""
        step = check_count(step, "step")
        place = place_of(X)
        X, y = (_trajectories(part, name, place) for part, name in ((X, "X"), (y, "y")))
        if X.shape[2:] != y.shape[2:] or X.shape[0] != y.shape[0]:
            raise ValueError(
                "Marching wants trajectories: X of shape (samples, times, *grid) and y of the times that follow on the "
                f"same grid, found {tuple(X.shape)} and {tuple(y.shape)}."
            )
        if step > X.shape[1]:
            raise ValueError(f"step={step} needs as many input snapshots to start from, found {X.shape[1]}.")
        times = int(X.shape[1] + y.shape[1])
        if not isinstance(self.first, Integral) or not 0 <= self.first < times - step:
            raise ValueError(
                f"first must leave pairs: a whole number of at least 0 and below {times - step}, got {self.first!r}."
            )
        whole = place.xp.concat([X, y], axis=1)[:, self.first :, ...]
        grid = tuple(whole.shape[2:])
        starts, ends = whole[:, : whole.shape[1] - step, ...], whole[:, step:, ...]
        return place.xp.reshape(starts, (-1, *grid)), place.xp.reshape(ends, (-1, *grid))


@dataclass(frozen=True)
class Marched:
    """All that a fit found. Replaced as a whole, never edited."""

    model: PCARaNN
    """The fitted surrogate of one step"""
    step: int
    window: int
    """Snapshots that are predicted"""
    calibration: Calibration | None = None
    calibrated: int = 0
    """The state of the model that the calibration belongs to"""


@dataclass(frozen=True)
class Flow:
    """One state of the surrogate of a step, and how it is rolled out."""

    model: Fitted
    step: int
    window: int
    calibration: Calibration | None
    calibrated: int

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
    def stale(self) -> bool:
        """Whether the step was changed after the last calibration."""
        return self.calibration is not None and self.calibrated != self.state

    def outputs(self, fields: Array) -> Array:
        """Outputs as they were handed in, to the units inside."""
        return self.model.outputs(fields)

    def handed(self, fields: Array) -> Array:
        """Outputs in the units inside, to those that are handed out."""
        return self.model.handed(fields)

    def given(self, X: Array) -> list[Array]:
        """The last snapshots of X, as many as a step needs, (samples, values) each, or a refusal."""
        snapshots = _trajectories(X, "X", self.place)
        if snapshots.shape[1] < self.step:
            raise ValueError(
                f"X must be (samples, times, *grid) with {self.step} snapshots or more, found {tuple(snapshots.shape)}."
            )
        last = range(snapshots.shape[1] - self.step, snapshots.shape[1])
        grid = self.model.output_grid
        return [check_fields(snapshots[:, t, ...], "X", self.place, grid=grid)[0] for t in last]

    def mean_and_std(self, given: list[Array]) -> tuple[Array, Array]:
        """Mean and deviation over the members' trajectories, (samples, later times, values), in units inside."""
        xp = self.place.xp
        fields = xp.stack([self.rolled_out(given, member) for member in self.model.ensemble.members])
        mean = xp.mean(fields, axis=0)
        return mean, xp.std(fields, axis=0, correction=1) if fields.shape[0] > 1 else xp.zeros_like(mean)

    def rolled_out(self, given: list[Array], member: Member) -> Array:
        """A member's trajectory from the snapshots given, (samples, later times, values), in units inside."""
        fitted = self.model
        alone = replace(fitted.ensemble, members=(member,))
        window, found = list(given), []
        for _ in range(self.window):
            found.append(alone.mean_fields(alone.orbit(fitted.inputs(window[-self.step]))))
            window.append(fitted.handed(found[-1]))
        return self.place.xp.stack(found, axis=1)

    def surveyed(self, given: list[Array], mean: Array) -> tuple[Array | None, str | None]:
        """δ along the mean trajectory, growing from step to step, and what to say of where it leaves the data."""
        fitted, place = self.model, self.place
        if fitted.novelty_test is None or fitted.edge is None:
            return None, None
        window = [*given, *(fitted.handed(mean[:, t, :]) for t in range(self.window))]
        growing: list[Array | None] = []
        said = None
        for t in range(self.window):
            if not math.isfinite(largest(window[t])):
                said = said or f"The roll-out is not finite any more at step {t + 1} of {self.window}."
                growing.append(place.zeros(*mean[:, 0, :].shape) + math.inf)
                continue
            look = fitted.look(fitted.inputs(window[t]))
            text = fitted.warning(look)
            said = said or (None if text is None else f"At step {t + 1} of {self.window} of the roll-out: {text}")
            beyond = fitted.possible_error(look, mean[:, t, :])
            before = growing[t - self.step] if t >= self.step else None
            growing.append(beyond if before is None else before if beyond is None else before + beyond)
        if all(one is None for one in growing):
            return None, said
        nothing = place.zeros(*mean[:, 0, :].shape)
        return place.xp.stack([nothing if one is None else one for one in growing], axis=1), said


def _trajectories(value: Any, name: str, place: Place) -> Array:
    """Return (samples, times, *grid) trajectories at `place`, or refuse."""
    fields, shape = check_fields(value, name, place)
    if len(shape) < 2:
        found = (int(fields.shape[0]), *shape)
        raise ValueError(f"Marching wants trajectories: {name} of shape (samples, times, *grid), found {found}.")
    return place.xp.reshape(fields, (-1, *shape))
