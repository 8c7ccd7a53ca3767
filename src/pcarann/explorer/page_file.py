"""The page of a model as one file, which needs no server, to be mailed: styles, scripts and the model itself are in it.

Nothing is loaded and nothing can be asked for: the page forbids itself every source but its own script and styles, by
their hashes. What comes from the model, names among it, stands in blocks of JSON without a single `<`, so that no name
can end one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib.resources import files
from typing import Any

from pcarann import __version__
from pcarann.explorer.bundle import bundled
from pcarann.explorer.offline import offline
from pcarann.explorer.portrait import portrait

__all__ = ["LIMIT", "MARK", "page_file"]

LIMIT = 25_000_000
"""Bytes of a file that can be mailed"""
MARK = '<meta name="generator" content="pcarann explore '
"""By which such files are known"""

_ENTRY = "mailed.js"
_HEAD = '<meta charset="utf-8">'
_STYLE = re.compile(r'<link rel="stylesheet" href="(?:\w+/)*([\w.]+)">')
_ICON = re.compile(r'(<link rel="icon" href=)"(?:\w+/)*([\w.]+)"')
_SCRIPT = re.compile(r'\s*<script type="module" src="[^"]*"></script>')


def page_file(model: Any, name: str = "model", file: str | None = None, *, limit: float = LIMIT) -> str:
    """The page of a fitted surrogate that is called so, or a refusal where it has more than so many bytes."""
    told = portrait(model, name, file)
    inside = offline(model, told["alphas"])
    told["novelty"] = all("novelty" in names for names in inside["outputs"].values())
    blocks = {"portrait": told, "model": inside}
    data = "".join(
        f'<script type="application/json" id="{key}">{_quoted(one)}</script>\n' for key, one in blocks.items()
    )
    script, style, page = bundled(_ENTRY, _read), "", _read("page.html")
    for found in _STYLE.finditer(page):
        style += _read(found[1])
    page = _ICON.sub(lambda found: f'{found[1]}"data:image/svg+xml;base64,{_base64(_read(found[2]))}"', page)
    page = _SCRIPT.sub("", _STYLE.sub("", page))
    head = f'{_HEAD}\n  {_policy(script, style)}\n  {MARK}{__version__}">\n  <style>{style}</style>'
    end = f'{data}<script type="module">{script}</script>\n</body>'
    for text in (script, style):
        if re.search(r"</(script|style)|<!--", text, re.IGNORECASE):
            raise ValueError("A script or a style of the page would end its own block.")
    page = page.replace(_HEAD, head, 1).replace("</body>", end, 1)
    size = len(page.encode())
    if size > limit:
        raise ValueError(
            f"The page would have {size / 1e6:.3g} MB, more than {limit / 1e6:.3g} MB: fit fewer members, allow more, "
            "or show the model by `pcarann serve`."
        )
    return page


def _policy(script: str, style: str) -> str:
    """What the page may load: nothing, but what is in it."""
    sources = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:"
    return f"<meta http-equiv=\"Content-Security-Policy\" content=\"{sources}; base-uri 'none'; form-action 'none'\">"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


def _quoted(document: Any) -> str:
    """JSON in which nothing ends a block of a page."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _read(name: str) -> str:
    return (files("pcarann.explorer") / name).read_text(encoding="utf-8")
