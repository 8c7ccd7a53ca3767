"""The command `pcarann`.

Results go to standard output, as a table or, with --json, as one JSON document; progress and warnings go to standard
error. A mistake ends in one line and exit code 1, and leaves every file as it was.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

try:  # it takes a second, in which Ctrl-C may come
    import click

    from pcarann import __version__
    from pcarann.cli.benchmarks import demo, reproduce
    from pcarann.cli.data import describe, generate
    from pcarann.cli.explore import explore
    from pcarann.cli.export import export
    from pcarann.cli.models import adapt, calibrate, fit
    from pcarann.cli.predictions import evaluate, predict
    from pcarann.cli.serve import serve
except KeyboardInterrupt:
    raise SystemExit(130) from None  # as shells call what was interrupted

__all__ = ["main"]


class _OneLineErrors(click.Group):
    """A group whose commands end every foreseen mistake in one line."""

    def invoke(self, ctx: click.Context) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a terminal that knows ASCII alone is no reason to fail
                stream.reconfigure(errors="backslashreplace")
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_, **__: click.echo(f"Warning: {message}", err=True)
            try:
                return super().invoke(ctx)
            except (ValueError, OSError, MemoryError, ImportError) as error:
                said = " ".join(str(error).split()).replace("fill=True", "--fill")
                raise click.ClickException(said or type(error).__name__) from error


@click.group(cls=_OneLineErrors, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="pcarann")
def main() -> None:
    """Surrogates for parametric PDEs: fit in seconds, predict with error bars, adapt to new data.

    DATA is a file of input and output fields, first axis the sample: .npz, .mat, .h5, .nc or .zarr, with the arrays
    `inputs` and `outputs` or those that --inputs and --outputs name; or a .npy file of inputs, --outputs naming the
    .npy file of outputs. A key may carry an index, such as "u[..., 0:10]". A folder or a pattern of .vtu, .vtk, .xdmf
    or .msh files on one mesh has a sample in each, and the names of point data are keys.
    """


for command in (demo, generate, describe, fit, predict, evaluate, calibrate, adapt, export, explore, serve, reproduce):
    main.add_command(command)
