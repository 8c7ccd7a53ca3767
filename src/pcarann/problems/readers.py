"""Read input and output fields from files, whatever their format.

Nothing in a file is executed, nothing outside it is followed, and of large files only the part that is asked for
comes into memory, where the format allows it (all but `.mat` before version 7.3).
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pcarann.problems.formats import LIMIT, Arrays, Leave, Stored
from pcarann.problems.formats.mesh import MESH_ENDINGS, is_mesh_source, mesh_files, open_meshes
from pcarann.problems.selection import DataFileError, nonfinite, parse_key, select
from pcarann.validation import check_memory, unstopped

__all__ = ["ENDINGS", "MESHES", "DataFileError", "Keys", "describe", "files_read", "fingerprint", "is_data"]
__all__ += ["open_arrays", "read"]

_PLAIN = (".npz", ".npy", ".mat", ".h5", ".hdf5", ".nc", ".zarr")

ENDINGS = (*_PLAIN, *MESH_ENDINGS)
"""Endings of the files that can be read"""

MESHES = (
    *(".vtp", ".vts", ".vtr", ".vti", ".vtm", ".pvtu", ".pvd", ".vtkhdf"),
    *(".foam", ".cgns", ".exo", ".med", ".stl"),
)
"""Endings of meshes that are told apart to say that they cannot be read yet"""

Keys: TypeAlias = str | Mapping[str, str] | None
"""One key, a key for each of several named parts, or None for nothing"""

_SMALL = 1 << 26  # bytes up to which `describe` looks at the numbers


def read(
    path: str | os.PathLike[str],
    inputs: Keys = "inputs",
    outputs: Keys = "outputs",
    *,
    samples: slice | None = None,
    stride: int | tuple[int, ...] | None = None,
    fill: bool = False,
    limit: int | str = LIMIT,
    chunks: Any = None,
) -> tuple[Any, Any]:
    """Return (inputs, outputs), each (samples, *grid), from a data file; None leaves that part out.

    `.npz`, `.mat` of all versions, `.h5`, `.hdf5`, `.nc` and `.zarr` hold both, each under its key. `.npy` holds the
    inputs, and `outputs` names the file of the outputs. A folder, or a pattern, of `.vtu`, `.vtk`, `.xdmf` or `.msh`
    files has a sample in each, (samples, nodes) or (samples, nodes, components), by the name of the point data. A key
    may carry an index of integers and slices:

        read("darcy.mat", "coeff", "sol", samples=slice(0, 1000), stride=15)
        read("ns.mat", "u[..., 0:10]", "u[..., 10:20]", stride=(2, 2))
        read("runs/*.vtu", "load", "temperature")

    Where a side is a mapping of keys by name, so is what is returned for it. There a key may name another file, and a
    key in it, with a colon between them:

        read("darcy.npz", {"k": "coeff", "f": "forcing.h5:f"}, {"u": "sol"})

    `samples` is a range along the first axis; `stride` keeps every k-th point along all others, or one k for each,
    axes beyond the end of a tuple being kept whole. A chunk that is not there is an error, unless `fill` says that
    fill values were meant. Files that would unpack to more than the `limit`, in bytes or as in "2GB", and to more than
    a hundred times what they are, are refused. With `chunks`,
    samples of a chunk, "auto", or all that Dask takes, arrays of `.zarr`, `.nc`, `.h5`, `.hdf5` and `.npy` files are
    lazy, and their numbers are not looked at.
    """
    leave = Leave(check_memory(limit), bool(fill))
    path = Path(path)
    wanted = _sources(path, inputs, outputs)
    if chunks is None:
        found = _fields(wanted, samples, stride, leave)
    else:
        from pcarann.problems.lazily import lazy_array

        opened = partial(open_arrays, leave=leave)
        found = {at: lazy_array(opened, *one, samples, stride, chunks) for at, one in wanted.items()}
    counts = {place: len(fields) for place, fields in found.items()}
    if len(set(counts.values())) > 1:
        named = " and ".join(f"{count} {' '.join(filter(None, place))}" for place, count in counts.items())
        raise DataFileError(f"{path}: {named} were found, which must be as many.")
    return _side("inputs", inputs, found), _side("outputs", outputs, found)


Place: TypeAlias = tuple[str, str]
"""A side, inputs or outputs, and the name of a part of it, "" where it has none"""


def _sources(path: Path, inputs: Keys, outputs: Keys) -> dict[Place, tuple[Path, str]]:
    """The file and the key in it of all that is wanted."""
    wanted: dict[Place, tuple[Path, str | None]] = {}
    for side, keys in (("inputs", inputs), ("outputs", outputs)):
        if isinstance(keys, Mapping):
            wanted |= {(side, name): _located(path, key) for name, key in keys.items()}
        elif path.suffix.lower() == ".npy" and side == "outputs":
            wanted[side, ""] = _npy_outputs(path, keys)
        elif path.suffix.lower() == ".npy" and keys == "inputs":
            wanted[side, ""] = path, ""
        else:
            wanted[side, ""] = path, keys
    return {place: (file, key) for place, (file, key) in wanted.items() if key is not None}


def _located(path: Path, text: str) -> tuple[Path, str]:
    """The file that the text of a named key leads to, and the key in it: "key", "file.npz:key" or "file.npy"."""
    name, bracket, index = text.partition("[")
    file, colon, key = name.rpartition(":")
    if colon and is_data(Path(file)):
        return Path(file), key + bracket + index
    if Path(name).suffix.lower() == ".npy":
        return Path(name), bracket + index
    return path, text


def is_data(path: Path) -> bool:
    """Whether a path looks like data that can be read, by its ending or by what a folder holds."""
    return path.suffix.lower() in ENDINGS or is_mesh_source(path)


def _side(side: str, keys: Keys, found: dict[Place, Any]) -> Any:
    if isinstance(keys, Mapping):
        return {name: found[side, name] for name in keys}
    return found.get((side, ""))


def files_read(path: str | os.PathLike[str], *keys: Keys) -> tuple[Path, ...]:
    """Return the files, or the folders, that `read` would open for these keys: nobody should write there."""
    path = Path(path)
    files = [path]
    for key in keys:
        if isinstance(key, Mapping):
            files += [_located(path, one)[0] for one in key.values()]
        elif path.suffix.lower() == ".npy":
            files.append(_npy_outputs(path, key)[0])
    return tuple(part for file in files for part in _parts_of(file))


def fingerprint(path: str | os.PathLike[str], keys: Keys) -> str:
    """Return what names arrays that are read by blocks as they are now: sizes and modification times of their files.

    Of a zarr store, those in the folders of the arrays: what else is written there does not count.
    """
    found = hashlib.sha256()
    for file, key in _sources(Path(path), keys, None).values():
        inner = file / key.partition("[")[0].strip()
        root = inner if inner.is_dir() else file
        for one in [root, *sorted(root.rglob("*"))]:
            about = one.stat()
            found.update(f"{one.resolve()} {about.st_size} {about.st_mtime_ns}\n".encode())
    return found.hexdigest()


def _parts_of(path: Path) -> list[Path]:
    """A file itself; the files that a pattern stands for, the HDF5 files beside an XDMF file."""
    if not is_mesh_source(path) or path.is_dir():
        return [path]
    files = [path] if path.exists() else mesh_files(path)
    return [*files, *(file.with_suffix(".h5") for file in files if file.suffix.lower() in (".xdmf", ".xmf"))]


def describe(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the name of every array in a file with its shape and type, and with its range where it is small."""
    with open_arrays(path) as arrays:
        return {name: _summary(get) for name, get in arrays.items()}


