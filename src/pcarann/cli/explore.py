"""The command that makes a page of a model: explore."""

from __future__ import annotations

from pathlib import Path

import click

from pcarann.cli.kinds import PAGE, size_in_words
from pcarann.cli.options import json_option, load_surrogate, model_argument
from pcarann.cli.output import busy, show
from pcarann.cli.targets import Target, target_option
from pcarann.files import atomic_writer

__all__ = ["explore"]


@click.command()
@model_argument
@target_option(required=True, about=".html. An existing file is replaced only if it is such a page.")
@click.option(
    "--max-size",
    type=click.FloatRange(min=0),
    default=25.0,
    show_default=True,
    help="Refuse a page of more than so many MB.",
)
@json_option
def explore(model: Path, target: Target, max_size: float, as_json: bool) -> None:
    """Make a page of MODEL that needs no server: one file, to open in a browser or to mail.

    The model is in the page, which asks nothing of anyone. Larger ones are shown by `pcarann serve`.
    """
    from pcarann.explorer.page_file import page_file

    if target.path.suffix != ".html":
        raise click.UsageError("-o must end in .html.")
    target.check(PAGE, [model])
    fitted = load_surrogate(model, None)
    with busy("Writing the page"):
        content = page_file(fitted, model.stem, model.name, limit=1e6 * max_size).encode()
    with atomic_writer(target.path) as file:
        file.write(content)
    show({"file": str(target.path), "size": size_in_words(len(content))}, as_json, "Page")
