"""What a server takes on: how large, how many, how long. What is more is refused in one sentence.

Memory is bounded by what is admitted: so many requests at a time, and so many bytes of bodies and answers together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["OWN_PAGES", "Admission", "Limits", "Refused", "Ticket"]

OWN_PAGES = (b"cross-origin-resource-policy", b"same-origin")
"""Header of every answer: pages from elsewhere may not embed it"""

_LONGER = 100  # times the steps of a fit that are taken, unless told
_OBJECTS = 8  # bytes that JSON takes as objects, for each of its own
_DIGITS = 26  # bytes of a number in JSON, with its comma, at most


class Refused(Exception):
    """A request that is not answered, with the status and the sentence that say why."""

    def __init__(self, status: int, why: str, headers: Mapping[str, str] | None = None):
        super().__init__(why)
        self.status, self.why, self.headers = status, why, dict(headers or {})


@dataclass(frozen=True)
class Limits:
    """All of them."""

    body: int = 64 << 20
    """Bytes of one request"""
    json: int = 16 << 20
    """Bytes of its JSON, which takes many times its size to read"""
    answer: int = 256 << 20
    """Bytes of one answer"""
    text: int = 64 << 20
    """Bytes of its JSON, which takes long to write"""
    steps: int | None = None
    """Of a roll-out; None for 100 times those of its fit"""
    requests: int = 256
    """At a time, those that wait included"""
    memory: int = 1 << 30
    """Bytes of bodies and answers at a time"""
    connections: int = 1024
    """At a time, idle ones included"""
    header: int = 16 << 10
    """Bytes of a request's head, its first line included"""
    idle: float = 15.0
    """Seconds that a connection may be silent, and that the head of a request may take"""
    seconds: float = 60.0
    """From the first byte of a request to its answer, and for a reader to take what was sent"""
    rows: int = 4096
    """Samples that are predicted together, those of one request or of several"""

    def refuse_body(self, size: int) -> None:
        """Refuse a body of so many bytes, or more."""
        if size > self.body:
            raise Refused(
                413, f"The body has more than {self.body} bytes, the most that are taken: send fewer samples."
            )

    def refuse_head(self, size: int) -> None:
        """Answer 431 to a head that is too long."""
        if size > self.header:
            raise Refused(431, f"The head of the request has more than {self.header} bytes, the most that are taken.")

    def refuse_answer(self, size: int) -> None:
        """Refuse to make an answer of so many bytes."""
        if size > self.answer:
            found = f"The answer would have {size} bytes, more than {self.answer}"
            raise Refused(413, f"{found}: ask for fewer samples, steps or outputs.")

    def text_bytes(self, values: int) -> int:
        """Bytes of so many numbers as JSON, or a refusal."""
        if _DIGITS * values > self.text:
            found = f"The answer has {values} numbers, more than the {self.text // _DIGITS} that are sent as JSON"
            raise Refused(413, f"{found}: ask for binary data, or for fewer samples.")
        return _DIGITS * values

    def refuse_steps(self, steps: int, fitted: int) -> None:
        """Refuse a roll-out over so many steps of a flow that was fitted to so many."""
        most = _LONGER * fitted if self.steps is None else self.steps
        if not 1 <= steps <= most:
            raise Refused(400, f"steps must be a whole number from 1 to {most}.")


@dataclass
class Admission:
    """Who is inside."""

    limits: Limits
    requests: int = 0
    memory: int = 0

    def enter(self, size: int) -> Ticket:
        """Admit a request with a body of so many bytes, or refuse it for now."""
        if self.requests >= self.limits.requests:
            raise _busy(f"{self.requests} requests are being answered")
        ticket = Ticket(self)
        ticket.take(size)
        self.requests += 1
        return ticket


@dataclass
class Ticket:
    """Of a request that was admitted; handed back when its answer is sent."""

    admission: Admission
    memory: int = field(default=0)

    def take(self, size: int) -> None:
        """Hold so many bytes more, or be refused."""
        inside = self.admission
        if inside.memory + size > inside.limits.memory:
            raise _busy(f"Requests of {inside.memory} bytes are being answered")
        inside.memory += size
        self.memory += size

    def take_parsed(self, size: int) -> None:
        """Hold what so many bytes of JSON take as objects, or be refused."""
        self.take(_OBJECTS * min(size, self.admission.limits.json))

    def leave(self) -> None:
        """Hand back all that was held."""
        self.admission.memory -= self.memory
        self.admission.requests -= 1
        self.memory = 0


def _busy(why: str) -> Refused:
    return Refused(503, f"{why}, the most at a time: try again.", {"Retry-After": "1"})
