"""A server for an application: bound to an address, stopped by a signal, requests in flight answered first."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from pcarann.serving.limits import Limits
from pcarann.serving.protocol import bounded

__all__ = ["address", "bound", "configured", "run"]

_BACKLOG = 1024
_SPARE = 1.0  # seconds that threads have to end, when all is answered

logger = logging.getLogger("pcarann.serving")


def bound(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 takes one that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise OSError(f"{host} port {port} cannot be served: {error.strerror or error}.") from error
    # Connections inherit it. Without it the second packet of an answer waits 40 ms until the first is acknowledged.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def address(listener: socket.socket) -> str:
    """Of a socket, as it is typed into a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(app: Any, listener: socket.socket, limits: Limits, started: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGINT or SIGTERM, then answer what is in flight, for as long as a request may take.

    Then the process ends, whatever its threads do: a prediction that nobody waits for does not keep it.
    """
    started()
    server = _Server(configured(app, limits))
    with _quiet_signals():
        server.run(sockets=[listener])
    until = time.monotonic() + _SPARE
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                _end()
    server.stopped()


class _Server(uvicorn.Server):  # type: ignore[misc]
    """With an end, also where something holds the event loop or its threads."""

    _ending: threading.Timer | None = None

    def handle_exit(self, sig: int, frame: Any) -> None:
        super().handle_exit(sig, frame)
        if self._ending is None:
            self._ending = threading.Timer(self.config.timeout_graceful_shutdown + 2 * _SPARE, _end)
            self._ending.daemon = True
            self._ending.start()

    def stopped(self) -> None:
        """All ended by itself."""
        if self._ending is not None:
            self._ending.cancel()


def _end() -> None:
    logger.warning("The server ends while threads of it still work.")
    logging.shutdown()
    os._exit(0)


def configured(app: Any, limits: Limits) -> uvicorn.Config:
    """How uvicorn is to serve an application."""
    return uvicorn.Config(
        app,
        http=bounded(limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=limits.header,
        timeout_keep_alive=max(1, round(limits.idle)),
        timeout_graceful_shutdown=max(1, round(limits.seconds)),
        backlog=_BACKLOG,
    )


@contextmanager
def _quiet_signals() -> Iterator[None]:
    """Let signals end a server, not the process: uvicorn raises them once more when it has stopped."""
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(kind, lambda *_: None) for kind in kinds]
    try:
        yield
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)
