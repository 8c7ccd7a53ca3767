"""NumPy's own files: `.npy`, memory-mapped, and `.npz`, read as a stream, slab by slab.

Objects are never unpickled, and an array is read only where the file holds exactly as many bytes as the header
claims. A compressed member cannot be entered in the middle; a stream over it needs memory for one slab and the
numbers that are wanted.
"""

from __future__ import annotations

import contextlib
import math
import os
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from pcarann.problems.formats import Arrays, Leave, Stored
from pcarann.problems.selection import DataFileError, Selection, slices
from pcarann.validation import unstopped

__all__ = ["open_npy", "open_npz"]

_SLAB = 1 << 23  # bytes read at a time


@contextlib.contextmanager
def open_npy(path: Path, leave: Leave) -> Iterator[Arrays]:
    """Give the one array of a `.npy` file, under the file's stem."""

    def stored() -> Stored:
        with open(path, "rb") as file:
            shape, dtype, _ = _header(file, os.path.getsize(path), str(path))
        return Stored(shape, dtype, str(path), read)

    def read(selection: Selection) -> np.ndarray[Any, Any]:
        mapped: np.ndarray[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        return mapped[slices(selection)]

    yield {path.stem: stored}


@contextlib.contextmanager
def open_npz(path: Path, leave: Leave) -> Iterator[Arrays]:
    """Give the arrays of a `.npz` file."""
    with zipfile.ZipFile(path) as archive:
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        yield {name: partial(_member, archive, member, leave, f"{path}[{name}]") for name, member in members.items()}


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, leave: Leave, where: str) -> Stored:
    leave.check(member.file_size, member.compress_size, where)
    with archive.open(member) as file:
        shape, dtype, fortran = _header(file, member.file_size, where)

    def read(selection: Selection) -> np.ndarray[Any, Any]:
        with archive.open(member) as file:
            _header(file, member.file_size, where)
            if not fortran:
                return _stream(file, shape, dtype, selection, where)
            # Fortran's order is C's order of the axes reversed.
            return np.ascontiguousarray(_stream(file, shape[::-1], dtype, selection[::-1], where).T)

    return Stored(shape, dtype, where, read)


def _header(file: IO[bytes], size: int, where: str) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """Return shape, type and order; refuse a shape that is not that of the bytes there are."""
    try:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = header(file)
    except (MemoryError, RecursionError):  # Python's, of brackets: the header is not longer than the file
        raise DataFileError(f"{where} is not a NumPy array: its header is nested too deeply.") from None
    except Exception as error:  # the header is parsed as Python's literals, which can fail in many ways
        raise DataFileError(f"{where} is not a NumPy array: {unstopped(error)}.") from error
    if dtype.hasobject:
        return shape, dtype, fortran  # pickled, of any length; refused by type
    wanted, there = math.prod(shape) * dtype.itemsize, size - file.tell()
    if wanted != there or any(n < 0 for n in shape):
        raise DataFileError(f"{where} claims shape {shape}, {wanted} bytes, but holds {there} bytes.")
    return shape, dtype, fortran


def _stream(
    file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any], selection: Selection, where: str
) -> np.ndarray[Any, Any]:
    """Return the selected part of an array in C order, reading a slab of rows at a time."""
    if not shape:
        return np.frombuffer(_exactly(file, dtype.itemsize, where), dtype).reshape(())
    first, rest = selection[0], slices(selection[1:])
    rows = range(first, first + 1) if isinstance(first, int) else first
    row_bytes = math.prod(shape[1:]) * dtype.itemsize
    height = max(1, _SLAB // max(row_bytes, 1))
    parts = []
    for start in range(0, rows[-1] + 1 if rows else 0, height):
        stop = min(start + height, shape[0])
        slab = np.frombuffer(_exactly(file, (stop - start) * row_bytes, where), dtype).reshape(-1, *shape[1:])
        skipped = max(0, -(-(start - rows.start) // rows.step))
        begin = rows.start + skipped * rows.step - start
        end = min(stop, rows.stop) - start
        if begin < end:
            parts.append(slab[(slice(begin, end, rows.step), *rest)].copy())
    whole = np.concatenate(parts)
    return whole[0] if isinstance(first, int) else whole


def _exactly(file: IO[bytes], size: int, where: str) -> bytes:
    found = file.read(size)
    if len(found) != size:
        raise DataFileError(f"{where} is cut short.")
    return found
