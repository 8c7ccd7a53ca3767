"""Numbers and tables as text, a dash for what is missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from pcarann.benchmark.records import place_title

__all__ = ["DASH", "Table", "beside", "count", "number", "percent", "seconds", "time_headers"]

DASH = "–"


def number(value: float | None) -> str:
    """Three digits.

    >>> number(0.00193), number(None)
    ('1.93e-3', '–')
    """
    if value is None:
        return DASH
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def seconds(value: float | None) -> str:
    """A time as the paper prints it, to a tenth, with two digits below one.

    >>> seconds(1258.61), seconds(0.0641)
    ('1258.6', '0.064')
    """
    return DASH if value is None else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def percent(value: float | None, digits: int = 1) -> str:
    """A share in percent.

    >>> percent(0.9471, 2)
    '94.71 %'
    """
    return DASH if value is None else f"{100 * value:.{digits}f} %".replace("-", "−")


def count(value: int | None) -> str:
    """A whole number, its thousands apart.

    >>> count(1188353)
    '1 188 353'
    """
    return DASH if value is None else f"{value:,}".replace(",", " ")


def beside(ours: str, paper: str) -> str:
    """Our cell and the paper's; one dash where both are missing.

    >>> beside("1.9e-3", DASH), beside(DASH, DASH)
    ('1.9e-3 | –', '–')
    """
    return f"{ours} | {paper}" if (ours, paper) != (DASH, DASH) else DASH


def time_headers(where: Iterable[str]) -> list[str]:
    """Headers of the columns of times, one for each machine."""
    return [f"Time {place_title(place)}, s" for place in where]


@dataclass(frozen=True)
class Table:
    """A table as text."""

    title: str
    note: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bold: frozenset[tuple[int, int]] = frozenset()
    """Cells to stress, as (row, column)"""

    @property
    def groups(self) -> bool:
        """Whether several rows in a line begin with the same cell."""
        return any(upper[0] == lower[0] for upper, lower in pairwise(self.rows))

    def markdown(self) -> str:
        """The table in Markdown, without title and note."""
        marked = [
            [f"**{cell}**" if (i, j) in self.bold else cell for j, cell in enumerate(row)]
            for i, row in enumerate(self.rows)
        ]
        lines = [self.header, ["---"] * len(self.header), *marked]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
