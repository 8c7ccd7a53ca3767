"""Several calls at a time, on the cores of a CPU.

Linear algebra on one thread and one call per core keep a CPU busy with work of all kinds. A GPU takes one call after
another: streams of their own would make fits a tenth faster, and predictions a third slower.

Short calls go one after another, also with linear algebra on one thread: a second thread must be woken, and comes late
on cores that other work shares. What is short is decided by arithmetic alone: multiplications, and bytes that are read.

Products on several threads are rounded in another way than on one. So a single call, too, stays on one thread, unless
it takes seconds even at best, and so does all that something is decided by (`alike`): what was found then does not
depend on how many threads there are.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

from pcarann.backend.arrays import Array, Place

__all__ = ["alike", "concurrently", "cores", "in_pieces", "least_seconds", "single_threaded", "unhurried"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_WORKING_BYTES = 2 << 30  # memory that concurrent calls may take together
_MULTIPLICATIONS, _BYTES = 2e10, 1e10  # of one core in a second, at best
_SHORT = 1e-3  # seconds below which a call is not worth a thread: waking one and Python's lock cost a tenth of that
_LONG = 0.5  # seconds from which on a single call takes all threads


def concurrently(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    place: Place,
    bytes_each: int,
    seconds_each: float = math.inf,
) -> Iterator[Result]:
    """Yield function(item) in order, several at a time on the cores of a CPU where each takes long enough.

    Half of a member's fit is sorting, tanh and random numbers, which NumPy does on one core. A core for each call,
    with single-threaded linear algebra, keeps all cores busy, and rounds alike on any number of cores.
    """
    listed = list(items)
    workers = min(cores(), max(1, _WORKING_BYTES // bytes_each), len(listed))
    if seconds_each < _SHORT:
        with unhurried(place, seconds_each):
            yield from map(function, listed)
    elif place.by_numpy and workers > 1:
        contexts = [copy_context() for _ in listed]
        with single_threaded(place), ThreadPoolExecutor(workers) as pool:
            # What the caller has set for itself, such as np.errstate, holds in its threads too.
            yield from pool.map(lambda context, item: context.run(function, item), contexts, listed)
    else:
        with alike(place, seconds_each):
            yield from map(function, listed)


def least_seconds(multiplications: float, read: float = 0.0) -> float:
    """What so many multiplications, and bytes that are read for them, take on one core at best.

    >>> least_seconds(1e6, 8e6) < 1e-3 < least_seconds(1e9)
    True
    """
    return multiplications / _MULTIPLICATIONS + read / _BYTES


def unhurried(place: Place, seconds: float) -> AbstractContextManager[None]:
    """Keep the linear algebra of NumPy on one thread for work that takes such a time at best, where that is short."""
    return single_threaded(place, seconds < _SHORT)


def alike(place: Place, seconds: float) -> AbstractContextManager[None]:
    """Keep the linear algebra of NumPy on one thread, unless it takes many seconds there: it then rounds alike."""
    return single_threaded(place, seconds < _LONG)


@contextmanager
def single_threaded(place: Place, when: bool = True) -> Iterator[None]:
    """Keep the linear algebra of NumPy on one thread: small matrices lose more to waiting than they gain."""
    if not (when and place.by_numpy):
        yield
        return
    with _one_blas_thread:
        yield


class _OneBlasThread:
    """The limit belongs to the process: the first to enter sets it, the last to leave lifts it."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._controller: Any = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                if self._controller is None:  # looking the libraries up takes milliseconds
                    from threadpoolctl import ThreadpoolController

                    self._controller = ThreadpoolController()
                _take_over()
                self._limit = self._controller.limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                _take_over()
                self._limit.restore_original_limits()


def _take_over() -> None:
    """Let this thread set the limit: newer threadpoolctl leaves it to the thread that was first, and ignores others."""
    import threadpoolctl

    if hasattr(threadpoolctl.OpenBLASController, "clear_controlling_thread"):
        threadpoolctl.OpenBLASController.clear_controlling_thread(force=True)


_one_blas_thread = _OneBlasThread()


def in_pieces(
    function: Callable[[range], tuple[Array, ...]], samples: range, *, place: Place, size: int, bytes_each: int
) -> tuple[Array, ...]:
    """Return function(samples), made of pieces of `size` samples on a CPU, several at a time, and whole on a GPU.

    A piece stays in the cache of a core, while a GPU wants all samples in one launch.
    """
    size = size if place.on_host else max(1, len(samples))
    pieces = [samples[start : start + size] for start in range(0, len(samples), size)]
    parts = list(concurrently(function, pieces, place=place, bytes_each=size * bytes_each))
    return parts[0] if len(parts) == 1 else tuple(place.xp.concat(arrays) for arrays in zip(*parts, strict=True))


def cores() -> int:
    """Of this machine, as many as this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
