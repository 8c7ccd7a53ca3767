"""Global heaps of HDF5 files, which the HDF5 library walks through without looking where it goes.

Words and lists of any length lie in collections: `GCOL`, a version, the size of the collection, then objects one after
another, each with an index, a size and so many bytes. Index 0 is the free space behind the last. An object that says it
takes no room keeps the library where it is, for ever: such a file is refused before the library opens it.
"""

from __future__ import annotations

import mmap
from pathlib import Path

from pcarann.problems.selection import DataFileError

__all__ = ["refuse_endless_heaps"]

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_BEGIN = b"GCOL\x01\x00\x00\x00"
_LARGEST = 1 << 30  # files beyond are not looked through, which would take as long as reading them
_HEADER = 16  # of a collection, and of an object in it: eight bytes and a length, a multiple of eight


def refuse_endless_heaps(path: Path) -> None:
    """Refuse a file of at most 1 GB with a heap in which an object leads nowhere, or out of it."""
    if not 0 < path.stat().st_size <= _LARGEST:
        return
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        width, at = _length_width(content), content.find(_BEGIN)
        while at >= 0:
            if not _ends(content, at, width):
                raise DataFileError(f"{path} cannot be read: a heap in it is damaged.")
            at = content.find(_BEGIN, at + 1)


def _length_width(content: mmap.mmap) -> int:
    """Bytes of a length in this file, 8 unless it was written to be small."""
    at = content.find(_SIGNATURE) + len(_SIGNATURE)
    found = content[at + (6 if content[at] < 2 else 2)] if at + 6 < len(content) else 8
    return found if found in (2, 4) else 8


def _ends(content: mmap.mmap, begin: int, width: int) -> bool:
    """Whether a walk through a collection comes to its end."""
    end = begin + _number(content, begin + 8, width)
    if end > len(content):
        return True  # the library says so
    at = begin + _HEADER
    while at + _HEADER <= end:
        index, size = _number(content, at, 2), _number(content, at + 8, width)
        needed = _HEADER + -(-size // 8) * 8 if index else size
        if not _HEADER <= needed <= end - at:
            return False
        at += needed
    return True


def _number(content: mmap.mmap, at: int, size: int) -> int:
    return int.from_bytes(content[at : at + size], "little")
