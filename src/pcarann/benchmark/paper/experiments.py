"""The paper's experiments: its models on the four problems, online adaptation, and the baselines.

What was found becomes a record, one JSON file: what was run (problem, variant, sizes, seeds), where (machine, versions,
commit), and what it gave (scales, errors, times by stage, intervals). Fields that figures need lie beside it in one
`.npz` file.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pcarann.backend.arrays import place_of, to_host
from pcarann.baselines import ARCHITECTURES
from pcarann.benchmark.paper.configurations import BASELINES, PROBLEMS, VARIANTS, Problem, Variant
from pcarann.benchmark.paper.runs import (
    Tell,
    calibrated_bands,
    fit_quietly,
    generate,
    generate_window,
    header,
    intervals_at_95,
    paper_model,
    run_rival,
    sample_errors,
    window_errors,
)
from pcarann.benchmark.records import Fields, Record, write_record
from pcarann.ensemble.adaptation import Adaptation
from pcarann.metrics import coverage
from pcarann.operator import PCARaNN
from pcarann.options import Adapt
from pcarann.problems.dataset import OperatorData
from pcarann.readout.direct import fit_readout

__all__ = ["reproduce", "run_adaptation", "run_baseline", "run_problem"]

LEVELS = tuple(round(0.05 * i, 2) for i in range(1, 20))


def reproduce(
    names: Iterable[str],
    folder: Path,
    *,
    device: str | None,
    quick: bool,
    repeats: int,
    budget: float | None,
    tell: Tell,
) -> Iterator[Path]:
    """Run everything for these problems, write the records into `folder`, and yield their paths.

    Baselines are trained, for at most `budget` seconds each, where a budget is given.
    """
    for name in names:
        problem = PROBLEMS[name].quick() if quick else PROBLEMS[name]
        for variant in VARIANTS:
            record, fields = run_problem(problem, variant, device=device, repeats=repeats, tell=tell)
            yield write_record(folder, record, fields if variant == "refined" else None)
        if name == "navier_stokes":
            yield write_record(folder, run_adaptation(problem, device=device, tell=tell))
        for method in BASELINES if budget is not None else ():
            tell(f"{problem.title}: {method}")
            yield write_record(folder, run_baseline(problem, method, device, budget))


def run_problem(
    problem: Problem, variant: Variant, *, device: str | None = None, repeats: int = 3, tell: Tell = lambda _: None
) -> tuple[Record, Fields]:
    """Run one problem with one variant; return its record and the fields of representative samples."""
    tell(f"{problem.title}: data")
    start = time.perf_counter()
    train, calibration, test = generate(problem, device=device).split(*problem.sizes)
    generate_seconds = time.perf_counter() - start
    fits = []
    model = PCARaNN()
    a, u = (place_of(None, device).put(part) for part in (train.inputs, train.outputs))
    for members in (1, problem.n_members):
        tell(f"{problem.title}: {variant} fit, {members} member{'s' if members > 1 else ''}")
        model, seconds = _timed_fits(problem, variant, members, a, u, repeats)
        fits.append(seconds)
    tell(f"{problem.title}: evaluation")
    record = {
        **header("pcarann", problem, device),
        "variant": variant,
        "generate_seconds": generate_seconds,
        "seconds": {"single": fits[0]["total"], "ensemble": fits[1]["total"], "stages": fits[1]},
        "scales": _scales(model),
        "errors": _errors(model, problem, test),
        "intervals": _intervals(model, calibration, test),
        "solver": vars(model.ensemble_.members[0].report),
    }
    return record, _fields(model, problem, test)


def run_adaptation(problem: Problem, *, device: str | None, tell: Tell) -> Record:
    """Adapt the refined Navier–Stokes model to a later window, by recursion and by batch refit."""
    tell("Adaptation: data and fit")
    train, new, test = generate_window(problem, device)
    model = paper_model(problem, "refined", problem.n_members, device)
    fit_quietly(model, train.inputs, train.outputs)
    ensemble, fitted = model.ensemble_, model.fitted_
    place = ensemble.place
    x, y = (
        pca.encode(place.put(part.reshape(len(new), -1)))
        for pca, part in ((ensemble.input_pca, new.inputs), (ensemble.output_pca, new.outputs))
    )
    old = [member.features(fitted.x) for member in ensemble.members]
    start = Adaptation.start(ensemble, fitted.rows, ridge=Adapt().ridge, start=Adapt().start)
    rows = []
    for count in problem.later_window.counts:
        tell(f"Adaptation: {count} samples")
        row: Record = {"samples": count}
        adapted = model
        if count:
            adapted, row["recursive_seconds"] = _timed(model, partial(_recursive, start), x[:count, :], y[:count, :])
            batch, row["batch_seconds"] = _timed(model, partial(_batch, old, fitted.y), x[:count, :], y[:count, :])
            row["batch_error_last"], row["batch_error_mean"] = window_errors(batch, test)
        row["error_last"], row["error_mean"] = window_errors(adapted, test)
        rows.append(row)
    return {**header("adaptation", problem, device), "rows": rows}


def run_baseline(problem: Problem, method: str, device: str | None, budget: float | None) -> Record:
    """Train one baseline on the problem's training set, validation split off inside it; test once."""
    parts = generate(problem, device=device).split(*problem.sizes)
    about = {"kind": "baseline", "method": method, "architecture": ARCHITECTURES[problem.name, method]}
    return run_rival(problem, method, parts, about, device=device, budget=budget)


