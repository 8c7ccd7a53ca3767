"""A surrogate from its file: `load`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sklearn.base import clone

from pcarann.backend.arrays import place_of
from pcarann.marching.estimator import Marching
from pcarann.marching.intervals import WindowCalibration
from pcarann.marching.marched import Marched
from pcarann.operator import PCARaNN
from pcarann.settings import Settings
from pcarann.staged import Staged
from pcarann.storage.arrays import Arrays
from pcarann.storage.container import ModelFileError, read
from pcarann.storage.formats import Document, upgraded
from pcarann.storage.limits import LIMIT, Allowance
from pcarann.storage.rebuild import rebuilt, rebuilt_calibration
from pcarann.storage.stages import TermsError, rebuilt_parameters, rebuilt_stages
from pcarann.storage.typed import checked
from pcarann.validation import check_memory, unstopped

__all__ = ["load"]


def load(
    path: str | os.PathLike[str],
    device: str | None = None,
    terms: Sequence[Callable[..., Any]] = (),
    limit: int | str = LIMIT,
) -> Any:
    """Read a model written by the `save` of a surrogate, onto the CPU or the `device` asked for.

    A `Staged` that was fitted with `terms` needs these functions again, and ValueError says so where they are missing.
    `limit` is the memory, in bytes or as in "2GB", that the model may take beyond four times its arrays: a file can
    say sizes that no array of it bounds. Raises ModelFileError for anything that is not a sound model file.
    """
    place = place_of(None, device)  # a device that is not there is no fault of the file
    check_memory(limit)
    document, tensors = read(path)
    arrays = Arrays(tensors, place, Allowance.of(tensors, limit))
    try:
        model: PCARaNN | Staged
        if document.get("kind") == "stages":
            model = _staged(document, arrays, device, terms)
        else:
            document = upgraded(document, tensors)
            model = _latent(document, arrays, device)
        described = document.get("marching")
        return model if described is None else _marching(described, model, arrays)
    except TermsError as error:  # no fault of the file
        raise ValueError(f"{os.fspath(path)}: {unstopped(error)}.") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RuntimeError) as error:
        raise ModelFileError(f"{os.fspath(path)} does not describe a model: {unstopped(error)}.") from error


def _latent(document: Document, arrays: Arrays, device: str | None) -> PCARaNN:
    fitted, parameters = rebuilt(document, arrays)
    model = PCARaNN(**parameters | {"device": device})
    Settings.of(model, seed=fitted.feature_map.random_seed)
    model.fitted_ = fitted
    return model


def _staged(document: Document, arrays: Arrays, device: str | None, terms: Sequence[Callable[..., Any]]) -> Staged:
    """Return stages, with the model that they start from."""
    base: Any = None
    if "model" in document:
        inner = {name.removeprefix("model/"): part for name, part in arrays.found.items() if name.startswith("model/")}
        base = _latent(upgraded(document["model"], inner), replace(arrays, found=inner), device)
    fitted = rebuilt_stages(document, arrays, base, terms)
    start = {"mean field": "mean", "input": "input"}.get(fitted.start.name, base)
    start = clone(base) if start is base else start
    model = Staged(start, **rebuilt_parameters(document, fitted), terms=tuple(terms), device=device)
    model.fitted_ = fitted
    return model


def _marching(described: dict[str, Any], model: PCARaNN | Staged, arrays: Arrays) -> Marching:
    """Return the flow of which the model is one step."""
    tensors = arrays.found
    choose = checked(described.get("choose", False), bool, "choose")  # older ones did not
    step, first, window = (checked(described[name], int, f"its {name}") for name in ("step", "first", "window"))
    flow = Marching(clone(model), step, first, choose)
    state: Any = model.fitted_
    grid, calibrated = tuple(state.output_grid), described["calibration"]
    seen = state.layout.input_grid if isinstance(model, Staged) else tuple(state.ensemble.input_pca.grid)
    controls = checked(described.get("controls", 0), int, "its controls")
    if window < 1 or step < 1 or first < 0 or controls < 0 or seen != ((1 + controls, *grid) if controls else grid):
        raise ValueError("its step cannot be marched")
    arrays.allowance.check(8 * window * math.prod(grid), "one roll-out over its window")
    points = window * math.prod(grid) if calibrated is None else int(calibrated["points"])
    if points % math.prod(grid) or points < window * math.prod(grid):
        raise ValueError("its calibration does not fit its window")
    calibration = rebuilt_calibration(calibrated, "marching", tensors, state.place, {points})
    if calibration is not None:
        calibration = WindowCalibration.rebuilt(calibration, points // math.prod(grid), tensors, state.place)
    flow.marched_ = Marched.rebuilt(described, model, calibration, arrays)
    return flow
