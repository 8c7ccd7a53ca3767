"""Connections that are given up: HTTP as uvicorn speaks it, with limits on those who are slow.

A client may send its request byte by byte, or none at all, or never read its answer. Each costs a connection and some
memory for as long as it likes, unless somebody looks at the clock.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pcarann.serving.limits import OWN_PAGES, Limits

__all__ = ["bounded"]

_SPARE = 1.25  # times the limit: before, the application itself can say that a request is late


def bounded(limits: Limits) -> type[H11Protocol]:
    """The protocol with these limits."""
    return type("Bounded", (_Bounded,), {"limits": limits})


class _Bounded(H11Protocol):  # type: ignore[misc]
    limits: ClassVar[Limits]

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None
        self._silent: asyncio.TimerHandle | None = None
        if len(self.connections) > self.limits.connections:
            most = f"There are {self.limits.connections} connections, the most at a time: try again."
            self._say(b"503 Service Unavailable", most, b"retry-after: 1\r\n")
        else:
            self._reading = self._later(self._reading)
            self._silent = self.loop.call_later(self.limits.idle, self._left_waiting)

    def connection_lost(self, exc: Exception | None) -> None:
        self._reading, self._writing = _stopped(self._reading), _stopped(self._writing)
        self._silent = _stopped(self._silent)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._follow()
        self._listen()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._follow()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._follow()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing = self._later(self._writing)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._writing = _stopped(self._writing)

    def send_400_response(self, msg: str) -> None:
        most = f"The request is not HTTP/1.1, or its head has more than {self.limits.header} bytes."
        self._say(b"400 Bad Request", most)

    def _say(self, status: bytes, why: str, more: bytes = b"") -> None:
        """Answer what no application was asked, and close."""
        body = json.dumps({"error": why}).encode()
        head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n"
        head += b"%s: %s\r\n" % OWN_PAGES + b"%s\r\n"
        self.transport.write(head % (status, len(body), more) + body)
        self.transport.close()

    def _follow(self) -> None:
        """Look at the clock while a request comes in, and after the end of all."""
        begun = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if begun or self.conn.their_state is h11.SEND_BODY or self.transport.is_closing():
            self._reading = self._later(self._reading)
        else:
            self._reading = _stopped(self._reading)

    def _listen(self) -> None:
        """Wait for more of a request: for the next bytes of a body, and for the whole of a head."""
        state = self.conn.their_state
        if state is h11.IDLE and self._silent is not None:
            return
        self._silent = _stopped(self._silent)
        if state is h11.SEND_BODY or (state is h11.IDLE and self.conn.trailing_data[0]):
            self._silent = self.loop.call_later(self.limits.idle, self._left_waiting)

    def _left_waiting(self) -> None:
        """Close a connection that was silent for too long; who has sent a part of a body is told why."""
        self._silent = None
        if self.conn.their_state is not h11.SEND_BODY:
            self._given_up()
        elif self.flow.read_paused:  # nobody listens: it is our turn
            self._listen()
        elif self.cycle is None or not self.cycle.response_started:
            self._say(b"408 Request Timeout", f"No byte of the request came for {self.limits.idle:g} s.")
        else:
            self._given_up()

    def _later(self, timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle:
        """Give the connection up after the limit, counted from the first time that this is said."""
        return timer or self.loop.call_later(_SPARE * self.limits.seconds, self._given_up)

    def _given_up(self) -> None:
        transport: Any = self.transport
        transport.abort()


def _stopped(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """No timer any more."""
    if timer is not None:
        timer.cancel()
    return None