def _timed_fits(
    problem: Problem, variant: Variant, members: int, a: Any, u: Any, repeats: int
) -> tuple[PCARaNN, dict[str, float]]:
    """Fit several times, the data where the model lives; return the last model and the median seconds by stage."""
    model, runs = PCARaNN(), []
    for _ in range(repeats):
        model = paper_model(problem, variant, members, None)
        fit_quietly(model, a, u)
        runs.append(model.fit_seconds_)
    return model, {stage: statistics.median(run[stage] for run in runs) for stage in runs[0]}


def _scales(model: PCARaNN) -> Record:
    refinement = model.refinement_
    return {
        "energy": model.energy_scales_,
        "used": model.scales_,
        "log_offsets": model.log_offsets_,
        "refinement": None if refinement is None else vars(refinement),
        "components": [model.input_pca_.n_components, model.output_pca_.n_components],
    }


def _errors(model: PCARaNN, problem: Problem, test: OperatorData) -> Record:
    """Errors of the ensemble and of its members, with their spread over test samples."""
    ensemble = model.ensemble_
    x = ensemble.input_pca.encode(ensemble.place.put(test.inputs.reshape(len(test), -1)))
    alone = []
    for member in ensemble.members:
        fields = to_host(ensemble.output_pca.decode(member(x))).reshape(test.outputs.shape)
        alone.append(sample_errors(problem, fields, test.outputs))
    together = sample_errors(problem, model.predict(test.inputs), test.outputs)
    return {
        "ensemble": float(together.mean()),
        "ensemble_std": float(together.std()),
        "single": float(np.mean(alone)),
        "single_std": float(np.mean(np.std(alone, axis=1))),
    }


def _intervals(model: PCARaNN, calibration: OperatorData, test: OperatorData) -> Record:
    """Coverage over all levels by the paper's rule, and coverage and width at 95 % by each."""
    bands = calibrated_bands(model, calibration, test)
    coverages = [coverage(*bands(level, "pooled"), test.outputs) for level in LEVELS]
    return {"levels": LEVELS, "coverages": coverages, "at_95": intervals_at_95(bands, test)}


def _fields(model: PCARaNN, problem: Problem, test: OperatorData) -> Fields:
    """The test samples of least, median and largest error, with the 95 % interval of the paper's rule."""
    band = model.predict_interval(test.inputs, alpha=0.05, method="pooled")
    errors = sample_errors(problem, band.mean, test.outputs)
    order = np.argsort(errors)
    chosen = order[[0, len(order) // 2, -1]]
    # The error is kept for itself: from rounded fields it would be rounding where it is small.
    fields = {"inputs": test.inputs, "truth": test.outputs, "error": np.abs(band.mean - test.outputs), **vars(band)}
    # Single precision is ample for pictures, and halves what is kept.
    picked = {name: np.asarray(field[chosen], dtype=np.float32) for name, field in fields.items()}
    if problem.last_time_only or problem.name == "backward_heat":
        keep = _SNAPSHOTS[problem.name]
        picked = {name: field[1:2, keep] if field.ndim == 4 else field[1:2] for name, field in picked.items()}
    return {**picked, "errors": errors[chosen], **{f"axis_{k}": v for k, v in test.coordinates.items()}}


_SNAPSHOTS = {"navier_stokes": [0, 4, 9], "backward_heat": [0, 9, 19]}
"""Those that the paper shows: t = 11, 15, 20 and t = 0, 0.45, 0.95"""


def _timed(model: PCARaNN, adapted: Callable[[Any, Any, Any], list[Any]], x: Any, y: Any) -> tuple[PCARaNN, float]:
    """A model with the readouts that new rows lead to, and the seconds that finding these took."""
    begun = time.perf_counter()
    readouts = adapted(model.ensemble_, x, y)
    model.ensemble_.place.wait()
    seconds = time.perf_counter() - begun
    other = PCARaNN(**model.get_params(deep=False))
    other.fitted_ = replace(model.fitted_, ensemble=model.ensemble_.with_readouts(readouts))
    return other, seconds


def _recursive(start: Adaptation, ensemble: Any, x: Any, y: Any) -> list[Any]:
    return start.update(ensemble, x, y, forgetting=1.0).readouts(ensemble)


def _batch(old: list[Any], targets: Any, ensemble: Any, x: Any, y: Any) -> list[Any]:
    """Least squares on old and new rows, the old features being cached, as in the paper."""
    concat = ensemble.place.xp.concat
    both = concat([targets, y], axis=0)

    def refit(member: Any) -> Any:
        return fit_readout(concat([old[member.features.member], member.features(x)], axis=0), both)[0]

    return list(ensemble.over_members(refit, both.shape[0]))
