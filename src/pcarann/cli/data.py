"""Commands on data: describe, generate."""

from __future__ import annotations

import os
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from pcarann.cli.kinds import GENERATED, is_model, largest_parts, size_in_words
from pcarann.cli.models import model_facts
from pcarann.cli.options import PROBLEMS, device_option, json_option, limit_option, load_surrogate, mesh_of
from pcarann.cli.output import say, show
from pcarann.cli.pictures import draw_data, draw_stages, on_mesh
from pcarann.cli.targets import Target, target_option

__all__ = ["describe", "generate"]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@target_option(
    "--picture",
    about="Draw samples of data, or of a model the effects of its inputs, or the error after each stage (.png, .svg, "
    ".pdf). Of existing files only a picture is replaced.",
)
@limit_option
@json_option
def describe(file: Path, target: Target | None, as_json: bool) -> None:
    """Say what is in a data file or a model file."""
    from pcarann.problems import readers
    from pcarann.problems.formats.mesh import MESH_ENDINGS

    if file.is_file() and is_model(file):
        show(_describe_model(file, target), as_json, str(file))
        _tell_picture(target)
        return
    if not file.exists() and file.suffix.lower() not in MESH_ENDINGS:
        raise FileNotFoundError(f"There is no file {file}.")
    if not readers.is_data(file) and file.suffix.lower() not in readers.MESHES:
        known = ", ".join(readers.ENDINGS)
        raise ValueError(f"{file} is not a pcarann model file, nor data with an ending that is known: {known}.")
    if target:
        target.check_picture(readers.files_read(file))
        draw_data(file, target.path)
    show(readers.describe(file), as_json, str(file), verbatim=True)
    _tell_picture(target)


def _tell_picture(target: Target | None) -> None:
    """On standard error: facts of data are by the names of arrays, of which one may be anything."""
    if target:
        say(f"Picture: {target.path}")


def _describe_model(file: Path, target: Target | None) -> dict[str, Any]:
    if target:
        target.check_picture([file])
    model = load_surrogate(file)
    if target:
        latent = model.model_ if hasattr(model, "marched_") else model
        if hasattr(latent, "stages_"):
            draw_stages(latent.stages_, target.path)
        else:
            sensitivity = latent.sensitivity_
            sensitivity.draw(target.path, **on_mesh(mesh_of(latent), sensitivity.map.shape))
    size = os.path.getsize(file)
    return {**model_facts(model), "bytes": size, "size": size_in_words(size), "largest_parts": largest_parts(file)}


@click.command()
@click.argument("problem", type=click.Choice(PROBLEMS))
@click.option("-n", "--samples", "n", default=1400, show_default=True, help="Number of samples.")
@target_option(required=True, about=".npz file to write. An existing file is replaced only if generate wrote it.")
@click.option("--seed", default=0, show_default=True, help="Sample i depends on the seed and i alone.")
@click.option("--cache/--no-cache", default=True, show_default=True, help="Keep the samples for the next time.")
@device_option
@json_option
def generate(problem: str, n: int, target: Target, seed: int, cache: bool, device: str | None, as_json: bool) -> None:
    """Generate data of one of the four problems."""
    if target.path.suffix != ".npz":
        raise click.UsageError("-o must end in .npz.")
    target.check(GENERATED)
    start = time.perf_counter()
    module = import_module(f"pcarann.problems.{problem}")
    data = module.generate(n, seed=seed, device=device, cache=cache, verbose=True)
    seconds = time.perf_counter() - start
    data.save(target.path)
    shapes = {"inputs": list(data.inputs.shape), "outputs": list(data.outputs.shape)}
    facts = {**shapes, "parameters": data.parameters, "seconds": seconds, "file": str(target.path)}
    show(facts, as_json, f"Generated {problem}")
