"""What every run has: data from a seed, a fit, errors and intervals on the test set, the head of its record.

Nothing here looks at the test set before the model is final.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.baselines import ON_CPU, baseline
from pcarann.benchmark.machine import gpu_name, machine_facts
from pcarann.benchmark.paper.configurations import VARIANTS, Problem, Variant
from pcarann.benchmark.records import Record
from pcarann.marching.estimator import Marching
from pcarann.metrics import coverage, mean_width, relative_l2
from pcarann.operator import PCARaNN
from pcarann.options import Refine
from pcarann.problems.dataset import OperatorData
from pcarann.uncertainty.conformal import Method

__all__ = [
    "DATA_SEED",
    "MODEL_SEED",
    "Tell",
    "calibrated_bands",
    "circumstances",
    "error_and_spread",
    "fit_quietly",
    "generate",
    "generate_window",
    "header",
    "intervals_at_95",
    "paper_model",
    "run_rival",
    "sample_errors",
    "window_errors",
]

DATA_SEED, SHIFTED_SEED, MODEL_SEED = 0, 1, 0
METHODS: tuple[Method, ...] = ("pooled", "sample", "simultaneous")

Tell = Callable[[str], None]
Bands = Callable[[float, Method], tuple[Any, Any]]


def generate(problem: Problem, *, seed: int = DATA_SEED, device: str | None = None) -> OperatorData:
    """All samples of a problem: those for training, calibration and test, in this order."""
    return _generate(problem, sum(problem.sizes), seed, device)


def generate_window(problem: Problem, device: str | None) -> list[OperatorData]:
    """Training samples; samples of the later window to adapt to, and others of it to test on."""
    train = generate(problem, device=device)[: problem.n_train]
    later = problem.later_window
    sizes = later.counts[-1], later.n_test
    return [train, *_generate(problem, sum(sizes), SHIFTED_SEED, device, window=later.start).split(*sizes)]


def _generate(problem: Problem, n: int, seed: int, device: str | None, **options: Any) -> OperatorData:
    module = import_module(f"pcarann.problems.{problem.name}")
    data: OperatorData = module.generate(n, seed=seed, device=device, verbose=True, **problem.options, **options)
    return data


def paper_model(problem: Problem, variant: Variant, members: int, device: str | None) -> PCARaNN:
    """The paper's model of a problem, unfitted."""
    return PCARaNN(
        n_components=problem.n_components,
        widths=problem.widths,
        n_members=members,
        scales=Refine(problem.refine_ridge) if variant == "refined" else variant,
        random_state=MODEL_SEED,
        device=device,
    )


def fit_quietly(model: Any, inputs: Any, outputs: Any, **options: Any) -> None:
    """Fit without the warning about clipped ranks: the paper's numbers of modes exceed some ranks, by design."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="n_components=.* is more than there are")
        model.fit(inputs, outputs, **options)


def sample_errors(problem: Problem, prediction: Any, truth: Any) -> np.ndarray[Any, Any]:
    """Relative L² error of each field, or of its last snapshot, as the paper defines it for the problem."""
    if problem.last_time_only:
        prediction, truth = prediction[:, -1], truth[:, -1]
    return to_host(relative_l2(prediction, truth, per_sample=True))


def window_errors(model: Any, test: OperatorData) -> tuple[float, float]:
    """Error at the last time, and the mean over all times."""
    with warnings.catch_warnings():  # leaving the training data is the point of the experiment
        warnings.filterwarnings("ignore", message=".* inputs? lies? outside")
        prediction = model.predict(test.inputs)
    times = range(test.outputs.shape[1])
    errors = [relative_l2(prediction[:, t], test.outputs[:, t]) for t in times]
    return errors[-1], float(np.mean(errors))


def calibrated_bands(model: PCARaNN | Marching, calibration: OperatorData, test: OperatorData) -> Bands:
    """Calibrate a model; return what gives the lower and upper test fields for a level and a method."""
    model.calibrate(calibration.inputs, calibration.outputs)
    found = model.predict_parts(test.inputs)
    scores = model.fitted_.calibration
    assert scores is not None

    def band(level: float, method: Method) -> tuple[Any, Any]:
        half = scores.half_width(found.members, scores.quantile(round(1 - level, 10), method), found.beyond)
        return to_host(found.mean - half), to_host(found.mean + half)

    return band


def intervals_at_95(bands: Bands, test: OperatorData) -> Record:
    """Coverage and mean width of the 95 % intervals by each method, and how many fields lie inside as a whole."""
    found: Record = {}
    for method in METHODS:
        lower, upper = bands(0.95, method)
        inside = ((lower <= test.outputs) & (test.outputs <= upper)).reshape(len(test), -1).all(axis=1)
        found[method] = {
            "coverage": coverage(lower, upper, test.outputs),
            "width": mean_width(lower, upper),
            "whole_fields": float(inside.mean()),
        }
    return found


def run_rival(
    problem: Problem,
    method: str,
    parts: Sequence[OperatorData],
    about: Record,
    *,
    device: str | None = None,
    budget: float | None = None,
    validated: bool = True,
) -> Record:
    """Train a baseline, or one of the paper's models, on the first of some parts and test it on the last.

    `about` is what the record says of the run, its kind above all. A baseline that is not `validated` keeps its last
    weights.
    """
    train, *_, test = parts
    where = None if method in ON_CPU else device
    training: Record = {}
    curve: Record = {}
    if method in VARIANTS:
        model: Any = paper_model(problem, method, problem.n_members, where)
        fit_quietly(model, train.inputs, train.outputs)
    else:
        model = baseline(problem.name, method, seed=MODEL_SEED, device=where, quick=problem.is_quick)
        if not validated and method not in ON_CPU:
            model.validation = 0.0
        fit_quietly(model, train.inputs, train.outputs, budget=budget)
        training = {
            "parameters": model.n_parameters,
            "budget": budget,
            "epochs": model.epochs_done,
            "seconds": model.seconds,
        }
        curve = {"curve": [[point["seconds"], point["validation_error"]] for point in model.history]}
    found = error_and_spread(problem, model.predict(test.inputs), test)
    return header(about["kind"], problem, where) | about | training | found | curve


def error_and_spread(problem: Problem, prediction: Any, test: OperatorData) -> Record:
    """Mean error, and its standard deviation over test samples."""
    errors = sample_errors(problem, prediction, test.outputs)
    return {"error": float(errors.mean()), "error_std": float(errors.std())}


def header(kind: str, problem: Problem, device: str | None, seed: int = DATA_SEED) -> Record:
    """What every record begins with: what was run and where."""
    sizes = {"sizes": list(problem.sizes), "members": problem.n_members, "widths": problem.widths}
    return circumstances(kind, problem.name, device, seed, quick=problem.is_quick) | sizes


def circumstances(kind: str, name: str, device: str | None, seed: int, *, quick: bool) -> Record:
    """What was run, where, when and by which code, whatever it was."""
    return {
        "kind": kind,
        "problem": name,
        "place": "cpu" if device in (None, "cpu") else gpu_name(device).lower().replace(" ", "-"),
        "quick": quick,
        "seeds": {"data": seed, "model": MODEL_SEED},
        "machine": machine_facts(device),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
