"""Work that can be given up: long loops look, between two steps or blocks, whether anybody still wants what they make.

    with as_long_as(wanted):        wanted() is asked now and then
        model.predict(X)            ends by GivenUp where it says no

Threads cannot be stopped from outside. Without `as_long_as` nothing is asked, and nothing is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["GivenUp", "as_long_as", "look_up"]

_wanted: ContextVar[Callable[[], bool] | None] = ContextVar("wanted", default=None)


class GivenUp(Exception):
    """Nobody wants the result any more."""


@contextmanager
def as_long_as(wanted: Callable[[], bool]) -> Iterator[None]:
    """Let work inside go on as long as this is true."""
    token = _wanted.set(wanted)
    try:
        yield
    finally:
        _wanted.reset(token)


def look_up() -> None:
    """Give up here where nobody wants the result any more."""
    wanted = _wanted.get()
    if wanted is not None and not wanted():
        raise GivenUp("Nobody wants the result any more.")
