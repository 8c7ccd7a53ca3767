"""Past the paper: the options of the estimator put to work on the four problems.

`best_model` is the estimator for a problem with all that helps, `ABLATIONS` what each option contributes, and
`run_best` fits, times and evaluates one of them. Scales, ridges, lengths and metrics are chosen anew in every fit,
from training and validation samples. The structure (which options, widths, numbers of copies, first snapshot, the
powers and gains that are given) was settled on the first data seed, some of whose test errors were seen on the way; no
choice was made on the other two seeds. The symmetries are exact properties of the equations:

    Burgers         shifts along the period, u(x) ↦ −u(−x)
    Darcy           the eight moves of the square
    Navier–Stokes   ω(x + s, y − s); the glide −ω(y + ¼, x + ¼); the half turn ω(⅛ − x, ⅛ − y)
    backward heat   the eight moves of the square
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from pcarann.backend.arrays import place_of
from pcarann.benchmark.noise import NOISES, noisy_split
from pcarann.benchmark.runner import (
    SHIFTED_SEED,
    Record,
    Tell,
    _generate,
    _header,
    _quietly,
    _sample_errors,
    baseline_results,
    intervals_at_95,
    window_errors,
    write_record,
)
from pcarann.benchmark.settings import ADAPTATION, Adaptation, Problem
from pcarann.marching import Marching
from pcarann.operator import PCARaNN
from pcarann.options import Fields, Refine
from pcarann.problems.dataset import OperatorData
from pcarann.symmetry.generators import Symmetry

__all__ = [
    "ABLATIONS",
    "ADAPTED",
    "SEEDS",
    "SIZES",
    "best_model",
    "reproduce_best",
    "run_best",
    "run_best_adaptation",
    "run_symmetric_baseline",
    "symmetry_of",
]

SEEDS = (0, 1, 2)
"""Of the data"""
SIZES = (50, 100, 200, 500, 1000)
"""Training samples of the learning curves"""

ADAPTED = {"best": "PCA–RaNN, best"}
"""Ways to adapt to the later window of Navier–Stokes, beside the paper's"""

Model = PCARaNN | Marching
Change = Callable[[Model], Model]


def glide(fields: Any) -> Any:
    """−ω(y + ¼, x + ¼)"""
    quarter = fields.shape[-1] // 4
    return -np.swapaxes(np.roll(fields, (-quarter, -quarter), (-2, -1)), -2, -1)


def half_turn(fields: Any) -> Any:
    """ω(⅛ − x, ⅛ − y)"""
    eighth = fields.shape[-1] // 8
    return np.roll(np.flip(fields, (-2, -1)), (eighth + 1, eighth + 1), (-2, -1))


def symmetry_of(name: str) -> Symmetry:
    """The exact symmetry of a problem."""
    if name == "burgers":
        return Symmetry.shifts(-1, closed=True) * Symmetry.reflection(-1, sign=-1)
    if name == "navier_stokes":
        return Symmetry.shifts({-2: 1, -1: -1}) * Symmetry.of(glide, glide) * Symmetry.of(half_turn, half_turn)
    return Symmetry.dihedral()


def best_model(name: str, *, quick: bool = False) -> Model:
    """The unfitted estimator for a problem; `quick` makes it tiny, for tests."""
    symmetry = symmetry_of(name)
    if name == "burgers":
        model = PCARaNN(
            n_components=(36, 400),
            widths=(1000, 1000),
            n_members=4,
            scales=Refine(1e-7),
            ridge=1e-8,
            linear=True,
            relevance=-0.6,
            symmetry=symmetry.using(fit=20),
        )
    elif name == "darcy":
        model = PCARaNN(
            n_components=(400, 400),
            n_members=4,
            regressor="kernel",
            relevance="learned",
            ridge="gcv",
            symmetry=symmetry,
        )
    elif name == "navier_stokes":
        model = PCARaNN(
            n_components=(250, 250),
            widths=(3000, 3000),
            n_members=4,
            scales=("gain", 0.135, 0.05),
            ridge=1e-9,
            linear=True,
            relevance=-0.1,
            symmetry=symmetry.using(fit=2, predict=16),
        )
    else:
        model = PCARaNN(
            n_components=(100, 100),
            widths=(20, 20),
            n_members=4,
            scales=("gain", 0.1, 0.1),
            ridge="gcv",
            linear=True,
            symmetry=symmetry,
        )
    if quick:
        few = symmetry.using(fit=2, predict=2)
        model.set_params(n_components=(10, 10), widths=(40, 30), n_members=2, symmetry=few)
    return Marching(model, first=5) if name == "navier_stokes" else model


def _step(model: Model) -> PCARaNN:
    """The estimator itself, or that of the step which is marched."""
    inner = model.model if isinstance(model, Marching) else model
    assert inner is not None
    return inner


