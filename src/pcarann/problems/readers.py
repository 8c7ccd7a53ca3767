"""Read input and output fields from files, whatever their format.

Nothing in a file is executed, nothing outside it is followed, and of large files only the part that is asked for
comes into memory, where the format allows it (all but `.mat` before version 7.3).
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pcarann.problems.formats import Arrays, Stored
from pcarann.problems.selection import DataFileError, nonfinite, parse_key, select

__all__ = ["ENDINGS", "MESHES", "DataFileError", "describe", "files_read", "open_arrays", "read"]

ENDINGS = (".npz", ".npy", ".mat", ".h5", ".hdf5", ".nc", ".zarr")
"""Endings of the files that can be read"""

MESHES = (
    *(".vtu", ".vtk", ".vtp", ".vts", ".vtr", ".vti", ".vtm", ".pvtu", ".pvd", ".vtkhdf"),
    *(".xdmf", ".xmf", ".msh", ".foam", ".cgns", ".exo", ".med", ".stl"),
)
"""Endings of meshes, which are told apart to say that they cannot be read yet"""

_SMALL = 1 << 26  # bytes up to which `describe` looks at the numbers


def read(
    path: str | os.PathLike[str],
    inputs: str | None = "inputs",
    outputs: str | None = "outputs",
    *,
    samples: slice | None = None,
    stride: int | tuple[int, ...] | None = None,
) -> tuple[Any, Any]:
    """Return (inputs, outputs), each (samples, *grid), from a data file; None leaves that part out.

    `.npz`, `.mat` of all versions, `.h5`, `.hdf5`, `.nc` and `.zarr` hold both, each under its key. `.npy` holds the
    inputs, and `outputs` names the file of the outputs. A key may carry an index of integers and slices:

        read("darcy.mat", "coeff", "sol", samples=slice(0, 1000), stride=15)
        read("ns.mat", "u[..., 0:10]", "u[..., 10:20]", stride=(2, 2))

    `samples` is a range along the first axis; `stride` keeps every k-th point along all others, or one k for each,
    axes beyond the end of a tuple being kept whole.
    """
    path = Path(path)
    sources = [(path, inputs), (path, outputs)]
    if path.suffix.lower() == ".npy":
        sources = [(path, "" if inputs == "inputs" else inputs), _npy_outputs(path, outputs)]
    found = [_fields(source, key, samples, stride) for source, key in sources]
    counts = [len(fields) for fields in found if fields is not None]
    if len(set(counts)) > 1:
        raise DataFileError(f"{path}: {counts[0]} inputs and {counts[1]} outputs were found, which must be as many.")
    return found[0], found[1]


def files_read(path: str | os.PathLike[str], outputs: str | None) -> tuple[Path, ...]:
    """Return the files, or the folder, that `read` would open: nobody should write there."""
    path = Path(path)
    return (path, _npy_outputs(path, outputs)[0]) if path.suffix.lower() == ".npy" else (path,)


def describe(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the name of every array in a file with its shape and type, and with its range where it is small."""
    with open_arrays(path) as arrays:
        return {name: _summary(get) for name, get in arrays.items()}


@contextlib.contextmanager
def open_arrays(path: str | os.PathLike[str]) -> Iterator[Arrays]:
    """Open a data file of any known format; whatever is wrong with it becomes one DataFileError."""
    path = Path(path)
    if not path.exists():
        raise DataFileError(f"There is no data file {path}.")
    opener = _opener(path)
    if path.suffix.lower() == ".zarr" and not path.is_dir():
        raise DataFileError(f"{path} is not a folder: it cannot be read.")
    if path.suffix.lower() != ".zarr" and not path.is_file():
        raise DataFileError(f"{path} is {'a folder' if path.is_dir() else 'not a regular file'}: it cannot be read.")
    try:
        with opener(path) as arrays:
            yield arrays
    except (DataFileError, ImportError, MemoryError):
        raise
    except Exception as error:  # on a damaged file the libraries raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataFileError(f"{path} cannot be read as {path.suffix}: {reason}.") from error


def _opener(path: Path) -> Callable[[Path], AbstractContextManager[Arrays]]:
    """Return the function that opens files with this ending; refuse one that is not known, and say which are."""
    ending = path.suffix.lower()
    if ending in MESHES:
        kind = ending[1:].upper()
        raise DataFileError(f"{path} is a mesh ({kind}), and meshes are not read yet: convert it to .npz or .nc.")
    if ending not in ENDINGS:
        found = f"the unknown ending {path.suffix!r}" if ending else "no ending"
        raise DataFileError(f"{path} has {found}: {', '.join(ENDINGS)} can be read.")
    from pcarann.problems.formats.hdf5 import open_hdf5
    from pcarann.problems.formats.matlab import open_mat
    from pcarann.problems.formats.netcdf import open_netcdf, open_zarr
    from pcarann.problems.formats.npz import open_npy, open_npz

    openers = (open_npz, open_npy, open_mat, open_hdf5, open_hdf5, open_netcdf, open_zarr)
    return dict(zip(ENDINGS, openers, strict=True))[ending]


def _fields(path: Path, key: str | None, samples: slice | None, stride: Any) -> Any:
    """Return the part of one array that is wanted, all of it finite numbers."""
    if key is None:
        return None
    with open_arrays(path) as arrays:
        name, index = parse_key(key, arrays, str(path))
        stored = arrays[name]()
        _refuse_non_numbers(stored)
        fields = stored.read(select(stored.shape, index, samples, stride, stored.where))
    if fields.dtype.kind not in "fiub":
        raise DataFileError(f"{stored.where} must hold real numbers, found {fields.dtype}.")
    if complaint := nonfinite(fields):
        raise DataFileError(f"{stored.where}: {complaint}.")
    return fields


def _npy_outputs(path: Path, outputs: str | None) -> tuple[Path, str | None]:
    """Return the file of the outputs that go with a `.npy` file of inputs, and the key in it."""
    if outputs in (None, "outputs"):
        return path, None
    assert outputs is not None
    name, bracket, index = outputs.partition("[")
    if Path(outputs).is_file() or name in ("", path.stem):
        return (Path(outputs), "") if Path(outputs).is_file() else (path, outputs)
    if not Path(name).is_file():
        raise DataFileError(f"There is no data file {name} for the outputs.")
    return Path(name), bracket + index


def _refuse_non_numbers(stored: Stored) -> None:
    if stored.dtype.hasobject:
        raise DataFileError(f"{stored.where} holds objects, which are never read: save real numbers.")
    if stored.dtype.kind not in "fiub":
        raise DataFileError(f"{stored.where} must hold real numbers, found {stored.dtype}.")


def _summary(get: Callable[[], Stored]) -> str:
    try:
        stored = get()
        text = f"{'×'.join(map(str, stored.shape)) or 'scalar'} {stored.dtype}"
        size = stored.dtype.itemsize * math.prod(stored.shape)
        if stored.dtype.hasobject or stored.dtype.kind not in "fiub" or not 0 < size <= _SMALL:
            return text
        numbers = stored.whole()
    except DataFileError as error:
        return f"not readable: {error}"
    complaint = nonfinite(numbers.reshape(numbers.shape or (1,)))
    return f"{text}, {complaint}" if complaint else f"{text}, from {numbers.min():.4g} to {numbers.max():.4g}"
