"""Function-valued random features (Nelsen and Stuart, SIAM J. Sci. Comput. 2021; SIAM Review 2024).

    û(x) = ū(x) + Σⱼ αⱼ φⱼ(a)(x),   α = argmin Σₙ ‖uₙ − ûₙ‖²/‖uₙ‖² + λ‖α‖²,

with random maps φⱼ = φ(·; θⱼ) of fields to fields (`pcarann.baselines.feature_maps`) that are never trained, and one
scalar αⱼ for each. Fields are (…, *space), space being the last one or two axes of the input, and the leading axes
channels: those of the input are mixed by each map, those of the output have weights of their own. So u(t, x) from
a(x) is one such model for each time, all of the same features.

Samples are weighted by 1/‖u‖, since the error is relative, and the mean field ū is taken out; theirs have neither. The
sums G = Σ ΦᵀΦ, Φᵀu and ‖u‖² are taken over blocks of samples, each at points drawn at random where all samples have
more than `equations` points together. One eigendecomposition of G gives all λ, and the sums of a validation part the
error of each, ‖u‖² − 2α·Φᵀu + α·Gα: its root mean square relative error chooses λ and, with few features and samples,
δ. Training and validation sums together then give α. NumPy, float64.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from pcarann.backend.arrays import place_of
from pcarann.backend.progress import Tick
from pcarann.backend.random import spread
from pcarann.baselines.feature_maps import FeatureMap, FourierMap, PredictorCorrector
from pcarann.baselines.fields import Fields, checked, split
from pcarann.validation import check_choice, check_count, check_fields, check_number

__all__ = ["FeatureTuning", "RandomFeatures"]

_TRIAL_FEATURES, _TRIAL_SAMPLES = 256, 200  # that choose δ
_BLOCK_BYTES = 1 << 27  # features of a block of samples


class FeatureTuning(NamedTuple):
    """What the validation chose: the filter's δ, None where there is none, and λ over G's mean diagonal; its error."""

    cutoff: float | None
    ridge: float
    error: float


class _Sums(NamedTuple):
    """Over samples, of weight 1/‖u‖²."""

    gram: Fields
    """ΦᵀΦ, (features, features)"""
    moments: Fields
    """Φᵀ(u − ū), (features, channels)"""
    energy: float
    """‖u − ū‖²"""
    samples: int

    def joined(self, other: _Sums) -> _Sums:
        """Sums over the samples of both."""
        moments, energy = self.moments + other.moments, self.energy + other.energy
        return _Sums(self.gram + other.gram, moments, energy, self.samples + other.samples)

    def error(self, weights: Fields) -> float:
        """Root mean square relative error of (features, channels) weights."""
        square = self.energy - 2 * np.sum(weights * self.moments) + np.sum(weights * (self.gram @ weights))
        return math.sqrt(max(float(square), 0.0) / self.samples)


@dataclass(frozen=True)
class _Fitted:
    features: FeatureMap
    weights: Fields
    """α, (features, channels)"""
    mean: Fields
    """ū, (channels, *space)"""
    grids: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(kw_only=True, eq=False)
class RandomFeatures:
    """Ridge regression on random maps; `cutoffs` (δ of the filter) and `ridges` are what the validation tries.

    `features` are "fourier", or "predictor_corrector" for Darcy flow. Where `closed`, the last point of an axis repeats
    the first.
    """

    n_features: int = 1024
    features: Literal["fourier", "predictor_corrector"] = "fourier"
    cutoffs: tuple[float, ...] = (0.01, 0.02, 0.04, 0.08, 0.16)
    ridges: tuple[float, ...] = tuple(10.0**k for k in range(-14, 2))
    closed: bool = False
    equations: int = 100_000
    validation: float = 0.2
    seed: int = 0

    device: str = field(init=False, repr=False, default="cpu")
    history: list[dict[str, Any]] = field(init=False, repr=False, default_factory=list)
    """Empty: there is no iteration"""
    seconds: float = field(init=False, repr=False, default=0.0)
    epochs_done: int = field(init=False, repr=False, default=0)
    n_parameters: int = field(init=False, repr=False, default=0)
    """Weights α"""
    choice: FeatureTuning | None = field(init=False, repr=False, default=None)
    _fitted: _Fitted | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        check_count(self.n_features, "n_features")
        check_count(self.equations, "equations")
        check_choice(self.features, "features", ("fourier", "predictor_corrector"))
        check_number(self.validation, "validation", above=0.0, most=0.9)
        for name in ("cutoffs", "ridges"):
            for value in getattr(self, name):
                check_number(value, name, above=0.0)

    def fit(
        self,
        inputs: Fields,
        outputs: Fields,
        *,
        budget: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        tick: Tick = lambda stage, done, total: None,
    ) -> RandomFeatures:
        """Fit to input and output fields, each (samples, *grid).

        `budget` and `checkpoint` are there for the sake of the other baselines: sums need neither.
        """
        start = time.perf_counter()
        inputs, outputs = checked(inputs, outputs)
        grids = inputs.shape[1:], outputs.shape[1:]
        a, u = self._as_channels(inputs, grids[0]), self._as_channels(outputs, grids[0])
        rows, held = split(len(a), self.validation, self.seed)
        mean = u[rows].mean(axis=0)
        cutoff = self._cutoff(a, u, rows, held, tick)
        features = self._drawn(a[rows], cutoff, self.n_features)
        train, judge = (self._sums(features, a[part], u[part], mean, len(a)) for part in (rows, held))
        ridge, error = _best_ridge(train, judge, self.ridges)
        weights = _solutions(train.joined(judge), (ridge,))[0]
        self.choice, self._fitted = FeatureTuning(cutoff, ridge, error), _Fitted(features, weights, mean, grids)
        self.n_parameters = weights.size
        self.seconds = time.perf_counter() - start
        return self

    def predict(self, inputs: Fields) -> Fields:
        """Predict output fields (samples, *grid) for input fields (samples, *grid)."""
        if self._fitted is None:
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("This RandomFeatures is not fitted yet: call fit(inputs, outputs) first.")
        features, weights, mean, grids = (getattr(self._fitted, name) for name in _Fitted.__dataclass_fields__)
        matrix, grid = check_fields(inputs, "inputs", place_of(None))
        if grid != grids[0]:
            raise ValueError(f"inputs have fields of shape {grid}, but the model was fitted to {grids[0]}.")
        a = self._as_channels(matrix.reshape(-1, *grid), grid)
        blocks = [mean + np.einsum("nj...,jc->nc...", features(a[part]), weights) for part in _blocks(a, len(weights))]
        found = np.concatenate(blocks)
        if self.closed:
            found = np.pad(found, [(0, 0), (0, 0), *[(0, 1)] * (found.ndim - 2)], mode="wrap")
        return found.reshape(-1, *grids[1])

    def _as_channels(self, fields: Fields, input_grid: tuple[int, ...]) -> Fields:
        """(samples, channels, *space), a closed axis without its last point."""
        space = input_grid[-2:]
        if fields.shape[-len(space) :] != space:
            raise ValueError(f"outputs must live on the grid {space} of the inputs, found fields {fields.shape[1:]}.")
        shaped = fields.reshape(len(fields), -1, *space)
        return shaped[(slice(None), slice(None), *[slice(-1)] * len(space))] if self.closed else shaped

    def _drawn(self, a: Fields, cutoff: float | None, count: int) -> FeatureMap:
        if cutoff is None:
            return PredictorCorrector.drawn(a, count, seed=self.seed)
        return FourierMap.drawn(a, count, cutoff=cutoff, seed=self.seed)

    def _cutoff(self, a: Fields, u: Fields, rows: Fields, held: Fields, tick: Tick) -> float | None:
        """δ of least error with few features and samples; None where the features have no filter."""
        if self.features != "fourier" or len(self.cutoffs) == 1:
            return self.cutoffs[0] if self.features == "fourier" else None
        rows, held = rows[:_TRIAL_SAMPLES], held[:_TRIAL_SAMPLES]
        mean, errors = u[rows].mean(axis=0), []
        for done, cutoff in enumerate(self.cutoffs):
            features = self._drawn(a[rows], cutoff, min(self.n_features, _TRIAL_FEATURES))
            train, judge = (self._sums(features, a[part], u[part], mean, len(a)) for part in (rows, held))
            errors.append(_best_ridge(train, judge, self.ridges)[1])
            tick("cutoffs", done + 1, len(self.cutoffs))
        return self.cutoffs[int(np.argmin(errors))]

    def _sums(self, features: FeatureMap, a: Fields, u: Fields, mean: Fields, n: int) -> _Sums:
        """Sums over these samples, which are some of n."""
        size = math.prod(a.shape[2:])
        count = min(size, max(1, self.equations // n))
        norms = np.linalg.norm(u.reshape(len(u), -1), axis=1)
        weights = math.sqrt(size / count) / np.where(norms > 0, norms, 1.0)[:, None, None]
        total: _Sums | None = None
        for number, part in enumerate(_blocks(a, self.n_features)):
            points = spread(size, count, seed=self.seed + number)
            phi, rest = (_rows(fields, points, weights[part]) for fields in (features(a[part]), u[part] - mean))
            one = _Sums(phi.T @ phi, phi.T @ rest, float(np.sum(rest**2)), len(a[part]))
            total = one if total is None else total.joined(one)
        assert total is not None
        return total


def _rows(fields: Fields, points: list[int], weights: Fields) -> Fields:
    """(samples · points, channels) of (samples, channels, *space), weighted."""
    chosen = fields.reshape(*fields.shape[:2], -1)[..., points] * weights
    return chosen.swapaxes(1, 2).reshape(-1, fields.shape[1])


def _blocks(a: Fields, n_features: int) -> list[slice]:
    """Samples whose features fit into a block's memory."""
    size = max(1, _BLOCK_BYTES // (8 * n_features * math.prod(a.shape[2:])))
    return [slice(start, start + size) for start in range(0, len(a), size)]


def _best_ridge(train: _Sums, judge: _Sums, ridges: tuple[float, ...]) -> tuple[float, float]:
    """The ridge of least error on other samples, and this error."""
    errors = [judge.error(weights) for weights in _solutions(train, ridges)]
    best = int(np.argmin(errors))
    return ridges[best], errors[best]


def _solutions(sums: _Sums, ridges: tuple[float, ...]) -> list[Fields]:
    """(G + λI)⁻¹Φᵀu for each λ = ridge · tr G/m, from one eigendecomposition."""
    values, Q = np.linalg.eigh(sums.gram)
    unit = float(values.clip(min=0.0).mean()) or 1.0
    right = Q.T @ sums.moments
    return [Q @ (right / (values.clip(min=0.0) + ridge * unit)[:, None]) for ridge in ridges]
