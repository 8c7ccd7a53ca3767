"""Samples of lazy fields that stages are fitted to, and the range of all of them.

Every point of a field is a row of the stages' regressions, so that a few thousand samples are enough
(`Staged.max_samples`): those are read into memory, and the range of the inputs comes from a pass over all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pcarann.backend.arrays import place_of
from pcarann.backend.random import spread
from pcarann.containers.parts import Side
from pcarann.scale.engine import Budget, over_blocks
from pcarann.scale.fields import cut_along, matrix_of, rows_of
from pcarann.scale.kinds import has_lazy_parts, is_lazy
from pcarann.scale.parts import as_lazy, lazily_packed
from pcarann.spatial.fitted import range_of
from pcarann.spatial.layout import Layout
from pcarann.validation import check_fields, check_pair_lengths, in_block, required

__all__ = ["Ranges", "stage_samples"]

Ranges = Callable[[Layout, float], Any]
"""The range of all inputs on a layout, in a unit"""

_COPIES = 8  # of the samples that a fit makes


def stage_samples(X: Any, y: Any, most: int | None, seed: int, together: int) -> tuple[Any, Any, int, Ranges | None]:
    """Inputs and outputs in memory, no more than asked for; how many belong together; the range of lazy inputs.

    What is in memory already stays as it is.
    """
    if not is_lazy(X, y):
        return X, y, together, None
    if has_lazy_parts(X) or has_lazy_parts(y):
        raise ValueError("Lazy data are one array on each side: parts by name must be in memory.")
    for value, name in ((X, "X"), (required(y), "y")):
        if len(np.shape(value)) < 2:
            raise ValueError(f"{name} must have shape (samples, …), found {np.shape(value)}.")
    X, y, packing, *_ = lazily_packed(X, required(y), mesh=None, place=place_of(None), seed=seed)
    inputs, outputs = (as_lazy(one, name) for one, name in ((X, "X"), (y, "y")))
    count = int(inputs.shape[0])
    check_pair_lengths(count, int(outputs.shape[0]))
    if count % together:
        raise ValueError(f"together={together} must divide the number of samples, found {count}.")
    whole = most is None or count <= most
    rows = list(range(count)) if whole else spread(count, int(most or 0), seed=seed)
    _refuse_too_many(len(rows), [inputs, outputs])
    sides = [rows_of(matrix_of(one), rows).reshape(len(rows), *one.shape[1:]) for one in (inputs, outputs)]
    if packing is not None:
        sides = [_labelled(one, side) for one, side in zip(sides, (packing.inputs, packing.outputs), strict=True)]
    return sides[0], sides[1], together if whole else 1, _ranges(inputs)


def _labelled(array: Any, side: Side) -> Any:
    """Samples that were read, with the labels of those that they were drawn from."""
    label = side.parts[0].label
    return array if label is None else label.applied(array, side.samples, {})


def _refuse_too_many(rows: int, arrays: list[Any]) -> None:
    wanted = _COPIES * 8 * rows * sum(int(np.prod(one.shape[1:])) for one in arrays)
    allowed = Budget.now().memory
    if wanted > allowed:
        raise ValueError(
            f"Stages would be fitted to {rows} samples, which take {wanted / 1e9:.3g} GB of the {allowed / 1e9:.3g} GB "
            "that are allowed: lower max_samples, or allow more memory."
        )


def _ranges(inputs: Any) -> Ranges:
    def found(layout: Layout, unit: float) -> Any:
        matrix = matrix_of(inputs)
        cut, constants = cut_along(matrix, 0, Budget.now(), "X"), {"layout": layout, "unit": unit}
        own = [(part.start,) for part in cut.parts]
        return over_blocks(_range_block, cut.blocks(matrix), own, constants, _widest, shown="range of X")[0]

    return found


def _range_block(raw: Any, first: int, *, layout: Layout, unit: float) -> tuple[Any, None]:
    with in_block(first):
        return range_of(layout, check_fields(raw, "X", place_of(None))[0], unit), None


def _widest(parts: list[Any]) -> Any:
    lows, highs = zip(*parts, strict=True)
    return tuple(min(one) for one in zip(*lows, strict=True)), tuple(max(one) for one in zip(*highs, strict=True))
