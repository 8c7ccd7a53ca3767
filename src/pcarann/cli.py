"""The command `pcarann`: fit, predict, evaluate, calibrate and adapt from files.

Results go to standard output, as a table or, with --json, as one JSON document; progress and warnings go to standard
error. A mistake ends in one line and exit code 1, and leaves every file as it was.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from pcarann import __version__
from pcarann.files import atomic_writer, check_target

__all__ = ["main"]

_errors = Console(stderr=True)
_PROBLEMS = ("burgers", "darcy", "navier_stokes", "backward_heat")


class _OneLineErrors(click.Group):
    """A group whose commands end every foreseen mistake in one line."""

    def invoke(self, ctx: click.Context) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_, **__: click.echo(f"Warning: {message}", err=True)
            try:
                return super().invoke(ctx)
            except (ValueError, OSError, MemoryError, ImportError) as error:
                raise click.ClickException(" ".join(str(error).split()) or type(error).__name__) from error


@click.group(cls=_OneLineErrors, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="pcarann")
def main() -> None:
    """Surrogates for parametric PDEs: fit in seconds, predict with error bars, adapt to new data.

    DATA is a file of input and output fields, first axis the sample: .npz, .mat, .h5, .nc or .zarr, with the arrays
    `inputs` and `outputs` or those that --inputs and --outputs name; or a .npy file of inputs, --outputs naming the
    .npy file of outputs. A key may carry an index, such as "u[..., 0:10]".
    """


def _sample_range(_: click.Context, option: click.Parameter, text: str | None) -> slice | None:
    """Parse "0:1000"."""
    from pcarann.problems.selection import parse_index

    if text is None:
        return None
    index = parse_index(text) if ":" in text else ()
    if len(index) != 1 or not isinstance(index[0], slice):
        raise click.BadParameter(f"{text!r} is not a range such as 0:1000.", param=option)
    return index[0]


def _strides(_: click.Context, option: click.Parameter, text: str | None) -> tuple[int, ...] | int | None:
    """Parse "15" or "2,2"."""
    if text is None:
        return None
    try:
        parts = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a whole number or a list of them.", param=option) from None
    return parts[0] if len(parts) == 1 else parts


@dataclass(frozen=True)
class _Source:
    """What to read, and from where."""

    path: Path
    inputs: str
    outputs: str
    samples: slice | None
    stride: int | tuple[int, ...] | None

    def fields(self) -> Any:
        """The input fields alone."""
        return self._read(None)[0]

    def pair(self) -> tuple[Any, Any]:
        """Input and output fields."""
        a, u = self._read(self.outputs)
        if u is None:
            raise ValueError(f"{self.path} holds inputs alone: name the .npy file of the outputs with --outputs.")
        return a, u

    def _read(self, outputs: str | None) -> tuple[Any, Any]:
        from pcarann.problems.readers import read

        return read(self.path, self.inputs, outputs, samples=self.samples, stride=self.stride)


def _data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say what to read; the command receives them as one `data`."""

    @wraps(command)
    def with_source(data: Path, inputs: str, outputs: str, samples: Any, stride: Any, **others: Any) -> Any:
        return command(data=_Source(data, inputs, outputs, samples, stride), **others)

    decorated: Callable[..., Any] = with_source
    for option in (
        click.option("--stride", callback=_strides, help="Keep every K-th grid point: K, or K1,K2,… by axis."),
        click.option("--samples", callback=_sample_range, help="Range of samples to read, such as 0:1000."),
        click.option("--outputs", default="outputs", show_default=True, help="Key, or .npy file, of the outputs."),
        click.option("--inputs", default="inputs", show_default=True, help="Key of the inputs."),
        click.argument("data", type=click.Path(path_type=Path)),
    ):
        decorated = option(decorated)
    return decorated


_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_model_argument = click.argument("model", type=click.Path(path_type=Path))
_device_option = click.option("--device", default=None, help="cpu, cuda or cuda:N.  [default: cpu]")