def _changed(**parameters: Any) -> Change:
    """Change parameters of the estimator."""

    def change(model: Model) -> Model:
        made: Model = clone(model)
        _step(made).set_params(**parameters)
        return made

    return change


def _unmoved(at: str) -> Change:
    """Drop the symmetry from the fit or from the prediction alone."""

    def change(model: Model) -> Model:
        symmetry = _step(model).symmetry
        assert symmetry is not None
        counts = {"fit": symmetry.n_fit, "predict": symmetry.n_predict} | {at: 1}
        return _changed(symmetry=symmetry.using(**counts))(model)

    return change


def _direct(model: Model) -> Model:
    """One map from the last snapshot to the whole window in the place of marching."""
    return _changed(symmetry=symmetry_of("navier_stokes").using(fit=8, predict=16))(_step(model))


def _from_history(model: Model, **parameters: Any) -> Model:
    """One map from all ten snapshots to the whole window."""
    return _changed(**parameters)(_direct(model))


_SYMMETRY = {
    "without symmetry": _changed(symmetry=None),
    "symmetry in the fit alone": _unmoved("predict"),
    "symmetry at prediction alone": _unmoved("fit"),
}
_PLAIN = {"without relevance": _changed(relevance=0.0), "least squares, ridge 0": _changed(ridge=0.0)}

ABLATIONS: dict[str, dict[str, Change]] = {
    "burgers": {
        **_SYMMETRY,
        **_PLAIN,
        "without linear term": _changed(linear=False),
        "energy-matched scales": _changed(scales="energy"),
        "kernel": _changed(regressor="kernel", ridge="gcv"),
        "100 output modes": _changed(n_components=(36, 100)),
    },
    "darcy": {
        **_SYMMETRY,
        **_PLAIN,
        "power −0.7 for the learned metric": _changed(relevance=-0.7),
        "with a linear term": _changed(linear=True),
        "random layers": _changed(regressor="random", widths=(3500, 1000), scales=("gain", 0.2, 0.2), linear=True),
    },
    "navier_stokes": {
        **_SYMMETRY,
        **_PLAIN,
        "without linear term": _changed(linear=False),
        "energy-matched scales": _changed(scales="energy"),
        "kernel": _changed(regressor="kernel", ridge="gcv"),
        "last snapshot to all ten, no marching": _direct,
        "ten snapshots to all ten, joint PCA": _from_history,
        "ten snapshots to all ten, weighted channels": partial(
            _from_history, n_components=(25, 250), fields=Fields(channels=True), relevance="channels"
        ),
    },
    "backward_heat": {
        **_SYMMETRY,
        "least squares, ridge 0": _changed(ridge=0.0),
        "without linear term": _changed(linear=False, widths=(400, 100), scales=Refine(1e-12)),
        "400 and 100 neurons beside it": _changed(widths=(400, 100)),
        "kernel": _changed(regressor="kernel"),
    },
}
"""For each problem, what is changed and how"""


def reproduce_best(
    problems: Iterable[Problem],
    folder: Path,
    *,
    device: str | None = None,
    quick: bool = False,
    tell: Tell = lambda message: None,
) -> Iterator[Path]:
    """Run all of it for these problems, write the records into `folder`, and yield their paths.

    Three data seeds of the best model; on the first of them each change, the learning curves with and without the
    symmetry, and backward heat with noise.
    """
    for problem in problems:
        run = partial(run_best, problem, device=device, quick=quick, tell=tell)
        for seed in SEEDS:
            yield write_record(folder, run(seed=seed))
        for change in ABLATIONS[problem.name]:
            yield write_record(folder, run(change=change))
        for size in SIZES[:-1] if not quick else (30,):
            for changed in (None, "without symmetry"):
                yield write_record(folder, run(n_train=size, change=changed, intervals=False))
        if problem.name == "navier_stokes":
            adaptation = ADAPTATION.quick() if quick else ADAPTATION
            for way in ADAPTED:
                record = run_best_adaptation(problem, adaptation, way=way, device=device, quick=quick, tell=tell)
                yield write_record(folder, record)
        for noise in NOISES if problem.name == "backward_heat" else ():
            for changed in (None, "without symmetry", "without linear term", "kernel"):
                yield write_record(folder, run(noise=noise, change=changed))


