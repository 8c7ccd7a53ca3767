"""How much memory the machine has, so that what cannot fit is refused before it is asked for."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["in_words", "machine_bytes", "refuse_beyond"]

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_bytes() -> int | None:
    """Memory of the machine, or of the container that this runs in; None where the system does not say."""
    try:
        found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, OSError, ValueError):
        return None
    for path in map(Path, _LIMITS):
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        found += [int(text)] if text.isdigit() else []
    return min(found)


def refuse_beyond(needed: int, what: str, advice: str) -> None:
    """Refuse what would take more bytes than the machine has."""
    there = machine_bytes()
    if there is not None and needed > there:
        raise ValueError(
            f"{what} would take {in_words(needed)} of memory, but there are {in_words(there)}: take {advice}."
        )


def in_words(size: int) -> str:
    """
    >>> in_words(8 * 10**18), in_words(1_500_000_000), in_words(2_000_000)
    ('8,000,000,000 GB', '1.5 GB', '0.002 GB')
    """
    return f"{size / 1e9:,.0f} GB" if size >= 1e10 else f"{size / 1e9:.2g} GB"
