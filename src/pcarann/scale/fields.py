"""A lazy array as (samples, values) fields: checked, cut into blocks that fit into memory, read block by block."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from pcarann.scale.engine import Budget, Reading, computed
from pcarann.validation import unmasked, warn_user

__all__ = ["SHARE", "Cut", "checked_lazy", "cut_along", "cut_at", "matrix_of", "refuse_unknown", "rows_of"]

_BLOCK, _LEAST = 1 << 26, 1 << 20  # bytes of a block, where memory allows it: at most, and at least
_TURNS = 3  # blocks for each task that can work at a time, where data are few
SHARE = 6
"""Blocks that fit into the memory of a task: as they were read, converted, and in their parts"""
_IN_COMMON = 1.5  # times that what blocks are made of may be made, if each makes it for itself
_OFTEN = 1.5  # times that data may be read in one pass before a word is said of it


@dataclass(frozen=True)
class Cut:
    """Where a matrix is cut, along which axis, and what one pass over it reads."""

    axis: int
    parts: tuple[slice, ...]
    reads: float
    """Bytes"""
    shared: bool
    """Whether a chunk is in several blocks: then these are computed one after another"""

    def blocks(self, matrix: Any) -> list[Any]:
        """One for each part: delayed arrays, or what reads them.

        A block is read by the task that works with it, all its chunks, so that none travels from worker to worker. What
        several blocks need is left to the scheduler, and so is what is in memory.
        """
        found = []
        for part in self.parts:
            block = matrix[part, :] if self.axis == 0 else matrix[:, part]
            found.append(block.rechunk(block.shape, method="tasks") if math.prod(block.numblocks) > 1 else block)
        if self.shared or not _apart(found):
            return [block.to_delayed().item() for block in found]
        return [Reading(dict(_graph(block)), _key(block)) for block in found]


def _key(block: Any) -> tuple[Any, ...]:
    return (block.name, *[0] * block.ndim)


def _graph(block: Any) -> Any:
    """What is done to make a block, optimised by Dask."""
    import dask

    return dask.optimize(block)[0].__dask_graph__()


def _apart(blocks: Sequence[Any]) -> bool:
    """Whether blocks have little in common, and can be made of what their graphs say."""
    graphs = [block.__dask_graph__().cull({_key(block)}).to_dict() for block in blocks]
    whole = {key for graph in graphs for key in graph}
    if sum(map(len, graphs)) > _IN_COMMON * len(whole):
        return False
    return all(_closed(graph, block.nbytes) for graph, block in zip(graphs, blocks, strict=True))


def _closed(graph: dict[Any, Any], size: int) -> bool:
    """Whether a graph needs nothing that workers hold, and holds no array in memory that is larger than its block."""
    for one in graph.values():
        held = getattr(one, "value", one)
        if type(held).__name__ == "Future" or (isinstance(held, np.ndarray) and held.nbytes > size):
            return False
        if any(key not in graph for key in getattr(one, "dependencies", ())):
            return False
    return True


def checked_lazy(
    array: Any, name: str, *, grid: tuple[int, ...] | None = None, scalar: bool = False, least: int = 1
) -> Any:
    """Return the Dask array, or refuse it in one sentence; masked values are refused when they are read."""
    from dask.array.utils import meta_from_array

    refuse_unknown(array, name)
    for axis, sizes in enumerate(array.chunks):
        if 0 in sizes and array.shape[axis]:
            raise ValueError(
                f"{name} has a chunk of length 0 along axis {axis}, the one at {sizes.index(0)}: rechunk it."
            )
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {array.dtype}.")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers, found dtype {array.dtype}.")
    meta = meta_from_array(array)
    kind = type(meta)
    if kind.__module__.split(".")[0] not in ("numpy", "cupy"):
        raise ValueError(f"{name} has blocks of {kind.__name__}: NumPy arrays are needed.")
    shape = tuple(int(n) for n in array.shape)
    if len(shape) < (1 if scalar else 2):
        raise ValueError(f"{name} must have shape (samples, …), found {shape}.")
    if shape[0] < least:
        raise ValueError(f"{name}: found {shape[0]} sample(s) (shape={shape}) while a minimum of {least} is required.")
    if not math.prod(shape[1:]):
        raise ValueError(f"{name}: 0 feature(s) (shape={shape}) while a minimum of 1 is required.")
    if grid is not None and shape[1:] != grid:
        raise ValueError(f"{name} has fields of shape {shape[1:]}, but the model is expecting {grid}.")
    # Of masked arrays Dask may say nothing, and joins their blocks without the masks.
    return array.map_blocks(_numbers, name, dtype=array.dtype, meta=unmasked(meta, name))


def _numbers(block: Any, name: str) -> Any:
    """A block as it was computed, or a refusal: what it holds need not be what its array declares."""
    block = unmasked(block, name)
    if block.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers, but a block of it has dtype {block.dtype}.")
    return block


def refuse_unknown(array: Any, name: str) -> None:
    """Refuse a Dask array whose length nobody knows."""
    if any(math.isnan(n) for axis in array.chunks for n in axis):
        raise ValueError(f"{name} has chunks of unknown size: call {name}.compute_chunk_sizes() first.")


def matrix_of(array: Any) -> Any:
    """(samples, *grid) as (samples, values)."""
    if array.ndim == 1:
        return array[:, None]
    while array.ndim > 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2:
        return array
    # Dask's own reshape would cut samples into pieces, or join blocks along space.
    array = array.rechunk(dict.fromkeys(range(2, array.ndim), -1), method="tasks")
    rest = math.prod(array.shape[2:])
    chunks = (array.chunks[0], tuple(n * rest for n in array.chunks[1]))
    return array.map_blocks(
        _flat,
        dtype=array.dtype,
        chunks=chunks,
        drop_axis=list(range(2, array.ndim)),
        meta=np.empty((0, 0), array.dtype),
    )


def _flat(block: Any) -> Any:
    return block.reshape(len(block), -1)


def cut_along(matrix: Any, axis: int, budget: Budget, name: str, *, least: int = 0, share: int = SHARE) -> Cut:
    """Cut a matrix along an axis, at the ends of its chunks where that is possible.

    Blocks are of 64 MB, or of `least` bytes where that is more, and `share` of them fit into the memory of a task.
    """
    samples, values = (int(n) for n in matrix.shape)
    other, width = (values, 8) if axis == 0 else (samples, 8)
    chunk = width * max(matrix.chunks[0]) * max(matrix.chunks[1])
    if 2 * chunk > budget.each:
        raise ValueError(
            f"{name} has chunks of {_said(chunk)}, but a task may take {_said(budget.each)} "
            f"({_said(budget.memory)} for {budget.tasks} at a time): make smaller chunks, or allow more memory."
        )
    most = max(1, budget.each // share // (width * other))
    shares = width * samples * values // (_TURNS * budget.tasks * budget.workers)
    size = max(least, min(_BLOCK, max(_LEAST, shares)))
    wanted = min(most, max(1, size // (width * other)))
    if share * width * other > budget.each:
        what = "field" if axis == 0 else "value of all samples"
        raise ValueError(
            f"One {what} of {name} has {_said(width * other)}, too much for the {_said(budget.each)} of a task: allow "
            "more memory."
        )
    cut = cut_at(matrix, axis, _grouped(matrix.chunks[axis], wanted, most))
    if cut.reads > _OFTEN * 8 * samples * values:
        _say_the_cost(matrix, cut, name)
    return cut


def cut_at(matrix: Any, axis: int, parts: Sequence[slice]) -> Cut:
    """Cut a matrix into these parts along an axis."""
    sizes = matrix.chunks[axis]
    reads = sum(_touched(sizes, part) for part in parts) * 8 * int(matrix.shape[1 - axis])
    ends = {0, *accumulate(sizes)}
    shared = any(end not in ends for part in parts for end in (part.start, part.stop))
    return Cut(axis, tuple(parts), float(reads), shared)


def rows_of(matrix: Any, which: Sequence[int]) -> Any:
    """Some rows of a lazy matrix, in memory."""
    order = np.argsort(np.asarray(which, dtype=np.int64), kind="stable")
    found = np.asarray(computed(matrix[np.asarray(which, dtype=np.int64)[order], :]))
    rows = np.empty_like(found)
    rows[order] = found
    return rows


def _grouped(sizes: Sequence[int], wanted: int, most: int) -> list[slice]:
    """Chunks of these sizes in blocks of about so many; one that is too large is split.

    >>> _grouped((3, 3, 3, 9), 6, 8)
    [slice(0, 6, None), slice(6, 9, None), slice(9, 13, None), slice(13, 18, None)]
    """
    parts: list[slice] = []
    start = end = 0
    for size in sizes:
        if end > start and end + size - start > wanted:
            parts.append(slice(start, end))
            start = end
        end += size
        if end - start > most:
            count = math.ceil((end - start) / most)
            edges = [start + round(i * (end - start) / count) for i in range(count + 1)]
            parts += [slice(a, b) for a, b in pairwise(edges)]
            start = end
    if end > start:
        parts.append(slice(start, end))
    return parts


def _touched(sizes: Sequence[int], part: slice) -> int:
    """The length of all chunks that a part touches."""
    ends = list(accumulate(sizes))
    first, last = bisect_right(ends, part.start), bisect_left(ends, part.stop)
    return ends[last] - (ends[first - 1] if first else 0)


def _say_the_cost(matrix: Any, cut: Cut, name: str) -> None:
    along, length = ("samples", "values")[cut.axis], int(cut.parts[0].stop - cut.parts[0].start)
    size = 8 * matrix.shape[0] * matrix.shape[1]
    chunks = f"({length}, all values)" if cut.axis == 0 else f"(all samples, {length} values)"
    warn_user(
        f"{name} is read in {len(cut.parts)} blocks of {along}, which are smaller than its chunks or lie across them: "
        f"each pass may read {_said(cut.reads)} instead of {_said(size)}. Chunks of {chunks} are read once, and so are "
        "the present ones with more memory."
    )


def _said(size: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:.0f} bytes"
