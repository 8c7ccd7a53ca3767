"""Work by blocks on Dask: what is found in each block is added up, or kept in order.

    Σ_b f(block b)        f(block 1), f(block 2), …

Sums may be as large as blocks are. So they go from block to block along a few lanes, each on one worker as long as that
lives, and only those of the lanes travel, up a tree.

Whoever is the user's scheduler does the work: that of a `distributed.Client`, or threads of this process. There is none
of our own. Constants travel inside the graph, so that a worker that dies costs its tasks and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np

from pcarann.backend.arrays import place_of
from pcarann.backend.concurrency import single_threaded
from pcarann.backend.memory import machine_bytes
from pcarann.backend.progress import Tick
from pcarann.validation import check_memory

__all__ = [
    "Budget",
    "LostCluster",
    "Reading",
    "computed",
    "kept_on_workers",
    "limited",
    "nothing",
    "over_blocks",
    "passes_shown",
]

_KEY = "pcarann.memory"  # of Dask's configuration
_SHARE = 0.5  # of the memory that is free, where no limit was stated
_PATIENCE = 20  # seconds in which a worker may come back
_BRANCHES = 4  # partial sums that are added at a time
_LANES = 2  # for each task that can work at a time: the fewer, the less travels; the more, the better work is shared
_tick: ContextVar[Tick | None] = ContextVar("tick", default=None)


class LostCluster(RuntimeError):
    """The Dask cluster went away, or lost what it needs."""


class Reading:
    """A block that is read where it is needed, by the task that is handed it."""

    def __init__(self, graph: dict[Any, Any], key: Any) -> None:
        self.graph, self.key = graph, key

    def __call__(self) -> Any:
        """The block, by one thread."""
        import dask

        return dask.get(self.graph, self.key)


@contextmanager
def limited(memory: int | str) -> Iterator[None]:
    """State how much memory each process may take for lazy data inside a `with` block: "4GB", or bytes.

    It is the setting `pcarann.memory` of Dask's configuration, which a file or DASK_PCARANN__MEMORY may set as well.
    """
    import dask

    with dask.config.set({_KEY: check_memory(memory)}):
        yield


@dataclass(frozen=True)
class Budget:
    """Memory of one process, and the tasks that share it."""

    memory: int
    tasks: int
    workers: int = 1
    on_cluster: bool = False

    @property
    def each(self) -> int:
        """Bytes of one task"""
        return self.memory // self.tasks

    @classmethod
    def now(cls) -> Budget:
        """That of the user's cluster, or of this process; no more than was stated."""
        import dask

        stated = dask.config.get(_KEY, None)
        limit = None if stated is None else check_memory(stated)
        client = _client()
        if client is None:
            tasks = dask.config.get("num_workers", None) or len(os.sched_getaffinity(0))
            if dask.config.get("scheduler", None) in ("sync", "synchronous", "single-threaded"):
                tasks = 1
            return cls(int(_SHARE * _free()) if limit is None else limit, int(tasks))
        workers = _workers(client)
        limits = [int(one["memory_limit"]) for one in workers if one["memory_limit"]] or [_free()]
        memory, tasks = int(_SHARE * min(limits)), max(one["nthreads"] for one in workers)
        return cls(memory if limit is None else min(limit, memory), tasks, len(workers), True)


def over_blocks(
    task: Callable[..., tuple[Any, Any]],
    blocks: Sequence[Any],
    own: Sequence[tuple[Any, ...]],
    constants: dict[str, Any],
    add: Callable[[list[Any]], Any],
    *,
    apart: bool = False,
    shown: str = "",
) -> tuple[Any, list[Any]]:
    """Return the sum of what the task finds first in each block, and a list of what it finds second.

    The task is given a block (delayed, or a `Reading` of it), what is its own, and the constants. Blocks that must not
    be in memory together are computed `apart`, one after another. How many are done is `shown` under this name where
    somebody looks. `add` may change the first of what it is given, which nobody else holds.
    """
    with _counted(task.__name__, len(blocks), shown):
        return _over_blocks(task, blocks, own, constants, add, apart)


def _over_blocks(
    task: Callable[..., tuple[Any, Any]],
    blocks: Sequence[Any],
    own: Sequence[tuple[Any, ...]],
    constants: dict[str, Any],
    add: Callable[[list[Any]], Any],
    apart: bool,
) -> tuple[Any, list[Any]]:
    from dask import delayed

    shared = {name: delayed(value, traverse=False, pure=False) for name, value in constants.items()}
    step, run = delayed(partial(_step, task, add), nout=2, pure=False), uuid4().hex

    def taken(i: int, before: Any) -> Any:
        return step(before, blocks[i], *own[i], **shared, dask_key_name=f"{task.__name__}-{run}-{i}")

    if apart:
        pairs = [computed(taken(i, None)) for i in range(len(blocks))]
        return add([one[0] for one in pairs]), [one[1] for one in pairs]
    budget = Budget.now()
    sums, kept = _along(taken, len(blocks), _LANES * budget.tasks * budget.workers)
    summed = delayed(partial(_added, add), pure=False)
    while len(sums) > 1:
        sums = [summed(sums[i : i + _BRANCHES]) for i in range(0, len(sums), _BRANCHES)]
    total, found = computed((sums[0], kept))
    return total, found


