"""The application that a server runs: routes on one service, behind a guard."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.routing import BaseRoute, Router

from pcarann.backend.arrays import place_of
from pcarann.backend.concurrency import cores, single_threaded
from pcarann.loading import load
from pcarann.serving.guards import HEALTH, LOCAL, Guard, Rules, Wording
from pcarann.serving.heard import listening
from pcarann.serving.inference import Inference
from pcarann.serving.limits import Limits
from pcarann.serving.service import Service
from pcarann.serving.shelf import Shelf, named

__all__ = ["Addition", "application"]

logger = logging.getLogger("pcarann.serving")


@dataclass(frozen=True)
class Addition:
    """Further routes on the same service."""

    routes: Callable[[Service], Sequence[BaseRoute]]
    open: tuple[str, ...] = ()
    """Paths that need no token"""
    worded: Mapping[str, Wording] = field(default_factory=dict)
    """How refusals are said at some paths"""


def application(
    models: Iterable[Path],
    *,
    limits: Limits | None = None,
    token: str | None = None,
    hosts: Collection[str] | None = LOCAL,
    additions: Sequence[Addition] = (),
    open_model: Callable[[Path], Any] = load,
    poll: float = 1.0,
) -> Guard:
    """An ASGI application that answers for model files, each by its name.

    It may be called by the names in `hosts`, or by any for None. Files are looked at every `poll` seconds.
    """
    limits = limits or Limits()
    service = Service(Shelf(named(models), open=open_model), limits, workers=cores())
    routes = [*Inference(service).routes(), *(route for one in additions for route in one.routes(service))]

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        # Predictions run side by side, one on each core: threads of linear algebra would only wait for each other.
        with listening(), single_threaded(place_of(None)):
            watching = asyncio.create_task(_watch(service.shelf, poll))
            try:
                yield
            finally:  # however it ends
                watching.cancel()
                service.close()

    names = None if hosts is None else {one.lower() for one in hosts}
    rules = Rules(token, names, (*HEALTH, *(path for one in additions for path in one.open)))
    worded = {path: wording for one in additions for path, wording in one.worded.items()}
    return Guard(Router(routes, lifespan=lifespan), service, rules, worded)


async def _watch(shelf: Shelf, poll: float) -> None:
    """Look at the files now and then, in a thread."""
    while True:
        await asyncio.sleep(poll)
        try:
            await asyncio.to_thread(shelf.look)
        except Exception:
            logger.exception("Model files could not be looked at.")