@contextlib.contextmanager
def open_arrays(path: str | os.PathLike[str], leave: Leave | None = None) -> Iterator[Arrays]:
    """Open a data file of any known format; whatever is wrong with it becomes one DataFileError."""
    path, leave = Path(path), leave or Leave()
    opener = open_meshes if is_mesh_source(path) else _opener(path)
    try:
        with opener(path, leave) as arrays:
            yield arrays
    except (DataFileError, ImportError, MemoryError):
        raise
    except Exception as error:  # on a damaged file the libraries raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataFileError(f"{path} cannot be read as {path.suffix}: {unstopped(reason)}.") from error


def _opener(path: Path) -> Callable[[Path, Leave], AbstractContextManager[Arrays]]:
    """Return the function that opens files with this ending; refuse one that is not known, and say which are."""
    ending = path.suffix.lower()
    if not path.exists():
        raise DataFileError(f"There is no data file {path}.")
    if ending in MESHES:
        raise DataFileError(f"{path} is a mesh of a kind ({ending[1:].upper()}) that is not read: convert it to .vtu.")
    if ending not in ENDINGS:
        found = f"the unknown ending {path.suffix!r}" if ending else "no ending"
        raise DataFileError(f"{path} has {found}: {', '.join(ENDINGS)} can be read.")
    if (ending == ".zarr") != path.is_dir() or not (path.is_dir() or path.is_file()):
        found = "not a folder" if ending == ".zarr" else "a folder" if path.is_dir() else "not a regular file"
        raise DataFileError(f"{path} is {found}: it cannot be read.")
    from pcarann.problems.formats.hdf5 import open_hdf5
    from pcarann.problems.formats.matlab import open_mat
    from pcarann.problems.formats.netcdf import open_netcdf, open_zarr
    from pcarann.problems.formats.npz import open_npy, open_npz

    openers = (open_npz, open_npy, open_mat, open_hdf5, open_hdf5, open_netcdf, open_zarr)
    return dict(zip(_PLAIN, openers, strict=True))[ending]


def _fields(
    wanted: dict[Place, tuple[Path, str]], samples: slice | None, stride: Any, leave: Leave
) -> dict[Place, Any]:
    """Return the parts of arrays that are wanted, each file being opened once."""
    found: dict[Place, Any] = {}
    for path in dict.fromkeys(path for path, _ in wanted.values()):
        with open_arrays(path, leave) as arrays:
            for place, (file, key) in wanted.items():
                if file == path:
                    found[place] = _part(arrays, key, path, samples, stride)
    return {place: found[place] for place in wanted}


def _part(arrays: Arrays, key: str, path: Path, samples: slice | None, stride: Any) -> Any:
    """Return the part of one array that is wanted, all of it finite numbers but for points that no sample has."""
    name, index = parse_key(key, arrays, str(path))
    stored = arrays[name]()
    _refuse_non_numbers(stored)
    fields = stored.read(select(stored.shape, index, samples, stride, stored.where))
    if fields.dtype.kind not in "fiub":
        raise DataFileError(f"{stored.where} must hold real numbers, found {fields.dtype}.")
    if (complaint := nonfinite(fields)) and not _has_holes(fields):
        raise DataFileError(f"{stored.where}: {complaint}.")
    return fields


def _has_holes(fields: Any) -> bool:
    """Whether all that is not finite is NaN in every sample: points that are not there."""
    missing = np.isnan(fields)
    return fields.ndim > 1 and bool(np.isfinite(fields[:, ~missing.all(axis=0)]).all())


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
