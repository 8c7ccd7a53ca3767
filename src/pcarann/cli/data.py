"""Commands on data: describe, generate."""

from __future__ import annotations

import os
import time
from importlib import import_module
from pathlib import Path

import click

from pcarann.cli.models import model_facts
from pcarann.cli.options import PROBLEMS, device_option, json_option, load_surrogate
from pcarann.cli.output import show
from pcarann.files import check_target

__all__ = ["describe", "generate"]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--picture", type=click.Path(path_type=Path), help="Of a model: draw what of an input counts (.png, .svg, .pdf)."
)
@json_option
def describe(file: Path, picture: Path | None, as_json: bool) -> None:
    """Say what is in a data file or a model file."""
    from pcarann.problems import readers

    if file.suffix.lower() in readers.ENDINGS:
        if picture:
            raise click.UsageError("--picture belongs to a model file.")
        show(readers.describe(file), as_json, str(file))
        return
    model = load_surrogate(file)
    if picture:
        model.sensitivity_.draw(picture)
    show({**model_facts(model), "bytes": os.path.getsize(file)}, as_json, str(file))


@click.command()
@click.argument("problem", type=click.Choice(PROBLEMS))
@click.option("-n", "--samples", "n", default=1400, show_default=True, help="Number of samples.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help=".npz file to write.")
@click.option("--seed", default=0, show_default=True, help="Sample i depends on the seed and i alone.")
@click.option("--cache/--no-cache", default=True, show_default=True, help="Keep the samples for the next time.")
@device_option
@json_option
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
    show(facts, as_json, f"Generated {problem}")
