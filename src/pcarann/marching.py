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
import os
import warnings
from copy import copy
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import NotFittedError

from pcarann.backend.arrays import Array, Place, largest, place_of
from pcarann.backend.locking import writing
from pcarann.ensemble.members import Member
from pcarann.fitted import Fitted
from pcarann.operator import PCARaNN
from pcarann.uncertainty.conformal import (
    RELATIVE_FLOOR,
    Band,
    Calibration,
    Method,
    check_level,
    nonconformity_scores,
    samples_needed,
    total_spread,
)
from pcarann.uncertainty.fit_report import FitReport
from pcarann.validation import check_count, check_fields, check_pair_lengths

__all__ = ["Marching"]


class Marching(RegressorMixin, BaseEstimator):  # type: ignore[misc]
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
            together = int(starts.shape[0]) // int(np.shape(y)[0])
            self._marched = Marched(model._fit(starts, ends, together), int(self.step), int(np.shape(y)[1]))
        return self

    @property
    def model_(self) -> PCARaNN:
        """The fitted surrogate of one step"""
        if not hasattr(self, "_marched"):
            raise AttributeError("model_ exists after fit only: this Marching is not fitted yet.")
        found: PCARaNN = self._marched.model
        return found

    @property
    def fit_report_(self) -> FitReport:
        """What the fit of one step is worth, on trajectories left out of it; a roll-out adds such errors up."""
        return self.model_.fit_report_

    def predict(self, X: Array, return_std: bool = False) -> Any:
        """Predict the later snapshots; with the standard deviation over the members if asked."""
        marched = self._require_marched()
        fitted = marched.fitted
        mean, std, beyond = self._mean_and_std(X, marched, fitted)
        found = [place_of(X).put(fitted.handed(part)) for part in (mean, total_spread(std, beyond))]
        return (found[0], found[1]) if return_std else found[0]

    def _spread_parts(self, X: Array) -> tuple[Array, Array, Array | None]:
        """μ, the members' σ alone, and the δ of trajectories that leave the training data (None where none does)."""
        marched = self._require_marched()
        fitted = marched.fitted
        parts = self._mean_and_std(X, marched, fitted)
        mean, std, beyond = (None if part is None else place_of(X).put(fitted.handed(part)) for part in parts)
        return mean, std, beyond

    def calibrate(self, X: Array, y: Array) -> Marching:
        """Calibrate intervals of the whole window on samples that were used for nothing else."""
        with writing(self):
            marched = self._require_marched()
            fitted = marched.fitted
            mean, std, beyond = self._mean_and_std(X, marched, fitted)
            place = place_of(mean)
            xp = place.xp
            truth = fitted.outputs(check_fields(y, "y", place, grid=tuple(mean.shape[1:]))[0])
            check_pair_lengths(mean, truth)
            floor = max(RELATIVE_FLOOR * float(xp.sqrt(xp.mean(truth**2))), np.finfo(float).tiny)
            flat = [None if part is None else xp.reshape(part, tuple(truth.shape)) for part in (mean, std, beyond)]
            scores = nonconformity_scores(flat[0], flat[1], truth, floor, flat[2])
            self._marched = replace(marched, calibration=Calibration.of(scores, floor), calibrated=fitted.state)
        return self

    def predict_interval(self, X: Array, alpha: float = 0.05, method: Method = "sample") -> Band:
        """Predict the later snapshots with intervals of level 1 − alpha."""
        check_level(alpha, method)
        marched = self._require_marched()
        calibration = marched.calibration
        if calibration is None:
            raise NotFittedError("This Marching has no calibration: call calibrate(X, y) before predict_interval.")
        if marched.stale:
            raise NotFittedError(
                "The calibration is stale, since partial_fit changed the model after it: call calibrate(X, y) again."
            )
        fitted = marched.fitted
        mean, std, beyond = self._mean_and_std(X, marched, fitted)
        quantile = calibration.quantile(alpha, method)
        if quantile == math.inf:
            needed = samples_needed(alpha, math.prod(mean.shape[1:]), method)
            warnings.warn(
                f"{calibration.n_samples} calibration samples are too few for alpha={alpha} with method={method!r}: "
                f"{needed} are needed. Intervals are infinite.",
                stacklevel=2,
            )
        half = calibration.half_width(std, quantile, beyond)
        fields = (mean, total_spread(std, beyond), mean - half, mean + half)
        return Band(*(place_of(X).put(fitted.handed(part)) for part in fields))

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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, atomically; `pcarann.load` reads it back."""
        from pcarann.storage.container import write
        from pcarann.storage.document import described, described_calibration

        marched = self._require_marched()
        document, tensors = described(marched.fitted, marched.model.get_params(deep=False))
        calibration = described_calibration(marched.calibration, "marching", tensors)
        facts = {"step": marched.step, "first": int(self.first), "window": marched.window}
        document["marching"] = {**facts, "calibration": calibration, "calibrated": marched.calibrated}
        write(path, document, tensors)

    score = PCARaNN.score

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_marched")

    def _require_marched(self) -> Marched:
        if not hasattr(self, "_marched"):
            raise NotFittedError("This Marching is not fitted yet: call fit(X, y) first.")
        marched: Marched = self._marched
        return marched

    def _require_fitted(self) -> Fitted:
        return self._require_marched().fitted

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

    def _mean_and_std(self, X: Array, marched: Marched, fitted: Fitted) -> tuple[Array, Array, Array | None]:
        """Mean and deviation over the members' trajectories, (samples, later times, *grid), and δ, in units inside."""
        place, grid = fitted.ensemble.place, fitted.ensemble.output_pca.grid
        snapshots = _trajectories(X, "X", place)
        if snapshots.shape[1] < marched.step:
            raise ValueError(
                f"X must be (samples, times, *grid) with {marched.step} snapshots or more, "
                f"found {tuple(snapshots.shape)}."
            )
        last = range(snapshots.shape[1] - marched.step, snapshots.shape[1])
        given = [check_fields(snapshots[:, t, ...], "X", place, grid=grid)[0] for t in last]
        xp = place.xp
        fields = xp.stack([marched.rolled_out(given, member, fitted) for member in fitted.ensemble.members])
        mean = xp.mean(fields, axis=0)
        std = xp.std(fields, axis=0, correction=1) if fields.shape[0] > 1 else xp.zeros_like(mean)
        beyond, said = marched.surveyed(given, mean, fitted)
        if said:
            warnings.warn(said, stacklevel=3)
        shape = (*mean.shape[:2], *grid)
        return xp.reshape(mean, shape), xp.reshape(std, shape), None if beyond is None else xp.reshape(beyond, shape)


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

    @property
    def fitted(self) -> Fitted:
        """What the model of one step is at this moment."""
        return self.model._require_fitted()

    @property
    def stale(self) -> bool:
        """Whether the model was changed after the calibration."""
        return self.calibration is not None and self.calibrated != self.fitted.state

    def rolled_out(self, given: list[Array], member: Member, fitted: Fitted) -> Array:
        """A member's trajectory from the snapshots given, (samples, later times, values), in units inside."""
        alone = replace(fitted.ensemble, members=(member,))
        window, found = list(given), []
        for _ in range(self.window):
            found.append(alone.mean_fields(alone.orbit(fitted.inputs(window[-self.step]))))
            window.append(fitted.handed(found[-1]))
        return fitted.ensemble.place.xp.stack(found, axis=1)

    def surveyed(self, given: list[Array], mean: Array, fitted: Fitted) -> tuple[Array | None, str | None]:
        """δ along the mean trajectory, growing from step to step, and what to say of where it leaves the data."""
        place = fitted.ensemble.place
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
