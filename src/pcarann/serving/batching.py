"""Requests of the same kind to the same model, answered by one prediction.

While predictions run, questions gather; the next free worker takes all that go with the oldest one. Nobody waits for
others to come: a server at rest answers at once, and under load batches grow by themselves. Where a batch fails, each
of its questions is asked alone, so that a bad one fails by itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pcarann.serving.answers import Answer, Catalogue, Question, answered

__all__ = ["Batcher"]

Outcome = Answer | Exception


@dataclass
class _Group:
    """Questions that go together, each with who waits for it."""

    catalogue: Catalogue
    waiting: list[tuple[Question, asyncio.Future[Answer]]] = field(default_factory=list)


class Batcher:
    """Hands questions to threads, of which `workers` predict at a time, up to so many samples together.

    `told` is called after each prediction with the number of requests and samples in it, and its seconds.
    """

    def __init__(self, workers: int, rows: int, told: Any = None):
        self._workers, self._rows, self._told = workers, rows, told
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="predict")
        self._groups: dict[Any, _Group] = {}
        self._running = 0
        self._tasks: set[asyncio.Task[None]] = set()  # a loop alone does not keep them

    @property
    def waiting(self) -> int:
        """Questions that no worker has taken yet"""
        return sum(len(group.waiting) for group in self._groups.values())

    async def ask(self, catalogue: Catalogue, question: Question) -> Answer:
        """The answer to a question, when its turn has come."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        together = question.together
        key = (id(catalogue), together) if together is not None else object()
        self._groups.setdefault(key, _Group(catalogue)).waiting.append((question, future))
        self._dispatch()
        return await future

    def close(self) -> None:
        """Let the threads end, when they are done."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _dispatch(self) -> None:
        while self._running < self._workers and self._groups:
            key = next(iter(self._groups))
            group = self._groups.pop(key)
            taken, left = self._cut([one for one in group.waiting if not one[1].done()])
            if left:  # behind those who came since
                self._groups[key] = _Group(group.catalogue, left)
            if taken:
                self._running += 1
                task = asyncio.get_running_loop().create_task(self._run(group.catalogue, taken))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _cut(self, waiting: list[Any]) -> tuple[list[Any], list[Any]]:
        """As many questions as may be answered together, one at least, and the others."""
        rows = 0
        for n, (question, _) in enumerate(waiting):
            rows += question.samples
            if n and rows > self._rows:
                return waiting[:n], waiting[n:]
        return waiting, []

    async def _run(self, catalogue: Catalogue, taken: list[tuple[Question, asyncio.Future[Answer]]]) -> None:
        questions, began = [one for one, _ in taken], time.perf_counter()
        try:
            outcomes = await asyncio.get_running_loop().run_in_executor(self._pool, _outcomes, catalogue, questions)
        finally:
            self._running -= 1
            self._dispatch()
        if self._told is not None:
            self._told(len(questions), sum(one.samples for one in questions), time.perf_counter() - began)
        for (_, future), outcome in zip(taken, outcomes, strict=True):
            if not future.done():
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)


def _outcomes(catalogue: Catalogue, questions: Sequence[Question]) -> Sequence[Outcome]:
    try:
        return answered(catalogue, questions)
    except Exception as error:
        if len(questions) == 1:
            return [error]
        return [_outcomes(catalogue, [one])[0] for one in questions]
