"""The group of a symmetry from the tables of its generators, and which of its elements are in use."""

from __future__ import annotations

from typing import Any

from pcarann.storage.arrays import Arrays
from pcarann.symmetry.group import Group

__all__ = ["Elements", "rebuilt_group"]

Elements = tuple[int, ...]
_BYTES = 4  # of a number in a table


def rebuilt_group(
    described: dict[str, Any], arrays: Arrays, values: tuple[int, int]
) -> tuple[Group, Elements, Elements]:
    """Return the group on fields of so many values, and the elements that were copied in the fit and are averaged."""
    tables = {side: arrays.found[f"symmetry.{side}"] for side in ("input", "output")}
    group = Group.from_tables(tables, most_numbers=arrays.allowance.bytes // _BYTES)
    found = group.tables()
    if (found["input"].shape[1], found["output"].shape[1]) != values:
        raise ValueError("its symmetry does not fit its grids")
    copied, averaged = (tuple(int(g) for g in described[name]) for name in ("copied", "averaged"))
    for elements in (copied, averaged):
        known = all(0 <= g < group.order for g in elements) and len(set(elements)) == len(elements)
        if not elements or elements[0] != 0 or not known:
            raise ValueError("its symmetry names elements that the group has not")
    return group, copied, averaged
