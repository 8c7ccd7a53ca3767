"""What a file is, by what is in it: a model, a picture, a prediction, an export, a page, data that `generate` wrote.

Nothing is trusted and little is read: a few bytes of a picture, the names of the arrays in a `.npz` file, the header of
a model file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcarann.cli.options import PROBLEMS
from pcarann.storage.header import read_header

__all__ = [
    "GENERATED",
    "MODEL",
    "ONNX",
    "PAGE",
    "PICTURE",
    "PREDICTION",
    "Kind",
    "is_model",
    "largest_parts",
    "size_in_words",
]

_PREDICTIONS = ({"mean"}, {"mean", "std"}, {"mean", "std", "lower", "upper"})


@dataclass(frozen=True)
class Kind:
    """What a command writes: its name in words, and whether a file is one."""

    name: str
    test: Callable[[Path], bool]

    def recognises(self, path: Path) -> bool:
        """Whether a file is of this kind; one that cannot be read is not."""
        try:
            return self.test(path)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return False


def is_model(path: Path) -> bool:
    """Whether a file begins as a model file does, be it whole or not."""
    header = read_header(path)
    return header.startswith(b'{"__metadata__":') and b'"pcarann":"' in header


def largest_parts(path: Path, count: int = 5) -> list[str]:
    """Return the largest arrays of a model file with their sizes, in words."""
    places = {name: about["data_offsets"] for name, about in json.loads(read_header(path)).items() if name[:2] != "__"}
    sizes = {name: stop - start for name, (start, stop) in places.items()}
    return [f"{name} {size_in_words(sizes[name])}" for name in sorted(sizes, key=lambda n: -sizes[n])[:count]]


def size_in_words(size: int) -> str:
    """Return a number of bytes as one reads it.

    >>> size_in_words(21_300_000), size_in_words(1_260), size_in_words(12)
    ('21 MB', '1.3 kB', '12 bytes')
    """
    scaled, unit = float(size), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if scaled < 999.5:  # what would be printed as 1000
            break
        scaled, unit = scaled / 1000, larger
    return f"{scaled:.{0 if unit == 'bytes' or scaled >= 9.95 else 1}f} {unit}"


def _is_picture(path: Path) -> bool:
    with open(path, "rb") as file:
        start = file.read(2048)
    return start.startswith((b"\x89PNG\r\n\x1a\n", b"%PDF-")) or (start[:1] == b"<" and b"<svg" in start)


def _is_onnx(path: Path) -> bool:
    """Whether a file begins as those of `export` do: the version of the format, and who made it."""
    with open(path, "rb") as file:
        start = file.read(11)
    return start[:1] == b"\x08" and start[2:] == b"\x12\x07pcarann"


def _is_page(path: Path) -> bool:
    from pcarann.explorer.page_file import MARK

    with open(path, "rb") as file:
        return MARK.encode() in file.read(2048)


def _is_prediction(path: Path) -> bool:
    """Whether all arrays are parts of a prediction, of each output by name where there are several."""
    from pcarann.problems.meshes import WRITTEN
    from pcarann.problems.readers import open_arrays

    with (open_arrays if path.suffix.lower() in WRITTEN else _open_npz)(path) as arrays:
        return {name.rpartition(".")[2] for name in arrays} in _PREDICTIONS


def _is_generated(path: Path) -> bool:
    with _open_npz(path) as arrays:
        about = json.loads(str(arrays["about"]().whole()))
    return about["name"] in PROBLEMS and "seed" in about["parameters"]


def _open_npz(path: Path) -> AbstractContextManager[Mapping[str, Any]]:
    from pcarann.problems.readers import open_arrays

    if path.suffix.lower() != ".npz":
        raise ValueError(f"{path} has no names of arrays.")
    return open_arrays(path)


MODEL = Kind("a pcarann model file", is_model)
ONNX = Kind("an ONNX file that export wrote", _is_onnx)
PICTURE = Kind("a picture", _is_picture)
PAGE = Kind("a page of a model", _is_page)
PREDICTION = Kind("a file of a prediction", _is_prediction)
GENERATED = Kind("data that generate wrote", _is_generated)
