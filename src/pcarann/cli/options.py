"""Options that several commands share, and how their texts are parsed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

__all__ = [
    "PROBLEMS",
    "Source",
    "data_options",
    "device_option",
    "duration",
    "json_option",
    "load_surrogate",
    "model_argument",
    "number_or_pair",
]

PROBLEMS = ("burgers", "darcy", "navier_stokes", "backward_heat")


def load_surrogate(path: Path, device: str | None = None) -> Any:
    """Load the model of a command."""
    from pcarann.loading import load

    return load(path, device)


def sample_range(_: click.Context, option: click.Parameter, text: str | None) -> slice | None:
    """Parse "0:1000"."""
    from pcarann.problems.selection import parse_index

    if text is None:
        return None
    index = parse_index(text) if ":" in text else ()
    if len(index) != 1 or not isinstance(index[0], slice):
        raise click.BadParameter(f"{text!r} is not a range such as 0:1000.", param=option)
    return index[0]


def strides(_: click.Context, option: click.Parameter, text: str | None) -> tuple[int, ...] | int | None:
    """Parse "15" or "2,2"."""
    if text is None:
        return None
    try:
        parts = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a whole number or a list of them.", param=option) from None
    return parts[0] if len(parts) == 1 else parts


def once(_: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> str:
    """Take the one text of an option, which click would otherwise take from its last appearance."""
    if len(texts) != 1:
        raise ValueError(f"--{option.name} was given {len(texts)} times: several {option.name} are not supported yet.")
    return texts[0]


@dataclass(frozen=True)
class Source:
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

    def files(self) -> tuple[Path, ...]:
        """The files that are read."""
        from pcarann.problems.readers import files_read

        return files_read(self.path, self.outputs)

    def _read(self, outputs: str | None) -> tuple[Any, Any]:
        from pcarann.problems.readers import read

        return read(self.path, self.inputs, outputs, samples=self.samples, stride=self.stride)


def data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say what to read; the command receives them as one `data`."""

    @wraps(command)
    def with_source(data: Path, inputs: str, outputs: str, samples: Any, stride: Any, **others: Any) -> Any:
        return command(data=Source(data, inputs, outputs, samples, stride), **others)

    decorated: Callable[..., Any] = with_source
    for option in (
        click.option("--stride", callback=strides, help="Keep every K-th grid point: K, or K1,K2,… by axis."),
        click.option("--samples", callback=sample_range, help="Range of samples to read, such as 0:1000."),
        _key_option("outputs", "Key, or .npy file, of the outputs."),
        _key_option("inputs", "Key of the inputs."),
        click.argument("data", type=click.Path(path_type=Path)),
    ):
        decorated = option(decorated)
    return decorated


def _key_option(name: str, about: str) -> Callable[..., Any]:
    return click.option(f"--{name}", multiple=True, default=[name], show_default=True, callback=once, help=about)


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
model_argument = click.argument("model", type=click.Path(path_type=Path))
device_option = click.option("--device", default=None, help="cpu, cuda or cuda:N.  [default: cpu]")


def duration(_: click.Context, option: click.Parameter, text: str) -> float:
    """Parse "90s", "10m" or "1h"."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    try:
        return float(text[:-1]) * units[text[-1]]
    except (KeyError, ValueError, IndexError):
        raise click.BadParameter(f"{text!r} is not a time such as 90s, 10m or 1h.", param=option) from None


def number_or_pair(_: click.Context, option: click.Parameter, text: str | None) -> Any:
    """Parse "100", "0.999" or "100,150"; words are left to the estimator, which knows those that fit."""
    if text is None or text.isalpha():
        return text
    try:
        parts = tuple(int(part) if part.strip().isdigit() else float(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a number or a pair of numbers.", param=option) from None
    return parts[0] if len(parts) == 1 else parts