def _seconds(_: click.Context, option: click.Parameter, text: str) -> float:
    """Parse "90s", "10m" or "1h"."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    try:
        return float(text[:-1]) * units[text[-1]]
    except (KeyError, ValueError, IndexError):
        raise click.BadParameter(f"{text!r} is not a time such as 90s, 10m or 1h.", param=option) from None


def _number_or_pair(_: click.Context, option: click.Parameter, text: str | None) -> Any:
    """Parse "100", "0.999" or "100,150"."""
    if text is None or text in ("refined", "energy"):
        return text
    try:
        parts = tuple(int(part) if part.strip().isdigit() else float(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a number or a pair of numbers.", param=option) from None
    return parts[0] if len(parts) == 1 else parts


@main.command()
@_data_options
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Model file to write.")
@click.option(
    "--components",
    default="100",
    show_default=True,
    callback=_number_or_pair,
    help="Modes: N, IN,OUT or a share of energy below 1.",
)
@click.option(
    "--widths",
    default="500,200",
    show_default=True,
    callback=_number_or_pair,
    help="Neurons of the two random layers.",
)
@click.option("--members", default=20, show_default=True, help="Members of the ensemble.")
@click.option(
    "--scales",
    default="refined",
    show_default=True,
    callback=_number_or_pair,
    help="refined, energy, or R1,R2.",
)
@click.option("--ridge", default=0.0, show_default=True, help="Ridge of the readout; 0 is least squares.")
@click.option("--refine-ridge", default=1e-4, show_default=True, help="Ridge inside the validation loss.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random layers.")
@_device_option
@_json_option
def fit(
    data: _Source,
    output: Path,
    components: Any,
    widths: Any,
    members: int,
    scales: Any,
    ridge: float,
    refine_ridge: float,
    seed: int,
    device: str | None,
    as_json: bool,
) -> None:
    """Fit a surrogate to DATA and write it to a model file."""
    from pcarann.operator import PCARaNN

    _check_output(output, data)
    a, u = data.pair()
    model = PCARaNN(
        n_components=components,
        widths=widths,
        n_members=members,
        scales=scales,
        ridge=ridge,
        refine_ridge=refine_ridge,
        random_state=seed,
        device=device,
        verbose=True,
    ).fit(a, u)
    model.verbose = False
    model.save(output)
    _show({**_model_facts(model), "file": str(output)}, as_json, f"Fitted to {len(a)} samples")


@main.command()
@_model_argument
@_data_options
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help=".npz (or .npy, the mean alone) to write.",
)
@click.option("--std", is_flag=True, help="Also write the standard deviation of the members.")
@click.option("--alpha", type=float, default=None, help="Also write intervals of level 1 − alpha.")
@click.option("--method", type=click.Choice(["sample", "pooled", "simultaneous"]), default="sample", show_default=True)
@_device_option
@_json_option
def predict(
    model: Path,
    data: _Source,
    output: Path,
    std: bool,
    alpha: float | None,
    method: Any,
    device: str | None,
    as_json: bool,
) -> None:
    """Predict the output fields of the inputs in DATA."""
    from pcarann.storage import load

    if output.suffix not in (".npz", ".npy") or (output.suffix == ".npy" and (std or alpha is not None)):
        raise click.UsageError("-o must end in .npz, or in .npy where the mean alone is written.")
    _check_output(output, data, model)
    fitted = load(model, device)
    a = data.fields()
    start = time.perf_counter()
    with _busy(f"Predicting {len(a)} samples"):
        if alpha is not None:
            fields = vars(fitted.predict_interval(a, alpha, method))
        elif std:
            fields = dict(zip(("mean", "std"), fitted.predict(a, return_std=True), strict=True))
        else:
            fields = {"mean": fitted.predict(a)}
    seconds = time.perf_counter() - start
    _write_arrays(output, fields)
    facts = {"samples": len(a), "arrays": sorted(fields), "seconds": seconds, "file": str(output)}
    _show(facts, as_json, "Predicted")


@main.command()
@_model_argument
@_data_options
@click.option(
    "--alpha",
    type=float,
    default=0.05,
    show_default=True,
    help="Intervals of level 1 − alpha, if calibrated.",
)
@click.option("--method", type=click.Choice(["sample", "pooled", "simultaneous"]), default="sample", show_default=True)
@_device_option
@_json_option
def evaluate(
    model: Path,
    data: _Source,
    alpha: float,
    method: Any,
    device: str | None,
    as_json: bool,
) -> None:
    """Compare predictions with the outputs in DATA."""
    from pcarann.metrics import coverage, mean_width, relative_l2
    from pcarann.storage import load

    fitted = load(model, device)
    a, u = data.pair()
    record = fitted._require_fitted()
    with _busy(f"Evaluating {len(a)} samples"):
        if record.calibration is None or record.stale:
            band, mean = None, fitted.predict(a)
        else:
            band = fitted.predict_interval(a, alpha, method)
            mean = band.mean
        errors = relative_l2(mean, u, per_sample=True)
    facts: dict[str, Any] = {
        "samples": len(a),
        "relative_l2_mean": float(np.mean(errors)),
        "relative_l2_median": float(np.median(errors)),
        "relative_l2_max": float(np.max(errors)),
    }
    if band is not None:
        facts["interval_level"] = 1 - alpha
        facts["interval_coverage"] = coverage(band.lower, band.upper, u)
        facts["interval_mean_width"] = mean_width(band.lower, band.upper)
    _show(facts, as_json, "Evaluation")


@main.command()
@_model_argument
@_data_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    help="Model file to write.  [default: MODEL]",
)
@_json_option
def calibrate(model: Path, data: _Source, output: Path | None, as_json: bool) -> None:
    """Calibrate the intervals of MODEL on samples that were used for nothing else."""
    from pcarann.storage import load

    _check_output(output or model, data)
    fitted = load(model)
    a, u = data.pair()
    with _busy(f"Calibrating on {len(a)} samples"):
        fitted.calibrate(a, u)
        fitted.save(output or model)
    _show({**_model_facts(fitted), "file": str(output or model)}, as_json, f"Calibrated on {len(a)} samples")


@main.command()
@_model_argument
@_data_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    help="Model file to write.  [default: MODEL]",
)
@_json_option
def adapt(model: Path, data: _Source, output: Path | None, as_json: bool) -> None:
    """Adapt the readout of MODEL to new samples by recursive least squares."""
    from pcarann.metrics import relative_l2
    from pcarann.storage import load

    _check_output(output or model, data)
    fitted = load(model)
    a, u = data.pair()
    with _busy(f"Adapting to {len(a)} samples"):
        before = relative_l2(fitted.predict(a), u)
        start = time.perf_counter()
        fitted.partial_fit(a, u)
        seconds = time.perf_counter() - start
        after = relative_l2(fitted.predict(a), u)
        fitted.save(output or model)
    facts = {
        "samples": len(a),
        "relative_l2_before": before,
        "relative_l2_after_on_the_same_samples": after,
        "seconds": seconds,
        "calibration": "stale: calibrate again" if fitted._require_fitted().stale else "none",
        "file": str(output or model),
    }
    _show(facts, as_json, "Adapted")


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@_json_option
def describe(file: Path, as_json: bool) -> None:
    """Say what is in a data file or a model file."""
    from pcarann.problems import readers

    if file.suffix.lower() in readers.ENDINGS:
        _show(readers.describe(file), as_json, str(file))
        return
    from pcarann.storage import load

    _show({**_model_facts(load(file)), "bytes": os.path.getsize(file)}, as_json, str(file))


@main.command()
@click.argument("problem", type=click.Choice(_PROBLEMS))
@click.option("-n", "--samples", "n", default=1400, show_default=True, help="Number of samples.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help=".npz file to write.")
@click.option("--seed", default=0, show_default=True, help="Sample i depends on the seed and i alone.")
@click.option("--cache/--no-cache", default=True, show_default=True, help="Keep the samples for the next time.")
@_device_option
@_json_option
def generate(problem: str, n: int, output: Path, seed: int, cache: bool, device: str | None, as_json: bool) -> None:
    """Generate data of one of the four problems."""
    if output.suffix != ".npz":
        raise click.UsageError("-o must end in .npz.")
    check_target(output)
    start = time.perf_counter()
    module = import_module(f"pcarann.problems.{problem}")
    data = module.generate(n, seed=seed, device=device, cache=cache, verbose=True)
    seconds = time.perf_counter() - start
    data.save(output)
    facts = {
        "inputs": list(data.inputs.shape),
        "outputs": list(data.outputs.shape),
        "parameters": data.parameters,
        "seconds": seconds,
        "file": str(output),
    }
    _show(facts, as_json, f"Generated {problem}")


@main.command()
@click.option(
    "-o",
    "--output",
    default="demo.png",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Picture to write: .png, .svg or .pdf.",
)
@_json_option
def demo(output: Path, as_json: bool) -> None:
    """Show the whole story on Burgers' equation: data, fit, error, intervals, an online update, a picture."""
    from pcarann.benchmark.demo import run_demo
    from pcarann.benchmark.figures import demo_figure

    if output.suffix not in (".png", ".svg", ".pdf"):
        raise click.UsageError("-o must end in .png, .svg or .pdf.")
    check_target(output)
    found = run_demo(lambda message: _errors.print(f"[dim]{message} …[/dim]"), verbose=True)
    demo_figure(found, output)
    if as_json:
        click.echo(json.dumps({**found.facts(), "picture": str(output)}, indent=2))
        return
    table = Table(
        "what", "measured", "what it means", title="Burgers' equation", title_justify="left", title_style="bold"
    )
    for row in _demo_rows(found):
        table.add_row(*row)
    Console().print(table)
    click.echo(f"Picture: {output}")


