"""Named parts as components on one grid or mesh, and back, on a sheet: what `pcarann.containers.stacking` does.

Where a value goes is read from what a stack makes of the numbers 1, 2, …; along axes on which a part has other points,
its fields are interpolated by the matrix that a stack makes of unit vectors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import place_of
from pcarann.containers.parts import Part
from pcarann.containers.stacking import InputStack, OutputStack
from pcarann.export.graph import Sheet, Value
from pcarann.export.signature import Tensor

__all__ = ["stacked", "unstacked"]

Values = np.ndarray[Any, np.dtype[Any]]


def stacked(sheet: Sheet, code: InputStack, by_part: Mapping[str, Value]) -> Value:
    """(samples, points) of every part as the (samples, values) that stages know."""
    parts = zip(code.parts, code.tables, strict=True)
    return sheet.joined([_on_space(sheet, code, part, table, by_part[part.name]) for part, table in parts])


def unstacked(sheet: Sheet, code: OutputStack, tensors: tuple[Tensor, ...], fields: Value) -> list[Value]:
    """Predicted (samples, values) as (samples, *grid) of every part, NaN where it has no values."""
    numbers = np.arange(1.0, sum(code.sizes) + 1)[None, :]
    plain = replace(code, scales=tuple(1.0 for _ in code.scales))
    found = []
    for (_, where), scale, one in zip(plain.apart(numbers), code.scales, tensors, strict=True):
        holes = np.isnan(where)
        values = sheet.gathered(fields, np.where(holes, 1, where).astype(np.int64).reshape(-1) - 1) * scale
        values = sheet.where(holes.reshape(1, -1), np.nan, values) if holes.any() else values
        found.append(sheet.folded(values, one.shape))
    return found


def _on_space(sheet: Sheet, code: InputStack, part: Part, table: bool, flat: Value) -> Value:
    """(samples, points) of one part as (samples, components and points of space)."""
    own = code.space if table or code.mesh is not None else _own_space(part, code.space)
    where = replace(code, parts=(part,), tables=(table,), space=own)
    numbers = where({part.name: np.arange(1.0, math.prod(part.grid) + 1).reshape(1, *part.grid)}, place_of(None))
    fields = sheet.gathered(flat, numbers.astype(np.int64).reshape(-1) - 1)
    if own == code.space:
        return fields
    sizes = [int(numbers.shape[1]), *own]
    for axis, (have, size) in enumerate(zip(own, code.space, strict=True), start=1):
        if have != size:
            fields = sheet.folded(fields, (math.prod(sizes[:axis]), have, math.prod(sizes[axis + 1 :])))
            fields, sizes[axis] = sheet("MatMul", _between(have, size), fields), size
    return sheet.folded(fields, (math.prod(sizes),))


def _own_space(part: Part, space: tuple[int, ...]) -> tuple[int, ...]:
    """The points of a part along the axes of space; those that it lacks are repeated, as if they were there."""
    lacking = len(space) - len(part.grid)
    own = part.grid[-len(space) :] if lacking <= 0 else (*space[:lacking], *part.grid)
    return tuple(size if have == 1 else have for have, size in zip(own, space, strict=True))


def _between(have: int, size: int) -> Values:
    """The matrix of the interpolation from so many points onto others, (size, have)."""
    line = InputStack((Part("", (have,)),), (False,), (size,))
    found: Values = line({"": np.eye(have)}, place_of(None))[:, 0, :].T
    return found
