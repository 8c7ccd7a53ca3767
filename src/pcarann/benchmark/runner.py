"""Fit, time and evaluate; what was found becomes a record.

A record is one JSON file: what was run (problem, variant, sizes, seeds), where (machine, versions, commit), and what
it gave (scales, errors, times by stage, intervals). Fields that figures need lie beside it in one `.npz` file.
Nothing here looks at the test set before the model is final.
"""

from __future__ import annotations

import datetime
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from pcarann.backend.arrays import place_of, to_host
from pcarann.benchmark.machine import gpu_name, machine_facts
from pcarann.benchmark.settings import ADAPTATION, BASELINES, PROBLEMS, Adaptation, Problem, Variant
from pcarann.files import atomic_writer
from pcarann.metrics import coverage, mean_width, relative_l2
from pcarann.operator import PCARaNN
from pcarann.options import Adapt, Refine
from pcarann.problems.dataset import OperatorData
from pcarann.readout.direct import fit_readout
from pcarann.readout.recursive import Adaptation as Recursion
from pcarann.uncertainty.bands import Spread
from pcarann.uncertainty.conformal import Calibration, Method

__all__ = ["read_records", "reproduce", "run_adaptation", "run_baseline", "run_problem", "write_record"]

DATA_SEED, SHIFTED_SEED, MODEL_SEED = 0, 1, 0
LEVELS = tuple(round(0.05 * i, 2) for i in range(1, 20))
VARIANTS: tuple[Variant, ...] = ("energy", "refined")
METHODS: tuple[Method, ...] = ("pooled", "sample", "simultaneous")

Record = dict[str, Any]
Tell = Callable[[str], None]