def _demo_rows(found: Any) -> list[tuple[str, str, str]]:
    last = found.adapted[-1]
    return [
        (
            "training time",
            f"{found.fit_seconds:.1f} s",
            "20 networks fitted to 1000 samples, scales chosen, on this machine",
        ),
        ("error", f"{found.error:.2e}", "mean relative L² error on 100 unseen samples: 1e-3 is a tenth of a percent"),
        (
            "one prediction",
            f"{1e3 * found.predict_seconds:.2g} ms",
            "a field of 101 × 101 values, the mean of 20 networks",
        ),
        (
            "95 % intervals",
            f"cover {100 * found.coverage:.1f} %",
            f"of the unseen values, at a mean width of {found.width:.1e}",
        ),
        (
            "new regime",
            f"{found.new_errors[0]:.2e}",
            "error of the same model at half the viscosity, which it never saw",
        ),
        (
            "after adapting",
            f"{found.new_errors[-1]:.2e}",
            f"with {last} new samples, in {found.adapt_seconds:.1f} s of updates; no retraining",
        ),
    ]


@main.command()
@click.argument("problem", type=click.Choice((*_PROBLEMS, "all")))
@click.option(
    "-o", "--output", default="results", show_default=True, type=click.Path(path_type=Path), help="Folder to write."
)
@click.option("--quick", is_flag=True, help="Small sizes, in seconds: a check that everything runs, not a result.")
@click.option("--baselines", is_flag=True, help="Also train DeepONet, FNO, PCA–NN and kernel ridge.")
@click.option(
    "--budget",
    default="10m",
    show_default=True,
    callback=_seconds,
    help="Longest training of one baseline, such as 90s or 10m.",
)
@click.option("--repeats", default=3, show_default=True, help="Fits of each model; the median time counts.")
@_device_option
def reproduce(
    problem: str, output: Path, quick: bool, baselines: bool, budget: float, repeats: int, device: str | None
) -> None:
    """Rebuild the paper's tables and figures from seeds, beside the paper's numbers."""
    from pcarann.benchmark.report import build_report
    from pcarann.benchmark.runner import reproduce as run

    names = _PROBLEMS if problem == "all" else (problem,)
    records = output / "records"
    start = time.perf_counter()
    for path in run(
        names,
        records,
        device=device,
        quick=quick,
        repeats=repeats,
        budget=budget if baselines else None,
        tell=lambda message: _errors.print(f"[dim]{message}[/dim]"),
    ):
        click.echo(f"Record: {path}")
    click.echo(f"Report: {build_report(records, output)}")
    click.echo(f"Took {time.perf_counter() - start:.0f} s")


