"""`Marching`, the surrogate of a flow that users hold.

Snapshots of an autonomous flow obey u(t + s) = Φ(u(t)) for every t. A trajectory of T snapshots therefore holds T − s
training pairs of one map between single snapshots, which is smoother and easier to learn than the map from the first
half of the trajectory to all of its second half. Predictions apply it again and again:

    û(t) = Φ̂(û(t − s)),   û = u at the times that are given.

Options of the step are chosen on roll-outs of trajectories that were held out, and `rollout_report_` says how the error
grows. Calibration and intervals are those of the whole predicted window, and `partial_fit` adapts the step. A roll-out
that leaves the data from which the step was learned is reported at the step where it does, and its intervals widen from
there on, where the step is a `PCARaNN`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np
from sklearn.base import clone

from pcarann.backend.arrays import Array, place_of
from pcarann.backend.linearized import Linearized
from pcarann.backend.locking import writing
from pcarann.containers.exchange import checked_outputs, marks_of
from pcarann.containers.packing import only_arrays
from pcarann.derivatives.fields import FieldDerivative
from pcarann.derivatives.jacobian import jacobian
from pcarann.derivatives.torch_function import torch_function
from pcarann.marching.controls import reading_channels
from pcarann.marching.coordinates import Coordinates, refuse_uneven_space
from pcarann.marching.derivative import linearized_flow
from pcarann.marching.flow import Flow
from pcarann.marching.intervals import WindowCalibration
from pcarann.marching.lazy import LazyTrajectories
from pcarann.marching.learning import learned
from pcarann.marching.marched import Marched
from pcarann.marching.novelty import RolloutNovelty, novelty_along
from pcarann.marching.report import RolloutReport
from pcarann.marching.step import check_step
from pcarann.marching.trajectories import Trajectories
from pcarann.marching.watch import HELD
from pcarann.marching.windows import judged_window, later_times, reaches, refuse_longer
from pcarann.mesh.mesh import Mesh
from pcarann.metrics import variance_weighted_r2
from pcarann.operator import PCARaNN
from pcarann.options import resolved
from pcarann.scale.calibration import LazyScores, streamed
from pcarann.scale.kinds import is_lazy
from pcarann.scale.predictions import lazy_novelty, lazy_score
from pcarann.staged import Staged
from pcarann.storage.formats import Document, Tensors
from pcarann.surrogate import Surrogate
from pcarann.uncertainty.bands import Band, Block, Scored, Spread
from pcarann.uncertainty.conformal import ALPHA, Calibration, Method, check_level
from pcarann.uncertainty.fit_report import FitReport
from pcarann.uncertainty.monitor import History
from pcarann.uncertainty.outliers import Outliers, check_outliers
from pcarann.uncertainty.watching import Come, Outcome
from pcarann.validation import check_count, warn_user

__all__ = ["Marching"]


class Marching(Surrogate):
    """Surrogate of a flow: a surrogate of one step, rolled out from the last snapshots given.

    Inputs are (samples, times, *grid) and outputs the following snapshots, (samples, later times, *grid), evenly
    spaced in time across both. Labelled arrays whose times say otherwise raise ValueError, and so do snapshots that are
    another interval apart than those of the fit; plain arrays have no times, and are taken as evenly spaced.
    Controls and parameters beside the state are (samples, p) where they stay the same, or (samples, times, p), a row
    for each snapshot from which a step departs, from the first snapshot of the inputs on.

    Parameters
    ----------
    model : PCARaNN or Staged
        The surrogate of one step, unfitted; its parameters are used, the object itself is left alone.
    step : int
        Snapshots from which one step leads on, at most the number of input snapshots.
    first : int
        Pairs that begin before this snapshot are not used: early transients may be unlike what is predicted.
    choose : bool
        Whether the ridge of the step is chosen on roll-outs of a fifth of the trajectories, held out for that; the
        model as given stays unless another is better (`rollout_report_`). A `PCARaNN` is then fitted to all of them;
        `Staged` chooses by these roll-outs while it is fitted to the others, and stays so.

    Examples
    --------
    >>> import numpy as np
    >>> from pcarann import Marching, PCARaNN
    >>> angle = np.random.default_rng(0).uniform(0, 6, (80, 1)) + 0.3 * np.arange(12)
    >>> wave = np.cos(angle[:, :, None] + np.linspace(0, 6, 32))          # (samples, times, points)
    >>> model = Marching(PCARaNN(n_components=0.999999, widths=(60, 30), n_members=3)).fit(wave[:60, :4], wave[:60, 4:])
    >>> bool(np.abs(model.predict(wave[60:, :4]) - wave[60:, 4:]).max() < 1e-2)
    True
    >>> model.predict(wave[60:, :4], steps=20).shape
    (20, 20, 32)
    """

    def __init__(self, model: Any = None, step: int = 1, first: int = 0, choose: bool = True):
        self.model = model
        self.step = step
        self.first = first
        self.choose = choose

    def fit(self, X: Array, y: Array, controls: Array | None = None) -> Marching:
        """Learn the step from all pairs of snapshots in trajectories X, then y; `rollout_report_` judges it.

        Where the error at the end of the window is not to be trusted, a warning says from which step on.
        """
        with writing(self):
            if not isinstance(self.choose, bool | np.bool_):
                raise ValueError(f"choose must be True or False, got {self.choose!r}.")
            begun = time.perf_counter()
            model: Any = clone(check_step(self.model)) if self.model is not None else PCARaNN()
            device = getattr(model, "device", None)
            only_arrays(X=X, y=y)
            coordinates = Coordinates.of(X, y, first=self.first if type(self.first) is int else 0)
            if isinstance(model, Staged) and not isinstance(model.grid, Mesh):
                refuse_uneven_space(X, y)
            kind = LazyTrajectories if is_lazy(X, y) else Trajectories
            whole = kind.of(X, y, controls, step=self.step, first=self.first, device=device)
            if whole.controls is not None and isinstance(model, PCARaNN):
                reading_channels(model)
            model, report, told, spread = learned(model, whole, chosen=bool(self.choose))
            reach = whole.reach(model.fitted_)
            spread = None if spread is None else replace(spread, most=HELD * reach.largest)
            known: dict[str, Any] = {"n_controls": whole.n_controls, "reach": reach, "spread": spread}
            known |= {"coordinates": coordinates, "report": report, "fit_report": told}
            known |= {"seconds": {"total": time.perf_counter() - begun}}
            self._marched = Marched(model, whole.step, whole.window, **known)
        if warning := report.warning or (told and told.warning):
            warn_user(warning)
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
    def model_(self) -> Any:
        """The fitted surrogate of one step"""
        return self._found("model_").model

    @property
    def fit_report_(self) -> FitReport:
        """Error of roll-outs over the window of the fit, of trajectories that were left out of it; print it.

        Where no trajectory could be left out, it is the error of one step (`model_.fit_report_`).
        """
        marched = self._found("fit_report_")
        report: FitReport = marched.model.fit_report_ if marched.fit_report is None else marched.fit_report
        return report

    @property
    def rollout_report_(self) -> RolloutReport:
        """Error at each step of roll-outs of trajectories held out, and what was tried and chosen; print it."""
        found = self._found("rollout_report_").report
        if found is None:
            raise AttributeError("rollout_report_: there is none, this model was saved by an older pcarann.")
        return found

    @property
    def fit_seconds_(self) -> dict[str, float]:
        """Wall-clock seconds of `fit`, the choice included"""
        return dict(self._found("fit_seconds_").seconds)

    @property
    def fitted_(self) -> Flow:
        """What the roll-out is at this moment"""
        return self._found("fitted_").flow()

    def predict(
        self, X: Array, return_std: bool = False, *, steps: int | None = None, controls: Array | None = None
    ) -> Any:
        """Predict the snapshots that follow X, as many as those of the fit or so many `steps`.

        The mean over the members' trajectories; with a standard deviation if asked: that of the members' trajectories
        for three members or more of random layers or stages; for fewer, and for kernels, that and the root mean square
        error of roll-outs of trajectories held out, step by step (`pcarann.marching.rollout_spread`), which keeps
        growing beyond the steps that were held out. Where roll-outs leave the
        training data, a warning says at which step, and the deviation counts what they may be wrong by from there on;
        no value goes beyond three times the largest one of the training or of X.
        """
        return self._predicted(X, self.asked(steps, controls), return_std)

    def predict_parts(self, X: Array, *, steps: int | None = None, controls: Array | None = None) -> Spread:
        """Predict with the standard deviation inside the training data, and apart from it what leaving them adds."""
        return self._parts(X, self.asked(steps, controls))

    def score(self, X: Array, y: Array, sample_weight: Array | None = None, *, controls: Array | None = None) -> float:
        """R² of the prediction, all values of the whole window weighted by their variance."""
        self._require_fitted().refuse_unaligned(X, y)
        if is_lazy(X, y):
            return lazy_score(self, self.asked(later_times(y), controls), X, y, sample_weight)
        return variance_weighted_r2(self.predict(X, steps=later_times(y), controls=controls), y, sample_weight)

    def calibrate(self, X: Array, y: Array, *, controls: Array | None = None) -> Marching:
        """Calibrate intervals on trajectories that were used for nothing else, over all times of y.

        These are at least as many as were predicted in the fit. Any level can be asked for afterwards.
        """
        with writing(self):
            flow = self.asked(controls=controls)
            flow.refuse_unaligned(X, y)
            if (steps := later_times(y)) is not None and steps < flow.window:
                wanted = f"but this model predicts {flow.window}: a calibration needs them all"
                raise ValueError(f"y has {steps} later snapshots, {wanted}.")
            said = self._calibrate(X, y, flow if steps is None else replace(flow, window=steps))
        warn_user(*said)
        return self

    def predict_interval(
        self,
        X: Array,
        alpha: float = ALPHA,
        method: Method = "sample",
        *,
        steps: int | None = None,
        controls: Array | None = None,
    ) -> Band:
        """Predict snapshots with intervals of level 1 − alpha at each step, as far as the calibration goes.

        What each method guarantees stands in `pcarann.uncertainty.conformal`.
        """
        flow = self.asked(steps, controls)
        check_level(alpha, method)
        refuse_longer(flow)
        found: Band = self._interval(X, flow, alpha, method)
        return found

    def jvp(self, X: Array, dX: Array, *, steps: int | None = None, controls: Array | None = None) -> Any:
        """How predictions change with changes dX of the snapshots given, as predictions look; controls stay.

        A value that is held, three times as large as all that was seen, does not change.
        """
        return self._derivative(X, self.asked(steps, controls)).push(dX)

    def vjp(self, X: Array, dY: Array, *, steps: int | None = None, controls: Array | None = None) -> Any:
        """The gradient of Σ dY · prediction by the snapshots given, as these look; controls stay."""
        return self._derivative(X, self.asked(steps, controls)).pull(dY)

    def jacobian(self, X: Array, of: Any = None, *, steps: int | None = None, controls: Array | None = None) -> Any:
        """The derivative at X itself, or that of linear functionals of predictions, as in `PCARaNN`."""
        return jacobian(self._derivative(X, self.asked(steps, controls)), of)

    def as_torch(self, *, steps: int | None = None, controls: Array | None = None) -> Callable[[Any], Any]:
        """The prediction as a function of tensors that autograd goes through, under the same controls at each call."""
        flow = self.asked(steps, controls)
        return torch_function(lambda X: self._derivative(X, flow))

    def on(self, target: Any) -> Marching:
        """Return this flow with snapshots on another grid, given and predicted, as its step has it; uncalibrated."""
        self._require_fitted()
        found = copy(self)
        found.marched_ = self._marched.on(target)
        return found

    def novelty(self, X: Array, *, steps: int | None = None, controls: Array | None = None) -> RolloutNovelty:
        """How far roll-outs lie from the training data: for each sample and step a p-value and the reason."""
        flow = self.asked(steps, controls)
        if is_lazy(X):
            return cast(RolloutNovelty, lazy_novelty(self, flow, X))
        found = novelty_along(flow, flow.departing(X))
        return replace(found, p_value=place_of(X).put(found.p_value))

    def partial_fit(
        self, X: Array, y: Array, controls: Array | None = None, *, outliers: Outliers | None = None
    ) -> Marching:
        """Adapt the step to the pairs of new trajectories, in the order in which they came.

        A calibrated flow is judged by them before it learns them, over as many later times as its calibration had, and
        its intervals follow (`monitor`). Shorter trajectories do not tell, and make the calibration stale. Trajectories
        with snapshots far outside of all that was seen are not learned, with a warning, unless several in a row agree
        (`pcarann.uncertainty.outliers`) or `outliers` is "learn"; None is what `adapt` of the step says, or "skip".
        """
        with writing(self):
            if not hasattr(self, "_marched"):
                return self.fit(X, y, controls)
            self.fitted_.refuse_unaligned(X, y)
            if is_lazy(X, y):
                flow = self.asked(later_times(y), controls)
                self._marched = streamed(self, flow, "partial_fit", X, y, outliers=outliers).marched_
                return self
            marched = self._marched
            model = copy(marched.model)
            if not hasattr(model, "partial_fit"):
                raise ValueError(f"{type(model).__name__} has no partial_fit: a flow of it cannot adapt.")
            known: dict[str, Any] = {"wanted": marched.n_controls, "device": getattr(model, "device", None)}
            Trajectories.of(X, y, controls, step=marched.step, first=self.first, **known)  # checks all of them
            if outliers is None:
                outliers = resolved("adapt", getattr(model, "adapt", None)).outliers
            met, fresh = self._judged(X, y, controls, learned=True, outliers=check_outliers(outliers, "outliers"))
            put = model.fitted_.place.put
            given = [put(one) for one in (X, y, *(() if controls is None else (controls,)))]
            some, held = met.sifted.learned(marched.held, *given)
            reach, parts = marched.reach, met.parts if fresh else {"history": met.parts["history"]}
            if int(some[0].shape[0]):
                acting = None if controls is None else some[2]
                new = Trajectories.of(some[0], some[1], acting, step=marched.step, first=self.first, **known)
                decided = {"outliers": "learn"} if isinstance(model, PCARaNN | Staged) else {}
                model = model.partial_fit(*new.pairs(), **decided)
                reach = None if reach is None else reach.joined(new.reach(model.fitted_))
                parts |= {"calibrated": model.fitted_.state} if fresh else {}
            self._marched = replace(marched, model=model, reach=reach, held=held, **parts)
        warn_user(*met.said)
        return self

    def observe(self, X: Array, y: Array, *, controls: Array | None = None) -> Marching:
        """Compare roll-outs with trajectories, in the order in which they came: intervals and `monitor` follow.

        Nothing is learned. y has as many later times as the calibration, or more.
        """
        if is_lazy(X, y):
            return self._observe(X, y, self.asked(later_times(y), controls))
        with writing(self):
            self._require_fitted().refuse_unaligned(X, y)
            met, _ = self._judged(X, y, controls, learned=False)
            self._publish(**met.parts)
        warn_user(*met.said)
        return self

    def asked(self, steps: int | None = None, controls: Any = None, **how: Any) -> Flow:
        """The roll-out over so many steps, under these controls."""
        flow: Flow = super().asked(**how)
        window = flow.window if steps is None else check_count(steps, "steps")
        return replace(flow, window=window, controls=controls)

    @staticmethod
    def _kept(found: Scored | LazyScores, fitted: Flow) -> Calibration:
        if isinstance(found, LazyScores) and found.counted:
            return WindowCalibration.joined(found.counted[0], found.counted[1:])
        return WindowCalibration.by_steps(found.scores, found.floor, fitted.window)

    def _judged(
        self, X: Array, y: Array, controls: Any, *, learned: bool, outliers: Outliers = "skip"
    ) -> tuple[Outcome, bool]:
        """What trajectories change, and whether the calibration follows them: not where they are too short for it."""
        flow = self.asked()
        fresh = flow.calibration is not None and not flow.stale and reaches(flow, y)
        if learned and not fresh:
            flow = replace(self.asked(later_times(y), controls), calibration=None)
        else:
            flow = self.asked(*judged_window(flow, y, controls))
        truth = checked_outputs(y[:, : flow.window, ...], flow)
        come = Come(self._looked(X, flow), truth, lambda: marks_of(X, truth, flow), flow.exceeded(X))
        return self._met(flow, come, learned=learned, outliers=outliers), fresh

    def _found(self, name: str) -> Marched:
        if not hasattr(self, "_marched"):
            raise AttributeError(f"{name} exists after fit only: this Marching is not fitted yet.")
        return self._marched

    def _blocks(self, X: Array, fitted: Flow) -> tuple[int, Iterable[Block]]:
        departure = fitted.departing(X)
        return len(departure), fitted.blocks(departure)

    def _derivative(self, X: Array, flow: Flow | None = None) -> FieldDerivative:
        flow = self.asked() if flow is None else flow

        def linearize(array: Array) -> Linearized:
            return self._linearized(array, flow.repeated(len(array) // len(X)))

        return FieldDerivative.at(linearize, X, like=None, packing=None, grid=flow.output_grid)

    def _linearized(self, X: Array, fitted: Flow) -> Linearized:
        return linearized_flow(fitted, X)

    def _described(self) -> tuple[Document, Tensors]:
        marched = self.marched_
        if not hasattr(marched.model, "description"):
            raise ValueError(f"A flow of {type(marched.model).__name__} cannot be saved: its step has no file format.")
        document, tensors = marched.model.description()
        return document | {"marching": marched.described(self, tensors)}, tensors

    def _publish(self, **parts: Any) -> None:
        self._marched = replace(self._marched, **parts)

    def _unwatched(self, fitted: Flow) -> History:
        return self._marched.unwatched

    def _memory(self, fitted: Flow) -> tuple[tuple[float, float] | None, float | None, str]:
        return self._marched.memory
