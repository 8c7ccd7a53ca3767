"""One JSON document and named arrays in one file.

The file is a safetensors file. Its metadata hold the document and a SHA-256 digest of every byte of the file, the
digest itself read as zeros. Nothing in the file is ever executed. Writing replaces the old file in one step
(`pcarann.files`).
"""

from __future__ import annotations

import hashlib
import json
import os

import numpy as np

from pcarann.files import atomic_writer
from pcarann.storage.formats import FORMAT_VERSION, Document, Tensors
from pcarann.storage.header import LARGEST_HEADER

__all__ = ["FORMAT_VERSION", "ModelFileError", "read", "write"]

_KEY = "pcarann"
_BLANK = "0" * 64
_MARK = b'"sha256":"'
_CHUNK = 1 << 22


class ModelFileError(ValueError):
    """The file is not a sound model file."""


def write(path: str | os.PathLike[str], document: Document, tensors: Tensors) -> None:
    """Write a document and its arrays to `path`, replacing what was there in one step."""
    from safetensors.numpy import save as serialise

    # safetensors writes the memory of an array as it lies: other orders than C would be scrambled.
    ordered = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
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
    if not os.path.isfile(path):
        if os.path.exists(path):
            raise ModelFileError(f"{os.fspath(path)} is not a file.")
        raise FileNotFoundError(f"There is no model file {os.fspath(path)}.")
    _verify(path)
    document, tensors = _content(path)
    version = document.get("format") if isinstance(document, dict) else None
    if not isinstance(version, int):
        raise ModelFileError(f"{os.fspath(path)} is not a pcarann model file.")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{os.fspath(path)} has format {version}, but this pcarann reads up to {FORMAT_VERSION}: upgrade pcarann."
        )
    return document, tensors


def _verify(path: str | os.PathLike[str]) -> None:
    """Compare the digest in the header with that of the file, without trusting either."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 16 or not 2 <= length <= min(size - 8, LARGEST_HEADER):
            raise ModelFileError(f"{os.fspath(path)} is not a pcarann model file, or it is cut short.")
        header = file.read(length)
        where = header.find(_MARK)
        stored = header[where + len(_MARK) : where + len(_MARK) + 64]
        if where < 0 or len(stored) < 64:
            raise ModelFileError(f"{os.fspath(path)} is not a pcarann model file.")
        digest = hashlib.sha256(length.to_bytes(8, "little"))
        where += len(_MARK)
        digest.update(header[:where] + _BLANK.encode() + header[where + 64 :])
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest().encode() != stored:
        raise ModelFileError(f"{os.fspath(path)} is damaged: its checksum does not match its content.")


def _content(path: str | os.PathLike[str]) -> tuple[Document, Tensors]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            document = json.loads((file.metadata() or {})[_KEY])
            return document, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError, RecursionError, TypeError) as error:
        raise ModelFileError(f"{os.fspath(path)} is not a pcarann model file: {error}.") from error
