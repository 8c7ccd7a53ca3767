"""Time marching for evolution problems: one step of the flow, learned from all pairs, rolled out.

Snapshots of an autonomous flow obey u(t + s) = Φ(u(t)) for every t. A trajectory of T snapshots therefore holds T − s
training pairs of one map between single snapshots, which is smoother and easier to learn than the map from the first
half of the trajectory to all of its second half. Predictions apply it again and again:

    û(t) = Φ̂(û(t − s)),   û = u at the times that are given.

Each member of the ensemble rolls out its own trajectory, so that the spread at late times has grown with the flow.
Calibration and intervals are those of the whole predicted window, and `partial_fit` adapts the step.
"""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import NotFittedError

from pcarann.arrays import Array, Place, place_of
from pcarann.conformal import (
    RELATIVE_FLOOR,
    Band,
    Calibration,
    Method,
    check_level,
    nonconformity_scores,
    samples_needed,
)
from pcarann.operator import PCARaNN
from pcarann.training import Fitted
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

    model_: PCARaNN
    """The fitted surrogate of one step"""

    def __init__(self, model: PCARaNN | None = None, step: int = 1, first: int = 0):
        self.model = model
        self.step = step
        self.first = first

    def fit(self, X: Array, y: Array) -> Marching:
        """Learn the step from all pairs of snapshots in trajectories X, then y."""
        starts, ends = self._pairs(X, y)
        model: PCARaNN = clone(self.model) if self.model is not None else PCARaNN()
        self.model_ = model.fit(starts, ends)
        self._window = int(np.shape(y)[1])
        self._calibration: Calibration | None = None
        return self

    def predict(self, X: Array, return_std: bool = False) -> Any:
        """Predict the later snapshots; with the standard deviation over the members if asked."""
        fields = self._rollouts(X)
        xp = place_of(fields).xp
        mean = xp.mean(fields, axis=0)
        if not return_std:
            return mean
        members = int(fields.shape[0])
        return mean, xp.std(fields, axis=0, correction=1) if members > 1 else xp.zeros_like(mean)

    def calibrate(self, X: Array, y: Array) -> Marching:
        """Calibrate intervals of the whole window on samples that were used for nothing else."""
        mean, std = self.predict(X, return_std=True)
        place = place_of(mean)
        xp = place.xp
        truth, _ = check_fields(y, "y", place, grid=tuple(mean.shape[1:]))
        check_pair_lengths(mean, truth)
        floor = max(RELATIVE_FLOOR * float(xp.sqrt(xp.mean(truth**2))), np.finfo(float).tiny)
        mean, std = xp.reshape(mean, tuple(truth.shape)), xp.reshape(std, tuple(truth.shape))
        self._calibration = Calibration.of(nonconformity_scores(mean, std, truth, floor), floor)
        return self

    def predict_interval(self, X: Array, alpha: float = 0.05, method: Method = "sample") -> Band:
        """Predict the later snapshots with intervals of level 1 − alpha."""
        check_level(alpha, method)
        self._require_fitted()
        calibration = self._calibration
        if calibration is None:
            raise NotFittedError("This Marching has no calibration: call calibrate(X, y) before predict_interval.")
        mean, std = self.predict(X, return_std=True)
        quantile = calibration.quantile(alpha, method)
        if quantile == math.inf:
            needed = samples_needed(alpha, math.prod(mean.shape[1:]), method)
            warnings.warn(
                f"{calibration.n_samples} calibration samples are too few for alpha={alpha} with method={method!r}: "
                f"{needed} are needed. Intervals are infinite.",
                stacklevel=2,
            )
        half = calibration.half_width(std, quantile)
        return Band(mean, std, mean - half, mean + half)

    def partial_fit(self, X: Array, y: Array) -> Marching:
        """Adapt the step to the pairs of new trajectories; the calibration is dropped, since it no longer holds."""
        if not hasattr(self, "model_"):
            return self.fit(X, y)
        self.model_.partial_fit(*self._pairs(X, y))
        self._calibration = None
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, atomically; `pcarann.load` reads it back."""
        from pcarann.storage import save

        self._require_fitted()
        save(self, path)

    score = PCARaNN.score

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _require_fitted(self) -> Fitted:
        if not hasattr(self, "model_"):
            raise NotFittedError("This Marching is not fitted yet: call fit(X, y) first.")
        return self.model_._require_fitted()

    def _pairs(self, X: Array, y: Array) -> tuple[Array, Array]:
        """All (u(t), u(t + s)) of the trajectories, (samples × pairs, *grid) each."""
        step = check_count(self.step, "step")
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

    def _rollouts(self, X: Array) -> Array:
        """Each member's trajectory, (members, samples, later times, *grid)."""
        fitted = self._require_fitted()
        ensemble = fitted.ensemble
        handed, X = place_of(X), _trajectories(X, "X", ensemble.place)
        if X.shape[1] < self.step:
            raise ValueError(
                f"X must be (samples, times, *grid) with {self.step} snapshots or more, found {tuple(X.shape)}."
            )
        grid = ensemble.output_pca.grid
        last = range(X.shape[1] - self.step, X.shape[1])
        given = [check_fields(X[:, t, ...], "X", ensemble.place, grid=grid)[0] for t in last]
        xp = ensemble.place.xp
        rolled = []
        for member in ensemble.members:
            alone = replace(ensemble, members=(member,))
            window = list(given)
            for _ in range(self._window):
                window.append(alone.mean_fields(alone.orbit(fitted.smoothing(window[-self.step], grid))))
            rolled.append(xp.stack(window[self.step :], axis=1))
        fields = xp.reshape(xp.stack(rolled), (len(rolled), X.shape[0], self._window, *grid))
        return handed.put(fields)


def _trajectories(value: Any, name: str, place: Place) -> Array:
    """Return (samples, times, *grid) trajectories at `place`, or refuse."""
    fields, shape = check_fields(value, name, place)
    if len(shape) < 2:
        found = (int(fields.shape[0]), *shape)
        raise ValueError(f"Marching wants trajectories: {name} of shape (samples, times, *grid), found {found}.")
    return place.xp.reshape(fields, (-1, *shape))
