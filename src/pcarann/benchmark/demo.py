"""The whole story on Burgers' equation, from nothing to error, intervals and an online update.

1000 samples to fit, 300 to calibrate, 100 to test; then the viscosity halves, and fronts are steeper than any that the
model has seen: 300 new samples to adapt to, with a forgetting factor, since what was true before no longer is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pcarann.metrics import coverage, mean_width, relative_l2
from pcarann.operator import PCARaNN
from pcarann.options import Adapt
from pcarann.problems import burgers

__all__ = ["Demo", "run_demo"]

N_TRAIN, N_CALIBRATION, N_TEST = 1000, 300, 100
N_NEW = 300
NEW_VISCOSITY = 0.005
FORGETTING = 0.97
ALPHA = 0.05
LEVELS = tuple(float(level) for level in np.linspace(0.05, 0.95, 19))
ADAPTED = (0, 25, 50, 100, 150, 200, N_NEW)

Fields = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Demo:
    """What the demonstration found."""

    generate_seconds: float
    fit_seconds: float
    predict_seconds: float
    adapt_seconds: float
    error: float
    coverage: float
    width: float
    levels: tuple[float, ...]
    coverages: tuple[float, ...]
    """Share of test values inside the interval, for each nominal level"""
    adapted: tuple[int, ...]
    """New samples seen"""
    new_errors: tuple[float, ...]
    """Error in the new regime after as many"""
    x: Fields
    t: Fields
    truth: Fields
    """The test sample of median error, (times, points)"""
    mean: Fields
    lower: Fields
    upper: Fields

    def facts(self) -> dict[str, Any]:
        """The numbers, without the fields."""
        return {name: value for name, value in vars(self).items() if not isinstance(value, np.ndarray)}


def run_demo(tell: Callable[[str], None] = lambda message: None, *, verbose: bool = False) -> Demo:
    """Generate, fit, test, calibrate and adapt; `tell` hears what is being done."""
    tell("Solving Burgers' equation 1400 + 400 times (kept in the cache for the next run)")
    start = time.perf_counter()
    data = burgers.generate(N_TRAIN + N_CALIBRATION + N_TEST, seed=0, verbose=verbose)
    shifted = burgers.generate(N_NEW + N_TEST, seed=1, viscosity=NEW_VISCOSITY, verbose=verbose)
    generate_seconds = time.perf_counter() - start
    train, calibration, test = data.split(N_TRAIN, N_CALIBRATION, N_TEST)

    tell("Fitting 20 random networks on shared PCAs")
    start = time.perf_counter()
    model = PCARaNN(n_components=(99, 100), adapt=Adapt(forgetting=FORGETTING), verbose=verbose)
    model.fit(train.inputs, train.outputs)
    fit_seconds = time.perf_counter() - start

    start = time.perf_counter()
    errors = relative_l2(model.predict(test.inputs), test.outputs, per_sample=True)
    predict_seconds = (time.perf_counter() - start) / N_TEST

    tell("Calibrating the intervals")
    model.calibrate(calibration.inputs, calibration.outputs)
    bands = {level: model.predict_interval(test.inputs, alpha=round(1 - level, 10)) for level in (*LEVELS, 1 - ALPHA)}
    coverages = {level: coverage(band.lower, band.upper, test.outputs) for level, band in bands.items()}
    band = bands[1 - ALPHA]
    median = int(np.argsort(errors)[N_TEST // 2])

    tell("Adapting to half the viscosity")
    new_errors, adapt_seconds = _adapt(model, shifted)
    return Demo(
        generate_seconds=generate_seconds,
        fit_seconds=fit_seconds,
        predict_seconds=predict_seconds,
        adapt_seconds=adapt_seconds,
        error=float(np.mean(errors)),
        coverage=coverages[1 - ALPHA],
        width=mean_width(band.lower, band.upper),
        levels=LEVELS,
        coverages=tuple(coverages[level] for level in LEVELS),
        adapted=ADAPTED,
        new_errors=new_errors,
        x=data.coordinates["x"],
        t=data.coordinates["t"],
        truth=test.outputs[median],
        mean=band.mean[median],
        lower=band.lower[median],
        upper=band.upper[median],
    )


def _adapt(model: PCARaNN, shifted: Any) -> tuple[tuple[float, ...], float]:
    """Take in new samples bit by bit; return the error on others after each bit, and the seconds of all updates."""
    new, test = shifted.split(N_NEW, N_TEST)
    errors, seconds = [relative_l2(model.predict(test.inputs), test.outputs)], 0.0
    for before, after in pairwise(ADAPTED):
        start = time.perf_counter()
        model.partial_fit(new.inputs[before:after], new.outputs[before:after])
        seconds += time.perf_counter() - start
        errors.append(relative_l2(model.predict(test.inputs), test.outputs))
    return tuple(errors), seconds
