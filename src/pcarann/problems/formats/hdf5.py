"""HDF5, and MATLAB's `.mat` files of version 7.3, which are HDF5 with the axes reversed.

MATLAB stores the first axis fastest: an array that it calls 5000 × 64 × 64 × 50 is 50 × 64 × 64 × 5000 to h5py.
Here it has MATLAB's shape, the sample first. A file that reaches out of itself, by external links, external storage
or virtual datasets, is refused before anything in it is read; then its soft links cannot lead out either.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pcarann.problems.formats import Arrays, Stored, refuse_swelling, require
from pcarann.problems.selection import DataFileError, Selection, slices

__all__ = ["datasets", "open_hdf5"]


@contextlib.contextmanager
def open_hdf5(path: Path, *, matlab: bool = False) -> Iterator[Arrays]:
    """Give the datasets of an HDF5 file by their path in it, with the axes reversed where MATLAB wrote it."""
    h5py = require("h5py", path)
    with h5py.File(path, "r") as file:
        names = datasets(file, path)
        yield {name: partial(_dataset, file, name, f"{path}[{name}]", matlab) for name in names}


def datasets(file: Any, path: Path) -> list[str]:
    """Return the names of the datasets in an open file; refuse it where anything in it draws on other files."""
    links: list[tuple[str, Any]] = []
    file.visititems_links(lambda name, link: links.append((name, link)))  # h5py's callbacks must not raise
    for name, link in links:
        if type(link).__name__ == "ExternalLink":
            raise DataFileError(f"{path}[{name}] is a link to another file, {link.filename!r}, which is not followed.")
    found = []
    for name, _ in links:
        with contextlib.suppress(KeyError, RuntimeError):  # a soft link that leads nowhere, or in a circle
            if _is_own_dataset(file[name], f"{path}[{name}]") and not name.startswith("#"):  # #refs#: MATLAB's own
                found.append(name)
    return found


def _is_own_dataset(item: Any, where: str) -> bool:
    """Whether this is a dataset, not a group or a type; refuse one that keeps its numbers elsewhere."""
    if not hasattr(item, "is_virtual"):
        return False
    if item.is_virtual:
        raise DataFileError(f"{where} is a virtual dataset, which may draw on other files: store the numbers.")
    if item.external:
        raise DataFileError(f"{where} keeps its numbers in another file, {item.external[0][0]!r}, which is not read.")
    return True


def _dataset(file: Any, name: str, where: str, matlab: bool) -> Stored:
    dataset = file[name]
    if dataset.shape is None or "MATLAB_empty" in dataset.attrs:
        raise DataFileError(f"{where} is empty.")

    def read(selection: Selection) -> np.ndarray[Any, Any]:
        refuse_swelling(selection, dataset.dtype, dataset.id.get_storage_size(), where)
        if not matlab:
            return np.asarray(dataset[slices(selection)])
        return np.ascontiguousarray(dataset[slices(selection[::-1])].T)

    return Stored(dataset.shape[::-1] if matlab else dataset.shape, dataset.dtype, where, read)