def run_symmetric_baseline(
    problem: Problem,
    method: str,
    *,
    copies: int = 8,
    device: str | None = None,
    budget: float | None = None,
    quick: bool = False,
    tell: Tell = lambda message: None,
) -> Record:
    """Train a baseline on what the best model sees: copies under the symmetry, and the last snapshot alone."""
    from pcarann.baselines import ARCHITECTURES, baseline

    tell(f"{problem.title}: {method} with symmetry copies")
    data = _generate(problem, problem.n_samples, 0, device, problem.options)
    data = _last_snapshot(data) if problem.name == "navier_stokes" else data
    train, _, test = data.split(problem.n_train, problem.n_calibration, problem.n_test)
    group = symmetry_of(problem.name).bind(train.inputs.shape[1:], train.outputs.shape[1:])
    elements = group.subset(copies, seed=0)
    a, u = (part.reshape(len(train), -1) for part in (train.inputs, train.outputs))
    moved = [
        np.concatenate([move(part, g) for g in elements])
        for move, part in ((group.move_inputs, a), (group.move_outputs, u))
    ]
    model = baseline(problem.name, method, seed=0, device=device, quick=quick)
    if method != "kernel":
        model.validation = 0.0  # a validation part would hold copies of what is trained on: the last weights are kept
    inputs, outputs = moved[0].reshape(-1, *train.inputs.shape[1:]), moved[1].reshape(-1, *train.outputs.shape[1:])
    _quietly(partial(model.fit, budget=budget), inputs, outputs)
    architecture = f"{ARCHITECTURES[problem.name, method]}; {len(elements)} symmetry copies"
    record = _header("baseline", problem, device) | {"method": f"{method}_symmetric", "architecture": architecture}
    return record | baseline_results(model, problem, test, budget)


def run_best(
    problem: Problem,
    *,
    seed: int = 0,
    change: str | None = None,
    n_train: int | None = None,
    noise: float = 0.0,
    intervals: bool = True,
    device: str | None = None,
    quick: bool = False,
    tell: Tell = lambda message: None,
) -> Record:
    """Fit the best model of a problem, or one with a single change, on one data seed; return its record."""
    label = change or "best"
    tell(f"{problem.title}, seed {seed}: {label}" + (f", {n_train} samples" if n_train else ""))
    data = _generate(problem, problem.n_samples, seed, device, problem.options)
    train, calibration, test = noisy_split(problem, data, noise)
    if n_train:
        train = train[:n_train]
    model = best_model(problem.name, quick=quick)
    if change:
        model = ABLATIONS[problem.name][change](model)
    last = change == "last snapshot to all ten, no marching"
    parts = [_last_snapshot(part) if last else part for part in (train, calibration, test)]
    seconds = _timed_fit(model, parts[0], device)
    shares = None if isinstance(model, Marching) else model.sensitivity_.channels
    begun = time.perf_counter()
    mean, _ = model.predict(parts[2].inputs, return_std=True)
    predicting = time.perf_counter() - begun
    errors = _sample_errors(problem, mean, parts[2].outputs)
    record = {
        **_header("best", problem, device),
        "members": _step(model).n_members,
        "widths": _step(model).widths,
        "change": change,
        "n_train": len(train),
        "noise": noise,
        "error": float(errors.mean()),
        "error_std": float(errors.std()),
        "seconds": seconds,
        "predict_seconds": predicting,
        "channel_shares": None if shares is None else shares.tolist(),
    }
    record["seeds"] = {"data": seed, "model": 0}
    if intervals:
        model.calibrate(parts[1].inputs, parts[1].outputs)
        scores = model.fitted_.calibration
        assert scores is not None
        record["intervals"] = intervals_at_95(scores, model.predict_parts(parts[2].inputs), parts[2])
    return record


def run_best_adaptation(
    problem: Problem,
    settings: Adaptation = ADAPTATION,
    *,
    way: str = "best",
    device: str | None = None,
    quick: bool = False,
    tell: Tell = lambda message: None,
) -> Record:
    """Take a Navier–Stokes model to the later window, before and after new trajectories are taken in.

    `way` is one of `ADAPTED`.
    """
    tell(f"Adaptation: {ADAPTED[way]}")
    train = _generate(problem, problem.n_samples, 0, device, problem.options)[: problem.n_train]
    options = {**problem.options, "window": settings.window}
    shifted = _generate(problem, settings.counts[-1] + settings.n_test, SHIFTED_SEED, device, options)
    new, test = shifted.split(settings.counts[-1], settings.n_test)
    model = best_model(problem.name, quick=quick)
    _timed_fit(model, train, device)
    rows = []
    for count in (0, len(new)):
        begun = time.perf_counter()
        if count:
            model.partial_fit(new.inputs, new.outputs)
        seconds = time.perf_counter() - begun if count else None
        last, mean = window_errors(model, test)
        rows.append({"samples": count, "error_last": last, "error_mean": mean, "recursive_seconds": seconds})
    members = _step(model).n_members
    return {**_header("best_adaptation", problem, device), "way": way, "members": members, "rows": rows}


def _timed_fit(model: Model, train: OperatorData, device: str | None) -> float:
    """Fit with the data where the model lives; return the seconds of the whole call."""
    place = place_of(None, device)
    a, u = place.put(train.inputs), place.put(train.outputs)
    place.wait()
    begun = time.perf_counter()
    _quietly(model.fit, a, u)
    place.wait()
    return time.perf_counter() - begun


def _last_snapshot(data: OperatorData) -> OperatorData:
    return replace(data, inputs=data.inputs[:, -1])
