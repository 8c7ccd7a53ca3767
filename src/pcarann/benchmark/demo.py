"""The whole story on Burgers' equation, from nothing to error, intervals and an online update.

1000 samples to fit, 300 to calibrate, 100 to test; then the viscosity halves, and fronts are steeper than any that the
model has seen: 300 new samples to adapt to, with a forgetting factor, since what was true before no longer is.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pcarann.drawing import BLUE, GREY, ORANGE, blank, save, style
from pcarann.metrics import coverage, mean_width, relative_l2
from pcarann.operator import PCARaNN
from pcarann.options import Adapt
from pcarann.problems import burgers

__all__ = ["Demo", "demo_figure", "run_demo"]

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
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Errors are no longer|New outputs leave the span")  # as meant
            model.partial_fit(new.inputs[before:after], new.outputs[before:after])
        seconds += time.perf_counter() - start
        errors.append(relative_l2(model.predict(test.inputs), test.outputs))
    return tuple(errors), seconds


def demo_figure(demo: Demo, path: str | os.PathLike[str]) -> None:
    """Draw the demonstration: a solution, its prediction, its interval, the coverage and the adaptation."""
    with style():
        figure = blank(11, 6.2)
        axes = figure.subplots(2, 3)
        figure.suptitle("A surrogate of Burgers' equation: 100 unseen samples, the one of median error drawn", x=0.5)
        _draw_fields(figure, axes[0], demo)
        _draw_band(axes[1, 0], demo)
        _draw_reliability(axes[1, 1], demo)
        _draw_adaptation(axes[1, 2], demo)
        save(figure, path)


def _draw_fields(figure: Any, axes: Any, demo: Demo) -> None:
    limit = float(abs(demo.truth).max())
    extent = (demo.x[0], demo.x[-1], demo.t[0], demo.t[-1])
    signed = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    panels = (
        (demo.truth, "a  solver, u(x, t)", signed),
        (demo.mean, f"b  surrogate, {1e3 * demo.predict_seconds:.2g} ms a sample", signed),
        (abs(demo.mean - demo.truth), "c  absolute error", {"cmap": "viridis", "vmin": 0}),
    )
    for axis, (values, title, colours) in zip(axes, panels, strict=True):
        image = axis.imshow(values, origin="lower", extent=extent, aspect="auto", **colours)
        figure.colorbar(image, ax=axis, pad=0.02)
        axis.set(title=title, xlabel="x", ylabel="t")


def _draw_band(axis: Any, demo: Demo) -> None:
    error, half = demo.truth[-1] - demo.mean[-1], (demo.upper[-1] - demo.lower[-1]) / 2
    axis.fill_between(demo.x, -half, half, color=BLUE, alpha=0.25, linewidth=0, label="95 % interval")
    axis.plot(demo.x, error, color=ORANGE, linewidth=1.4, label="solver − surrogate")
    top = 1.1 * max(abs(error).max(), half.max())
    axis.set(title="d  error at t = 1 and its interval", xlabel="x", ylabel="u", xlim=(0, 1), ylim=(-top, 1.9 * top))
    axis.ticklabel_format(axis="y", scilimits=(0, 0))
    axis.legend(loc="upper right")


def _draw_reliability(axis: Any, demo: Demo) -> None:
    axis.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="perfect")
    axis.plot(demo.levels, demo.coverages, color=BLUE, marker="o", markersize=3, label="measured")
    axis.set(title="e  do the intervals hold?", xlabel="level asked for", ylabel="share covered")
    axis.set(xlim=(0, 1), ylim=(0, 1))
    axis.legend(loc="upper left")


def _draw_adaptation(axis: Any, demo: Demo) -> None:
    axis.plot(demo.adapted, demo.new_errors, color=BLUE, marker="o", markersize=4)
    axis.axhline(demo.new_errors[0], color=GREY, linestyle="--", linewidth=1)
    axis.annotate("not adapted", (demo.adapted[-1], demo.new_errors[0]), ha="right", va="bottom", color=GREY)
    axis.set(title="f  adapting to half the viscosity", xlabel="new samples seen", ylabel="relative L² error")
    axis.set_ylim(0, 1.15 * max(demo.new_errors))
