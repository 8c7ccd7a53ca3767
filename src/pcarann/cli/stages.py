"""Stages on the command line: options of `fit`, and what is to be known of a fitted `Staged`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from pcarann.cli.options import packing_facts

__all__ = ["stage_facts", "stage_options", "staged_or_none"]

_OWN = ("stages", "features", "boundary", "axes", "adaptable")
_SHARED = ("n_members", "random_state", "device")


def axes(_: click.Context, option: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Parse "-2,-1"."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of axes such as -2,-1.", param=option) from None


def stage_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of stages, for `fit`."""
    for option in (
        click.option(
            "--axes", callback=axes, help="With --stages: axes of an output that are space.  [default: found]"
        ),
        click.option(
            "--boundary",
            help="With --stages: periodic, zero or free, or one for each axis by commas.  [default: found]",
        ),
        click.option("--adaptable", is_flag=True, default=None, help="With --stages: keep what `adapt` needs."),
        click.option("--features", type=int, help="With --stages: random features of a stage.  [default: 120]"),
        click.option("--stages", type=int, help="Correct the mean field in space, in at most so many stages."),
    ):
        command = option(command)
    return command


def staged_or_none(parameters: dict[str, Any]) -> Any:
    """The unfitted stages that were asked for, whose own parameters are taken out; None where they were not."""
    context = click.get_current_context()
    own = {name: parameters.pop(name) for name in _OWN}
    if own["stages"] is None:
        given = [name for name in _OWN if own[name] is not None]
        if given:
            raise click.UsageError(f"--{given[0]} belongs to stages: it needs --stages.")
        return None
    typed = [name for name in parameters if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    for option in context.command.params:
        if option.name in typed and option.name not in _SHARED:
            raise click.UsageError(f"{option.opts[0]} belongs to a latent model: it does not go with --stages.")
    from pcarann.options import Grid
    from pcarann.staged import Staged

    boundary = own["boundary"]
    ends = None if boundary is None else tuple(boundary.split(",")) if "," in boundary else boundary
    known = {name: parameters[name] for name in _SHARED if name in typed}
    features = {} if own["features"] is None else {"n_features": own["features"]}
    adaptable = bool(own["adaptable"])
    return Staged(n_stages=own["stages"], grid=Grid(ends, own["axes"]), adaptable=adaptable, **features, **known)


def stage_facts(model: Any) -> dict[str, Any]:
    """What a user wants to know of fitted stages."""
    fitted, report = model.fitted_, model.stages_
    facts = {
        "input_grid": list(fitted.layout.input_grid),
        "output_grid": list(fitted.layout.output_grid),
        "start": report.start,
        "boundary": list(fitted.layout.boundaries),
        "stages": len(fitted.chains[0].stages),
        "features": model.n_features,
        "members": fitted.members,
        "training_samples": fitted.samples,
        "calibration_samples": fitted.calibration.n_samples if fitted.calibration else 0,
        "calibration_stale": fitted.stale,
        "fit_seconds": model.fit_seconds_.get("total", 0.0),
        "report": str(report),
    }
    facts |= packing_facts(fitted.packing)
    if (found := getattr(model, "fit_report_", None)) is not None:
        facts |= {"validation_error": found.relative_error, "validation_r2": found.r2, "fit_report": str(found)}
    return facts
