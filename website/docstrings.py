"""Docstrings as reStructuredText: here they are plain text with code in single quotes, and mathematics in Unicode.

Code keeps its quotes, an asterisk is an asterisk, and what stands in columns or indented keeps its lines.
"""

from __future__ import annotations

import re

__all__ = ["as_rst"]

_COLUMNS = re.compile(r"\S {3,}\S|[─▶]")
_SECTION = re.compile(r"^\w[\w ]*\n-{3,}$", re.MULTILINE)
_SPECIAL = re.compile(r"[*|\\]|(?<=\w)_(?!\w)")


def as_rst(text: str) -> str:
    r"""The text for Sphinx; sections such as Parameters are left to Napoleon, but for the signs inside.

    >>> print(as_rst("Fields (samples, *grid), as `fit` wants."))
    Fields (samples, \*grid), as ``fit`` wants.
    """
    sections = _SECTION.search(text)
    start = sections.start() if sections else len(text)
    paragraphs = re.split(r"\n\s*\n", text[:start].strip("\n"))
    return "\n\n".join(map(_paragraph, paragraphs)) + "\n\n" + _escaped(text[start:])


def _paragraph(text: str) -> str:
    if text.startswith(">>>"):
        return text
    if _COLUMNS.search(text) or all(line.startswith("    ") for line in text.splitlines()):
        return "::\n\n" + "\n".join(f"    {line}" for line in text.splitlines())
    return _escaped(text)


def _escaped(text: str) -> str:
    """Signs that mean something in reStructuredText, as themselves; examples are left as they are."""
    return "\n".join(line if line.lstrip().startswith((">>>", "...")) else _line(line) for line in text.split("\n"))


def _line(line: str) -> str:
    parts = line.split("`")
    if len(parts) % 2 == 0:  # a quote that goes on in the next line
        return _SPECIAL.sub(r"\\\g<0>", line.replace("`", "'"))
    return "``".join(part if k % 2 else _SPECIAL.sub(r"\\\g<0>", part) for k, part in enumerate(parts))
