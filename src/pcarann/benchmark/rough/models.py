"""The methods that are compared on rough inputs, each ready to be fitted to the samples of a case.

None is told a symmetry. Every choice is made on the training samples: the latent model is the better of two on a fifth
of them and then fitted to all; kernel ridge, random features and FNO hold out a part of their own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from pcarann.baselines import ON_CPU
from pcarann.baselines.fields import split
from pcarann.baselines.kernel_ridge import KernelOperator
from pcarann.baselines.random_features import RandomFeatures
from pcarann.benchmark.rough.cases import Case
from pcarann.metrics import relative_l2
from pcarann.operator import PCARaNN
from pcarann.spatial.channels import Channels
from pcarann.staged import Staged

__all__ = ["METHODS", "Chosen", "available", "is_ours", "latent_model", "quietly", "rival", "stages_model"]

METHODS = {
    "stages": "Stages",
    "latent": "PCA–RaNN, the better of two",
    "kernel": "PCA + kernel ridge",
    "random_features": "Function-valued random features",
    "fno": "FNO",
}
"""Titles by name"""
_SHARE = 0.2  # of the training samples, on which the latent models are compared
_FNO_SAMPLES, _FNO_EPOCHS = 300_000, 2000  # seen in all, and the most epochs


class Chosen:
    """The candidate of least error on held-out training samples, fitted to all."""

    def __init__(self, candidates: dict[str, Any]):
        self.candidates = candidates
        self.errors: dict[str, float] = {}

    @property
    def choice(self) -> str:
        """Name of the best candidate."""
        return min(self.errors, key=lambda name: self.errors[name])

    def fit(self, inputs: Any, outputs: Any) -> Chosen:
        """Fit each candidate to four fifths, and the best to all samples."""
        rows, held = (part.tolist() for part in split(len(inputs), _SHARE, 0))
        for name, model in self.candidates.items():
            model.fit(inputs[rows], outputs[rows])
            self.errors[name] = float(relative_l2(model.predict(inputs[held]), outputs[held]))
        self.candidates[self.choice].fit(inputs, outputs)
        return self

    def predict(self, inputs: Any) -> Any:
        """Predict by the best candidate."""
        return self.candidates[self.choice].predict(inputs)


def latent_model(case: Case) -> Chosen:
    """The default estimator, and a kernel in a learned metric on many modes."""
    default, kernel = PCARaNN(), PCARaNN(n_components=(300, 300), n_members=4)
    kernel.set_params(regressor="kernel", relevance="learned", ridge="gcv")
    if case.is_quick:
        default.set_params(n_components=(10, 10), widths=(40, 30), n_members=2)
        kernel.set_params(n_components=(10, 10), n_members=2)
    return Chosen({"default": default, "kernel, learned metric": kernel})


def stages_model(case: Case) -> Any:
    """Stages as they come, which settle everything by themselves; tiny ones in quick mode."""
    return Staged(n_features=8, n_members=1, n_stages=1, channels=Channels()) if case.is_quick else Staged()


def rival(case: Case, method: str, n_train: int, device: str | None = None) -> Any:
    """A baseline for so many samples of a case."""
    on_line = len(case.axes) == 1
    if method == "kernel":
        return KernelOperator(n_components=(10, 10) if case.is_quick else (300, 300))
    if method == "random_features":
        features: Any = "fourier" if on_line else "predictor_corrector"
        return RandomFeatures(features=features, n_features=30 if case.is_quick else 1024)
    from pcarann.baselines.fno import FNO

    epochs = max(1, min(_FNO_EPOCHS, _FNO_SAMPLES // n_train))
    settings: dict[str, Any] = {"axes": ("periodic", *case.axes)[-2:], "epochs": epochs, "device": device}
    if on_line:
        settings |= {"modes": (0, 32), "width": 64, "rate": 1e-3}
    else:
        settings |= {"modes": (12, 12), "width": 32, "normalisation": ("channel", "pointwise")}
    if case.is_quick:
        settings |= {"modes": (0 if on_line else 3, 3), "width": 6, "layers": 2, "projection": 8, "epochs": 2}
    return FNO(**settings)


def available(method: str) -> bool:
    """Whether what a method needs is installed."""
    needed = {"fno": "torch"}.get(method)
    return needed is None or find_spec(needed) is not None


@contextmanager
def quietly() -> Iterator[None]:
    """Without the warnings that few samples of rough fields bring: clipped ranks, poor fits, inputs outside."""
    with warnings.catch_warnings():
        for message in (
            "n_components=.* is more than there are",
            "relative error .* the model is",
            ".* inputs? lies? outside",
        ):
            warnings.filterwarnings("ignore", message=message)
        yield


def is_ours(method: str) -> bool:
    """Whether a method takes arrays of any device."""
    return method not in (*ON_CPU, "fno")
