"""One writer at a time.

Methods that change a model read its state, compute, and publish a new state. Two at once would both start from the old
one, and what the first published would be lost. Readers need no lock: they take the state that is there.
"""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["WriterLock", "writing"]


class WriterLock:
    """A lock that the thread which holds it may take again; a copy or an unpickled one is a new lock."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[WriterLock], tuple[()]]:
        return WriterLock, ()


def writing(model: Any) -> WriterLock:
    """The lock of a model, made when it is first asked for: an estimator may be made with its parameters alone."""
    lock: WriterLock = model.__dict__.setdefault("_writers", WriterLock())
    return lock
