"""The explorer on a server: the page at /, its scripts and styles, and portraits of the models.

    /?model=NAME                the page, of the first model where none is named
    /explore/FILE               what it is made of
    /explore/models             {"models": [NAME, …]}
    /explore/portrait/NAME      what the page needs to know of a model

The page may load nothing from elsewhere, and nothing in it is executed that did not come from here.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pcarann.explorer.portrait import portrait
from pcarann.serving.app import Addition
from pcarann.serving.guards import as_json
from pcarann.serving.service import Service
from pcarann.serving.shelf import Entry

__all__ = ["assets", "explorer"]

_KINDS = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "html": "text/html"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def assets() -> dict[str, str]:
    """Page, scripts and styles by name."""
    found = [one for one in files("pcarann.explorer").iterdir() if one.name.rpartition(".")[2] in _KINDS]
    return {one.name: one.read_text(encoding="utf-8") for one in sorted(found, key=lambda one: one.name)}


def explorer() -> Addition:
    """Routes of the explorer; what holds nothing of a model needs no token, so that a browser can ask for one."""
    texts = assets()
    pages = {"/": texts.pop("page.html")} | {f"/explore/{name}": text for name, text in texts.items()}

    def routes(service: Service) -> list[Route]:
        fixed = [Route(path, _sending(text, path.rpartition(".")[2])) for path, text in pages.items()]
        site = _Portraits(service)
        return [*fixed, Route("/explore/models", site.models), Route("/explore/portrait/{name}", site.portrait)]

    return Addition(routes, tuple(pages))


def _sending(text: str, ending: str) -> Callable[[Request], Awaitable[Response]]:
    async def send(_: Request) -> Response:
        return Response(text, headers=_HEADERS, media_type=_KINDS.get(ending, "text/html"))

    return send


class _Portraits:
    """Documents of the models of a service, each made once for a version."""

    def __init__(self, service: Service):
        self.service = service
        self._made: dict[str, tuple[int, bytes]] = {}

    async def models(self, _: Request) -> Response:
        return as_json({"models": [entry.name for entry in self.service.shelf.entries]}, headers=_HEADERS)

    async def portrait(self, request: Request) -> Response:
        entry = self.service.shelf.entry(request.path_params["name"])
        document = self._known(entry) or await self.service.apart(lambda: self._portrayed(entry))
        return Response(document, headers=_HEADERS, media_type="application/json")

    def _known(self, entry: Entry) -> bytes:
        version, document = self._made.get(entry.name, (0, b""))
        return document if version == entry.version else b""

    def _portrayed(self, entry: Entry) -> bytes:
        document = self._known(entry) or _document(entry)  # another may have asked for it before
        self._made[entry.name] = entry.version, document
        return document


def _document(entry: Entry) -> bytes:
    return json.dumps(portrait(entry.model, entry.name, entry.path.name), allow_nan=False).encode()
