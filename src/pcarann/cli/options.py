"""Options that several commands share, and how their texts are parsed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

__all__ = [
    "PROBLEMS",
    "Source",
    "count",
    "data_options",
    "device_option",
    "duration",
    "json_option",
    "level",
    "limit_option",
    "load_surrogate",
    "matches",
    "mesh_of",
    "method_option",
    "model_argument",
    "number_or_pair",
    "output_names",
    "packing_facts",
]

_LIMIT = "pcarann.limit"
_NAMED, _WORD = re.compile(r"(\w[\w.-]*)=(.+)"), re.compile(r"\w[\w.-]*")

PROBLEMS = ("burgers", "darcy", "navier_stokes", "backward_heat")


def load_surrogate(path: Path, device: str | None = None) -> Any:
    """Load the model of a command, within the memory that it was given."""
    from pcarann.loading import load

    return load(path, device, **_limit())


def _limit() -> dict[str, Any]:
    """The memory that a command was given, where it was."""
    context = click.get_current_context(silent=True)
    given = None if context is None else context.meta.get(_LIMIT)
    return {} if given is None else {"limit": given}


def mesh_of(model: Any) -> Any:
    """The mesh that a model knows its outputs lie on, anything with `points` and `cells`; None else."""
    return getattr(model, "mesh_", None)


def output_names(model: Any) -> tuple[str, ...]:
    """Names of the outputs of a model; "" of the one that has none."""
    packing = getattr(model.fitted_, "packing", None)
    return ("",) if packing is None or packing.outputs.single else tuple(packing.outputs.names)


def matches(model: Any, outputs: Any) -> bool:
    """Whether a model has outputs by these names, or one without a name; a refusal where it has not."""
    names = output_names(model)
    given = tuple(outputs) if isinstance(outputs, dict) else ("",)
    if set(names) != set(given):
        wanted, found = (", ".join(some) if some != ("",) else "one without a name" for some in (names, given))
        raise click.UsageError(f"The outputs of the model are {wanted}, those given are {found}: see --outputs.")
    return True


def packing_facts(packing: Any) -> dict[str, Any]:
    """What inputs and outputs of a model are made of, where they are more than one array each."""
    if packing is None:
        return {}
    sides = {"inputs": packing.inputs, "outputs": packing.outputs}
    facts: dict[str, Any] = {
        f"{name}_by_name": {part.name: list(part.grid) for part in side.parts}
        for name, side in sides.items()
        if not side.single
    }
    return facts if packing.mesh is None else facts | {"mesh": repr(packing.mesh)}


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


def keys(_: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> str | dict[str, str]:
    """Take one key as it is, and parse several, "NAME=KEY" each, into a mapping; a plain word names itself."""
    named = [_NAMED.fullmatch(text) for text in texts]
    if len(texts) == 1 and named[0] is None:
        return texts[0]
    found: dict[str, str] = {}
    for text, match in zip(texts, named, strict=True):
        if match is None and not _WORD.fullmatch(text):
            raise ValueError(f"--{option.name} was given {len(texts)} times: give each a name, as in NAME={text}.")
        name, key = (text, text) if match is None else (match[1], match[2])
        if name in found:
            raise ValueError(f"--{option.name} was given the name {name} twice: give each a name of its own.")
        found[name] = key
    return found


def count(fields: Any) -> int:
    """Number of samples, of fields or of a mapping of them."""
    return len(next(iter(fields.values()))) if isinstance(fields, Mapping) else len(fields)


@dataclass(frozen=True)
class Source:
    """What to read, and from where; of several named parts the keys are a mapping, and so are the fields."""

    path: Path
    inputs: str | dict[str, str]
    outputs: str | dict[str, str]
    samples: slice | None
    stride: int | tuple[int, ...] | None
    fill: bool = False
    chunks: Any = None
    """As `read` takes them: then fields are lazy"""

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

        named = self.inputs if isinstance(self.inputs, dict) else None
        return files_read(self.path, self.outputs, named)

    def told(self) -> dict[str, str]:
        """What inputs are read, and what names their files as they are now."""
        from pcarann.problems.readers import fingerprint

        read = f"{self.path.resolve()} {self.inputs} {self.samples} {self.stride}{' --fill' * self.fill}"
        return {"data": read, "files": fingerprint(self.path, self.inputs)}

    def mesh(self) -> Any:
        """The mesh that DATA lie on, where they are mesh files; None elsewhere."""
        from pcarann.problems.formats.mesh import is_mesh_source
        from pcarann.problems.meshes import read_mesh

        return read_mesh(self.path) if is_mesh_source(self.path) else None

    def _read(self, outputs: str | dict[str, str] | None) -> tuple[Any, Any]:
        from pcarann.problems.readers import read

        rows: dict[str, Any] = {"samples": self.samples, "stride": self.stride}
        rows |= {"fill": self.fill, "chunks": self.chunks}
        return read(self.path, self.inputs, outputs, **rows, **_limit())


def data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say what to read; the command receives them as one `data`."""

    @wraps(command)
    def with_source(data: Path, inputs: Any, outputs: Any, samples: Any, stride: Any, fill: bool, **others: Any) -> Any:
        return command(data=Source(data, inputs, outputs, samples, stride, fill), **others)

    decorated: Callable[..., Any] = with_source
    for option in (
        click.option("--fill", is_flag=True, help="Take chunks that are not there for fill values."),
        click.option("--stride", callback=strides, help="Keep every K-th grid point: K, or K1,K2,… by axis."),
        click.option("--samples", callback=sample_range, help="Range of samples to read, such as 0:1000."),
        _key_option("outputs", "Key, or .npy file, of the outputs; NAME=KEY, again for each of several."),
        _key_option("inputs", "Key of the inputs; NAME=KEY, again for each of several, KEY or FILE:KEY."),
        click.argument("data", type=click.Path(path_type=Path)),
    ):
        decorated = option(decorated)
    return decorated


def _key_option(name: str, about: str) -> Callable[..., Any]:
    return click.option(f"--{name}", multiple=True, default=[name], show_default=True, callback=keys, help=about)


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
method_option = click.option(
    "--method", type=click.Choice(["sample", "pooled", "simultaneous", "local"]), default="sample", show_default=True
)
limit_option = click.option(
    "--limit",
    expose_value=False,
    callback=lambda context, _, text: context.meta.update({_LIMIT: text}),
    help="Memory that files may take beyond what they hold, such as 2GB.  [default: 256MB]",
)


def model_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """The model of a command, and the memory that it may take."""
    return click.argument("model", type=click.Path(path_type=Path))(limit_option(command))


device_option = click.option("--device", default=None, help="cpu, cuda or cuda:N.  [default: cpu]")


def level(_: click.Context, option: click.Parameter, alpha: float | None) -> float | None:
    """Refuse an alpha that is none, whether intervals come of it or not."""
    if alpha is not None and not 0 < alpha < 1:
        raise click.BadParameter(f"{alpha:g} is not strictly between 0 and 1.", param=option)
    return alpha


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
