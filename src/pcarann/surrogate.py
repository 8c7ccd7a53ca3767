"""What every surrogate does in the same way: predict, calibrate, give intervals, watch a stream, save.

A surrogate is an estimator that holds one immutable record of what was fitted. A method that changes it builds a new
record and publishes it with one assignment, so that a failed or interrupted call leaves the old model whole, and a
prediction in another thread sees the old or the new one. All else is written against mean and spread of fields by
blocks of samples (`pcarann.uncertainty.bands`), which each kind of surrogate gives in its own way.
"""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError

from pcarann.backend.arrays import Array
from pcarann.backend.locking import writing
from pcarann.containers.exchange import (
    checked_outputs,
    handed_out,
    marks_of,
    refuse_unaligned,
    said_of_learned,
    said_of_repeats,
)
from pcarann.containers.portraits import Portrait
from pcarann.containers.state import State
from pcarann.derivatives.differentiable import Differentiable
from pcarann.ensemble.prepared import Prepared
from pcarann.mesh.mesh import Mesh
from pcarann.metrics import variance_weighted_r2
from pcarann.options import whole_options
from pcarann.quantity.quantity import Quantity
from pcarann.scale.calibration import LazyScores, lazily_judged, streamed
from pcarann.scale.kinds import is_lazy, refuse_lazy
from pcarann.scale.predictions import lazy_band, lazy_prediction, lazy_score
from pcarann.storage.container import write
from pcarann.uncertainty.bands import Band, Block, Scored, Spread, band, gathered, without_repeats
from pcarann.uncertainty.conformal import ALPHA, Calibration, Method, PartsCalibration, check_level
from pcarann.uncertainty.fingerprints import by_sample, distinct_samples
from pcarann.uncertainty.monitor import History
from pcarann.uncertainty.watching import Come, Looked, Watched, judged
from pcarann.validation import check_memory, check_pair_lengths, warn_user

__all__ = ["Surrogate"]


