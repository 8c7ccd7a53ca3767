"""What commands print."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["busy", "errors", "say", "show"]

errors = Console(stderr=True)
"""Where progress goes"""


def show(facts: dict[str, Any], as_json: bool, title: str, *, verbatim: bool = False) -> None:
    """Print facts as a table, or as JSON; names that are keys of data are printed verbatim, others as words."""
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    table = Table(title=_plain(title), show_header=False, title_justify="left", title_style="bold")
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(_plain(name if verbatim else name.replace("_", " ")), _plain(_text(value)))
    Console().print(table)


def say(sentence: str, *, alarming: bool = False) -> None:
    """Print a sentence on standard error, in bold red where it must not be missed."""
    errors.print(_plain(sentence), style="bold red" if alarming else None, soft_wrap=True)


def _plain(text: str) -> Text:
    """Text as it is: brackets are no markup, and what would steer the terminal is written out."""
    return Text("".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text))


def _text(value: Any) -> str:
    if value is None:
        return "not computed"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return "\n".join(f"{name}: {_text(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) or "one value"
    return str(value)


def busy(message: str) -> AbstractContextManager[Any]:
    """A spinner on standard error, where that is a terminal."""
    return errors.status(message)
