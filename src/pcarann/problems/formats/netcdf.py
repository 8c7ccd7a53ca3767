"""netCDF and zarr, through xarray, which applies offsets, scales and fill values (these become NaN).

Both are read lazily. A netCDF 4 file is HDF5 and is held to the same rules: nothing in it may lead out of it, and no
chunk may be lost. A zarr store that does not name its dimensions, as xarray wants, is read by zarr itself, as it is;
what it may hold says `pcarann.problems.formats.stores`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pcarann.problems.formats import Arrays, Leave, Stored, is_hdf5, require
from pcarann.problems.formats.hdf5 import check_dataset, datasets
from pcarann.problems.formats.heaps import refuse_endless_heaps
from pcarann.problems.formats.stores import check_array, check_store
from pcarann.problems.selection import DataFileError, Selection, slices

__all__ = ["open_netcdf", "open_zarr"]

_WORDS = 100_000  # xarray reads words as soon as a file is opened, and nobody can want so many


@contextlib.contextmanager
def open_netcdf(path: Path, leave: Leave) -> Iterator[Arrays]:
    """Give the variables of a netCDF file, of format 3 by SciPy or 4 by h5netcdf."""
    if not is_hdf5(path):
        size = path.stat().st_size

        def check_size(name: str, selection: Selection, dtype: np.dtype[Any]) -> None:
            leave.check_chunks(selection, dtype, None, size, f"{path}[{name}]")

        with _opened(path, check_size, engine="scipy") as arrays:
            yield arrays
        return
    require("h5netcdf", path)
    refuse_endless_heaps(path)

    def check(name: str, selection: Selection, _: Any) -> None:
        with require("h5py", path).File(path, "r") as file:
            check_dataset(file[name], selection, leave, f"{path}[{name}]")

    with require("h5py", path).File(path, "r") as file:
        words = [
            name for name in datasets(file, path) if file[name].dtype.hasobject and (file[name].size or 0) > _WORDS
        ]
    with _opened(path, check, engine="h5netcdf", drop_variables=words) as arrays:
        yield arrays


@contextlib.contextmanager
def open_zarr(path: Path, leave: Leave) -> Iterator[Arrays]:
    """Give the variables in the root group of a zarr store, which is a folder."""
    zarr = require("zarr", path)
    size = check_store(path)
    root = zarr.open(path, mode="r", use_consolidated=False)

    def check(name: str, selection: Selection, _: Any) -> None:
        check_array(root[name], path, selection, size, leave, f"{path}[{name}]")

    with contextlib.ExitStack() as stack:
        try:
            arrays = stack.enter_context(_opened(path, check, engine="zarr", consolidated=False))
        except (KeyError, zarr.errors.ContainsArrayError):  # what xarray raises where dimensions have no names
            arrays = {}
        yield arrays or _unnamed(zarr, root, path, size, leave)


def _unnamed(zarr: Any, root: Any, path: Path, size: int, leave: Leave) -> Arrays:
    """Return all arrays of a zarr store by their path in it; one that is the whole store has the name of the folder."""
    members = root.members(max_depth=None) if isinstance(root, zarr.Group) else [(path.stem, root)]
    found = {name: item for name, item in sorted(members) if isinstance(item, zarr.Array)}
    return {name: partial(_zarr_array, item, path, size, leave, f"{path}[{name}]") for name, item in found.items()}


def _zarr_array(array: Any, path: Path, size: int, leave: Leave, where: str) -> Stored:
    if packed := {"scale_factor", "add_offset"} & set(array.attrs):
        names = ", ".join(sorted(packed))
        raise DataFileError(f"{where} is packed ({names}) but names no dimensions: store it plainly.")

    def read(selection: Selection) -> np.ndarray[Any, Any]:
        check_array(array, path, selection, size, leave, where)
        return np.asarray(array[slices(selection)])

    return Stored(tuple(array.shape), np.dtype(array.dtype), where, read)


Check: TypeAlias = Callable[[str, Selection, np.dtype[Any]], None]
"""Refuses what must not be read of a variable"""


@contextlib.contextmanager
def _opened(path: Path, check: Check, **options: Any) -> Iterator[Arrays]:
    xarray = require("xarray", path)
    try:
        opened = xarray.open_dataset(path, decode_times=False, chunks=None, cache=False, **options)
    except MemoryError:  # SciPy makes room for a name as long as the file says before there are bytes
        raise DataFileError(f"{path} says that something in it is larger than memory.") from None
    with opened as dataset:
        yield {
            str(name): partial(_variable, variable, partial(check, str(name)), f"{path}[{name}]")
            for name, variable in dataset.variables.items()
        }


def _variable(variable: Any, check: Callable[[Selection, np.dtype[Any]], None], where: str) -> Stored:
    def read(selection: Selection) -> np.ndarray[Any, Any]:
        check(selection, variable.dtype)
        return np.array(variable[slices(selection)].values)  # a copy: the file is closed before it is used

    return Stored(tuple(variable.shape), np.dtype(variable.dtype), where, read)
