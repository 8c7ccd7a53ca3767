"""Input fields a and output fields u = 𝒢(a), with where they live and what made them.

`OperatorData` holds N pairs of fields on grids; a `Simulation` makes them in batches, through the cache.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from pcarann.backend.arrays import Array, place_of, to_host
from pcarann.backend.random import permutation
from pcarann.files import atomic_writer
from pcarann.problems.cache import Assembly, BlockCache, plain
from pcarann.problems.selection import nonfinite, parse_key
from pcarann.validation import check_count, unmasked, unstopped

__all__ = ["Generation", "OperatorData", "Simulation"]

_FORMAT = 1
_SHUFFLE_STREAM = (0x73706C6974,)  # "split" in ASCII: no other stream has this number
_COORDINATE = "coordinates."


@dataclass(frozen=True, eq=False, repr=False)
class OperatorData:
    """N pairs of fields: `inputs` (samples, *grid) and `outputs` (samples, *grid).

    >>> x = np.linspace(0, 1, 5)
    >>> a = np.outer([1.0, 2.0, 3.0, 4.0], x)
    >>> data = OperatorData(a, a**2, {"x": x}, name="squares", parameters={"power": 2})
    >>> train, test = data.split(3, 1)
    >>> train
    OperatorData 'squares', 3 samples
      inputs      3 × 5 float64, from 0 to 3
      outputs     3 × 5 float64, from 0 to 9
      coordinates x: 5 from 0 to 1
      parameters  power=2
    """

    inputs: np.ndarray[Any, Any]
    outputs: np.ndarray[Any, Any]
    coordinates: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    name: str = "data"
    parameters: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked = {
            "inputs": _check_fields(self.inputs, "inputs"),
            "outputs": _check_fields(self.outputs, "outputs"),
            "coordinates": {str(name): _check_axis(axis, name) for name, axis in self.coordinates.items()},
            "parameters": plain(self.parameters),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if len(self.inputs) != len(self.outputs):
            raise ValueError(
                "inputs and outputs must have the same number of samples, "
                f"found {len(self.inputs)} and {len(self.outputs)}."
            )

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, samples: slice) -> OperatorData:
        if not isinstance(samples, slice):
            raise TypeError(f"Samples are chosen by slices, such as data[:100] or data[3:4], not by {samples!r}.")
        return replace(self, inputs=self.inputs[samples], outputs=self.outputs[samples])

    def __repr__(self) -> str:
        lines = [f"OperatorData {self.name!r}, {len(self)} sample{'s' if len(self) > 1 else ''}"]
        for name in ("inputs", "outputs"):
            array = getattr(self, name)
            shape = " × ".join(map(str, array.shape))
            lines.append(f"{name:<11} {shape} {array.dtype}, from {array.min():.4g} to {array.max():.4g}")
        axes = [f"{name}: {len(axis)} from {axis[0]:.4g} to {axis[-1]:.4g}" for name, axis in self.coordinates.items()]
        settings = [f"{name}={value}" for name, value in self.parameters.items()]
        lines += ["coordinates " + ", ".join(axes)] * bool(axes)
        lines += ["parameters  " + ", ".join(settings)] * bool(settings)
        return "\n  ".join(lines)

    def split(self, *sizes: int | float, seed: int | None = None) -> tuple[OperatorData, ...]:
        """Return disjoint parts, by number of samples (int) or share of all (float), in order or shuffled by a seed.

        Parts in order are views; what the sizes leave over is in none of them.
        """
        edges = _edges(sizes, len(self))
        order = None if seed is None else np.asarray(permutation(len(self), seed=seed, stream=_SHUFFLE_STREAM))
        parts = [slice(start, stop) for start, stop in pairwise(edges)]
        chosen = parts if order is None else [order[part] for part in parts]
        return tuple(replace(self, inputs=self.inputs[part], outputs=self.outputs[part]) for part in chosen)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a `.npz` file, replacing what was there in one step."""
        if Path(path).suffix != ".npz":
            raise ValueError(f"path must end in .npz, got {os.fspath(path)!r}.")
        about = {"format": _FORMAT, "name": self.name, "parameters": self.parameters}
        arrays = {"inputs": self.inputs, "outputs": self.outputs, "about": np.array(json.dumps(about))}
        arrays |= {_COORDINATE + name: axis for name, axis in self.coordinates.items()}
        with atomic_writer(path) as file:
            np.savez(file, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> OperatorData:
        """Read a file that `save` wrote."""
        from pcarann.problems.readers import DataFileError, open_arrays

        where = os.fspath(path)
        with open_arrays(path) as arrays:
            names = ["inputs", "outputs", "about", *(name for name in arrays if name.startswith(_COORDINATE))]
            found = {name: arrays[parse_key(name, arrays, where)[0]]().whole() for name in names}
        try:
            about = json.loads(str(found.pop("about")))
            version, name, parameters = about["format"], str(about["name"]), dict(about["parameters"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataFileError(f"{where} was not written by OperatorData.save: {unstopped(error)}.") from error
        if version != _FORMAT:
            raise DataFileError(f"{where} has format {version}, but this pcarann reads {_FORMAT}: upgrade it.")
        inputs, outputs = found.pop("inputs"), found.pop("outputs")
        coordinates = {key.removeprefix(_COORDINATE): axis for key, axis in found.items()}
        return cls(inputs, outputs, coordinates, name, parameters)


class Generation(TypedDict, total=False):
    """What the generator of every problem takes beside the number of samples, the seed and its own parameters."""

    device: str | None
    """Where to simulate: "cpu", "cuda" or "cuda:N"; None, the CPU, unless told otherwise"""
    cache: bool
    """Whether samples are kept on disk for the next time; True"""
    verbose: bool
    """Whether progress is shown on standard error; False"""


@dataclass(frozen=True)
class Simulation:
    """A problem with its parameters, from which samples are generated."""

    name: str
    simulate: Callable[..., tuple[Array, ...]]
    """From (samples, place, seed=…, **parameters) to the fields of these samples at that place"""
    parameters: dict[str, Any]
    coordinates: dict[str, np.ndarray[Any, Any]]
    block: tuple[int, int]
    """Samples that are simulated at a time, on a CPU and on a GPU"""

    def generate(
        self, n: int, *, seed: int = 0, device: str | None = None, cache: bool = True, verbose: bool = False
    ) -> OperatorData:
        """Simulate the samples 0, …, n − 1 where the cache does not hold them already.

        Sample i must depend on the seed, the parameters and i alone, since the cache knows of nothing else.
        """
        data, place = Assembly(check_count(n, "n")), place_of(None, device)
        blocks = BlockCache.of(self.name, seed, self.parameters) if cache else None
        if blocks is not None:
            blocks.fill(data)
        with _progress(self.name, data, verbose) as advance:
            for samples in data.missing(self.block[0] if place.on_host else self.block[1]):
                inputs, outputs = map(to_host, self.simulate(samples, place, seed=seed, **self.parameters))
                for part, side in ((inputs, "inputs"), (outputs, "outputs")):
                    if complaint := nonfinite(part, first=samples.start):
                        raise ValueError(f"The simulation of {self.name} failed: {complaint} ({side}).")
                data.put(samples, inputs, outputs)
                if blocks is not None:
                    blocks.keep(data, samples)
                advance(len(samples))
        parameters = {**self.parameters, "seed": int(seed)}
        return OperatorData(*data.get(range(n)), self.coordinates, self.name, parameters)


@contextlib.contextmanager
def _progress(name: str, data: Assembly, verbose: bool) -> Iterator[Callable[[int], None]]:
    """A bar on standard error with the time left; nothing where all is there already."""
    if not verbose or data.done.all():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(f"{name}, samples"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), "left")
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=len(data.done), completed=int(data.done.sum()))
        yield lambda count: bar.advance(task, count)


def _edges(sizes: tuple[int | float, ...], n: int) -> list[int]:
    """Return where the parts begin and end."""
    ends = [0.0]
    for size in sizes:
        whole = isinstance(size, int | np.integer) and not isinstance(size, bool)
        if not (whole and size >= 1) and not (isinstance(size, float | np.floating) and 0 < size <= 1):
            raise ValueError(
                f"sizes must be whole numbers of at least 1 or shares above 0 and at most 1, got {size!r}."
            )
        ends.append(ends[-1] + (size if whole else size * n))
    edges = [math.floor(end + 0.5) for end in ends]
    # Shares such as 0.7, 0.2, 0.1 sum to 1 up to rounding alone: n · 1e-9 is far above it and far below a sample.
    if ends[-1] > n * (1 + 1e-9):
        raise ValueError(f"split asks for {ends[-1]:g} samples ({', '.join(map(str, sizes))}), but there are {n}.")
    for size, start, stop in zip(sizes, edges[:-1], edges[1:], strict=True):
        if start == stop:
            raise ValueError(f"split asks for a share of {size} of {n} samples, which is less than one sample.")
    return edges


def _check_fields(value: Any, name: str) -> np.ndarray[Any, Any]:
    array = to_host(unmasked(value, name))
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers, found dtype {array.dtype}.")
    if array.ndim < 1 or not array.size:
        raise ValueError(f"{name} must have shape (samples, *grid) with at least 1 sample, found {array.shape}.")
    if complaint := nonfinite(array):
        raise ValueError(f"{name}: {complaint}.")
    return array


def _check_axis(value: Any, name: str) -> np.ndarray[Any, Any]:
    axis = _check_fields(value, f"coordinates[{name!r}]")
    if axis.ndim != 1:
        raise ValueError(f"coordinates[{name!r}] must have one axis, found shape {axis.shape}.")
    return axis
