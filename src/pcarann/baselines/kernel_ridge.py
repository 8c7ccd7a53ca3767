"""PCA and kernel ridge regression (Batlle et al., 2024): the strongest simple peer.

Between the latents x = F(a) and y = F(u) of two PCAs, with a kernel k of the distance r = ‖x − x'‖/ℓ,

    ŷ(x) = k(x, X) (K + λI)⁻¹ Y,   K = k(X, X),

where k is a Matérn kernel of smoothness ½, 3/2 or 5/2, or the Gaussian one:

    e^{−r},   (1 + √3 r) e^{−√3 r},   (1 + √5 r + 5r²/3) e^{−√5 r},   e^{−r²/2}.

Length ℓ (in medians of the distance), ridge λ and whitening of x are those of least relative error on a validation
part of the training set. One eigendecomposition K = QΛQᵀ gives all ridges of a length, (K + λI)⁻¹ = Q(Λ + λ)⁻¹Qᵀ.
The modes are orthonormal, so ‖û − u‖² = ‖ŷ − F(u)‖² + ‖u − G(F(u))‖² needs no decoding. The chosen model is fitted
to all samples. NumPy, float64.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

import numpy as np
from scipy.spatial.distance import cdist

from pcarann.backend.arrays import place_of
from pcarann.backend.concurrency import single_threaded
from pcarann.backend.progress import Tick
from pcarann.baselines.fields import Fields, checked, fit_pcas, flat, latent_scales, split
from pcarann.latent.pca import PCA
from pcarann.validation import check_choice, check_components, check_fields, check_number

__all__ = ["KERNELS", "KernelOperator", "Tuning"]

KERNELS: dict[str, Callable[[Fields], Fields]] = {
    "matern12": lambda r: np.exp(-r),
    "matern32": lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
    "matern52": lambda r: (1 + np.sqrt(5) * r + 5 / 3 * r**2) * np.exp(-np.sqrt(5) * r),
    "rbf": lambda r: np.exp(-(r**2) / 2),
}


@dataclass(frozen=True)
class Tuning:
    """What the validation chose: the whitening, the length in medians of the distance, the ridge; and its error."""

    whitening: float
    length: float
    ridge: float
    error: float


@dataclass(frozen=True)
class _Fitted:
    input_pca: PCA
    output_pca: PCA
    scales: Fields
    latents: Fields
    """Training inputs, scaled, (samples, latent)"""
    length: float
    coefficients: Fields
    """(K + λI)⁻¹ Y, (samples, latent)"""


@dataclass(kw_only=True, eq=False)
class KernelOperator:
    """Kernel ridge regression on PCA latents; `lengths`, `ridges` and `whitenings` are what the validation tries."""

    n_components: Any = (150, 150)
    kernel: Literal["matern12", "matern32", "matern52", "rbf"] = "matern52"
    lengths: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0)
    ridges: tuple[float, ...] = tuple(10.0**k for k in range(-14, 1))
    whitenings: tuple[float, ...] = (0.0, 0.5, 1.0)
    validation: float = 0.2
    seed: int = 0

    device: str = field(init=False, repr=False, default="cpu")
    history: list[dict[str, Any]] = field(init=False, repr=False, default_factory=list)
    """Empty: there is no iteration"""
    seconds: float = field(init=False, repr=False, default=0.0)
    epochs_done: int = field(init=False, repr=False, default=0)
    n_parameters: int = field(init=False, repr=False, default=0)
    """Coefficients, (samples × output latents)"""
    choice: Tuning | None = field(init=False, repr=False, default=None)
    _fitted: _Fitted | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        check_choice(self.kernel, "kernel", tuple(KERNELS))
        check_components(self.n_components)
        check_number(self.validation, "validation", above=0.0, most=0.9)

    def fit(
        self,
        inputs: Fields,
        outputs: Fields,
        *,
        budget: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        tick: Tick = lambda stage, done, total: None,
    ) -> KernelOperator:
        """Fit to input and output fields, each (samples, *grid).

        `budget` and `checkpoint` are there for the sake of the other baselines: seconds need neither.
        """
        start = time.perf_counter()
        inputs, outputs = checked(inputs, outputs)
        rows, held = split(len(inputs), self.validation, self.seed)
        with single_threaded(place_of(None)):
            self.choice = self._choose(inputs, outputs, rows, held, tick)
            self._fitted = self._solve(inputs, outputs, self.choice)
        self.n_parameters = self._fitted.coefficients.size
        self.seconds = time.perf_counter() - start
        return self

    def predict(self, inputs: Fields) -> Fields:
        """Predict output fields (samples, *grid) for input fields (samples, *grid)."""
        if self._fitted is None:
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("This KernelOperator is not fitted yet: call fit(inputs, outputs) first.")
        fitted = self._fitted
        matrix, grid = check_fields(inputs, "inputs", place_of(None))
        if grid != fitted.input_pca.grid:
            known = fitted.input_pca.grid
            raise ValueError(f"inputs have fields of shape {grid}, but the model was fitted to {known}.")
        distances = cdist(fitted.input_pca.encode(matrix) / fitted.scales, fitted.latents)
        latents = KERNELS[self.kernel](distances / fitted.length) @ fitted.coefficients
        return np.asarray(fitted.output_pca.decode(latents)).reshape(-1, *fitted.output_pca.grid)

    def _choose(
        self, inputs: Fields, outputs: Fields, rows: Fields, held: Fields, tick: Callable[[str, int, int | None], None]
    ) -> Tuning:
        """Try all settings on the validation part."""
        input_pca, output_pca, x, y = fit_pcas(inputs[rows], outputs[rows], self.n_components)
        truth = flat(outputs[held])
        x_held, y_held = input_pca.encode(flat(inputs[held])), output_pca.encode(truth)
        missed = output_pca.residual(truth, y_held) ** 2
        size = np.linalg.norm(truth, axis=1)
        choices: list[Tuning] = []
        settings = list(product(self.whitenings, self.lengths))
        for done, (whitening, length) in enumerate(settings):
            scales = latent_scales(x, whitening)
            K, K_held, _ = self._kernels(x / scales, x_held / scales, length)
            for ridge, found in zip(self.ridges, _all_ridges(K, K_held, y, self.ridges), strict=True):
                apart = ((found - y_held) ** 2).sum(axis=1) + missed
                error = float(np.mean(np.sqrt(apart) / np.where(size > 0, size, 1.0)))
                choices.append(Tuning(whitening, length, ridge, error))
            tick("settings", done + 1, len(settings))
        return min(choices, key=lambda choice: choice.error)

    def _solve(self, inputs: Fields, outputs: Fields, choice: Tuning) -> _Fitted:
        """Fit to all samples with the chosen setting."""
        input_pca, output_pca, x, y = fit_pcas(inputs, outputs, self.n_components)
        scales = latent_scales(x, choice.whitening)
        K, _, length = self._kernels(x / scales, x[:1] / scales, choice.length)
        values, Q = np.linalg.eigh(K)
        coefficients = Q @ ((Q.T @ y) / (values.clip(min=0.0) + choice.ridge)[:, None])
        return _Fitted(input_pca, output_pca, scales, x / scales, length, coefficients)

    def _kernels(self, x: Fields, x_held: Fields, length: float) -> tuple[Fields, Fields, float]:
        """Return k(X, X), k(X_held, X), and the length ℓ itself."""
        distances = cdist(x, x)
        length *= float(np.median(distances)) or 1.0
        kernel = KERNELS[self.kernel]
        return kernel(distances / length), kernel(cdist(x_held, x) / length), length


def _all_ridges(K: Fields, K_held: Fields, y: Fields, ridges: tuple[float, ...]) -> list[Fields]:
    """Return k(X_held, X)(K + λI)⁻¹ Y for each ridge, from one eigendecomposition."""
    values, Q = np.linalg.eigh(K)
    left, right = K_held @ Q, Q.T @ y
    return [left @ (right / (values.clip(min=0.0) + ridge)[:, None]) for ridge in ridges]
