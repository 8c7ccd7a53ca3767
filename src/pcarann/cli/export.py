"""The command that writes a model for other programs: export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pcarann.cli.kinds import ONNX, size_in_words
from pcarann.cli.options import json_option, load_surrogate, method_option, model_argument
from pcarann.cli.output import busy, show
from pcarann.cli.targets import Target, target_option

__all__ = ["export"]


@click.command()
@model_argument
@target_option(
    required=True, about="ONNX file to write. An existing file is replaced only if it is one that export wrote."
)
@click.option("--single", is_flag=True, help="float32 in and out.  [default: float64]")
@click.option("--alpha", type=float, default=None, help="Intervals of level 1 − alpha.  [default: 0.05 if calibrated]")
@method_option
@click.option("--steps", type=click.IntRange(min=1), default=None, help="Of a flow.  [default: those of its fit]")
@click.option("--mean-only", is_flag=True, help="Leave out spread, intervals and novelty: a call costs less.")
@json_option
def export(model: Path, target: Target, as_json: bool, **how: Any) -> None:
    """Write MODEL as an ONNX file, which programs evaluate without pcarann."""
    from pcarann.export.onnx_file import OPSET, onnx_bytes, ports_of
    from pcarann.files import atomic_writer

    if target.path.suffix != ".onnx":
        raise click.UsageError("-o must end in .onnx.")
    target.check(ONNX, [model])
    with busy("Exporting"):
        found = onnx_bytes(load_surrogate(model), **how)
        with atomic_writer(target.path) as file:
            file.write(found)
    inputs, outputs = ports_of(found)
    facts = {"file": str(target.path), "size": size_in_words(len(found)), "opset": OPSET}
    show(facts | {"inputs": inputs, "outputs": outputs}, as_json, "Exported")
