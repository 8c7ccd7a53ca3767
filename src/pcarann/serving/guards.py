"""What a request passes before anything is done for it, and what becomes of one that fails.

A page on the web can make a browser send requests to a server on the same machine, by its address or by a name that it
lets point there. So a server that is bound to the machine itself answers only where it was called by such a name, and
no server answers a page of another origin, which browsers name in Origin or, where they send none, in Sec-Fetch-Site;
and no answer may be embedded by such a page (Cross-Origin-Resource-Policy). A token, where one is set, is compared in
constant time. What a client asked for who then went away is given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import Response

from pcarann.serving.limits import OWN_PAGES, Refused
from pcarann.serving.service import Service

__all__ = ["HEALTH", "LOCAL", "Guard", "Rules", "Wording", "as_error", "as_json"]

logger = logging.getLogger("pcarann.serving")

Wording = Callable[[Refused], Response]
"""How a refusal is said"""

LOCAL = ("localhost", "127.0.0.1", "::1")
"""Names of the machine itself"""
HEALTH = ("/v2/health/live", "/v2/health/ready")
"""Paths that are open to all, and never refused for want of room"""
_PAUSE = 1.0  # seconds without a byte, after which a client who was refused waits for the answer
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::\d{1,5})?", re.ASCII)
_ONCE = (
    b"authorization",
    b"content-encoding",
    b"content-length",
    b"host",
    b"inference-header-content-length",
    b"origin",
    b"sec-fetch-site",
)
_KINDS = {
    400: "malformed",
    401: "unauthorised",
    403: "forbidden",
    404: "unknown",
    405: "method",
    499: "gone",
    408: "slow",
    413: "too_large",
    415: "encoding",
    431: "too_large",
    503: "busy",
    504: "late",
    500: "failed",
}


@dataclass(frozen=True)
class Rules:
    """Who is let in."""

    token: str | None = None
    hosts: Collection[str] | None = None
    """Names that the server may be called by; None for any"""
    open: Collection[str] = HEALTH
    """Paths that need no token"""

    def check(self, path: str, headers: Mapping[bytes, bytes]) -> None:
        """Refuse who is not."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self.hosts is not None and path not in HEALTH and _name(host) not in self.hosts:
            raise Refused(403, "The server does not go by the name that stands in Host: see --allow-host.")
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        elsewhere = headers.get(b"sec-fetch-site", b"").strip().lower() == b"cross-site"
        if elsewhere or (origin and not _of_host(origin, host)):
            raise Refused(403, "Requests of a page from elsewhere are not answered.")
        if self.token is not None and path not in self.open:
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self.token.encode()):
                raise Refused(401, "A bearer token is needed, and it must be right.", {"WWW-Authenticate": "Bearer"})


def _name(host: str) -> str:
    """The name in a Host header, without its port.

    >>> _name("localhost:8000"), _name("[::1]:8000"), _name("::1")
    ('localhost', '::1', '')
    """
    found = _HOST.fullmatch(host)
    return "" if found is None else found[1] or found[2]


def _of_host(origin: str, host: str) -> bool:
    """Whether a page comes from the server itself."""
    try:
        return urlsplit(origin).netloc == host
    except ValueError:
        return False


