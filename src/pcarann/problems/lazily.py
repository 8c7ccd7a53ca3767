"""Arrays in files as Dask arrays: opened again for each block, by whoever reads it, on whatever machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pcarann.problems.selection import DataFileError, Selection, parse_key, select

__all__ = ["LAZY", "LazyPart", "lazy_array"]

LAZY = (".npy", ".h5", ".hdf5", ".nc", ".zarr")
"""Endings of files that can be read by blocks"""


@dataclass(frozen=True)
class LazyPart:
    """Part of an array in a file, as Dask reads it: by slices along the axes that are kept."""

    open_file: Callable[[Path], Any]
    path: Path
    name: str
    selection: Selection
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the part"""
        return tuple(len(part) for part in self.selection if isinstance(part, range))

    @property
    def ndim(self) -> int:
        """Axes that are kept"""
        return len(self.shape)

    def __getitem__(self, index: Any) -> np.ndarray[Any, Any]:
        """Numbers of a block."""
        wanted = iter(index if isinstance(index, tuple) else (index,))
        chosen = tuple(part[next(wanted, slice(None))] if isinstance(part, range) else part for part in self.selection)
        with self.open_file(self.path) as arrays:
            return np.asarray(arrays[self.name]().read(chosen))


def lazy_array(
    open_file: Callable[[Path], Any], path: Path, key: str, samples: slice | None, stride: Any, chunks: Any
) -> Any:
    """A Dask array of what a key names in a file; `chunks` are as Dask takes them, or samples of a chunk."""
    try:
        import dask.array as da
    except ImportError:
        raise ImportError("chunks need Dask: install it with pip install 'pcarann[scale]'.") from None
    if path.suffix.lower() not in LAZY:
        raise DataFileError(f"{path} cannot be read by blocks: of {', '.join(LAZY)} files chunks can be asked for.")
    with open_file(path) as arrays:
        name, index = parse_key(key, arrays, str(path))
        stored = arrays[name]()
        if stored.dtype.kind not in "fiub":
            raise DataFileError(f"{stored.where} must hold real numbers, found {stored.dtype}.")
        selection = select(stored.shape, index, samples, stride, stored.where)
    part = LazyPart(open_file, path, name, selection, np.dtype(stored.dtype))
    sizes = (chunks, *[-1] * (part.ndim - 1)) if isinstance(chunks, int | str) else chunks
    return da.from_array(part, chunks=sizes, meta=np.empty((0,) * part.ndim, part.dtype), asarray=False)
