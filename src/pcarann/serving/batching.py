"""Requests of the same kind to the same model, answered by one prediction.

While predictions run, questions gather; the next free worker takes all that go with the oldest one. Nobody waits for
others to come: a server at rest answers at once, and under load batches grow by themselves. A question of many samples
is answered by blocks of some 30 ms, each of which waits its turn, so that others are answered in between; while all
workers have many samples, a spare one answers those of few. Where a batch fails, each
of its questions is asked alone, so that a bad one fails by itself. What nobody waits for any more is forgotten, and a
prediction that runs for nobody is given up at its next block of samples or step.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from pcarann.backend.patience import GivenUp, as_long_as
from pcarann.serving.answers import Answer, Catalogue, Question, answered, joined_answers

__all__ = ["Batcher"]

Outcome = Answer | Exception

_BLOCK, _FEWEST = 256, 64  # samples of a block before it is known how long they take, and at least
_BLOCK_SECONDS = 0.03
_FEW = 16  # samples that a spare worker takes


@dataclass
class _Group:
    """Questions that go together, by who waits for them."""

    catalogue: Catalogue
    waiting: dict[asyncio.Future[Answer], Question] = field(default_factory=dict)

    @property
    def is_small(self) -> bool:
        """Whether all of it can be answered in next to no time"""
        return sum(one.samples for one in self.waiting.values()) <= _FEW


class Batcher:
    """Hands questions to threads, of which `workers` predict at a time, up to so many samples together.

    `told` is called after each prediction with the number of requests and samples in it, and its seconds.
    """

    def __init__(self, workers: int, rows: int, told: Any = None):
        self._workers, self._rows, self._told = workers, rows, told
        self._pool = ThreadPoolExecutor(workers + 1, thread_name_prefix="predict")
        self._pace: WeakKeyDictionary[Catalogue, float] = WeakKeyDictionary()  # seconds of a sample
        self._groups: dict[Any, _Group] = {}
        self._running, self._last_free, self._closed = 0, time.monotonic(), False
        self._large = 0  # of those that run, how many have more samples than a spare worker takes
        self._tasks: set[asyncio.Task[None]] = set()  # a loop alone does not keep them

    @property
    def waiting(self) -> int:
        """Questions that no worker has taken yet"""
        return sum(len(group.waiting) for group in self._groups.values())

    @property
    def stuck(self) -> float:
        """Seconds for which no worker has been free"""
        return time.monotonic() - self._last_free if self._running >= self._workers else 0.0

    async def ask(self, catalogue: Catalogue, question: Question) -> Answer:
        """The answer to a question, when its turn has come; one of many samples by blocks, others in between."""
        together = question.together
        if together is None or question.samples <= _BLOCK:
            return await self._asked(catalogue, question, together)
        answers, start = [], 0
        while start < question.samples:
            rows = slice(start, start + self._block(catalogue))
            answers.append(await self._asked(catalogue, question.part(rows), None))
            start = rows.stop
        return await asyncio.get_running_loop().run_in_executor(self._pool, joined_answers, answers)

    def _block(self, catalogue: Catalogue) -> int:
        """Samples that take a model about as long as others may wait."""
        pace = self._pace.get(catalogue)
        return _BLOCK if pace is None else min(max(int(_BLOCK_SECONDS / pace), _FEWEST), max(self._rows, _FEWEST))

    async def _asked(self, catalogue: Catalogue, question: Question, together: Any) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        key = (id(catalogue), together) if together is not None else object()
        self._groups.setdefault(key, _Group(catalogue)).waiting[future] = question
        self._dispatch()
        try:
            return await future
        finally:
            self._forget(key, future)

    def close(self) -> None:
        """Let the threads end, at the next block of samples or step."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _forget(self, key: Any, future: asyncio.Future[Answer]) -> None:
        """Take a question out that nobody waits for."""
        group = self._groups.get(key)
        if group is not None and group.waiting.pop(future, None) is not None and not group.waiting:
            del self._groups[key]

    def _dispatch(self) -> None:
        """Let free workers take the oldest groups; a spare one takes few samples while all others have many."""
        while self._groups and self._running <= self._workers:
            spare = self._running == self._workers
            if spare and self._large < self._workers:
                return
            keys = (key for key, group in self._groups.items() if not spare or group.is_small)
            key = next(keys, None)
            if key is None:
                return
            group = self._groups.pop(key)
            taken = self._cut(group.waiting)
            if group.waiting:  # behind those who came since
                self._groups[key] = group
            self._last_free = self._last_free if spare else time.monotonic()
            self._running += 1
            self._large += sum(one.samples for one in taken.values()) > _FEW
            task = asyncio.get_running_loop().create_task(self._run(group.catalogue, taken))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _cut(self, waiting: dict[asyncio.Future[Answer], Question]) -> dict[asyncio.Future[Answer], Question]:
        """Take out as many questions as may be answered together, one at least."""
        taken: dict[asyncio.Future[Answer], Question] = {}
        rows = 0
        for future, question in waiting.items():
            rows += question.samples
            if taken and rows > self._rows:
                break
            taken[future] = question
        for future in taken:
            del waiting[future]
        return taken

    async def _run(self, catalogue: Catalogue, taken: dict[asyncio.Future[Answer], Question]) -> None:
        questions, began = list(taken.values()), time.perf_counter()

        def wanted() -> bool:
            return not self._closed and not all(future.done() for future in taken)

        loop = asyncio.get_running_loop()
        try:
            outcomes = await loop.run_in_executor(self._pool, _outcomes, catalogue, questions, wanted)
        finally:
            self._running -= 1
            self._large -= sum(one.samples for one in questions) > _FEW
            self._dispatch()
        seconds, samples = time.perf_counter() - began, sum(one.samples for one in questions)
        if samples >= _FEWEST:
            self._pace[catalogue] = seconds / samples
        if self._told is not None:
            self._told(len(questions), samples, seconds)
        for future, outcome in zip(taken, outcomes, strict=True):
            if not future.done():
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)


def _outcomes(catalogue: Catalogue, questions: Sequence[Question], wanted: Callable[[], bool]) -> Sequence[Outcome]:
    try:
        with as_long_as(wanted):
            return answered(catalogue, questions)
    except Exception as error:
        if len(questions) == 1 or isinstance(error, GivenUp):
            return [error] * len(questions)
        return [_outcomes(catalogue, [one], wanted)[0] for one in questions]
