"""Runs of the best models, and of baselines on what these see.

Three data seeds of the best model; on the first of them each change, the learning curves with and without the symmetry,
the later window of Navier–Stokes, and backward heat with noise.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from pcarann.backend.arrays import place_of
from pcarann.baselines import ARCHITECTURES
from pcarann.benchmark.best.corrections import run_corrections
from pcarann.benchmark.best.models import ABLATIONS, ADAPTED, Model, best_model, estimator_of, symmetry_of
from pcarann.benchmark.best.noise import NOISES, OTHERS, noisy_split, run_noisy
from pcarann.benchmark.best.stages import stages_records
from pcarann.benchmark.paper.configurations import PROBLEMS, Problem
from pcarann.benchmark.paper.runs import (
    DATA_SEED,
    Tell,
    calibrated_bands,
    error_and_spread,
    fit_quietly,
    generate,
    generate_window,
    header,
    intervals_at_95,
    run_rival,
    window_errors,
)
from pcarann.benchmark.records import Record, write_record
from pcarann.benchmark.rough.experiments import reproduce_rough
from pcarann.marching.estimator import Marching
from pcarann.problems.dataset import OperatorData

__all__ = ["SEEDS", "SIZES", "reproduce_best", "run_best", "run_best_adaptation", "run_symmetric_baseline"]

SEEDS = (0, 1, 2)
"""Of the data"""
SIZES = (50, 100, 200, 500, 1000)
"""Training samples of the learning curves"""
_COPIES = 8
"""Under the symmetry, of which a baseline sees as many"""


def reproduce_best(
    names: Iterable[str], folder: Path, *, device: str | None, quick: bool, budget: float | None, tell: Tell
) -> Iterator[Path]:
    """Run all of it for these problems, write the records into `folder`, and yield their paths.

    "rough" stands for the cases with rough inputs. Where there is a budget, FNO is then trained with the symmetry and
    on rough inputs, and every other method with noise, for at most so many seconds each.
    """
    names = list(names)
    problems = [PROBLEMS[name].quick() if quick else PROBLEMS[name] for name in names if name != "rough"]
    for problem in problems:
        for record in _best_records(problem, device, tell):
            yield write_record(folder, record)
        if problem.name == "darcy":
            yield write_record(folder, *run_corrections(problem, device=device, tell=tell))
    for problem in problems if budget is not None else ():
        tell(f"{problem.title}: fno with symmetry copies")
        yield write_record(folder, run_symmetric_baseline(problem, "fno", device, budget))
        for method, noise in product(OTHERS, NOISES) if problem.name == "backward_heat" else ():
            tell(f"{problem.title}, noise {noise:g}: {method}")
            yield write_record(folder, run_noisy(problem, method, noise, device, budget))
    if "rough" in names:
        yield from reproduce_rough(folder, device=device, quick=quick, budget=budget, tell=tell)


def _best_records(problem: Problem, device: str | None, tell: Tell) -> Iterator[Record]:
    """All runs of a problem's stages, then of its best latent model."""
    yield from stages_records(problem, device, tell)
    run = partial(run_best, problem, device=device, tell=tell)
    for seed in SEEDS:
        yield run(seed=seed)
    for change in ABLATIONS[problem.name]:
        yield run(change=change)
    for size, changed in product((30,) if problem.is_quick else SIZES[:-1], (None, "without symmetry")):
        yield run(n_train=size, change=changed, intervals=False)
    for way in ADAPTED if problem.name == "navier_stokes" else ():
        tell(f"Adaptation: {ADAPTED[way]}")
        yield run_best_adaptation(problem, way, device)
    changes = (None, "without symmetry", "without linear term", "kernel")
    for noise, changed in product(NOISES, changes) if problem.name == "backward_heat" else ():
        yield run(noise=noise, change=changed)


