"""Formats of data files, one module each.

Every module has one function `open_…(path, leave)`, a context manager that gives the arrays of a file by name, each as
a function that returns a `Stored`: shape and type at once, numbers when they are asked for.

What is unpacked may be as large as 256 MB, or a hundred times what is stored, and no larger, unless that is asked for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pcarann.problems.selection import DataFileError, Selection

__all__ = ["LIMIT", "Arrays", "Leave", "Stored", "chunks_touched", "is_hdf5", "require"]

LIMIT = "256MB"
"""What any file may unpack to"""
_RATIO = 100  # of real numbers to what they are stored as: constant fields alone have more


@dataclass(frozen=True)
class Leave:
    """What a reader may do that could go wrong."""

    limit: int = 256_000_000
    """Bytes that any file may unpack to"""
    fill: bool = False
    """Whether chunks that are not there are taken for fill values"""

    def check(self, claimed: int, stored: int, where: str) -> None:
        """Refuse to unpack a few bytes into many."""
        if claimed > max(self.limit, _RATIO * stored):
            raise DataFileError(
                f"{where} would unpack {stored} bytes into {claimed}, as few real data do: if you trust it, read it "
                f"with limit='{math.ceil(claimed / 1e6)}MB'."
            )

    def check_chunks(
        self, selection: Selection, dtype: np.dtype[Any], chunk: tuple[int, ...] | None, stored: int, where: str
    ) -> None:
        """Refuse the same of what is selected, and of the chunks that are unpacked for it, ten at a time at most."""
        wanted = math.prod(len(part) for part in selection if isinstance(part, range))
        if chunk is not None:
            touched = math.prod(len(one) for one in _touched(selection, chunk))
            wanted += min(touched, 10) * math.prod(chunk)
        self.check(wanted * dtype.itemsize, stored, where)


@dataclass(frozen=True)
class Stored:
    """An array in a file: `read(selection)` returns the numbers wanted, in the order of `shape`."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    where: str
    read: Callable[[Selection], np.ndarray[Any, Any]]

    def whole(self) -> np.ndarray[Any, Any]:
        """Return all of it."""
        return self.read(tuple(map(range, self.shape)))


Arrays: TypeAlias = Mapping[str, Callable[[], Stored]]
"""The arrays of an open file by name."""


def chunks_touched(selection: Selection, chunk: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Numbers of the chunks along each axis that a selection needs.

    >>> list(chunks_touched((range(3, 9, 5), 1), (4, 4)))
    [(0, 0), (2, 0)]
    """
    return itertools.product(*_touched(selection, chunk))


def _touched(selection: Selection, chunk: tuple[int, ...]) -> list[list[int] | range]:
    found: list[list[int] | range] = []
    for part, size in zip(selection, chunk, strict=True):
        if isinstance(part, int):
            found.append([part // size])
        elif part.step <= size:
            found.append(range(part[0] // size, part[-1] // size + 1) if part else range(0))
        else:
            found.append(sorted({one // size for one in part}))
    return found


def require(package: str, path: Path) -> Any:
    """Return an optional package, or say how to install it."""
    try:
        return import_module(package)
    except ImportError:
        raise ImportError(f"{path} needs {package}: install it with pip install 'pcarann[formats]'.") from None


def is_hdf5(path: Path) -> bool:
    """Whether a file is HDF5: its signature stands at the beginning, or behind a block of 512, 1024, … bytes."""
    with open(path, "rb") as file:
        for start in (0, 512, 1024, 2048):
            file.seek(start)
            if file.read(8) == b"\x89HDF\r\n\x1a\n":
                return True
    return False
