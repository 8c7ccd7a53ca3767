"""Commands that make models and change them: fit, calibrate, adapt."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from pcarann.cli.kinds import MODEL
from pcarann.cli.options import (
    Source,
    count,
    data_options,
    device_option,
    duration,
    json_option,
    limit_option,
    load_surrogate,
    matches,
    model_argument,
    number_or_pair,
    packing_facts,
)
from pcarann.cli.output import busy, say, show
from pcarann.cli.scale import in_memory, scale_options
from pcarann.cli.stages import stage_facts, stage_options, staged_or_none
from pcarann.cli.targets import Target, target_option

__all__ = ["adapt", "calibrate", "fit", "model_facts"]

Change = Callable[[Any, Any, Any], tuple[str, dict[str, Any]]]
"""From a model, inputs and outputs to a title and facts to show; the model is changed"""

_numbers_option = partial(click.option, show_default=True, callback=number_or_pair)
_SUCCESS = ("Optimization terminated successfully", "The loss is zero at the start")  # scipy's words, and our own


@click.command()
@data_options
@target_option(required=True, about="Model file to write. An existing file is replaced only if it is a model file.")
@_numbers_option("--components", "n_components", default="100", help="Modes: N, IN,OUT or a share of energy below 1.")
@_numbers_option("--widths", default="500,200", help="Neurons of the two random layers.")
@click.option("--members", "n_members", default=20, show_default=True, help="Members of the ensemble.")
@_numbers_option("--scales", default="refined", help="refined, energy, or R1,R2.")
@_numbers_option(
    "--ridge",
    default=None,
    help="Ridge of the readout; 0 is least squares; gcv or refined choose it.  [default: 0; gcv for a kernel]",
)
@click.option("--regressor", type=click.Choice(["random", "kernel"]), default="random", show_default=True)
@click.option("--linear", is_flag=True, help="Put a linear term beside the features.")
@_numbers_option("--relevance", default="0", help="Power of the latents' weights, learned, or channels.")
@click.option(
    "--channels", "fields__channels", is_flag=True, help="The first axis of an input counts channels: a PCA for each."
)
@click.option(
    "--mesh",
    "mesh",
    type=click.Path(path_type=Path),
    help="Mesh file, at whose nodes the outputs have their values.  [default: that of DATA]",
)
@stage_options
@click.option(
    "--march", is_flag=True, help="DATA are trajectories, (samples, times, *grid): learn one step of the flow."
)
@click.option("--step", type=int, help="With --march: snapshots from which one step leads on.  [default: 1]")
@click.option("--first", type=int, help="With --march: pairs before this snapshot are not used.  [default: 0]")
@click.option(
    "--auto", is_flag=True, help="Choose all of these, or stages that see space; only --seed and --budget count then."
)
@click.option(
    "--budget", default="60s", show_default=True, callback=duration, help="Longest search of --auto, such as 5m."
)
@click.option(
    "--refine-ridge", "scales__ridge", type=float, help="Ridge inside the validation loss.  [default: 0.0001]"
)
@click.option("--seed", "random_state", default=0, show_default=True, help="Seed of the random layers.")
@limit_option
@scale_options
@device_option
@json_option
def fit(data: Source, target: Target, march: bool, auto: bool, as_json: bool, **parameters: Any) -> None:
    """Fit a surrogate to DATA and write it to a model file."""
    from pcarann.automatic import auto as automatic
    from pcarann.operator import PCARaNN

    budget, named = (parameters.pop(name) for name in ("budget", "mesh"))
    marching = _marching_options(march, auto, {name: parameters.pop(name) for name in ("step", "first")})
    stages = staged_or_none(parameters)
    if stages is not None and auto:
        raise click.UsageError("--auto tries stages by itself: it does not go with --stages.")
    if auto:
        in_memory(data, "--auto")
    target.check(MODEL, data.files())
    a, u = data.pair()
    mesh = _mesh(named, data, march and stages is None)
    if auto:
        own = {name: parameters[name] for name in ("random_state", "device")}
        model: Any = automatic(a, u, budget=budget, mesh=mesh, verbose=True, **own)
    elif stages is not None:
        stages.grid = stages.grid if mesh is None else mesh
        model = _marched(stages, marching).fit(a, u) if march else stages.fit(a, u)
    else:
        given = {name: value for name, value in parameters.items() if value is not None}
        if "scales__ridge" in given and given["scales"] != "refined":
            raise click.UsageError("--refine-ridge belongs to the refinement: it needs --scales refined.")
        model = PCARaNN(verbose=True).set_params(**given, **({} if mesh is None else {"fields__mesh": mesh}))
        model = _marched(model, marching).fit(a, u) if march else model.fit(a, u)
    (model.model_ if march else model).verbose = False
    model.save(target.path)
    facts = {**model_facts(model), "file": str(target.path)}
    if (report := getattr(model, "fit_report_", None)) is not None:
        say(str(report), alarming=report.useless)
    if march:
        if stages is not None:
            say(str(model.model_.stages_))
        say(str(model.rollout_report_), alarming=model.rollout_report_.warning is not None)
    if auto:
        facts["chosen"] = str(model.auto_report_)
    show(facts, as_json, f"Fitted to {count(a)} {'trajectories' if march else 'samples'}")


def _mesh(path: Path | None, data: Source, marched: bool) -> Any:
    """The mesh that was named, or that of the data; None where there is none, or where a flow of latents marches."""
    from pcarann.mesh.mesh import Mesh

    if path is not None and marched:
        raise click.UsageError("--mesh goes with --march only where stages see it: it needs --stages.")
    found = data.mesh() if path is None else path
    return None if found is None or marched else Mesh.of(found)


def _marching_options(march: bool, auto: bool, given: dict[str, Any]) -> dict[str, Any]:
    """Options of `Marching` that were given, or a refusal."""
    options = {name: value for name, value in given.items() if value is not None}
    if options and not march:
        raise click.UsageError(f"--{next(iter(options))} belongs to a flow: it needs --march.")
    if march and auto:
        raise click.UsageError("--auto does not march: it chooses the options of a model of whole fields.")
    return options


def _marched(model: Any, options: dict[str, Any]) -> Any:
    """The flow of which a model is one step."""
    from pcarann.marching.estimator import Marching

    return Marching(model, **options)


def _rewriting(doing: str) -> Callable[[Change], click.Command]:
    """Make a command of a change, which writes MODEL again when DATA have changed it."""

    def decorate(change: Change) -> click.Command:
        @click.command(change.__name__, help=change.__doc__)
        @model_argument
        @data_options
        @target_option(
            about="Model file to write. An existing file is replaced only if it is a model file.  [default: MODEL]"
        )
        @scale_options
        @json_option
        def command(model: Path, data: Source, target: Target | None, as_json: bool) -> None:
            target = target or Target(model, "MODEL", force=True)
            target.check(MODEL, data.files())
            fitted = load_surrogate(model)
            a, u = data.pair()
            with busy(f"{doing} {count(a)} samples"):
                title, facts = change(fitted, a, u)
                fitted.save(target.path)
            show({**facts, "file": str(target.path)}, as_json, title)

        return command

    return decorate


@_rewriting("Calibrating on")
def calibrate(model: Any, a: Any, u: Any) -> tuple[str, dict[str, Any]]:
    """Calibrate the intervals of MODEL on samples that were used for nothing else."""
    model.calibrate(a, u)
    return f"Calibrated on {count(a)} samples", model_facts(model)


@_rewriting("Adapting to")
def adapt(model: Any, a: Any, u: Any) -> tuple[str, dict[str, Any]]:
    """Adapt the readout of MODEL to new samples by recursive least squares."""
    from pcarann.scale.kinds import is_lazy
    from pcarann.scale.predictions import errors_of, lazy_errors

    def error() -> Any:
        found = lazy_errors(model, a, u, {})[0] if is_lazy(a, u) else errors_of({"mean": model.predict(a)}, u)
        means = {name: float(errors.mean()) for name, (errors, *_) in found.items()}
        return means.get("", means)

    before = error() if matches(model, u) else None
    start = time.perf_counter()
    model.partial_fit(a, u)
    seconds = time.perf_counter() - start
    return "Adapted", {
        "samples": count(a),
        "relative_l2_before": before,
        "relative_l2_after_on_the_same_samples": error(),
        "seconds": seconds,
        "calibration": _calibration(model.fitted_),
    }


def model_facts(model: Any) -> dict[str, Any]:
    """What a user wants to know of a fitted model."""
    from pcarann.ensemble.maps import KernelMap

    if hasattr(model, "marched_"):
        return _flow_facts(model)
    if hasattr(model, "stages_"):
        return stage_facts(model)
    fitted = model.fitted_
    first, kernel = fitted.ensemble.members[0], isinstance(fitted.feature_map, KernelMap)
    facts: dict[str, Any] = {
        "input_grid": list(model.input_pca_.grid),
        "output_grid": list(model.output_pca_.grid),
        "components": [model.input_pca_.n_components, model.output_pca_.n_components],
        "explained_energy": [model.input_pca_.explained_energy, model.output_pca_.explained_energy],
        "regressor": "kernel" if kernel else "random",
        "features": first.features.count,
        "members": len(fitted.ensemble.members),
        "ridge": model.ridge_,
        "solver": f"{first.report.solver}, {first.report.form}",
        "rank": first.report.rank,
        "condition": first.report.condition,
        "training_samples": fitted.samples,
        "adapted_samples": fitted.n_adapted,
        "calibration_samples": fitted.calibration.n_samples if fitted.calibration else 0,
        "calibration_stale": fitted.stale,
        "fit_seconds": model.fit_seconds_.get("total", 0.0),
    }
    if kernel:
        facts["length"] = model.length_
    else:
        facts |= {"widths": list(model.widths), "scales": list(model.scales_)}
        facts["energy_scales"] = list(model.energy_scales_)
    facts |= packing_facts(fitted.packing)
    for side in ("input", "output"):
        if f"{side}s_by_name" in facts:  # what stands there is the size of arrays inside
            del facts[f"{side}_grid"]
    sensitivity = model.sensitivity_
    if (parts := sensitivity.parts) is not None:
        facts["part_shares"] = {name: float(share) for name, share in parts.items()}
    elif len(fitted.ensemble.input_pca.grid) == 1 and not sensitivity.is_field:
        facts["total_sobol_indices"] = dict(sensitivity.effects or {})
    if fitted.channels:
        facts["channel_shares"] = [float(share) for share in sensitivity.channels]
    if model.symmetry is not None:
        facts["symmetry"] = repr(model.symmetry)
    if fitted.refinement and not fitted.refinement.message.startswith(_SUCCESS):
        facts["refinement"] = fitted.refinement.message
    if (report := getattr(model, "fit_report_", None)) is not None:
        facts |= {"validation_error": float(report.relative_error), "validation_r2": float(report.r2)}
    return facts


def _calibration(state: Any) -> str:
    """How intervals stand after an adaptation."""
    if state.calibration is None:
        return "none"
    return "stale: calibrate again" if state.stale else "follows the samples"


def _flow_facts(model: Any) -> dict[str, Any]:
    """What a user wants to know of a model that marches: of its step, then of its roll-outs."""
    flow = model.fitted_
    facts = model_facts(model.model_) | {
        "marching": f"{flow.step} snapshot(s) a step",
        "window": flow.window,
        "controls": flow.n_controls,
        "calibration_samples": flow.calibration.n_samples if flow.calibration else 0,
        "calibration_stale": flow.stale,
    }
    if (told := getattr(model, "fit_report_", None)) is not None:
        facts |= {"validation_error": _finite(told.relative_error), "validation_r2": _finite(told.r2)}
        facts["fit_report"] = str(told)
    if (report := getattr(model, "rollout_report_", None)) is None:
        return facts
    facts |= {"fit_seconds": model.fit_seconds_.get("total", 0.0), "rollout_trajectories": report.trajectories}
    if report.trajectories:
        facts |= {"rollout_chosen": report.chosen, "rollout_errors": [_finite(error) for error in report.median]}
        facts |= {"rollout_growth": _finite(report.growth), "rollout_warning": report.warning or "none"}
    return facts | {"rollout_report": str(report)}


def _finite(number: float) -> float | None:
    """A number as JSON can hold it."""
    return number if math.isfinite(number) else None
