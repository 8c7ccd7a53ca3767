"""PCARaNN, the estimator that users hold.

    fields a ──F──▶ latents x ──h──▶ features ──V──▶ latents y ──G──▶ fields u
             PCA            random, fixed     least squares      PCA

The estimator itself holds parameters and one immutable record of what was fitted. Every method that changes the
model (`fit`, `partial_fit`, `calibrate`) builds a new record and publishes it with one assignment, so that a failed
or interrupted call leaves the old model whole, and a prediction in another thread sees the old or the new one.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError

from pcarann.backend.arrays import Array, place_of, to_host
from pcarann.backend.locking import writing
from pcarann.ensemble.members import Ensemble, KernelMap, RandomMap, Tick
from pcarann.features.refine import Refinement
from pcarann.fitted import Fitted, Look
from pcarann.fitting import train
from pcarann.latent.pca import PCA
from pcarann.latent.sensitivity import Sensitivity
from pcarann.latent.smoothing import Smoothing
from pcarann.latent.units import Units
from pcarann.readout.recursive import Adaptation, Start, batch_refit
from pcarann.settings import Settings
from pcarann.symmetry.generators import Symmetry
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
from pcarann.uncertainty.novelty import Novelty
from pcarann.validation import check_fields, check_number, check_pair_lengths, check_seed, column_names

if TYPE_CHECKING:
    from pcarann.recipe.search import AutoReport

__all__ = ["PCARaNN"]


_FEWEST_TO_CHOOSE = 10


class PCARaNN(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Surrogate of a parametric PDE: PCA, fixed random features, one least-squares solve.

    Inputs and outputs are arrays whose first axis is the sample; the rest may be any grid, or a plain table of
    parameters. The model lives where the training data are (NumPy, or torch on a GPU), or on `device`;
    predictions come back as the kind of array that was handed in.

    Parameters
    ----------
    n_components : int, float or pair of these
        Modes of the input and output PCA: a number, or a share of the energy in (0, 1). No more than a field has
        values.
    widths : pair of int
        Neurons of the two random layers, n₁ and n₂.
    n_members : int
        Members of the ensemble, K. Intervals are sharpest with about 20; one is allowed.
    scales : "refined", "energy", pair of float, or ("gain", g₁, g₂)
        Scales r₁, r₂ of the layers: chosen on a validation loss, by energy matching alone (the paper's rule, which
        depends on the unit of the outputs), given, or such that the arguments of tanh have root mean squares g₁ and g₂,
        which does not depend on the widths.
    ridge : None, float, "gcv" or "refined"
        λ of the final readout; 0 is least squares of minimum norm. Or chosen: in closed form, by generalised
        cross-validation, or on the validation loss together with the scales (`ridge_`).
        None is 0 for random layers and "gcv" for a kernel, whose length is chosen together with it.
    regressor : "random" or "kernel"
        Random layers, or a Matérn kernel on the latents in their place: the limit of many features, and a good
        choice for few samples. `widths` and `scales` are of no effect then.
    length : None or float
        Length of the kernel, in medians of the distance between training latents; None chooses it.
    linear : bool
        Whether the latents themselves, whitened, stand beside the features.
    channels : bool
        Whether the first axis of an input counts channels, such as snapshots or coefficient fields: each then has a
        PCA of its own, with `n_components` modes.
    relevance : float, "learned", "channels" or array
        How much the input latents count. A power α means weights s_j^(−α), s_j being their spread: 0 takes them as
        they are, 1 whitens them, a negative power attends to the leading ones even more. "learned" finds a metric in
        which the directions that move the output count, "channels" a weight for each channel
        (`pcarann.features.relevance`); `sensitivity_` shows what was found. An array gives weights (latent,) or a
        metric (latent, latent).
    smoothing : float
        Width of a Gaussian by which rough inputs are smoothed along the last two axes of their grid, as a share of
        the axis; 0 leaves them as they are.
    symmetry : None or Symmetry
        Transformations of (input, output) pairs under which the problem does not change: copies of the samples
        under them are fitted too, and predictions are averaged over them.
    refine_ridge : float
        λ inside the validation loss.
    refine_start : "scan" or "energy"
        Where the refinement starts: at the best point of a coarse scan, or at the energy-matched scales as in the
        paper, which depend on the unit of the outputs, and from which it may not leave a poor basin.
    adapt_ridge : float
        λ of `partial_fit`.
    adapt_start : "least-squares" or "ridge"
        What `partial_fit` departs from: the fitted readout (the paper's), or the ridge solution of the training
        data, with which it equals a ridge refit on all data.
    forgetting : float
        Factor in (0, 1] by which `partial_fit` discounts all earlier samples for each new one; 1 forgets nothing.
    quadrature : None or pair (input, output) of arrays or None
        Weights of the grid values in the inner product, so that modes do not depend on where a mesh is fine. None for
        the inputs gives the columns of a table of parameters units of their own (`pcarann.features.column_units`), and
        fields weights of 1.
    random_state : int, None or NumPy random generator
        Seed of the hidden weights and of the validation split. The same seed gives the same model everywhere.
    device : None, "cpu", "cuda" or "cuda:N"
        None stays where the data are.
    verbose : bool
        Show progress while fitting.

    Examples
    --------
    >>> import numpy as np
    >>> from pcarann import PCARaNN
    >>> from pcarann.metrics import relative_l2
    >>> x = np.linspace(0, 1, 64)
    >>> frequency = np.random.default_rng(0).uniform(1, 3, (300, 1))
    >>> a, u = np.sin(frequency * x), np.cos(frequency * x) ** 2
    >>> model = PCARaNN(n_components=0.999999, widths=(100, 50), n_members=5).fit(a[:200], u[:200])
    >>> relative_l2(model.predict(a[200:]), u[200:]) < 1e-3
    True
    """

    auto_report_: AutoReport
    """What `auto` tried and chose"""

    def __init__(
        self,
        n_components: Any = (100, 100),
        widths: tuple[int, int] = (500, 200),
        n_members: int = 20,
        scales: Any = "refined",
        ridge: float | str | None = None,
        regressor: Literal["random", "kernel"] = "random",
        length: float | None = None,
        linear: bool = False,
        channels: bool = False,
        relevance: Any = 0.0,
        smoothing: float = 0.0,
        symmetry: Symmetry | None = None,
        refine_ridge: float = 1e-4,
        refine_start: Literal["scan", "energy"] = "scan",
        adapt_ridge: float = 1e-2,
        adapt_start: Start = "least-squares",
        forgetting: float = 1.0,
        quadrature: Any = None,
        random_state: Any = 0,
        device: str | None = None,
        verbose: bool = False,
    ):
        self.n_components = n_components
        self.widths = widths
        self.n_members = n_members
        self.scales = scales
        self.ridge = ridge
        self.regressor = regressor
        self.length = length
        self.linear = linear
        self.channels = channels
        self.relevance = relevance
        self.smoothing = smoothing
        self.symmetry = symmetry
        self.refine_ridge = refine_ridge
        self.refine_start = refine_start
        self.adapt_ridge = adapt_ridge
        self.adapt_start = adapt_start
        self.forgetting = forgetting
        self.quadrature = quadrature
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(self, X: Array, y: Array) -> PCARaNN:
        """Fit to input fields X and output fields y, each (samples, *grid); `fit_report_` says how good the fit is."""
        return self._fit(X, y)

    def _fit(self, X: Array, y: Array, together: int = 1) -> PCARaNN:
        """Fit, where so many samples in a row belong together."""
        with writing(self):
            settings = Settings.of(self)
            place = place_of(X, self.device).computing
            inputs, input_grid = check_fields(X, "X", place, least=2)
            outputs, output_grid = check_fields(_required(y), "y", place, scalar=True, least=2)
            check_pair_lengths(inputs, outputs)
            units = Units.of(inputs, outputs)
            inputs, outputs = units.divided(inputs, outputs)
            smoothing = Smoothing.of(inputs, input_grid, settings.smoothing)
            inputs = smoothing(inputs, input_grid)
            grids = (input_grid, output_grid)
            with _progress(self.verbose) as tick:
                fitted = train(settings, inputs, outputs, grids, tick, column_names(X, input_grid), units, together)
            self._fitted = replace(fitted, smoothing=smoothing)
            self.__dict__.pop("auto_report_", None)
        report = fitted.report
        if report is not None and report.useless and fitted.samples >= _FEWEST_TO_CHOOSE:
            warnings.warn(str(report), stacklevel=3)
        return self

    @classmethod
    def auto(
        cls,
        X: Array,
        y: Array,
        *,
        budget: float = 60.0,
        symmetry: Symmetry | None = None,
        random_state: Any = 0,
        device: str | None = None,
        verbose: bool = False,
    ) -> PCARaNN:
        """Choose all options by validation, within about `budget` seconds in all, and return the fitted model.

        `auto_report_` of the model says what was tried, left out and chosen: print it. The estimator as it comes is
        always among the finalists. A `symmetry` that is offered is used only where it lowers the validation error.
        """
        from pcarann.recipe.search import choose

        check_number(budget, "budget", above=0.0)
        fixed = {"random_state": check_seed(random_state), "device": device}
        place = place_of(X, device).computing
        inputs, grid = check_fields(X, "X", place, least=_FEWEST_TO_CHOOSE)
        outputs, output_grid = check_fields(_required(y), "y", place, scalar=True, least=_FEWEST_TO_CHOOSE)
        check_pair_lengths(inputs, outputs)
        units = Units.of(inputs, outputs)
        pair, grids = units.divided(inputs, outputs), (grid, output_grid)
        with _progress(verbose) as tick:
            parameters, report = choose(
                cls, pair, grids, fixed=fixed, budget=budget, symmetry=symmetry, tick=lambda name: tick(name, 0, None)
            )
        model = cls(**parameters, verbose=verbose)
        if isinstance(model.scales, tuple):
            model.scales = (model.scales[0] / units.inputs, model.scales[1])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="n_components=.* was asked for")
            model.fit(X, y)
        report.seconds += model.fit_seconds_["total"]
        model.auto_report_ = report
        return model

    def predict(self, X: Array, return_std: bool = False) -> Any:
        """Predict output fields û = G(Φ(F(a))), the mean over the members; with their standard deviation if asked.

        Outside the training data the deviation counts what the prediction may be wrong by
        (`pcarann.uncertainty.extrapolation`).
        """
        fitted = self._require_fitted()
        look = self._look(X, fitted)
        if not return_std:
            return self._handed(X, fitted, fitted.ensemble.mean_fields(look.orbit))
        mean, std, beyond = _whole(fitted, look)
        return self._handed(X, fitted, mean), self._handed(X, fitted, total_spread(std, beyond))

    def _spread_parts(self, X: Array) -> tuple[Array, Array, Array | None]:
        """μ, the members' σ alone, and the δ of inputs outside the training data (None where all lie inside)."""
        fitted = self._require_fitted()
        mean, std, beyond = _whole(fitted, self._look(X, fitted))
        outside = None if beyond is None else self._handed(X, fitted, beyond)
        return self._handed(X, fitted, mean), self._handed(X, fitted, std), outside

    def score(self, X: Array, y: Array, sample_weight: Array | None = None) -> float:
        """R² of the prediction, all output values weighted by their variance."""
        from sklearn.metrics import r2_score

        found, truth = to_host(self.predict(X)), to_host(_required(y))
        flat = (found.shape[0], -1)
        weights = None if sample_weight is None else to_host(sample_weight)
        return float(
            r2_score(
                truth.reshape(flat),
                found.reshape(flat),
                sample_weight=weights,
                multioutput="variance_weighted",
            )
        )

    def calibrate(self, X: Array, y: Array) -> PCARaNN:
        """Calibrate intervals on samples that were used for nothing else; any level can be asked for afterwards."""
        with writing(self):
            fitted = self._require_fitted()
            outputs = self._outputs(y, fitted)
            look = self._look(X, fitted)
            check_pair_lengths(look.inputs, outputs)
            floor = max(RELATIVE_FLOOR * _field_size(fitted), np.finfo(float).tiny)
            scores = fitted.ensemble.place.empty(*outputs.shape)
            for rows, mean, std, beyond in fitted.blocks(look):
                scores[rows, :] = nonconformity_scores(mean, std, outputs[rows, :], floor, beyond)
            self._fitted = replace(fitted, calibration=Calibration.of(scores, floor), calibrated=fitted.state)
        return self

    def predict_interval(self, X: Array, alpha: float = 0.05, method: Method = "sample") -> Band:
        """Predict fields with intervals of level 1 − alpha.

        What each method guarantees stands in `pcarann.uncertainty.conformal`.
        """
        fitted = self._require_fitted()
        check_level(alpha, method)
        if fitted.calibration is None:
            raise NotFittedError("This PCARaNN has no calibration: call calibrate(X, y) before predict_interval.")
        if fitted.stale:
            raise NotFittedError(
                "The calibration is stale, since partial_fit changed the model after it: call calibrate(X, y) again."
            )
        look = self._look(X, fitted)
        quantile = fitted.calibration.quantile(alpha, method)
        if quantile == np.inf:
            points = int(fitted.ensemble.output_pca.mean.shape[0])
            warnings.warn(
                f"{fitted.calibration.n_samples} calibration samples are too few for alpha={alpha} with "
                f"method={method!r}: {samples_needed(alpha, points, method)} are needed. Intervals are infinite.",
                stacklevel=2,
            )
        mean, std, beyond = _whole(fitted, look)
        half = fitted.calibration.half_width(std, quantile, beyond)
        fields = (mean, total_spread(std, beyond), mean - half, mean + half)
        return Band(*(self._handed(X, fitted, part) for part in fields))

    def partial_fit(self, X: Array, y: Array) -> PCARaNN:
        """Adapt the readout to new samples by recursive least squares; PCAs and random layers stay.

        Another `adapt_ridge` than before is used for all samples, those taken in earlier too.

        On a model that is not fitted yet, this is `fit`.
        """
        with writing(self):
            if not hasattr(self, "_fitted"):
                return self.fit(X, y)
            self._fitted = self._adapted(X, y, self._fitted)
        return self

    def _adapted(self, X: Array, y: Array, fitted: Fitted) -> Fitted:
        """The record after new samples were taken in."""
        settings = Settings.of(self, seed=fitted.feature_map.random_seed)
        outputs = self._outputs(y, fitted)
        inputs = self._look(X, fitted, stacklevel=4).inputs
        check_pair_lengths(inputs, outputs)
        ensemble = fitted.ensemble
        adaptation = fitted.adaptation
        if adaptation is None:
            adaptation = Adaptation.start(ensemble, fitted.rows, ridge=settings.adapt_ridge, start=settings.adapt_start)
        elif adaptation.begun != settings.adapt_start:
            raise ValueError(
                f"adapt_start is {settings.adapt_start!r}, but this model began to adapt with {adaptation.begun!r}, "
                "which cannot change on the way: fit again, or set it back."
            )
        x, weighting = fitted.latent_pairs(inputs, outputs)
        # Copies under a symmetry are no later than their sample: all of them together age the past by one step.
        forgetting = settings.forgetting ** (1 / len(fitted.copied))
        adaptation = adaptation.at_ridge(settings.adapt_ridge).update(ensemble, x, weighting, forgetting=forgetting)
        return replace(
            fitted,
            ensemble=ensemble.with_readouts(adaptation.readouts(ensemble)),
            adaptation=adaptation,
            n_adapted=fitted.n_adapted + int(inputs.shape[0]),
            state=fitted.state + 1,
        )

    def refit_readout(self, X: Array, y: Array, ridge: float | None = None) -> PCARaNN:
        """Refit the readout at once to all samples learned so far and these: the batch peer of `partial_fit`."""
        with writing(self):
            fitted = self._require_fitted()
            outputs = self._outputs(y, fitted)
            inputs = self._look(X, fitted).inputs
            check_pair_lengths(inputs, outputs)
            rows = fitted.rows.appended(*fitted.latent_pairs(inputs, outputs), forgetting=1.0)
            chosen = fitted.ridge if ridge is None else check_number(ridge, "ridge", least=0.0)
            x, weighting, weights = rows.joined()
            self._fitted = replace(
                fitted,
                ensemble=batch_refit(fitted.ensemble, rows, ridge=chosen),
                x=x,
                y=weighting,
                weights=weights,
                ridge=chosen,
                adaptation=None,
                n_adapted=0,
                state=fitted.state + 1,
            )
        return self

    def novelty(self, X: Array) -> Novelty:
        """How far inputs lie from the training data: for each a p-value, small where it is new, and the reason."""
        fitted = self._require_fitted()
        found = fitted.novelty(fitted.look(self._inputs(X, fitted)))
        if found is None:
            raise ValueError(
                "This model was saved by an older pcarann, which did not keep what novelty needs: fit again."
            )
        numbers = (found.residual, found.distance, found.p_value)
        residual, distance, p_value = (place_of(X).put(part) for part in numbers)
        return Novelty(residual, distance, p_value, found.reasons)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, atomically; `pcarann.load` reads it back."""
        from pcarann.storage.container import save

        self._require_fitted()
        save(self, path)

    @property
    def ensemble_(self) -> Ensemble:
        """The fitted surrogate."""
        return self._attribute("ensemble_").ensemble

    @property
    def input_pca_(self) -> PCA:
        """F_A, the PCA of the inputs."""
        return self._attribute("input_pca_").ensemble.input_pca

    @property
    def output_pca_(self) -> PCA:
        """G_U, the PCA of the outputs."""
        return self._attribute("output_pca_").ensemble.output_pca

    @property
    def fit_report_(self) -> FitReport:
        """What the fit is worth on samples that were left out of it; print it."""
        found = self._attribute("fit_report_").report
        if found is None:
            raise AttributeError(
                "fit_report_: this model was saved by an older pcarann, which made no report: fit again."
            )
        return found

    @property
    def scales_(self) -> tuple[float, float]:
        """(r₁, r₂) in use."""
        first, second = self._random_map("scales_").scales
        return first / self._attribute("scales_").units.inputs, second

    @property
    def energy_scales_(self) -> tuple[float, float]:
        """(r̄₁, r̄₂), from which `log_offsets_` count: by energy matching, or the middle of its bounds before a scan."""
        self._random_map("energy_scales_")
        found = self._fitted.energy_scales
        assert found is not None
        return found[0] / self._fitted.units.inputs, found[1]

    @property
    def log_offsets_(self) -> tuple[float, float]:
        """η* = log(r / r̄)."""
        first, second = np.log(self.scales_) - np.log(self.energy_scales_)
        return float(first), float(second)

    @property
    def ridge_(self) -> float:
        """λ of the readouts, given or chosen."""
        return self._attribute("ridge_").ridge

    @property
    def length_(self) -> float:
        """Length of the kernel, in medians of the distance, given or chosen."""
        found = self._attribute("length_").feature_map
        if not isinstance(found, KernelMap):
            raise AttributeError("length_ belongs to regressor='kernel'; random layers have scales_.")
        return found.length

    @property
    def sensitivity_(self) -> Sensitivity:
        """What of an input counts, by latent, channel and point; print it, or `draw` it."""
        fitted = self._attribute("sensitivity_")
        pca, weighting = fitted.ensemble.input_pca, fitted.feature_map.weighting
        return Sensitivity.of(pca, weighting, fitted.training_x, channels=fitted.channels)

    @property
    def refinement_(self) -> Refinement | None:
        """What the refinement did; None where the scales were not refined."""
        return self._attribute("refinement_").refinement

    @property
    def fit_seconds_(self) -> dict[str, float]:
        """Wall-clock seconds of `fit`, by stage."""
        return dict(self._attribute("fit_seconds_").seconds)

    @property
    def n_features_in_(self) -> int:
        """Values of one input field."""
        return int(self._attribute("n_features_in_").ensemble.input_pca.mean.shape[0])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.input_tags.three_d_array = True
        return tags

    def _attribute(self, name: str) -> Fitted:
        if not hasattr(self, "_fitted"):
            raise AttributeError(f"{name} exists after fit only: this PCARaNN is not fitted yet.")
        fitted: Fitted = self._fitted
        return fitted

    def _require_fitted(self) -> Fitted:
        if not hasattr(self, "_fitted"):
            raise NotFittedError("This PCARaNN is not fitted yet: call fit(X, y) first.")
        fitted: Fitted = self._fitted
        return fitted

    def _inputs(self, X: Array, fitted: Fitted) -> Array:
        ensemble = fitted.ensemble
        grid = ensemble.input_pca.grid
        found = column_names(X, grid)
        if found and fitted.names and found != fitted.names:
            raise ValueError(
                "The feature names should match those that were passed during fit, in the same order: "
                f"expected {', '.join(fitted.names)}, found {', '.join(found)}."
            )
        return fitted.inputs(check_fields(X, "X", ensemble.place, grid=grid)[0])

    def _outputs(self, y: Array, fitted: Fitted) -> Array:
        place, grid = fitted.ensemble.place, fitted.ensemble.output_pca.grid
        return fitted.outputs(check_fields(_required(y), "y", place, grid=grid, scalar=not grid)[0])

    def _look(self, X: Array, fitted: Fitted, stacklevel: int = 3) -> Look:
        """Checked and encoded inputs; a warning where they lie outside the training data."""
        look = fitted.look(self._inputs(X, fitted))
        if said := fitted.warning(look):
            warnings.warn(said, stacklevel=stacklevel)
        return look

    @staticmethod
    def _handed(X: Array, fitted: Fitted, fields: Array) -> Array:
        """(samples, values) outputs on their grid and in their unit, as the kind of array that the user handed in."""
        place = place_of(X)
        fields = place.put(fitted.handed(fields))
        return place.xp.reshape(fields, (fields.shape[0], *fitted.ensemble.output_pca.grid))

    def _random_map(self, name: str) -> RandomMap:
        found = self._attribute(name).feature_map
        if not isinstance(found, RandomMap):
            raise AttributeError(f"{name} belongs to regressor='random'; a kernel has length_.")
        return found


def _whole(fitted: Fitted, look: Look) -> tuple[Array, Array, Array | None]:
    """μ, σ and δ of all inputs; δ is None where all lie inside the training data."""
    place = fitted.ensemble.place
    shape = (look.inputs.shape[0], fitted.ensemble.output_pca.mean.shape[0])
    mean, std, found = place.empty(*shape), place.empty(*shape), []
    for rows, block_mean, block_std, beyond in fitted.blocks(look):
        mean[rows, :], std[rows, :] = block_mean, block_std
        if beyond is not None:
            found.append((rows, beyond))
    if not found:
        return mean, std, None
    whole = place.zeros(*shape)
    for rows, beyond in found:
        whole[rows, :] = beyond
    return mean, std, whole


def _field_size(fitted: Fitted) -> float:
    """Root mean square of the output values of the training set, from their mean field and energy."""
    pca = fitted.ensemble.output_pca
    values = int(pca.mean.shape[0])
    mean = float(place_of(pca.mean).xp.linalg.vector_norm(pca.mean))
    return math.hypot(mean, math.sqrt(pca.energy / fitted.pca_samples)) / math.sqrt(values)


def _required(y: Any) -> Any:
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None.")
    return y


@contextmanager
def _progress(verbose: bool) -> Iterator[Tick]:
    """Show a bar on standard error while fitting, if asked."""
    if not verbose:
        yield lambda stage, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("fitting", total=None)
        yield lambda stage, done, total: progress.update(task, description=stage, completed=done, total=total)
