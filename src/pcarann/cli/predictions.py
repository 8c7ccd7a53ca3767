"""Commands that use models: predict, evaluate.

Where several outputs have names, a prediction and its errors have them too: arrays are called `u.mean`, `u.std`, ….
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from pcarann.cli.kinds import PREDICTION
from pcarann.cli.options import (
    Source,
    count,
    data_options,
    device_option,
    json_option,
    level,
    load_surrogate,
    matches,
    mesh_of,
    method_option,
    model_argument,
    output_names,
)
from pcarann.cli.output import busy, show
from pcarann.cli.pictures import draw_samples, on_mesh, picture_targets, place_of
from pcarann.cli.scale import in_memory, scale_options
from pcarann.cli.targets import Target, target_option
from pcarann.cli.trust import Evaluated, Lowest, draw_trusts
from pcarann.files import atomic_writer

__all__ = ["evaluate", "predict", "write_prediction"]

_MESHES = (".vtu", ".xdmf")


@click.command()
@model_argument
@data_options
@target_option(
    required=True,
    about=".npz, or .npy for the mean alone, or .vtu or .xdmf of data on a mesh. An existing file is replaced only if "
    "it is a prediction. A .zarr store is written by blocks, and gone on with where it was broken off.",
)
@click.option("--steps", type=int, help="Of a model that marches: snapshots to predict.  [default: as in its fit]")
@click.option("--std", is_flag=True, help="Also write the standard deviation of the members.")
@click.option("--alpha", type=float, default=None, callback=level, help="Also write intervals of level 1 − alpha.")
@method_option
@scale_options
@device_option
@json_option
def predict(
    model: Path,
    data: Source,
    target: Target,
    std: bool,
    alpha: float | None,
    method: Any,
    **others: Any,
) -> None:
    """Predict the output fields of the inputs in DATA."""
    ending = target.path.suffix
    if ending == ".zarr":
        _predict_store(model, data, target, {"std": std, "alpha": alpha, "method": method}, others)
        return
    if ending not in (".npz", ".npy", *_MESHES) or (ending == ".npy" and (std or alpha is not None)):
        raise click.UsageError("-o must end in .npz, .vtu or .xdmf, or in .npy where the mean alone is written.")
    sources = [model, *data.files()]
    target.check(PREDICTION, sources)
    fitted = load_surrogate(model, others["device"])
    if others["steps"] is not None and not hasattr(fitted, "marched_"):
        raise click.UsageError(f"--steps belongs to a model that marches, which {model} does not.")
    horizon = {} if others["steps"] is None else {"steps": others["steps"]}
    mesh = _mesh_of(fitted, data, ending)
    if ending == ".npy" and (names := output_names(fitted)) != ("",):
        raise click.UsageError(
            f"A .npy file holds one array, and this model gives {', '.join(names)}: give a .npz file."
        )
    a = data.fields()
    check = _checking(target, sources, count(a))
    start = time.perf_counter()
    with busy(f"Predicting {count(a)} samples"):
        if alpha is not None:
            fields = vars(fitted.predict_interval(a, alpha, method, **horizon))
        elif std:
            fields = dict(zip(("mean", "std"), fitted.predict(a, return_std=True, **horizon), strict=True))
        else:
            fields = {"mean": fitted.predict(a, **horizon)}
    seconds = time.perf_counter() - start
    files = write_prediction(target.path, fields, mesh, check=check)
    facts = {"samples": count(a), "arrays": sorted(_flat(fields)), "seconds": seconds}
    facts["file" if len(files) == 1 else "files"] = _told(files)
    show(facts, others["as_json"], "Predicted")


def _predict_store(model: Path, data: Source, target: Target, how: dict[str, Any], others: dict[str, Any]) -> None:
    """Predict by blocks into a zarr store."""
    from pcarann.scale.writing import write_predictions

    fitted = load_surrogate(model, others["device"])
    if others["steps"] is not None and not hasattr(fitted, "marched_"):
        raise click.UsageError(f"--steps belongs to a model that marches, which {model} does not.")
    asked = {name: value for name, value in how.items() if value is not None and value is not False}
    asked = asked if "alpha" in asked else {name: asked[name] for name in asked if name == "std"}
    asked |= {} if others["steps"] is None else {"steps": others["steps"]}
    a = (data if data.chunks is not None else replace(data, chunks="auto")).fields()
    start = time.perf_counter()
    made_of = {"model": hashlib.sha256(model.read_bytes()).hexdigest(), "options": str(sorted(asked.items()))}
    made_of |= (known := data.told())
    with busy(f"Predicting {count(a)} samples"):
        found = write_predictions(fitted, a, target.path, made_of, how=asked)
    if data.told() != known:
        raise ValueError(f"{data.path} has changed while it was read: remove {target.path} and predict again.")
    facts = {"samples": count(a), **found, "seconds": time.perf_counter() - start, "file": str(target.path)}
    show(facts, others["as_json"], "Predicted")


def _mesh_of(fitted: Any, data: Source, ending: str) -> Any:
    """The mesh of a model, or else of the data that it is given; None where neither is needed."""
    if ending not in _MESHES:
        return None
    mesh = data.mesh() if mesh_of(fitted) is None else mesh_of(fitted)
    if mesh is None:
        raise click.UsageError(f"-o can end in {ending} only where DATA, or those of the fit, are on a mesh.")
    return mesh


def _checking(target: Target, sources: list[Path], samples: int) -> Callable[[Iterable[Path]], None]:
    """Check the files of all samples before any work is done, where each has its own."""
    from pcarann.problems.meshes import sample_paths

    def check(paths: Iterable[Path]) -> None:
        for path in paths:
            Target(path, target.option, target.force).check(PREDICTION, sources)

    if target.path.suffix in _MESHES:
        check(sample_paths(target.path, samples))
    return check


def _told(files: list[Path]) -> str:
    return str(files[0]) if len(files) == 1 else f"{files[0]} … {files[-1]}"


def write_prediction(
    path: Path, fields: Mapping[str, Any], mesh: Any = None, *, check: Callable[[Iterable[Path]], None] | None = None
) -> list[Path]:
    """Write mean, std, lower, upper, each (samples, *grid) or a mapping of such by output, and return the files.

    By its ending: `.npy` holds the mean, `.npz` all, `.vtu` and `.xdmf` all as point data on a mesh, which is anything
    with `points` and `cells`; there fields are (samples, nodes) or (samples, nodes, components). `check` may refuse the
    files.
    """
    arrays = {name: np.asarray(field) for name, field in _flat(fields).items()}
    if path.suffix in _MESHES:
        from pcarann.problems.meshes import sample_paths, write_mesh_samples

        if check is not None:
            check(sample_paths(path, len(next(iter(arrays.values())))))
        return write_mesh_samples(path, mesh.points, mesh.cells, arrays)
    with atomic_writer(path) as file:
        if path.suffix == ".npy":
            np.save(file, arrays["mean"], allow_pickle=False)
        else:
            np.savez(file, allow_pickle=False, **arrays)
    return [path]


def _flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Parts of a prediction by name; `u.mean` where an output u has a name."""
    flat: dict[str, Any] = {}
    for part, field in fields.items():
        flat |= {f"{name}.{part}": one for name, one in field.items()} if isinstance(field, Mapping) else {part: field}
    return flat