def _single(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Headers by name; a refusal where one stands twice that may stand once."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in found and name in _ONCE:
            raise Refused(400, f"The header {name.decode('latin-1')} stands twice in the request.")
        found[name] = value
    return found


def as_json(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON document as an answer."""
    return Response(json.dumps(document), status, dict(headers or {}), "application/json")


def as_error(refused: Refused) -> Response:
    """A refusal as JSON: {"error": sentence}."""
    return as_json({"error": refused.why}, refused.status, refused.headers)


class _Call:
    """A request and its answer as they come and go."""

    def __init__(self, receive: Any, send: Any):
        self._receive, self._send = receive, send
        self.status, self.whole, self.sent, self._gone = 0, False, False, False
        self._listening: asyncio.Task[None] | None = None
        self._answering = asyncio.current_task()

    async def receive(self) -> Any:
        """What the client sends; when that is all, listen whether it goes away."""
        message = await self._receive()
        self.whole = not message.get("more_body", False)
        if self.whole and self._listening is None:
            self._listening = asyncio.create_task(self._listen())
        return message

    async def send(self, message: Any) -> None:
        """Send a piece of the answer."""
        self.status = message.get("status", self.status)
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), OWN_PAGES]}
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if last and self._listening is not None:
            await asyncio.sleep(0)  # let the listener say that nobody took what was sent before
        await self._send(message)
        self.sent = self.sent or (last and not self._gone)

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """End what is done inside when the client goes away."""
        try:
            yield
        except asyncio.CancelledError:
            if not self._gone or self._answering is None or self._answering.uncancel():
                raise
        finally:
            if self._listening is not None:
                self._listening.cancel()

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self.sent and self._answering is not None:
            self._gone = True
            self._answering.cancel()


class Guard:
    """An application behind rules and limits, whose failures are JSON, at some paths worded in another way."""

    def __init__(self, app: Any, service: Service, rules: Rules, worded: Mapping[str, Wording] | None = None):
        self.app, self.service, self.rules, self.worded = app, service, rules, worded or {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request, or begin and end."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1003})
        else:
            await self._http(scope, receive, send)

    async def _http(self, scope: Any, receive: Any, send: Any) -> None:
        began, call = time.perf_counter(), _Call(receive, send)
        scope["app"] = self  # so that routes raise what they refuse
        ticket = None
        try:
            self.service.limits.refuse_head(_head_size(scope))
            headers = _single(scope["headers"])
            self.rules.check(scope["path"], headers)
            if scope["path"] not in HEALTH and scope["path"] != "/metrics":
                ticket = scope["pcarann.ticket"] = self.service.admission.enter(self._declared(headers))
            with call.followed():
                await self.app(scope, call.receive, call.send)
        except Exception as error:
            if call.status:  # it was being sent
                logger.exception("An answer was broken off.")
                raise
            if not call.whole and _closes(scope):
                await _taken_in(receive, self.service.limits.seconds)
            await self.worded.get(scope["path"], as_error)(_refused(error))(scope, receive, call.send)
        finally:
            if ticket is not None:
                ticket.leave()
            self._count(scope, call.status if call.sent else 499, time.perf_counter() - began)

    def _declared(self, headers: Mapping[bytes, bytes]) -> int:
        """The size that a body is said to have, 0 where it is not said; or a refusal."""
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Refused(415, "Bodies that are compressed are not taken: send them as they are.")
        length = headers.get(b"content-length", b"0")
        size = int(length) if length.isdigit() and len(length) < 20 else 0
        self.service.limits.refuse_body(size)
        return size

    def _count(self, scope: Any, status: int, seconds: float) -> None:
        counters = self.service.counters
        route, model = scope.get("pcarann.counted", ("other", ""))
        counters.requests.add(route, model, str(status))
        if status >= 400:
            counters.errors.add(_KINDS.get(status, str(status)))
        elif route == "infer":
            counters.seconds.add(seconds, model)


def _head_size(scope: Any) -> int:
    """Bytes of the request line and of the header fields."""
    target = scope.get("raw_path") or scope["path"].encode()
    line = len(scope["method"]) + len(target) + len(scope.get("query_string", b""))
    return line + sum(len(name) + len(value) for name, value in scope["headers"])


def _closes(scope: Any) -> bool:
    """Whether the connection ends with the answer, and a body is on its way."""
    headers = dict(scope["headers"])
    ends = headers.get(b"connection", b"").lower() == b"close" or scope.get("http_version") == "1.0"
    return ends and b"expect" not in headers


async def _taken_in(receive: Any, seconds: float) -> None:
    """Let a client finish, and forget what it sends: who is cut off while sending does not get to read why."""
    until, more = time.monotonic() + seconds, True
    with contextlib.suppress(TimeoutError):
        while more and time.monotonic() < until:
            async with asyncio.timeout(min(_PAUSE, seconds)):
                more = (await receive()).get("more_body", False)


def _refused(error: Exception) -> Refused:
    if isinstance(error, Refused):
        return error
    if isinstance(error, HTTPException):
        why = {404: "There is nothing here: see /v2.", 405: "This address takes another method."}
        return Refused(error.status_code, why.get(error.status_code, error.detail), error.headers)
    logger.error("A request failed.", exc_info=error)
    return Refused(500, "The server failed at this request; its log says why.")
