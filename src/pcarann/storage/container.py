"""One JSON document and named arrays in one file.

The file is a safetensors file. Its metadata hold the document and a SHA-256 digest of every byte of the file, the
digest itself read as zeros. Nothing in the file is ever executed. Writing replaces the old file in one step
(`pcarann.files`).

Reading opens the file once and goes through it once: what is handed out are the bytes that were summed, whatever
happens to the file meanwhile. Memory is that of the arrays, which the header cannot make larger than the file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from pcarann.files import atomic_writer
from pcarann.storage.formats import FORMAT_VERSION, Document, Tensors
from pcarann.storage.header import LARGEST_HEADER

__all__ = ["FORMAT_VERSION", "ModelFileError", "read", "write"]

_KEY = "pcarann"
_BLANK = "0" * 64
_MARK = b'"sha256":"'
_CHUNK = 1 << 22
_TYPES = {"BOOL": "?"} | {
    f"{name}{8 * size}": f"<{kind}{size}"
    for name, kind, sizes in (("F", "f", (2, 4, 8)), ("I", "i", (1, 2, 4, 8)), ("U", "u", (1, 2, 4, 8)))
    for size in sizes
}


class ModelFileError(ValueError):
    """The file is not a sound model file."""


class _Entry(NamedTuple):
    """Where an array stands among the bytes behind the header."""

    begin: int
    end: int
    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def write(path: str | os.PathLike[str], document: Document, tensors: Tensors) -> None:
    """Write a document and its arrays to `path`, replacing what was there in one step."""
    from safetensors.numpy import save as serialise

    # safetensors writes the memory of an array as it lies: other orders than C would be scrambled.
    ordered = {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}
    blank = serialise(ordered, {_KEY: json.dumps(document), "sha256": _BLANK})
    del ordered
    digest = hashlib.sha256(blank).hexdigest()
    where = blank.index(_MARK + _BLANK.encode()) + len(_MARK)  # a parameter may hold as many zeros
    with atomic_writer(path) as file:
        file.write(memoryview(blank)[:where])
        file.write(digest.encode())
        file.write(memoryview(blank)[where + 64 :])


def read(path: str | os.PathLike[str]) -> tuple[Document, Tensors]:
    """Read the document and the arrays of a file that is whole and of a format that is known."""
    name = os.fspath(path)
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if length > min(size - 8, LARGEST_HEADER):
            raise ModelFileError(f"{name} is not a pcarann model file, or it is cut short.")
        header = file.read(length)
        if _MARK not in header:
            raise ModelFileError(f"{name} is not a pcarann model file.")
        where = header.index(_MARK) + len(_MARK)
        stored = header[where : where + 64]
        digest = hashlib.sha256(length.to_bytes(8, "little"))
        digest.update(header[:where] + _BLANK.encode() + header[where + 64 :])
        document, entries, fault = _parsed(header, size - 8 - length)
        tensors = {entry.name: _array(file, entry, digest) for entry in entries}
        while chunk := file.read(_CHUNK):  # of a header that says nothing of them
            digest.update(chunk)
    if digest.hexdigest().encode() != stored:
        raise ModelFileError(f"{name} is damaged: its checksum does not match its content.")
    if fault is not None:
        raise ModelFileError(f"{name} is not a pcarann model file: {fault}.")
    _check_version(document, name)
    for entry in entries:
        if entry.dtype == bool and (tensors[entry.name].view(np.uint8) > 1).any():
            raise ModelFileError(f"{name} is not a pcarann model file: {entry.name} is neither true nor false.")
    return document, tensors


def _check_version(document: Any, name: str) -> None:
    version = document.get("format") if isinstance(document, dict) else None
    if not isinstance(version, int) or isinstance(version, bool):
        raise ModelFileError(f"{name} is not a pcarann model file.")
    if version < 1:
        raise ModelFileError(f"{name} does not describe a model: format {version} does not exist.")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{name} has format {version}, but this pcarann reads up to {FORMAT_VERSION}: upgrade pcarann."
        )


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a regular file, and nothing else: a pipe would not be waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no model file {os.fspath(path)}.") from None
    except OSError as error:
        if not os.path.exists(path) or os.path.isfile(path):
            raise
        raise ModelFileError(f"{os.fspath(path)} is not a file.") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ModelFileError(f"{os.fspath(path)} is not a file.")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def _parsed(header: bytes, size: int) -> tuple[Any, list[_Entry], str | None]:
    """The document, where the arrays stand among so many bytes, and what is wrong with the header."""
    try:
        found = json.loads(header)
        metadata = found.pop("__metadata__")
        document = json.loads(metadata[_KEY])
        entries = sorted(_entry(name, said) for name, said in found.items())
    except (KeyError, ValueError, RecursionError, TypeError, AttributeError) as error:
        return None, [], f"its header cannot be read ({str(error)[:200]})"
    ends = [0, *(entry.end for entry in entries)]
    if ends[-1] != size or any(entry.begin != end for entry, end in zip(entries, ends, strict=False)):
        return None, [], f"its arrays are not the {size} bytes that it holds"
    return document, entries, None


def _entry(name: str, said: dict[str, Any]) -> _Entry:
    if said["dtype"] not in _TYPES:
        raise ValueError(f"{name} has the unknown dtype {said['dtype']}")
    dtype, shape, (begin, end) = np.dtype(_TYPES[said["dtype"]]), tuple(said["shape"]), said["data_offsets"]
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in (*shape, begin, end)):
        raise ValueError(f"{name} has no shape")
    if len(shape) > 32 or end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name} has shape {shape}, but {end - begin} bytes")
    if math.prod(max(n, 1) for n in shape) * dtype.itemsize >= 1 << 62:  # NumPy counts so where an axis is empty
        raise ValueError(f"{name} has shape {shape}, which is too large")
    return _Entry(begin, end, name, dtype, shape)


def _array(file: BinaryIO, entry: _Entry, digest: Any) -> np.ndarray[Any, Any]:
    """Read the next bytes of a file as an array; what is cut off meanwhile does not match the digest."""
    found = np.zeros(entry.shape, entry.dtype)
    memory: Any = found.ravel().view(np.uint8).data
    for start in range(0, len(memory), _CHUNK):
        part = memory[start : start + _CHUNK]
        digest.update(part[: file.readinto(part)])  # type: ignore[attr-defined]
    return found.astype(entry.dtype.newbyteorder("="), copy=False)
