"""Bodies of requests, read up to a limit, and of answers, sent piece by piece.

An answer that is sent at once would lie in memory for as long as its reader takes. Pieces wait until those before were
taken, and a reader who is too slow is left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pcarann.serving.limits import Limits, Refused, Ticket

__all__ = ["Pieces", "body_of"]

logger = logging.getLogger("pcarann.serving")

_PIECE = 1 << 18
_SLOWEST = 1 << 16  # bytes in a second that a reader has to take


async def body_of(request: Request, limits: Limits) -> bytes:
    """All bytes that were sent, or a refusal."""
    ticket: Ticket | None = request.scope.get("pcarann.ticket")
    declared = 0 if ticket is None else ticket.memory
    pieces, size = [], 0
    try:
        async with asyncio.timeout(limits.seconds):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise Refused(499, "The client went away before its request was whole.")
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                limits.refuse_body(size)
                if ticket is not None and size > declared:
                    ticket.take(size - declared)
                    declared = size
                if not message.get("more_body", False):
                    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    except TimeoutError:
        raise Refused(408, f"The request was not whole after {limits.seconds:g} s.") from None


class Pieces(Response):  # type: ignore[misc]
    """An answer made of several parts."""

    def __init__(self, parts: Sequence[Any], limits: Limits, headers: dict[str, str], media_type: str):
        super().__init__(b"", headers=headers, media_type=media_type)
        self.parts = [memoryview(part) for part in parts]
        self.size = sum(part.nbytes for part in self.parts)
        self.headers["content-length"] = str(self.size)
        self.seconds = limits.seconds + self.size / _SLOWEST

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async with asyncio.timeout(self.seconds):
                for part in self.parts:
                    for at in range(0, part.nbytes, _PIECE):
                        piece = bytes(part[at : at + _PIECE])
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            logger.warning("A reader took too long, and was left.")
