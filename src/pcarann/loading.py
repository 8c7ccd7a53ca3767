"""A surrogate from its file: `load`."""

from __future__ import annotations

import os
from typing import Any

from sklearn.base import clone

from pcarann.backend.arrays import place_of
from pcarann.fitted import Fitted
from pcarann.marching import Marched, Marching
from pcarann.operator import PCARaNN
from pcarann.settings import Settings
from pcarann.storage.container import ModelFileError, read
from pcarann.storage.formats import Tensors, upgraded
from pcarann.storage.rebuild import rebuilt, rebuilt_calibration

__all__ = ["load"]


def load(path: str | os.PathLike[str], device: str | None = None) -> Any:
    """Read a model written by `PCARaNN.save` or `Marching.save`, onto the CPU or the `device` asked for.

    Raises ModelFileError for anything that is not a sound model file.
    """
    place = place_of(None, device)
    document, tensors = read(path)
    try:
        document = upgraded(document, tensors)
        fitted, parameters = rebuilt(document, tensors, place)
        model = PCARaNN(**parameters | {"device": device})
        Settings.of(model, seed=fitted.feature_map.random_seed)
        model.fitted_ = fitted
        described = document.get("marching")
        return model if described is None else _marching(described, model, fitted, tensors)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RuntimeError) as error:
        raise ModelFileError(f"{os.fspath(path)} does not describe a model: {error}.") from error


def _marching(described: dict[str, Any], model: PCARaNN, fitted: Fitted, tensors: Tensors) -> Marching:
    """Return the flow of which the model is one step."""
    ensemble = fitted.ensemble
    flow = Marching(clone(model), int(described["step"]), int(described["first"]))
    window = int(described["window"])
    if window < 1 or flow.step < 1 or ensemble.input_pca.grid != ensemble.output_pca.grid:
        raise ValueError("its step cannot be marched")
    points = window * int(ensemble.output_pca.mean.shape[0])
    calibration = rebuilt_calibration(described["calibration"], "marching", tensors, ensemble.place, points)
    flow.marched_ = Marched(model, flow.step, window, calibration, int(described["calibrated"]))
    return flow