def run_best(
    problem: Problem,
    *,
    seed: int = DATA_SEED,
    change: str | None = None,
    n_train: int | None = None,
    noise: float = 0.0,
    intervals: bool = True,
    device: str | None = None,
    tell: Tell = lambda message: None,
) -> Record:
    """Fit the best model of a problem, or one with a single change, on one data seed; return its record."""
    tell(f"{problem.title}, seed {seed}: {change or 'best'}" + (f", {n_train} samples" if n_train else ""))
    train, calibration, test = noisy_split(problem, generate(problem, seed=seed, device=device), noise)
    model = best_model(problem.name, quick=problem.is_quick)
    if change:
        model = ABLATIONS[problem.name][change](model)
    if change == "last snapshot to all ten, no marching":
        train, calibration, test = map(_last_snapshot, (train, calibration, test))
    train = train[:n_train]
    seconds = _timed_fit(model, train, device)
    shares = None if isinstance(model, Marching) else model.sensitivity_.channels
    begun = time.perf_counter()
    mean, _ = model.predict(test.inputs, return_std=True)
    predicting = time.perf_counter() - begun
    record = {
        **header("best", problem, device, seed),
        "members": estimator_of(model).n_members,
        "widths": estimator_of(model).widths,
        "change": change,
        "n_train": len(train),
        "noise": noise,
        **error_and_spread(problem, mean, test),
        "seconds": seconds,
        "predict_seconds": predicting,
        "channel_shares": None if shares is None else shares.tolist(),
    }
    if intervals:
        record["intervals"] = intervals_at_95(calibrated_bands(model, calibration, test), test)
    return record


def run_best_adaptation(problem: Problem, way: str, device: str | None) -> Record:
    """Take a Navier–Stokes model to the later window, before and after new trajectories are taken in.

    `way` is one of `ADAPTED`.
    """
    train, new, test = generate_window(problem, device)
    model = best_model(problem.name, quick=problem.is_quick)
    _timed_fit(model, train, device)
    rows = []
    for count in (0, len(new)):
        begun = time.perf_counter()
        if count:
            model.partial_fit(new.inputs, new.outputs)
        seconds = time.perf_counter() - begun if count else None
        last, mean = window_errors(model, test)
        rows.append({"samples": count, "error_last": last, "error_mean": mean, "recursive_seconds": seconds})
    members = estimator_of(model).n_members
    return {**header("best_adaptation", problem, device), "way": way, "members": members, "rows": rows}


def run_symmetric_baseline(problem: Problem, method: str, device: str | None, budget: float | None) -> Record:
    """Train a baseline on what the best model sees: copies under the symmetry, and the last snapshot alone.

    A validation part would hold copies of what is trained on: the last weights are kept.
    """
    data = generate(problem, device=device)
    data = _last_snapshot(data) if problem.name == "navier_stokes" else data
    train, _, test = data.split(*problem.sizes)
    moved, copies = _moved(problem, train)
    architecture = f"{ARCHITECTURES[problem.name, method]}; {copies} symmetry copies"
    about = {"kind": "baseline", "method": f"{method}_symmetric", "architecture": architecture}
    return run_rival(problem, method, (moved, test), about, device=device, budget=budget, validated=False)


def _moved(problem: Problem, data: OperatorData) -> tuple[OperatorData, int]:
    """Copies of samples under the symmetry of their problem, and how many of each."""
    grids = data.inputs.shape[1:], data.outputs.shape[1:]
    group = symmetry_of(problem.name).bind(*grids)
    elements = group.subset(_COPIES, seed=0)
    sides = zip((group.move_inputs, group.move_outputs), (data.inputs, data.outputs), grids, strict=True)
    inputs, outputs = (
        np.concatenate([move(fields.reshape(len(data), -1), g) for g in elements]).reshape(-1, *grid)
        for move, fields, grid in sides
    )
    return replace(data, inputs=inputs, outputs=outputs), len(elements)


def _timed_fit(model: Model, train: OperatorData, device: str | None) -> float:
    """Fit with the data where the model lives; return the seconds of the whole call."""
    place = place_of(None, device)
    a, u = place.put(train.inputs), place.put(train.outputs)
    place.wait()
    begun = time.perf_counter()
    fit_quietly(model, a, u)
    place.wait()
    return time.perf_counter() - begun


def _last_snapshot(data: OperatorData) -> OperatorData:
    return replace(data, inputs=data.inputs[:, -1])
