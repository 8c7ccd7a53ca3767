"""HDF5, and MATLAB's `.mat` files of version 7.3, which are HDF5 with the axes reversed.

MATLAB stores the first axis fastest: an array that it calls 5000 × 64 × 64 × 50 is 50 × 64 × 64 × 5000 to h5py.
Here it has MATLAB's shape, the sample first. A file that reaches out of itself, by external links, external storage
or virtual datasets, is refused before anything in it is read; then its soft links cannot lead out either.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pcarann.problems.formats import Arrays, Leave, Stored, chunks_touched, require
from pcarann.problems.formats.heaps import refuse_endless_heaps
from pcarann.problems.formats.unpacking import could_swell, refuse_swelling
from pcarann.problems.selection import DataFileError, Selection, slices

__all__ = ["check_dataset", "datasets", "open_hdf5"]

_DEFLATE, _FLETCHER = 1, 3
_CHECKSUM = 4  # bytes
_FILTERS = {_DEFLATE, 2, _FLETCHER, 4, 5, 6, 32000, 32001, 32004, 32008, 32013, 32015, 32026}
"""shuffle, Fletcher's checksum, szip, n-bit, scale-offset; LZF, Blosc, LZ4, bitshuffle, ZFP, zstd, Blosc 2"""


@contextlib.contextmanager
def open_hdf5(path: Path, leave: Leave, *, matlab: bool = False) -> Iterator[Arrays]:
    """Give the datasets of an HDF5 file by their path in it, with the axes reversed where MATLAB wrote it."""
    h5py = require("h5py", path)
    refuse_endless_heaps(path)
    with h5py.File(path, "r") as file:
        names = datasets(file, path)
        yield {name: partial(_dataset, file[name], f"{path}[{name}]", leave, matlab) for name in names}


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


def check_dataset(dataset: Any, selection: Selection, leave: Leave, where: str) -> None:
    """Refuse chunks that are lost, unpack to more than they say, or are packed by a filter that is not known."""
    chunk, stored = dataset.chunks, dataset.id.get_storage_size()
    leave.check_chunks(selection, dataset.dtype, chunk, stored, where)
    plist = dataset.id.get_create_plist()
    filters = [int(plist.get_filter(i)[0]) for i in range(plist.get_nfilters())]
    if unknown := set(filters) - _FILTERS:
        raise DataFileError(f"{where} is packed by the filter {min(unknown)}, which is not known here: not read.")
    if chunk is None:
        if not stored and not leave.fill:
            raise DataFileError(
                f"{where} was never written: to read its fill value {dataset.fillvalue}, say fill=True."
            )
        return
    size = math.prod(chunk) * dataset.dtype.itemsize
    for numbers in chunks_touched(selection, chunk):
        at = tuple(n * c for n, c in zip(numbers, chunk, strict=True))
        found = dataset.id.get_chunk_info_by_coord(at)
        if found.byte_offset is None and not leave.fill:
            raise DataFileError(
                f"{where}: the chunk at {at} is not there. If it was left out because it holds the fill value "
                f"{dataset.fillvalue} alone, read with fill=True."
            )
        used = [one for i, one in enumerate(filters) if not found.filter_mask >> i & 1]
        if found.byte_offset is None or _DEFLATE not in used:
            continue
        behind = used[used.index(_DEFLATE) + 1 :]
        if others := set(behind) - {_FLETCHER}:
            raise DataFileError(f"{where} is packed again, by the filter {min(others)}, behind deflate: not read.")
        if could_swell("zlib", found.size, max(leave.limit, size)):
            packed = dataset.id.read_direct_chunk(at)[1]
            packed = packed[: max(0, len(packed) - _CHECKSUM * len(behind))]
            refuse_swelling("zlib", packed, size, f"{where}, chunk at {at},")


def _dataset(dataset: Any, where: str, leave: Leave, matlab: bool) -> Stored:
    if dataset.shape is None or "MATLAB_empty" in dataset.attrs:
        raise DataFileError(f"{where} is empty.")

    def read(selection: Selection) -> np.ndarray[Any, Any]:
        ordered = selection[::-1] if matlab else selection
        check_dataset(dataset, ordered, leave, where)
        fields = np.asarray(dataset[slices(ordered)])
        return np.ascontiguousarray(fields.T) if matlab else fields

    return Stored(dataset.shape[::-1] if matlab else dataset.shape, dataset.dtype, where, read)
