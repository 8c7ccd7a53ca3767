"""A server for an application: bound to an address, stopped by a signal, requests in flight answered first."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from pcarann.serving.limits import Limits
from pcarann.serving.protocol import bounded

__all__ = ["address", "bound", "configured", "run"]

_BACKLOG = 1024
_KEEP_ALIVE = 15  # seconds that a connection may be idle


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
    """Serve until SIGINT or SIGTERM, then answer what is in flight, for as long as a request may take."""
    started()
    with _quiet_signals():
        uvicorn.Server(configured(app, limits)).run(sockets=[listener])


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
        timeout_keep_alive=_KEEP_ALIVE,
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
