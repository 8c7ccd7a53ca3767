"""MATLAB's `.mat` files, in both of its formats.

Version 7.3 is HDF5. Files before it are read by SciPy, which can take one variable at a time but only a whole one:
the peak of memory is that variable, beside the part that was asked for.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pcarann.problems.formats import Arrays, Leave, Stored, is_hdf5
from pcarann.problems.formats.hdf5 import open_hdf5
from pcarann.problems.formats.tags import check_tags
from pcarann.problems.selection import DataFileError, Selection, slices

__all__ = ["open_mat"]

_TYPES = {"double": "f8", "single": "f4", "logical": "u1", "char": "U1"} | {
    f"{sign}int{8 * size}": f"{kind}{size}" for sign, kind in (("", "i"), ("u", "u")) for size in (1, 2, 4, 8)
}


@contextlib.contextmanager
def open_mat(path: Path, leave: Leave) -> Iterator[Arrays]:
    """Give the variables of a `.mat` file in MATLAB's order of axes."""
    if is_hdf5(path):
        with open_hdf5(path, leave, matlab=True) as arrays:
            yield arrays
        return
    from scipy.io import whosmat

    found = _asked(path, whosmat)
    yield {name: partial(_variable, path, name, shape, kind, leave) for name, shape, kind in found}


def _asked(path: Path, function: Any, **options: Any) -> Any:
    """Ask SciPy, which takes the lengths in a file for what they say: room is made for them before there are bytes."""
    try:
        return function(path, **options)
    except MemoryError:
        raise DataFileError(f"{path} says that something in it is larger than memory.") from None


def _variable(path: Path, name: str, shape: tuple[int, ...], kind: str, leave: Leave) -> Stored:
    where = f"{path}[{name}]"
    dtype = np.dtype(_TYPES.get(kind, object))  # cells, structures, functions and sparse matrices are objects

    def read(selection: Selection) -> np.ndarray[Any, Any]:
        from scipy.io import loadmat

        leave.check(math.prod(shape) * dtype.itemsize, path.stat().st_size, where)
        check_tags(path, name, leave)
        variable = _asked(path, loadmat, variable_names=[name])[name]
        return np.ascontiguousarray(variable[slices(selection)])

    return Stored(tuple(shape), dtype, where, read)
