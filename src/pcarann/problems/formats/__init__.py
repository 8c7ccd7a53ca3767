"""Formats of data files, one module each.

Every module has one function `open_…(path)`, a context manager that gives the arrays of a file by name, each as a
function that returns a `Stored`: shape and type at once, numbers when they are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pcarann.problems.selection import DataFileError, Selection

__all__ = ["Arrays", "Stored", "is_hdf5", "refuse_bomb", "refuse_swelling", "require"]

_BOMB_RATIO, _BOMB_BYTES = 1000, 1 << 30


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


def refuse_bomb(claimed: int, stored: int, where: str) -> None:
    """Refuse to unpack a few bytes into gigabytes."""
    if claimed > _BOMB_BYTES and claimed > _BOMB_RATIO * stored:
        raise DataFileError(f"{where} would unpack {stored} bytes into {claimed}: no real data are like that.")


def refuse_swelling(selection: Selection, dtype: np.dtype[Any], stored: int, where: str) -> None:
    """Refuse the same of what is selected."""
    refuse_bomb(math.prod(len(part) for part in selection if isinstance(part, range)) * dtype.itemsize, stored, where)
