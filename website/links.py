"""Where files of the repository are on the site.

docs/x.md            x.md
src/pcarann/a/b.py   modules/a/b.md      a page from its docstrings
examples/x.py        examples/x.md       a page that shows the script
results/x            results/x/index.md  a page that lists what is in the folder
all else             as it is
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["ROOT", "address", "linked", "relinked"]

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#])")


def address(path: str) -> str:
    """Where on the site is what stands at this path of the repository.

    >>> address("docs/data.md"), address("src/pcarann/latent"), address("results/report.md")
    ('data.md', 'modules/latent/index.md', 'results/report.md')
    """
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.startswith("src/pcarann"):
        inner = path.removeprefix("src/pcarann").removesuffix("__init__.py").strip("/")
        return f"modules/{inner[:-3]}.md" if inner.endswith(".py") else posixpath.join("modules", inner, "index.md")
    if (ROOT / path).is_dir():
        return f"{path}/index.md"
    return path.removesuffix(".py") + ".md" if path.endswith(".py") else path


def linked(text: str, home: str) -> Iterator[str]:
    """Paths of the repository to which a document at `home` leads."""
    for link in _LINK.findall(text):
        if (target := _target(link, home)) is not None:
            yield target


def relinked(text: str, home: str) -> str:
    """The document with the links that it needs on the site."""
    here = posixpath.dirname(address(home)) or "."

    def moved(match: re.Match[str]) -> str:
        target = _target(match[1], home)
        return match[1] if target is None else posixpath.relpath(address(target), here)

    return _LINK.sub(moved, text)


def _target(link: str, home: str) -> str | None:
    path = posixpath.normpath(posixpath.join(posixpath.dirname(home), link))
    return path if (ROOT / path).exists() and not path.startswith("..") else None