def _model_facts(model: Any) -> dict[str, Any]:
    """What a user wants to know of a fitted model."""
    fitted = model._require_fitted()
    first = fitted.ensemble.members[0]
    facts: dict[str, Any] = {
        "input_grid": list(model.input_pca_.grid),
        "output_grid": list(model.output_pca_.grid),
        "components": [model.input_pca_.n_components, model.output_pca_.n_components],
        "explained_energy": [model.input_pca_.explained_energy, model.output_pca_.explained_energy],
        "widths": list(model.widths),
        "members": len(fitted.ensemble.members),
        "scales": list(model.scales_),
        "energy_scales": list(model.energy_scales_),
        "solver": f"{first.report.solver}, {first.report.form}",
        "rank": first.report.rank,
        "condition": first.report.condition,
        "training_samples": int(fitted.x.shape[0]),
        "adapted_samples": fitted.n_adapted,
        "calibration_samples": fitted.calibration.n_samples if fitted.calibration else 0,
        "calibration_stale": fitted.stale,
        "fit_seconds": model.fit_seconds_.get("total", 0.0),
    }
    if fitted.refinement:
        facts["refinement"] = fitted.refinement.message
        facts["validation_loss"] = [fitted.refinement.start_loss, fitted.refinement.loss]
    return facts


def _show(facts: dict[str, Any], as_json: bool, title: str) -> None:
    """Print facts as a table, or as JSON."""
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    table = Table(title=title, show_header=False, title_justify="left", title_style="bold")
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), _text(value))
    Console().print(table)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) or "one value"
    return str(value)


def _check_output(output: Path, data: _Source, *models: Path) -> None:
    """Refuse, before any work is done, a file that cannot be written or that is being read."""
    check_target(output)
    for source in (data.path, Path(data.outputs), *models):
        if output.exists() and source.exists() and output.samefile(source):
            raise ValueError(f"{output} is being read: name another file with -o.")


def _write_arrays(output: Path, fields: dict[str, Any]) -> None:
    with atomic_writer(output) as file:
        if output.suffix == ".npy":
            np.save(file, fields["mean"], allow_pickle=False)
        else:
            np.savez(file, allow_pickle=False, **fields)


def _busy(message: str) -> AbstractContextManager[Any]:
    """A spinner on standard error, where that is a terminal."""
    return _errors.status(message)
