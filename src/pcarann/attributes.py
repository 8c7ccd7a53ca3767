"""What a fit found, as attributes that end in an underscore."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of
from pcarann.backend.locking import writing
from pcarann.containers.coding import InputCode
from pcarann.ensemble.attribution import effects_of_latents, effects_of_values
from pcarann.ensemble.forgetting import chosen_factor
from pcarann.ensemble.maps import KernelMap, RandomMap
from pcarann.ensemble.mean_and_spread import Ensemble
from pcarann.ensemble.prepared import Prepared, prepared_members
from pcarann.features.column_units import looks_like_table
from pcarann.features.refine import Refinement
from pcarann.fitted import Fitted
from pcarann.latent.pca import PCA
from pcarann.latent.sensitivity import Sensitivity
from pcarann.options import resolved
from pcarann.uncertainty.fit_report import FitReport
from pcarann.uncertainty.monitor import History, Values, unheld
from pcarann.uncertainty.outliers import above_mean

__all__ = ["FittedAttributes"]


_FEWEST_LEFT_OUT = 10  # samples whose mean error is one to compare with
_LATENTS, _MOST_COLUMNS = 16, 64  # latents of a field, and columns of a table, whose effects are measured
_SAMPLES_A_MODE = 4  # from which on modes hold new fields as well as those that they were found from


def _values_of(pca: PCA, x: Array, names: tuple[str, ...], channels: bool) -> dict[str, slice]:
    """The values of each channel, or of each column where inputs are a table; nothing where they are one field."""
    if channels:
        size = math.prod(pca.grid[1:])
        return {f"channel {c}": slice(c * size, (c + 1) * size) for c in range(pca.grid[0])}
    if len(pca.grid) != 1 or pca.grid[0] > _MOST_COLUMNS:
        return {}
    values = pca.decode(x)
    if not names and not looks_like_table(values, place_of(values).xp.std(values, axis=0)):
        return {}
    return {(names[c] if names else f"column {c}"): slice(c, c + 1) for c in range(pca.grid[0])}


class FittedAttributes:
    """Attributes of an estimator that keeps its record as `_fitted`."""

    _fitted: Fitted
    adapt: Any

    @property
    def fitted_(self) -> Fitted:
        """All that the fit found, in one record"""
        return self._found("fitted_")

    @fitted_.setter
    def fitted_(self, record: Fitted) -> None:
        with writing(self):
            self._fitted = record

    @property
    def ensemble_(self) -> Ensemble:
        """The fitted surrogate."""
        return self._found("ensemble_").ensemble

    @property
    def prepared_(self) -> Prepared:
        """What `prepare` kept; print it"""
        found = self._found("prepared_").ensemble.prepared
        if found is None:
            raise AttributeError("prepared_ exists after prepare only, and until the next fit: call prepare() first.")
        return found

    def _prepare(self, memory: int, single: bool) -> None:
        """Keep hidden weights up to so much memory."""
        fitted = self._fitted
        missed = None if fitted.report is None else math.sqrt(max(0.0, 1.0 - fitted.report.r2))
        rows = {"x": fitted.training_x, "y": fitted.y[: fitted.samples, :]}
        members, told = prepared_members(fitted.ensemble.members, memory, single=single, **rows, missed=missed)
        self._fitted = replace(fitted, ensemble=replace(fitted.ensemble, members=members, prepared=told))

    @property
    def input_pca_(self) -> PCA:
        """F_A, the PCA of the inputs."""
        return self._found("input_pca_").ensemble.input_pca

    @property
    def output_pca_(self) -> PCA:
        """G_U, the PCA of the outputs."""
        return self._found("output_pca_").ensemble.output_pca

    @property
    def fit_report_(self) -> FitReport:
        """What the fit is worth on samples that were left out of it; print it."""
        found = self._found("fit_report_").report
        if found is None:
            raise AttributeError(
                "fit_report_ does not exist: the model was saved by an older pcarann, which made no report."
            )
        return found

    @property
    def scales_(self) -> tuple[float, float]:
        """(r₁, r₂) in use."""
        first, second = self._random_map("scales_").scales
        return first / self._found("scales_").units.inputs, second

    @property
    def energy_scales_(self) -> tuple[float, float]:
        """(r̄₁, r̄₂), from which `log_offsets_` count: by energy matching, or the middle of its bounds before a scan."""
        self._random_map("energy_scales_")
        found = self._found("energy_scales_").energy_scales
        assert found is not None
        return found[0] / self._found("energy_scales_").units.inputs, found[1]

    @property
    def log_offsets_(self) -> tuple[float, float]:
        """η* = log(r / r̄)."""
        first, second = np.log(self.scales_) - np.log(self.energy_scales_)
        return float(first), float(second)

    @property
    def ridge_(self) -> float:
        """λ of the readouts, given or chosen."""
        return self._found("ridge_").ridge

    @property
    def length_(self) -> float:
        """Length of the kernel, in medians of the distance, given or chosen."""
        found = self._found("length_").feature_map
        if not isinstance(found, KernelMap):
            raise AttributeError("length_ belongs to regressor='kernel'; random layers have scales_.")
        return found.length

    @property
    def sensitivity_(self) -> Sensitivity:
        """Effects on the prediction by part, column, channel or latent, and what features see; print it, `draw` it."""
        fitted = self._found("sensitivity_")
        pca, weighting = fitted.ensemble.input_pca, fitted.feature_map.weighting
        code = None if fitted.packing is None else fitted.packing.input_code
        x, named = fitted.training_x, isinstance(code, InputCode)
        values = code.named if isinstance(code, InputCode) else _values_of(pca, x, fitted.names, fitted.channels)
        if values:
            effects = effects_of_values(fitted.ensemble, x, values)
        else:
            effects = effects_of_latents(fitted.ensemble, x, _LATENTS)
        is_field = not named and (fitted.channels or not values)
        return Sensitivity.of(
            pca, weighting, x, channels=fitted.channels, effects=effects, parts=named, is_field=is_field
        )

    @property
    def refinement_(self) -> Refinement | None:
        """What the refinement did; None where the scales were not refined."""
        return self._found("refinement_").refinement

    @property
    def fit_seconds_(self) -> dict[str, float]:
        """Wall-clock seconds of `fit`, by stage."""
        return dict(self._found("fit_seconds_").seconds)

    @property
    def n_features_in_(self) -> int:
        """Values of one input field."""
        return int(self._found("n_features_in_").ensemble.input_pca.mean.shape[0])

    @property
    def feature_names_in_(self) -> np.ndarray[Any, Any]:
        """Names of the columns that the model was fitted to, where they came from a table that has them."""
        names = self._found("feature_names_in_").names
        if not names:
            raise AttributeError("feature_names_in_ exists after a fit to a table with named columns only.")
        return np.asarray(names, dtype=object)

    def _unheld(self, truth: Array, fitted: Fitted) -> Values:
        return unheld(fitted.ensemble.output_pca, truth)

    def _unwatched(self, fitted: Fitted) -> History:
        # Modes that are nearly as many as the samples hold these, and not others: the report says too little then.
        known = _SAMPLES_A_MODE * fitted.ensemble.output_pca.n_components <= fitted.samples
        if fitted.report is None or fitted.report.samples < _FEWEST_LEFT_OUT or not known:
            return History(high=None if fitted.report is None else above_mean(fitted.report.relative_error))
        return History(fitted.report.relative_error)

    def _memory(self, fitted: Fitted) -> tuple[tuple[float, float], float, str]:
        rows, copies, factor = fitted.rows, len(fitted.copied), resolved("adapt", self.adapt).forgetting
        factor = chosen_factor(fitted.adaptation) if isinstance(factor, str) else factor
        return (rows.weight / copies, len(rows) / copies), factor, ""

    def _found(self, name: str) -> Fitted:
        if not hasattr(self, "_fitted"):
            raise AttributeError(f"{name} exists after fit only: this {type(self).__name__} is not fitted yet.")
        return self._fitted

    def _random_map(self, name: str) -> RandomMap:
        found = self._found(name).feature_map
        if not isinstance(found, RandomMap):
            raise AttributeError(f"{name} belongs to regressor='random'; a kernel has length_.")
        return found