@click.command()
@model_argument
@data_options
@click.option(
    "--alpha",
    type=float,
    default=0.05,
    show_default=True,
    callback=level,
    help="Intervals of level 1 − alpha, if calibrated.",
)
@method_option
@click.option("--plots", type=click.Path(path_type=Path), help="Folder for pictures: samples, coverage, errors.")
@scale_options
@device_option
@json_option
def evaluate(model: Path, data: Source, alpha: float, method: Any, plots: Path | None, **others: Any) -> None:
    """Compare predictions with the outputs in DATA."""
    from pcarann.scale.kinds import is_lazy
    from pcarann.scale.predictions import errors_of, lazy_errors

    if plots is not None:
        in_memory(data, "--plots")
    targets = {} if plots is None else picture_targets(plots, [model, *data.files()])
    fitted = load_surrogate(model, others["device"])
    a, u = data.pair()
    record = fitted.fitted_
    matches(fitted, u)
    how = {} if record.calibration is None or record.stale else {"alpha": alpha, "method": method}
    found: dict[str, Any] = {}
    with busy(f"Evaluating {count(a)} samples"):
        if is_lazy(a, u):
            errors, trained = lazy_errors(fitted, a, u, how)
        else:
            found = vars(fitted.predict_interval(a, **how)) if how else {"mean": fitted.predict(a)}
            errors, trained = errors_of(found, u), fitted.trained_on(a, u)
    _warn_of_training(trained)
    facts: dict[str, Any] = {"samples": count(a)}
    for name, one in errors.items():
        facts |= {f"{name}.{fact}" if name else fact: value for fact, value in _facts(1 - alpha, *one).items()}
    if record.stale:
        facts["intervals"] = "none: the model was changed after its calibration, calibrate again"
    if targets:
        facts["pictures"] = draw_samples(targets, found, u, mesh_of(fitted), data)
        case, mesh = Evaluated(fitted, a, u, found, alpha, method), mesh_of(fitted)
        files, lowest = draw_trusts(
            targets["trust"], case, lambda shape: on_mesh(mesh, shape) or place_of(data.path, shape)
        )
        facts["pictures"] += files
        for name, least in lowest.items():
            facts |= {f"{name}.{fact}" if name else fact: value for fact, value in _least_covered(least).items()}
    show(facts, others["as_json"], "Evaluation")


def _warn_of_training(trained: Any) -> None:
    """Say that errors are of samples that a model knows."""
    from pcarann.validation import warn_user

    if trained.any():
        warn_user(
            f"The model was trained on {int(trained.sum())} of these {len(trained)} samples: errors and coverage of "
            "new ones are worse."
        )


def _least_covered(least: Lowest) -> dict[str, Any]:
    """Where intervals cover least, and how much there, by method."""
    shares = {f"lowest_coverage_{method}": share for method, share in least.coverage.items()}
    return {**shares, "lowest_coverage_where": least.where}


def _facts(level: float, errors: Any, *intervals: float) -> dict[str, Any]:
    """Errors of one output, and how good its intervals are where there are some."""
    facts: dict[str, Any] = {
        "relative_l2_mean": float(np.mean(errors)),
        "relative_l2_median": float(np.median(errors)),
        "relative_l2_max": float(np.max(errors)),
    }
    if intervals:
        facts |= {"interval_level": level, "interval_coverage": intervals[0], "interval_mean_width": intervals[1]}
    return facts
