"""Commands that show the method at work: demo, reproduce."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console
from rich.table import Table

from pcarann.cli.options import PROBLEMS, device_option, duration, json_option
from pcarann.cli.output import errors
from pcarann.cli.targets import Target, check_folder, target_option

__all__ = ["demo", "reproduce"]


@click.command()
@target_option(
    about="Picture to write: .png, .svg or .pdf. An existing file is replaced only if it is a picture.",
    default="demo.png",
    show_default=True,
)
@json_option
def demo(target: Target, as_json: bool) -> None:
    """Show the whole story on Burgers' equation: data, fit, error, intervals, an online update, a picture."""
    from pcarann.benchmark.demo import demo_figure, run_demo

    target.check_picture()
    found = run_demo(lambda message: errors.print(f"[dim]{message} …[/dim]"), verbose=True)
    demo_figure(found, target.path)
    if as_json:
        click.echo(json.dumps({**found.facts(), "picture": str(target.path)}, indent=2))
        return
    look: dict[str, Any] = {"title_justify": "left", "title_style": "bold"}
    table = Table("what", "measured", "what it means", title="Burgers' equation", **look)
    for row in _demo_rows(found):
        table.add_row(*row)
    Console().print(table)
    click.echo(f"Picture: {target.path}")


def _demo_rows(found: Any) -> list[tuple[str, str, str]]:
    fitting, predicting = f"{found.fit_seconds:.1f} s", f"{1e3 * found.predict_seconds:.2g} ms"
    covered, updates = f"cover {100 * found.coverage:.1f} %", f"in {found.adapt_seconds:.1f} s of updates"
    before, after = (f"{found.new_errors[end]:.2e}" for end in (0, -1))
    return [
        ("training time", fitting, "20 networks fitted to 1000 samples, scales chosen, on this machine"),
        ("error", f"{found.error:.2e}", "mean relative L² error on 100 unseen samples: 1e-3 is a tenth of a percent"),
        ("one prediction", predicting, "a field of 101 × 101 values, the mean of 20 networks"),
        ("95 % intervals", covered, f"of the unseen values, at a mean width of {found.width:.1e}"),
        ("new regime", before, "error of the same model at half the viscosity, which it never saw"),
        ("after adapting", after, f"with {found.adapted[-1]} new samples, {updates}; no retraining"),
    ]


@click.command()
@click.argument("problem", type=click.Choice((*PROBLEMS, "rough", "all")))
@click.option(
    "-o", "--output", default="results", show_default=True, type=click.Path(path_type=Path), help="Folder to write."
)
@click.option("--quick", is_flag=True, help="Small sizes, in seconds: a check that everything runs, not a result.")
@click.option(
    "--best",
    is_flag=True,
    help="Past the paper: run the best models, their ablations and learning curves in the place of the paper's models.",
)
@click.option(
    "--baselines",
    is_flag=True,
    help="Also train DeepONet, FNO, PCA–NN, kernel ridge and random features; with --best, FNO on symmetry copies and "
    "on rough inputs, all on noisy inputs.",
)
@click.option(
    "--budget",
    default="10m",
    show_default=True,
    callback=duration,
    help="Longest training of one baseline, such as 90s or 10m.",
)
@click.option("--repeats", default=3, show_default=True, help="Fits of each model; the median time counts.")
@device_option
@click.pass_context
def reproduce(context: click.Context, /, problem: str, output: Path, best: bool, **options: Any) -> None:
    """Rebuild the paper's tables and figures from seeds, beside the paper's numbers; --best goes past them.

    `rough` are three cases with rough random fields as inputs, for --best alone.
    """
    from pcarann.benchmark.best.experiments import reproduce_best
    from pcarann.benchmark.paper.experiments import reproduce as run
    from pcarann.benchmark.report.report import build_report

    baselines = options.pop("baselines")
    _check_combination(context, best, baselines)
    names = (*PROBLEMS, *["rough"] * best) if problem == "all" else (problem,)
    records = output / "records"
    check_folder(records)
    if best:
        del options["repeats"]
    if not baselines:
        options["budget"] = None
    options["tell"] = lambda message: errors.print(f"[dim]{message}[/dim]")
    start = time.perf_counter()
    for path in (reproduce_best if best else run)(names, records, **options):
        click.echo(f"Record: {path}")
    click.echo(f"Report: {build_report(records, output)}")
    click.echo(f"Took {time.perf_counter() - start:.0f} s")


def _check_combination(context: click.Context, best: bool, baselines: bool) -> None:
    """Refuse options that would do nothing."""
    budget, repeats = (
        context.get_parameter_source(name) is not ParameterSource.DEFAULT for name in ("budget", "repeats")
    )
    if context.params["problem"] == "rough" and not best:
        raise click.UsageError("The rough cases are not the paper's: add --best.")
    if best and repeats:
        raise click.UsageError("--repeats does not go with --best, which fits each model once.")
    if budget and not baselines:
        raise click.UsageError("--budget limits the training of baselines: add --baselines.")
