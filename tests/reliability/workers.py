"""Cases by the hundred thousand, in processes that may crash, hang, or run out of memory.

Each worker is a fork that takes every n-th case and says in shared memory which one it is at. Where it dies, or stays
at one case for too long, that case is recorded as a crash or a hang, and another worker goes on behind it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import resource
import signal
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

__all__ = ["ALLOWED", "Case", "Trial", "forks", "memory_beyond", "ran_out_of_memory", "tallied", "tried"]

ALLOWED = ("refused", "unchanged", "read", "another model", "refused by predict")
"""How a case may end; all else is a fault"""
_PAGE = resource.getpagesize()
_NOW = struct.Struct("qd")  # the case, and when it began


class Case(NamedTuple):
    """How one case ended."""

    index: int
    subject: str
    way: str
    outcome: str
    detail: str = ""


class Trial(Protocol):
    """Cases that can be made again from their numbers."""

    def plan(self, index: int) -> tuple[str, str]:
        """What is tried, and in which way it is changed."""
        ...

    def run(self, index: int, folder: Path) -> tuple[str, str]:
        """The outcome, and what was said."""
        ...


@contextlib.contextmanager
def memory_beyond(extra: int) -> Iterator[None]:
    """Let this process take so many bytes beyond those that it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", "rb") as file:
        taken = int(file.read().split()[0]) * _PAGE
    resource.setrlimit(resource.RLIMIT_AS, (taken + extra, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def ran_out_of_memory(error: BaseException | None) -> bool:
    """Whether memory was what an error comes from, whoever caught it, unless it says that nothing was."""
    while error is not None:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


@dataclass
class _Worker:
    """A fork, the cases that are its own, and where it is."""

    lane: int
    process: int
    now: Any

    @property
    def at(self) -> tuple[int, float]:
        """The case, and when it began."""
        return _NOW.unpack(self.now[: _NOW.size])


def forks(lane: int, work: Any) -> int:
    """Run a function in a fork, which ends with it."""
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        work(lane)
        status = 0
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        os._exit(status)


def tried(trial: Trial, count: int, folder: Path, *, workers: int, seconds: float) -> list[Case]:
    """Run all cases, each within so many seconds."""
    found: list[Case] = []
    active = [_started(trial, lane, lane, count, workers, folder) for lane in range(min(workers, count))]
    while active:
        time.sleep(0.02)
        for worker in list(active):
            ended, status = os.waitpid(worker.process, os.WNOHANG)
            index, began = worker.at
            outcome = f"crash ({_death(status)})" if ended and status else ""
            if not ended and time.monotonic() - began > seconds:
                os.kill(worker.process, signal.SIGKILL)
                os.waitpid(worker.process, 0)
                ended, outcome = worker.process, "hang"
            if not ended:
                continue
            active.remove(worker)
            if outcome:
                found.append(Case(index, *trial.plan(index), outcome))
                if index + workers < count:
                    active.append(_started(trial, worker.lane, index + workers, count, workers, folder))
    for log in sorted(folder.glob("log.*")):
        found += [_case(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return sorted(found)


def _started(trial: Trial, lane: int, first: int, count: int, workers: int, folder: Path) -> _Worker:
    now = mmap.mmap(-1, _NOW.size)
    now[: _NOW.size] = _NOW.pack(first, time.monotonic())

    def work(lane: int) -> None:
        own = folder / f"lane.{lane}"
        own.mkdir(exist_ok=True)
        silence = os.open(os.devnull, os.O_WRONLY)  # libraries in C write there what they think of a file
        os.dup2(silence, 2)
        log = os.open(folder / f"log.{lane}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for index in range(first, count, workers):
            now[: _NOW.size] = _NOW.pack(index, time.monotonic())
            subject, way = trial.plan(index)
            outcome, detail = trial.run(index, own)
            line = "\t".join([str(index), subject, way, outcome, " ".join(detail.split())[:300]])
            os.write(log, line.encode("utf-8", "replace") + b"\n")

    return _Worker(lane, forks(lane, work), now)


def _case(line: str) -> Case:
    index, subject, way, outcome, detail = line.split("\t", 4)
    return Case(int(index), subject, way, outcome, detail)


def _death(status: int) -> str:
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"


def tallied(cases: list[Case], most: int = 50) -> dict[str, Any]:
    """Cases by outcome, by subject and by way, and the first of those that should not have ended as they did."""
    faults = [case for case in cases if case.outcome not in ALLOWED]
    return {
        "cases": len(cases),
        "faults": len(faults),
        "outcomes": dict(Counter(case.outcome for case in cases).most_common()),
        "subjects": _by([(case.subject, case.outcome) for case in cases]),
        "ways": _by([(case.way, case.outcome) for case in cases]),
        "first_faults": [case._asdict() for case in faults[:most]],
    }


def _by(pairs: list[tuple[str, str]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (name, outcome), count in sorted(Counter(pairs).items()):
        found.setdefault(name, {})[outcome] = count
    return found