class Surrogate(Differentiable, Watched, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A surrogate of fields, with intervals and derivatives."""

    @property
    @abstractmethod
    def fitted_(self) -> State:
        """What the surrogate is at this moment; an AttributeError before `fit`."""

    @abstractmethod
    def _blocks(self, X: Array, fitted: Any) -> tuple[int, Iterable[Block]]:
        """The number of samples, and μ, σ, δ of their outputs by blocks; a warning where they leave the data."""

    @abstractmethod
    def _described(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The document and the arrays of a model file, all of one state."""

    def predict(self, X: Array, return_std: bool = False) -> Any:
        """Predict output fields, the mean over the members; with their standard deviation if asked.

        The standard deviation estimates the error of the prediction, uncalibrated (`predict_interval` has a level):

        - three members or more of random layers, or of stages: the deviation of the members;
        - one or two members: the root mean square of left-out residuals at each value, and the deviation of two;
        - a kernel: the posterior standard deviation of the kernel, scaled by left-out residuals.

        Outside the training data it also counts an error bound of the extrapolation
        (`pcarann.uncertainty.extrapolation`). For lazy inputs predictions are lazy.
        """
        fitted = self._require_fitted()
        if is_lazy(X):
            return lazy_prediction(self, fitted, X, return_std)
        plain, handed = self._opened(X, fitted)
        found = self._predicted(plain, fitted, return_std)
        return tuple(handed(part) for part in found) if return_std else handed(found)

    def predict_parts(self, X: Array) -> Spread:
        """Predict with the standard deviation inside the training data, and apart from it what leaving them adds."""
        fitted = self._require_fitted()
        plain, handed = self._opened(X, fitted)
        found = self._parts(plain, fitted)
        beyond = None if found.beyond is None else handed(found.beyond)
        return Spread(handed(found.mean), handed(found.members), beyond)

    def predict_blocks(
        self, X: Any, members: bool = False, directions: bool = False, **how: Any
    ) -> Iterator[tuple[slice, tuple[Any, ...]]]:
        """Predict by blocks of samples: which, and their mean fields, followed by those of each member if asked.

        With `directions`, mean fields moved by each direction of left-out residuals follow, where the spread counts
        these (`pcarann.ensemble.residual_spread`).

        So many samples can be predicted whose fields do not fit in memory together, all by what the model is at the
        call. Options of a roll-out, its `steps` and `controls`, are those of its `predict`.
        """
        fitted = self.asked(**how)
        plain, handed = self._opened(X, fitted, whole=False)
        blocks = self._member_blocks(plain, fitted, members, directions)
        return ((rows, tuple(handed(handed_out(plain, fitted, one)) for one in fields)) for rows, fields in blocks)

    def quantity(self, of: Any, derivative: Callable[[Any], Any] | None = None) -> Quantity:
        """A quantity of interest of predictions, with spread, intervals and gradient of its own.

        `of` is a linear functional, an array of weights on the outputs' grid (a stack (k, *grid) of k of them; by name
        for several outputs), or a function of predicted fields that gives (samples,) or (samples, k) numbers. The
        `derivative` of a function gives d f / d fields, shaped as fields are, with k after the samples where there are
        k numbers; only `gradient` needs it.
        """
        self._require_fitted()
        return Quantity(self, of, derivative)

    def score(self, X: Array, y: Array, sample_weight: Array | None = None) -> float:
        """R² of the prediction, all output values weighted by their variance; training samples are as welcome."""
        fitted = self._require_fitted()
        if is_lazy(X, y):
            return lazy_score(self, fitted, X, y, sample_weight)
        return variance_weighted_r2(*self.beside(X, y, fitted), sample_weight)

    def beside(self, X: Any, y: Any, fitted: Any) -> tuple[Array, Array]:
        """Predictions by a record of this model, and the truth, as they are scored."""
        refuse_unaligned(X, y, fitted)
        truth = fitted.handed(checked_outputs(y, fitted))
        found = self._predicted(self._opened(X, fitted)[0], fitted, False)
        check_pair_lengths(int(found.shape[0]), int(truth.shape[0]))
        return found, truth

    def calibrate(self, X: Array, y: Array) -> Self:
        """Calibrate intervals on samples that were used for nothing else; any level can be asked for afterwards.

        A warning says how many of them the model was trained on, as far as it can tell (`trained_on`). Repeats and
        near-repeats of a sample count once, with a warning.
        """
        with writing(self):
            said = self._calibrate(X, y, self._require_fitted())
        warn_user(*said)
        return self

    def observe(self, X: Array, y: Array) -> Self:
        """Compare predictions with what came true, without learning from it: intervals and `monitor` follow.

        Samples are taken in the order in which they came. A drift is said once, when it is found. Samples with outputs
        far outside of all that was seen (`pcarann.uncertainty.outliers`), those that the model was trained on and
        repeats do not count; a warning names the first two.
        """
        return self._observe(X, y, self._require_fitted()) if is_lazy(X, y) else super().observe(X, y)

    def _observe(self, X: Any, y: Any, fitted: Any) -> Self:
        with writing(self):
            found = streamed(self, fitted, "observe", X, y).fitted_
            self._publish(calibration=found.calibration, history=found.history)
        return self

    def trained_on(self, X: Any, y: Any, **how: Any) -> Any:
        """Which samples the model was trained on, (samples,) of bool: those whose input and output it has learned.

        None of them where repeats in the training set, or closeness of all samples, explain that some agree. A model
        on another grid, and stages of older files, remember nothing. Options are those of a roll-out's `predict`.
        """
        refuse_lazy("trained_on", X, y)
        fitted = self.asked(**how)
        refuse_unaligned(X, y, fitted)
        plain, truth = self._opened(X, fitted)[0], checked_outputs(y, fitted)
        return fitted.recognised(marks_of(plain, truth, fitted)).told

    def checked_for_calibration(self, X: Any, y: Any = None, **how: Any) -> tuple[Any, list[str]]:
        """What samples are recognised by, and a warning where the model was trained on some of them.

        Without y inputs are compared; trajectories are not recognised then. Options are those of a roll-out's
        `predict`.
        """
        fitted = self.asked(**how)
        plain = self._opened(X, fitted)[0]
        marks = marks_of(plain, None if y is None else checked_outputs(y, fitted), fitted)
        return marks, said_of_learned(fitted, marks)

    def _calibrate(self, X: Array, y: Array, fitted: Any) -> list[str]:
        """Publish the calibration on these samples; return what has to be said of them."""
        found, marks = lazily_judged(self, X, y, fitted) if is_lazy(X, y) else self.judged(X, y, fitted)
        labels = distinct_samples(marks, len(found.errors))
        found = without_repeats(found, labels)
        first = np.unique(labels, return_index=True)[1]
        history = History.calibrated(found.errors, found.absolute, by_sample(marks, len(labels))[first])
        self._publish(calibration=self._kept(found, fitted), history=history, calibrated=fitted.state)
        return said_of_learned(fitted, marks) or said_of_repeats(fitted, labels)

    def judged(self, X: Any, y: Any, fitted: Any) -> tuple[Scored, Any]:
        """Scores of samples in memory by a record of this model, and what they leave to be recognised by."""
        refuse_unaligned(X, y, fitted)
        plain, truth = self._opened(X, fitted)[0], checked_outputs(y, fitted)
        return judged(self._looked(plain, fitted), truth, fitted.output_size), marks_of(plain, truth, fitted)

    @staticmethod
    def _kept(found: Scored | LazyScores, fitted: Any) -> Calibration:
        if isinstance(found, LazyScores) and found.counted:
            return found.counted[0]
        sizes, pair = () if fitted.packing is None else fitted.packing.output_sizes, (found.scores, found.floor)
        return PartsCalibration.of_parts(*pair, sizes) if len(sizes) > 1 else Calibration.of(*pair)

    def predict_interval(self, X: Any, alpha: float = ALPHA, method: Method = "sample") -> Any:
        """Predict fields with intervals of level 1 − alpha.

        `method="sample"` covers a share 1 − alpha of the values on average over samples and points. Where errors are
        larger than the spread says, at jumps and at rims of the domain, a 90 % band may cover only 0.4 to 0.8:
        `method="local"` covers each point with probability 1 − alpha. A jump that moves from sample to sample is then
        covered more often, but still less than 1 − alpha. What each method guarantees stands in
        `pcarann.uncertainty.conformal`.
        """
        fitted = self._require_fitted()
        check_level(alpha, method)
        if fitted.packing is None or is_lazy(X):
            return self._interval(X, fitted, alpha, method)
        plain, like = fitted.packing.opened(X, fitted.place)
        return fitted.packing.handed_band(self._interval(plain, fitted, alpha, method), like)

    def prepare(self, memory: int | str = "1GB", *, single: bool = False) -> Self:
        """Prepare for many calls with few samples each; `prepared_` says what is kept, and what a call then costs.

        Hidden weights are kept up to so much memory ("1GB", "500MB", or bytes) and drawn at each call beyond. Up to 8
        samples then always go one by one and cost their own arithmetic; they differ from the same samples in a large
        batch by rounding, which readouts of nearly dependent features amplify. On a CPU `single` keeps these weights in
        single precision, if that changes predictions of training samples by no more than a hundredth of what the fit
        misses of samples left out. Files of the model stay the same. Of stages and flows, the surrogate that they begin
        with or march is prepared.
        """
        found = check_memory(memory)
        with writing(self):
            self._require_fitted()
            self._prepare(found, bool(single))
        return self

    @property
    def prepared_(self) -> Prepared:
        """What `prepare` kept; print it"""
        self._require_fitted()
        inner: Any = getattr(self, "model_", None)
        found: Prepared = inner.prepared_ if hasattr(inner, "prepare") else Prepared(0, 0)
        return found

    def draw(
        self,
        X: Any,
        y: Any = None,
        *,
        sample: int = 0,
        part: str | None = None,
        alpha: float = 0.1,
        path: str | os.PathLike[str] | None = None,
    ) -> Any:
        """Draw the prediction of one sample of X and return the figure, written to `path` if one is given.

        With the truth y, truth and error stand beside it; with a calibration, the band of level 1 − alpha. Of several
        outputs the first is drawn, or the `part` of this name.
        """
        fitted = self._require_fitted()
        portrait = Portrait(fitted.packing, sample, part)
        one = portrait.inputs(X)
        if fitted.calibration is not None and not fitted.stale:
            band = self.predict_interval(one, alpha)
            found = {name: portrait.field(getattr(band, name)) for name in ("mean", "lower", "upper")}
        else:
            found = {"mean": portrait.field(self.predict(one))}
        if y is not None:
            found["truth"] = portrait.truth(y)
        return portrait.draw(path, **found)

    @property
    def mesh_(self) -> Mesh | None:
        """The mesh on which outputs lie; None where they lie on a grid"""
        fitted = self._require_fitted()
        return None if fitted.packing is None else fitted.packing.mesh

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, atomically; `pcarann.load` reads it back."""
        self._require_fitted()
        write(path, *self._described())

    def description(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The document and the arrays of a model file, all of one state."""
        return self._described()

    def asked(self, **how: Any) -> Any:
        """What the surrogate is at this moment; a roll-out as it was asked for. Options that it has not are refused."""
        if how:
            raise ValueError(f"{type(self).__name__} has no option {', '.join(how)} of a prediction.")
        return self._require_fitted()

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of an object by two underscores: `set_params(adapt__ridge=1e-3)`.

        Where one is refused, all stay as they were.
        """
        before = self.get_params(deep=False)
        try:
            super().set_params(**whole_options(before, params))
        except Exception:
            super().set_params(**before)
            raise
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    def _require_fitted(self) -> Any:
        if not hasattr(self, "fitted_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit(X, y) first.")
        return self.fitted_

    def _member_blocks(
        self, X: Array, fitted: Any, members: bool, directions: bool
    ) -> Iterable[tuple[slice, list[Array]]]:
        """Mean fields by blocks of samples, followed by those of each member if asked, in the units inside."""
        return cast(Iterable[tuple[slice, list[Array]]], fitted.member_blocks(X, members, directions))

    @staticmethod
    def _opened(X: Any, fitted: State, whole: bool = True) -> tuple[Array, Callable[[Array], Any]]:
        """Inputs as the plain array that the model knows, and what turns predicted arrays into what users hold.

        Where these are not of the whole, they have no coordinates of samples.
        """
        packing = fitted.packing
        if packing is None:
            return X, lambda fields: fields
        plain, like = packing.opened(X, fitted.place)
        like = like if whole else replace(like, sample_coords={})
        return plain, lambda fields: packing.handed(fields, like)

    def _predicted(self, X: Array, fitted: State, return_std: bool) -> Any:
        if is_lazy(X):
            return lazy_prediction(self, fitted, X, return_std)
        if not return_std:
            return handed_out(X, fitted, self._mean(X, fitted))
        found = self._spread(X, fitted)
        return handed_out(X, fitted, found.mean), handed_out(X, fitted, found.std)

    def _parts(self, X: Array, fitted: State) -> Spread:
        found = self._spread(X, fitted)
        beyond = None if found.beyond is None else handed_out(X, fitted, found.beyond)
        return Spread(handed_out(X, fitted, found.mean), handed_out(X, fitted, found.members), beyond)

    def _looked(self, X: Array, fitted: Any) -> Looked:
        return (*self._blocks(X, fitted), None)

    def _come_true(self, X: Any, y: Any) -> tuple[Any, Come]:
        fitted = self._require_fitted()
        refuse_unaligned(X, y, fitted)
        plain, truth = self._opened(X, fitted)[0], checked_outputs(y, fitted)
        return fitted, Come(self._looked(plain, fitted), truth, lambda: marks_of(plain, truth, fitted))

    def _require_calibrated(self, fitted: State) -> Calibration:
        if fitted.calibration is None:
            who = f"This {type(self).__name__} has no calibration"
            raise NotFittedError(f"{who}: call calibrate(X, y) before predict_interval.")
        if fitted.stale:
            why = "since the model was changed after it without being scored"
            raise NotFittedError(f"The calibration is stale, {why}: call calibrate(X, y) again.")
        return fitted.calibration

    def _interval(self, X: Array, fitted: State, alpha: float, method: Method) -> Any:
        calibration = self._require_calibrated(fitted)
        if is_lazy(X):
            return lazy_band(self, fitted, X, alpha, method)
        found = band(calibration, self._spread(X, fitted), alpha, method)
        return Band(*(handed_out(X, fitted, part) for part in (found.mean, found.std, found.lower, found.upper)))

    def _prepare(self, memory: int, single: bool) -> None:
        inner: Any = getattr(self, "model_", None)
        if hasattr(inner, "prepare"):
            inner.prepare(memory, single=single)

    def _mean(self, X: Array, fitted: Any) -> Array:
        return self._spread(X, fitted).mean

    def _spread(self, X: Array, fitted: State) -> Spread:
        samples, blocks = self._blocks(X, fitted)
        return gathered(blocks, samples, math.prod(fitted.output_grid), fitted.place)
