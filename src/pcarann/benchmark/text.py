"""Numbers as text, a dash for none."""

from __future__ import annotations

__all__ = ["DASH", "count", "number", "percent", "seconds"]

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
