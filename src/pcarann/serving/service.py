"""What all routes of a server share: models, batches, limits and counters; and the one way to ask a model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from pcarann.backend.patience import GivenUp
from pcarann.serving.answers import Answer, Catalogue
from pcarann.serving.batching import Batcher
from pcarann.serving.counters import Counters, Labels, gauge_text
from pcarann.serving.limits import Admission, Limits, Refused, Ticket
from pcarann.serving.shelf import Entry, Shelf

__all__ = ["Service"]

Result = TypeVar("Result")
Values = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Service:
    """One of a server."""

    shelf: Shelf
    limits: Limits
    workers: int
    counters: Counters = field(default_factory=Counters)

    def __post_init__(self) -> None:
        self.admission = Admission(self.limits)
        self.batcher = Batcher(self.workers, self.limits.rows, self.counters.batch)
        self._clerks = ThreadPoolExecutor(2, thread_name_prefix="read")
        self._painter = ThreadPoolExecutor(1, thread_name_prefix="portray")
        self.shelf.told = self.counters.reloaded
        self.counters.gauges.append(self._gauges)

    async def ask(
        self,
        entry: Entry,
        arrays: Mapping[str, Values],
        wanted: Sequence[str] = (),
        parameters: Mapping[str, Any] | None = None,
        ticket: Ticket | None = None,
        as_text: Callable[[str], bool] = lambda name: False,
    ) -> Answer:
        """The outputs of a model that are wanted by name, for inputs by name; or a refusal.

        Parameters are `alpha`, `method` and, of a flow, `steps`. `as_text` says which outputs will be sent as JSON.
        """
        parameters = parameters or {}
        catalogue = self.catalogue(entry, parameters.get("steps"))
        question = catalogue.question(arrays, wanted, parameters)
        size = 8 * question.samples * catalogue.size(question.wanted)
        self.limits.refuse_answer(max(size, 8 * question.samples * catalogue.size_inside))
        texts = question.samples * catalogue.size(name for name in question.wanted if as_text(name))
        size += self.limits.text_bytes(texts)
        if ticket is not None:
            ticket.take(size)
        answer = await self._in_time(self.batcher.ask(catalogue, question), parameters.get("timeout"))
        self.counters.inputs.add(entry.name, by=question.samples)
        self.counters.outside.add(entry.name, by=answer.outside)
        self.counters.alarms.add(entry.name, by=int(bool(answer.said)))
        return answer

    async def aside(self, call: Callable[[], Result], size: int) -> Result:
        """Do what would keep all others waiting in a thread, where it is of such a size."""
        if size < 1 << 14:
            return call()
        return await asyncio.get_running_loop().run_in_executor(self._clerks, call)

    async def apart(self, call: Callable[[], Result]) -> Result:
        """Do what takes long, and is asked for rarely, in a thread of its own; or a refusal where it takes too long."""
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await asyncio.get_running_loop().run_in_executor(self._painter, call)
        except TimeoutError:
            raise _late(self.limits.seconds) from None

    def catalogue(self, entry: Entry, steps: Any = None) -> Catalogue:
        """What can be asked of a model; of a flow over so many steps, or a refusal."""
        if steps is None:
            return entry.catalogue
        if type(steps) is not int:
            raise Refused(400, "steps must be a whole number.")
        fitted = entry.catalogue.signature.steps
        if fitted is None:
            raise Refused(400, f"steps are those of a flow, but the model is a {type(entry.model).__name__}.")
        self.limits.refuse_steps(steps, fitted)
        return Catalogue.of(entry.model, steps)

    def close(self) -> None:
        """Let all threads end, when they are done."""
        self.batcher.close()
        self._clerks.shutdown(wait=False, cancel_futures=True)
        self._painter.shutdown(wait=False, cancel_futures=True)

    async def _in_time(self, answering: Any, microseconds: Any) -> Answer:
        """The answer within the limit, or within so many microseconds as clients may ask for."""
        seconds = self.limits.seconds
        if type(microseconds) is int and 0 < microseconds < 1e6 * seconds:
            seconds = microseconds / 1e6
        try:
            async with asyncio.timeout(seconds):
                found: Answer = await answering
                return found
        except TimeoutError:
            raise _late(seconds) from None
        except GivenUp:
            raise Refused(503, "The server is being stopped.") from None
        except MemoryError:
            raise Refused(413, "There is not enough memory for this answer: ask for less.") from None

    def _gauges(self) -> str:
        entries = self.shelf.entries
        inside: dict[Labels, float] = {(): self.admission.requests}
        versions: dict[Labels, float] = {(one.name,): one.version for one in entries}
        troubled: dict[Labels, float] = {(one.name,): bool(one.trouble) for one in entries}
        return "".join(
            [
                gauge_text("pcarann_waiting", "Requests that no worker has taken yet.", {(): self.batcher.waiting}),
                gauge_text("pcarann_requests_in_flight", "Requests that are being answered.", inside),
                gauge_text("pcarann_bytes_in_flight", "Their bodies and answers.", {(): self.admission.memory}),
                gauge_text("pcarann_model_version", "Files that a model was read from.", versions, ("model",)),
                gauge_text("pcarann_model_stale", "1 where its file cannot be read.", troubled, ("model",)),
            ]
        )


def _late(seconds: float) -> Refused:
    return Refused(504, f"There was no answer within {seconds:g} s: ask for less, or later.")
