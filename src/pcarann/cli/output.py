"""What commands print."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import Any

import click
from rich.console import Console
from rich.table import Table

__all__ = ["busy", "errors", "show"]

errors = Console(stderr=True)
"""Where progress goes"""


def show(facts: dict[str, Any], as_json: bool, title: str) -> None:
    """Print facts as a table, or as JSON."""
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    table = Table(title=title, show_header=False, title_justify="left", title_style="bold")
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), _text(value))
    Console().print(table)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) or "one value"
    return str(value)


def busy(message: str) -> AbstractContextManager[Any]:
    """A spinner on standard error, where that is a terminal."""
    return errors.status(message)
