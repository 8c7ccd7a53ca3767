"""Read input and output fields from files.

`.npz` holds both under two keys; `.npy` holds one, and a second file the other. Nothing in a file is executed:
object arrays are refused, and an array is read only where the file really holds as many bytes as it claims.
"""

from __future__ import annotations

import math
import os
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

__all__ = ["DataFileError", "read", "read_array"]


class DataFileError(ValueError):
    """The file does not hold the fields that were asked for."""


def read(
    path: str | os.PathLike[str], inputs: str | None = "inputs", outputs: str | None = "outputs"
) -> tuple[Any, Any]:
    """Return (inputs, outputs) from a `.npz` file by key, or from a `.npy` file and the file that `outputs` names.

    Either name may be None, which leaves that part out.
    """
    path = Path(path)
    if not path.is_file():
        raise DataFileError(f"There is no data file {path}.")
    if path.suffix == ".npz":
        names = [name for name in (inputs, outputs) if name is not None]
        arrays = _read_npz(path, names)
        return arrays.get(inputs or ""), arrays.get(outputs or "")
    if path.suffix == ".npy":
        other = None if outputs in (None, "outputs") else Path(str(outputs))
        if other is not None and not other.is_file():
            raise DataFileError(f"There is no data file {other} for the outputs.")
        return read_array(path), None if other is None else read_array(other)
    raise DataFileError(f"{path} has the ending {path.suffix!r}: .npz and .npy can be read.")


def read_array(path: str | os.PathLike[str]) -> Any:
    """Return the array of a `.npy` file, memory-mapped."""
    with open(path, "rb") as file:
        _check_header(file, os.path.getsize(path), str(path))
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _read_npz(path: Path, names: list[str]) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = {Path(member.filename).stem: member for member in archive.infolist()}
            missing = [name for name in names if name not in members]
            if missing:
                found = ", ".join(sorted(members)) or "nothing"
                raise DataFileError(f"{path} has no array {missing[0]!r}: it holds {found}.")
            for name in names:
                with archive.open(members[name]) as file:
                    _check_header(file, members[name].file_size, f"{path}[{name}]")  # type: ignore[arg-type]
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in names}
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise DataFileError(f"{path} cannot be read as .npz: {error}.") from error


def _check_header(file: BinaryIO, size: int, where: str) -> None:
    """Refuse objects, and a shape that does not fit the number of bytes."""
    try:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = header(file)
    except ValueError as error:
        raise DataFileError(f"{where} is not a NumPy array: {error}.") from error
    if dtype.hasobject:
        raise DataFileError(f"{where} holds Python objects, which are never read: save real numbers.")
    wanted = math.prod(shape) * dtype.itemsize
    if wanted > size:
        raise DataFileError(f"{where} claims shape {shape}, {wanted} bytes, but the file holds {size}.")


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the name of every array in a file with its shape, type and range of values."""
    path = Path(path)
    if not path.is_file():
        raise DataFileError(f"There is no data file {path}.")
    if path.suffix == ".npy":
        return {path.stem: _summary(read_array(path))}
    with zipfile.ZipFile(path) as archive:
        names = [Path(member.filename).stem for member in archive.infolist()]
    return {name: _summary(array) for name, array in _read_npz(path, names).items()}


def _summary(array: Any) -> str:
    text = f"{'×'.join(map(str, array.shape)) or 'scalar'} {array.dtype}"
    if array.dtype.kind not in "fiub" or not array.size:
        return text
    finite = np.isfinite(array)
    if not finite.all():
        return f"{text}, {int((~finite).sum())} values are NaN or infinite"
    return f"{text}, from {array.min():.4g} to {array.max():.4g}"
