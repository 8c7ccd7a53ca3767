"""Global heaps of HDF5 files, which the HDF5 library walks through without looking where it goes.

Words and lists of any length lie in collections: `GCOL`, a version, the size of the collection, then objects one after
another, each with an index, a size and so many bytes. Index 0 is the free space behind the last. An object that says it
takes no room keeps the library where it is, for ever: such a file is refused before the library opens it here.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

from pcarann.problems.selection import DataFileError

__all__ = ["refuse_endless_heaps"]

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_BEGIN = b"GCOL\x01\x00\x00\x00"
_LARGEST = 1 << 30  # files beyond are not looked through, which would take as long as reading them
_PATIENCE, _SPEED = 10.0, 1e8  # seconds, and bytes in each further one
_TRIAL = """
import sys, h5py
def look(name, item):
    dict(item.attrs)
    if isinstance(item, h5py.Dataset) and item.size and item.dtype.hasobject:
        item[(0,) * item.ndim]
with h5py.File(sys.argv[1], "r") as file:
    look("/", file)
    file.visititems(look)
"""
_HEADER = 16  # of a collection, and of an object in it: eight bytes and a length, a multiple of eight


def refuse_endless_heaps(path: Path) -> None:
    """Refuse a file of at most 1 GB in which the library would walk for ever.

    What looks like such a heap may be old space that nothing leads to, or data: a process of its own tries.
    """
    if 0 < path.stat().st_size <= _LARGEST and _looks_endless(path) and not _read_elsewhere(path):
        raise DataFileError(f"{path} cannot be read: a heap in it is damaged.")


def _looks_endless(path: Path) -> bool:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        width, at, steps = _length_width(content), content.find(_BEGIN), len(content) // _HEADER
        while at >= 0:
            taken = _steps(content, at, width, steps)
            if taken is None:
                return True
            steps -= taken
            at = content.find(_BEGIN, at + 1)
    return False


def _read_elsewhere(path: Path) -> bool:
    """Whether all names, attributes and first values of a file are read within a time, or refused."""
    allowed = _PATIENCE + path.stat().st_size / _SPEED
    try:
        run = subprocess.run([sys.executable, "-c", _TRIAL, os.fspath(path)], timeout=allowed, capture_output=True)
    except subprocess.TimeoutExpired:
        return False
    return run.returncode >= 0


def _length_width(content: mmap.mmap) -> int:
    """Bytes of a length in this file, 8 unless it was written to be small."""
    at = content.find(_SIGNATURE) + len(_SIGNATURE)
    found = content[at + (6 if content[at] < 2 else 2)] if at + 6 < len(content) else 8
    return found if found in (2, 4) else 8


def _steps(content: mmap.mmap, begin: int, width: int, most: int) -> int | None:
    """Steps of a walk through a collection; None where it leads nowhere, out of it, or is longer than that."""
    end = begin + _number(content, begin + 8, width)
    at, taken = begin + _HEADER, 0
    while end <= len(content) and at + _HEADER <= end:
        index, size = _number(content, at, 2), _number(content, at + 8, width)
        needed = _HEADER + -(-size // 8) * 8 if index else size
        taken += 1
        if not _HEADER <= needed <= end - at or taken > most:
            return None
        at += needed
    return taken


def _number(content: mmap.mmap, at: int, size: int) -> int:
    return int.from_bytes(content[at : at + size], "little")