def reproduce(
    names: Iterable[str],
    folder: Path,
    *,
    device: str | None = None,
    quick: bool = False,
    repeats: int = 3,
    budget: float | None = None,
    tell: Tell = lambda message: None,
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
            settings = ADAPTATION.quick() if quick else ADAPTATION
            yield write_record(folder, run_adaptation(problem, settings, device=device, tell=tell))
        for method in BASELINES if budget is not None else ():
            record = run_baseline(problem, method, device=device, budget=budget, quick=quick, tell=tell)
            yield write_record(folder, record)


def run_problem(
    problem: Problem,
    variant: Variant,
    *,
    device: str | None = None,
    repeats: int = 3,
    tell: Tell = lambda message: None,
) -> tuple[Record, dict[str, np.ndarray[Any, Any]]]:
    """Run one problem with one variant; return its record and the fields of representative samples."""
    tell(f"{problem.title}: data")
    start = time.perf_counter()
    data = _generate(problem, problem.n_samples, DATA_SEED, device, problem.options)
    generate_seconds = time.perf_counter() - start
    train, calibration, test = data.split(problem.n_train, problem.n_calibration, problem.n_test)
    fits = []
    model = PCARaNN()
    a, u = (place_of(None, device).put(part) for part in (train.inputs, train.outputs))
    for members in (1, problem.n_members):
        tell(f"{problem.title}: {variant} fit, {members} member{'s' if members > 1 else ''}")
        model, seconds = _timed_fits(problem, variant, members, a, u, repeats)
        fits.append(seconds)
    tell(f"{problem.title}: evaluation")
    record = {
        **_header("pcarann", problem, device),
        "variant": variant,
        "generate_seconds": generate_seconds,
        "seconds": {"single": fits[0]["total"], "ensemble": fits[1]["total"], "stages": fits[1]},
        "scales": _scales(model),
        "errors": _errors(model, problem, test),
        "intervals": _intervals(model, calibration, test),
        "solver": vars(model.ensemble_.members[0].report),
    }
    return record, _fields(model, problem, test)


def run_adaptation(
    problem: Problem,
    settings: Adaptation = ADAPTATION,
    *,
    device: str | None = None,
    tell: Tell = lambda message: None,
) -> Record:
    """Adapt the refined Navier–Stokes model to a later window, by recursion and by batch refit."""
    tell("Adaptation: data and fit")
    train = _generate(problem, problem.n_samples, DATA_SEED, device, problem.options)[: problem.n_train]
    options = {**problem.options, "window": settings.window}
    shifted = _generate(problem, settings.counts[-1] + settings.n_test, SHIFTED_SEED, device, options)
    new, test = shifted.split(settings.counts[-1], settings.n_test)
    model = _model(problem, "refined", problem.n_members, device)
    _quietly(model.fit, train.inputs, train.outputs)
    ensemble, fitted = model.ensemble_, model.fitted_
    place = ensemble.place
    x, y = (
        pca.encode(place.put(part.reshape(len(new), -1)))
        for pca, part in ((ensemble.input_pca, new.inputs), (ensemble.output_pca, new.outputs))
    )
    old = [member.features(fitted.x) for member in ensemble.members]
    start = Recursion.start(ensemble, fitted.rows, ridge=Adapt().ridge, start=Adapt().start)
    rows = []
    for count in settings.counts:
        tell(f"Adaptation: {count} samples")
        row: Record = {"samples": count}
        adapted = model
        if count:
            readouts, row["recursive_seconds"] = _recursive(start, ensemble, x[:count, :], y[:count, :])
            batch, row["batch_seconds"] = _batch(ensemble, old, fitted.y, x[:count, :], y[:count, :])
            adapted = _with_readouts(model, readouts)
            row["batch_error_last"], row["batch_error_mean"] = window_errors(_with_readouts(model, batch), test)
        row["error_last"], row["error_mean"] = window_errors(adapted, test)
        rows.append(row)
    return {**_header("adaptation", problem, device), "members": problem.n_members, "rows": rows}


def run_baseline(
    problem: Problem,
    method: str,
    *,
    device: str | None = None,
    budget: float | None = None,
    quick: bool = False,
    tell: Tell = lambda message: None,
) -> Record:
    """Train one baseline on the problem's training set, validation split off inside it; test once."""
    from pcarann.baselines import ARCHITECTURES, baseline

    tell(f"{problem.title}: {method}")
    data = _generate(problem, problem.n_samples, DATA_SEED, device, problem.options)
    where = None if method == "kernel" else device  # kernel ridge runs on the CPU whatever the device
    train, _, test = data.split(problem.n_train, problem.n_calibration, problem.n_test)
    model = baseline(problem.name, method, seed=MODEL_SEED, device=where, quick=quick)
    _quietly(partial(model.fit, budget=budget), train.inputs, train.outputs)
    record = _header("baseline", problem, where) | {
        "method": method,
        "architecture": ARCHITECTURES[problem.name, method],
    }
    return record | baseline_results(model, problem, test, budget)


def baseline_results(model: Any, problem: Problem, test: OperatorData, budget: float | None) -> Record:
    """What the training of a baseline gave."""
    errors = _sample_errors(problem, model.predict(test.inputs), test.outputs)
    return {
        "parameters": model.n_parameters,
        "budget": budget,
        "epochs": model.epochs_done,
        "seconds": model.seconds,
        "error": float(errors.mean()),
        "error_std": float(errors.std()),
        "curve": [[point["seconds"], point["validation_error"]] for point in model.history],
    }


def write_record(folder: Path, record: Record, fields: dict[str, np.ndarray[Any, Any]] | None = None) -> Path:
    """Write a record, and its fields, under a name made of what was run."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record_name(record)}.json"
    with atomic_writer(path) as file:
        file.write(json.dumps(record, indent=1).encode() + b"\n")
    if fields:
        with atomic_writer(path.with_suffix(".npz")) as file:
            np.savez_compressed(file, allow_pickle=False, **fields)
    return path


def record_name(record: Record) -> str:
    """Name a record by what was run, and where."""
    what = record.get("variant") or record.get("method") or record["kind"]
    if record["kind"] == "best":
        details = (
            f"seed{record['seeds']['data']}",
            record["change"],
            f"n{record['n_train']}",
            f"noise{record['noise']:g}",
        )
        left_out = (None, None, f"n{record['sizes'][0]}", "noise0")
        told = [part for part, usual in zip(details, left_out, strict=True) if part and part != usual]
        what = "-".join(["best", *map(_plain, told)])
    if record.get("way", "best") != "best":
        what += f"-{record['way']}"
    if record["kind"] == "noisy":
        what += f"-noise{_plain(format(record['noise'], 'g'))}"
    return f"{record['problem']}-{what}-{record['place']}"


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def read_records(folder: Path) -> list[Record]:
    """Return all records in a folder, in the order of their names."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def _generate(problem: Problem, n: int, seed: int, device: str | None, options: Record) -> OperatorData:
    module = import_module(f"pcarann.problems.{problem.name}")
    data: OperatorData = module.generate(n, seed=seed, device=device, verbose=True, **options)
    return data


def _model(problem: Problem, variant: Variant, members: int, device: str | None) -> PCARaNN:
    return PCARaNN(
        n_components=problem.n_components,
        widths=problem.widths,
        n_members=members,
        scales=Refine(problem.refine_ridge) if variant == "refined" else variant,
        random_state=MODEL_SEED,
        device=device,
    )


def _timed_fits(
    problem: Problem, variant: Variant, members: int, a: Any, u: Any, repeats: int
) -> tuple[PCARaNN, dict[str, float]]:
    """Fit several times, the data where the model lives; return the last model and the median seconds by stage."""
    model, runs = PCARaNN(), []
    for _ in range(repeats):
        model = _model(problem, variant, members, None)
        _quietly(model.fit, a, u)
        runs.append(model.fit_seconds_)
    return model, {stage: statistics.median(run[stage] for run in runs) for stage in runs[0]}


def _quietly(function: Callable[..., Any], *arguments: Any) -> None:
    """Call without the warning about clipped ranks: the paper's numbers of modes exceed some ranks, by design."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="n_components=.* was asked for")
        function(*arguments)


def _scales(model: PCARaNN) -> Record:
    refinement = model.refinement_
    return {
        "energy": model.energy_scales_,
        "used": model.scales_,
        "log_offsets": model.log_offsets_,
        "refinement": None if refinement is None else vars(refinement),
        "components": [model.input_pca_.n_components, model.output_pca_.n_components],
    }


def _sample_errors(problem: Problem, prediction: Any, truth: Any) -> np.ndarray[Any, Any]:
    if problem.last_time_only:
        prediction, truth = prediction[:, -1], truth[:, -1]
    return to_host(relative_l2(prediction, truth, per_sample=True))


def _errors(model: PCARaNN, problem: Problem, test: OperatorData) -> Record:
    """Errors of the ensemble and of its members, with their spread over test samples."""
    ensemble = model.ensemble_
    x = ensemble.input_pca.encode(ensemble.place.put(test.inputs.reshape(len(test), -1)))
    alone = []
    for member in ensemble.members:
        fields = to_host(ensemble.output_pca.decode(member(x))).reshape(test.outputs.shape)
        alone.append(_sample_errors(problem, fields, test.outputs))
    together = _sample_errors(problem, model.predict(test.inputs), test.outputs)
    return {
        "ensemble": float(together.mean()),
        "ensemble_std": float(together.std()),
        "single": float(np.mean(alone)),
        "single_std": float(np.mean(np.std(alone, axis=1))),
    }


def _intervals(model: PCARaNN, calibration: OperatorData, test: OperatorData) -> Record:
    """Coverage over all levels by the paper's rule, and coverage and width at 95 % by each."""
    model.calibrate(calibration.inputs, calibration.outputs)
    parts = model.predict_parts(test.inputs)
    scores = model.fitted_.calibration
    assert scores is not None
    coverages = [coverage(*_band(scores, parts, level, "pooled"), test.outputs) for level in LEVELS]
    return {"levels": LEVELS, "coverages": coverages, "at_95": intervals_at_95(scores, parts, test)}


def intervals_at_95(scores: Calibration, parts: Spread, test: OperatorData) -> Record:
    """Coverage and mean width of the 95 % intervals by each method, and how many fields lie inside as a whole."""
    found: Record = {}
    for method in METHODS:
        lower, upper = _band(scores, parts, 0.95, method)
        inside = ((lower <= test.outputs) & (test.outputs <= upper)).reshape(len(test), -1).all(axis=1)
        found[method] = {
            "coverage": coverage(lower, upper, test.outputs),
            "width": mean_width(lower, upper),
            "whole_fields": float(inside.mean()),
        }
    return found


def _band(scores: Calibration, parts: Spread, level: float, method: Method) -> tuple[Any, Any]:
    half = scores.half_width(parts.members, scores.quantile(round(1 - level, 10), method), parts.beyond)
    return to_host(parts.mean - half), to_host(parts.mean + half)


def _fields(model: PCARaNN, problem: Problem, test: OperatorData) -> dict[str, np.ndarray[Any, Any]]:
    """The test samples of least, median and largest error, with the 95 % interval of the paper's rule."""
    band = model.predict_interval(test.inputs, alpha=0.05, method="pooled")
    errors = _sample_errors(problem, band.mean, test.outputs)
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


def _recursive(start: Recursion, ensemble: Any, x: Any, y: Any) -> tuple[list[Any], float]:
    begun = time.perf_counter()
    readouts = start.update(ensemble, x, y, forgetting=1.0).readouts(ensemble)
    ensemble.place.wait()
    return readouts, time.perf_counter() - begun


def _batch(ensemble: Any, old: list[Any], targets: Any, x: Any, y: Any) -> tuple[list[Any], float]:
    """Least squares on old and new rows, the old features being cached, as in the paper."""
    begun = time.perf_counter()
    concat = ensemble.place.xp.concat
    both = concat([targets, y], axis=0)

    def refit(member: Any) -> Any:
        rows = concat([old[member.features.member], member.features(x)], axis=0)
        return fit_readout(rows, both)[0]

    readouts = list(ensemble.over_members(refit, both.shape[0]))
    ensemble.place.wait()
    return readouts, time.perf_counter() - begun


def _with_readouts(model: PCARaNN, readouts: list[Any]) -> PCARaNN:
    from dataclasses import replace

    other = PCARaNN(**model.get_params())
    other.fitted_ = replace(model.fitted_, ensemble=model.ensemble_.with_readouts(readouts))
    return other


def window_errors(model: Any, test: OperatorData) -> tuple[float, float]:
    """Error at the last time, and the mean over all times."""
    with warnings.catch_warnings():  # leaving the training data is the point of the experiment
        warnings.filterwarnings("ignore", message=".* inputs lie outside")
        prediction = model.predict(test.inputs)
    times = range(test.outputs.shape[1])
    errors = [relative_l2(prediction[:, t], test.outputs[:, t]) for t in times]
    return errors[-1], float(np.mean(errors))


def _header(kind: str, problem: Problem, device: str | None) -> Record:
    return {
        "kind": kind,
        "problem": problem.name,
        "place": "cpu" if device in (None, "cpu") else gpu_name(device).lower().replace(" ", "-"),
        "quick": problem != PROBLEMS[problem.name],
        "sizes": [problem.n_train, problem.n_calibration, problem.n_test],
        "members": problem.n_members,
        "widths": problem.widths,
        "seeds": {"data": DATA_SEED, "model": MODEL_SEED},
        "machine": machine_facts(device),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