def _step(
    task: Callable[..., tuple[Any, Any]], add: Callable[[list[Any]], Any], before: Any, *what: Any, **how: Any
) -> Any:
    """The sum up to a block, from that before it, and what is kept of the block."""
    found, kept = task(*(one() if isinstance(one, Reading) else one for one in what), **how)
    return found if before is None else add([found, before]), kept


def _added(add: Callable[[list[Any]], Any], parts: list[Any]) -> Any:
    """The sum of what others may hold too."""
    return add([deepcopy(parts[0]), *parts[1:]])


def nothing(_: list[Any]) -> None:
    """The sum of blocks of which only what is kept counts."""


def _along(taken: Callable[[int, Any], Any], blocks: int, lanes: int) -> tuple[list[Any], list[Any]]:
    """Sums at the ends of so many lanes of neighbouring blocks, and what is kept of all blocks."""
    sums, kept = [], []
    for lane in np.array_split(np.arange(blocks), min(lanes, blocks)):
        before = None
        for i in lane.tolist():
            before, mine = taken(i, before)
            kept.append(mine)
        sums.append(before)
    return sums, kept


@contextmanager
def passes_shown(tick: Tick) -> Iterator[None]:
    """Tell how many blocks are done inside a `with` block. Of a cluster, its dashboard tells that."""
    before = _tick.set(tick)
    try:
        yield
    finally:
        _tick.reset(before)


@contextmanager
def _counted(task: str, blocks: int, shown: str) -> Iterator[None]:
    tick = _tick.get()
    if tick is None or not shown:
        yield
        return
    from dask.callbacks import Callback

    done = 0

    def ended(key: Any, *_: Any) -> None:
        nonlocal done
        if str(key).startswith(task):
            done += 1
            tick(shown, done, blocks)

    tick(shown, 0, blocks)
    with Callback(posttask=ended):
        yield


def computed(collection: Any) -> Any:
    """Compute with the user's scheduler; where that is lost, say so in one sentence."""
    import dask

    if _client() is None:
        with single_threaded(place_of(None), Budget.now().tasks > 1):
            return dask.compute(collection)[0]
    with _losses_said(), dask.config.set({"distributed.admin.large-graph-warning-threshold": "10GB"}):
        return dask.compute(collection)[0]


def kept_on_workers(values: Sequence[Any]) -> list[Any]:
    """Delayed values that workers hold, spread over them, as long as what is returned is held here.

    The scheduler keeps them too: those of a worker that dies are sent again.
    """
    import dask

    client = _client()
    with _losses_said(), dask.config.set({"distributed.admin.large-graph-warning-threshold": "10GB"}):
        return [client.persist(dask.delayed(value, traverse=False, pure=False)) for value in values]


@contextmanager
def _losses_said() -> Iterator[None]:
    """What a lost cluster raises, in one sentence."""
    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    try:
        yield
    except KilledWorker as error:
        raise LostCluster(f"A task has killed several Dask workers, perhaps for want of memory: {error}") from error
    except (CommClosedError, OSError, TimeoutError) as error:
        if not isinstance(error, CommClosedError) and (client := _client()) and client.status == "running":
            raise  # of a task: a file that is not there, a disk that is full
        raise LostCluster(f"The Dask scheduler was lost ({type(error).__name__}): start again.") from error
    except BaseException as error:
        if type(error).__name__ in ("CancelledError", "FutureCancelledError", "FuturesCancelledError"):
            raise LostCluster("The Dask scheduler was lost, or the work was cancelled: start again.") from error
        raise


def _client() -> Any:
    """The user's client, where there is one that computes; None for threads."""
    import sys

    import dask

    if "distributed" not in sys.modules or dask.config.get("scheduler", None) not in (None, "dask.distributed"):
        return None
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        return None


def _workers(client: Any) -> list[dict[str, Any]]:
    """What the scheduler knows of the workers. Where all were killed, another is waited for."""
    if not (found := client.scheduler_info(n_workers=-1)["workers"]):
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError as error:
            said = "The Dask cluster has no workers: wait for them with client.wait_for_workers(1)."
            raise LostCluster(said) from error
        found = client.scheduler_info(n_workers=-1)["workers"]
    return list(found.values())


def _free() -> int:
    """Bytes of memory that are free on this machine."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found = {line.split(":")[0]: int(line.split()[1]) << 10 for line in file if line.endswith("kB\n")}
        return min(found["MemAvailable"], machine_bytes() or found["MemAvailable"])
    except (OSError, KeyError):
        return (machine_bytes() or 1 << 32) // 2
