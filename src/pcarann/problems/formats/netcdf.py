"""netCDF and zarr, through xarray, which applies offsets, scales and fill values (these become NaN).

Both are read lazily. A netCDF 4 file is HDF5 and is held to the same rule: nothing in it may lead out of it. A zarr
store that does not name its dimensions, as xarray wants, is read by zarr itself, as it is. A store may name a codec
that unpickles what it reads, which would run code: such a store is refused unread, and so is one with symbolic links.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pcarann.problems.formats import Arrays, Stored, is_hdf5, refuse_swelling, require
from pcarann.problems.formats.hdf5 import datasets
from pcarann.problems.selection import DataFileError, Selection, slices

__all__ = ["open_netcdf", "open_zarr"]


@contextlib.contextmanager
def open_netcdf(path: Path) -> Iterator[Arrays]:
    """Give the variables of a netCDF file, of format 3 by SciPy or 4 by h5netcdf."""
    engine = "scipy"
    if is_hdf5(path):
        engine = "h5netcdf"
        require("h5netcdf", path)
        with require("h5py", path).File(path, "r") as file:
            datasets(file, path)
    with _opened(path, path.stat().st_size, engine=engine) as arrays:
        yield arrays


@contextlib.contextmanager
def open_zarr(path: Path) -> Iterator[Arrays]:
    """Give the variables in the root group of a zarr store, which is a folder."""
    zarr = require("zarr", path)
    size = _inspect_store(path)
    with contextlib.ExitStack() as stack:
        try:
            arrays = stack.enter_context(_opened(path, size, engine="zarr", consolidated=False))
        except (KeyError, zarr.errors.ContainsArrayError):  # what xarray raises where dimensions have no names
            arrays = {}
        yield arrays or _unnamed(zarr, path, size)


def _unnamed(zarr: Any, path: Path, size: int) -> Arrays:
    """Return all arrays of a zarr store by their path in it; one that is the whole store has the name of the folder."""
    root = zarr.open(path, mode="r", use_consolidated=False)
    members = root.members(max_depth=None) if isinstance(root, zarr.Group) else [(path.stem, root)]
    found = {name: item for name, item in sorted(members) if isinstance(item, zarr.Array)}
    return {name: partial(_zarr_array, item, size, f"{path}[{name}]") for name, item in found.items()}


def _zarr_array(array: Any, size: int, where: str) -> Stored:
    if packed := {"scale_factor", "add_offset"} & set(array.attrs):
        names = ", ".join(sorted(packed))
        raise DataFileError(f"{where} is packed ({names}) but names no dimensions: store it plainly.")

    def read(selection: Selection) -> np.ndarray[Any, Any]:
        refuse_swelling(selection, array.dtype, size, where)
        return np.asarray(array[slices(selection)])

    return Stored(tuple(array.shape), np.dtype(array.dtype), where, read)


@contextlib.contextmanager
def _opened(path: Path, size: int, **options: Any) -> Iterator[Arrays]:
    xarray = require("xarray", path)
    with xarray.open_dataset(path, decode_times=False, chunks=None, cache=False, **options) as dataset:
        yield {
            str(name): partial(_variable, variable, size, f"{path}[{name}]")
            for name, variable in dataset.variables.items()
        }


def _variable(variable: Any, size: int, where: str) -> Stored:
    def read(selection: Selection) -> np.ndarray[Any, Any]:
        refuse_swelling(selection, variable.dtype, size, where)
        return np.array(variable[slices(selection)].values)  # a copy: the file is closed before it is used

    return Stored(tuple(variable.shape), np.dtype(variable.dtype), where, read)


def _inspect_store(path: Path) -> int:
    """Return the bytes of a zarr store; refuse links out of it and codecs that would run code."""
    size = 0
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            item = Path(folder, name)
            if item.is_symlink():
                raise DataFileError(f"{item} is a symbolic link, which is not followed.")
            if not (item.is_dir() or item.is_file()):
                raise DataFileError(f"{item} is not a regular file: the store is not read.")
            if name in (".zarray", ".zmetadata", "zarr.json") and _pickles(json.loads(item.read_bytes())):
                raise DataFileError(f"{item} names a codec that unpickles objects, which could run code: not read.")
            size += item.stat().st_size
    return size


def _pickles(document: Any) -> bool:
    """Whether a codec anywhere in a JSON document is called a pickle."""
    if isinstance(document, dict):
        names = (document.get("id"), document.get("name"))
        return "pickle" in str(names).lower() or any(map(_pickles, document.values()))
    return isinstance(document, list) and any(map(_pickles, document))
