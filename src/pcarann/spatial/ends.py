"""How axes end, found from the data: a period with its first point repeated, zero ends, a period without, free ends.

What cannot be seen for sure is left as candidates, among which validation chooses: fields that vanish at both ends may
still be better described by cosines, and values at both ends that happen to be close need not be a period.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from pcarann.backend.arrays import Array, place_of
from pcarann.spatial.axis import Boundary
from pcarann.spatial.layout import Layout

__all__ = ["ends_of", "given_ends", "possible_ends"]

_EQUAL = 1e-6  # of the root mean square: values that are the same but for rounding in single precision
_LIKELY = 1.5  # jumps across the ends of a period, in jumps from point to point inside
_IMPOSSIBLE = 10.0


def ends_of(layout: Layout, boundary: Any, axes: Any, inputs: Array, outputs: Array) -> list[Layout]:
    """Layouts to choose from: the one with the ends that a user gave, for axes in any order, or all that may be."""
    if boundary is None:
        return possible_ends(layout, inputs, outputs)
    if axes is not None and not isinstance(boundary, str) and len(boundary) == len(axes) == len(layout.space):
        places = [int(axis) % len(layout.output_grid) for axis in axes]  # as the axes were listed
        boundary = tuple(kind for _, kind in sorted(zip(places, boundary, strict=True)))
    return [given_ends(layout, boundary, inputs, outputs)]


def possible_ends(layout: Layout, inputs: Array, outputs: Array) -> list[Layout]:
    """Layouts to choose from, the likeliest first; for each axis all that the data allow."""
    if layout.mesh is not None:
        return [layout]
    found: list[list[tuple[Boundary, bool]]] = [[]]
    for axis in layout.space:
        kinds = _kinds(layout, inputs, outputs, axis)
        # The first of each axis together, then every axis changed alone: not all combinations.
        found = [[*found[0], kinds[0]], *([*one, kinds[0]] for one in found[1:]), *([*found[0], k] for k in kinds[1:])]
    return [layout.ending([kind for kind, _ in one], [closed for _, closed in one]) for one in found]


def given_ends(layout: Layout, boundary: Any, inputs: Array, outputs: Array) -> Layout:
    """The layout with the ends that a user gave, one for all axes or one for each; or a refusal."""
    kinds = get_args(Boundary)
    listed = tuple(boundary) if isinstance(boundary, Sequence) else ()
    wanted: Sequence[Any] = (boundary,) * len(layout.space) if isinstance(boundary, str) else listed
    if len(wanted) != len(layout.space) or not all(kind in kinds for kind in wanted):
        raise ValueError(
            f"boundary must be one of {', '.join(map(repr, kinds))}, or one of them for each of the "
            f"{len(layout.space)} axes of space, got {boundary!r}."
        )
    closed = []
    for axis, kind in zip(layout.space, wanted, strict=True):
        size, ends, jump = _measured(layout, outputs, layout.output_grid, axis)
        if kind == "zero" and ends > 1e-3 * size:
            raise ValueError(
                f"Axis {axis} cannot end in zeros: the outputs reach {ends / size:.2g} of their size there."
            )
        closed.append(kind == "periodic" and _repeats(layout, inputs, outputs, axis))
        if kind == "periodic" and not closed[-1] and jump > _IMPOSSIBLE:
            raise ValueError(
                f"Axis {axis} cannot be periodic: the ends of the outputs differ {jump:.0f} times as much as points "
                "beside each other."
            )
    return layout.ending(wanted, closed)


def _kinds(layout: Layout, inputs: Array, outputs: Array, axis: int) -> list[tuple[Boundary, bool]]:
    size, ends, jump = _measured(layout, outputs, layout.output_grid, axis)
    if ends <= _EQUAL * size:
        return [("zero", False), ("free", False)]
    if _repeats(layout, inputs, outputs, axis):
        return [("periodic", True)]
    if max(jump, _measured(layout, inputs, layout.input_grid, axis)[2]) <= _LIKELY:
        return [("periodic", False), ("free", False)]
    return [("free", False)]


def _repeats(layout: Layout, inputs: Array, outputs: Array, axis: int) -> bool:
    """Whether the last point is the first one again, in inputs and outputs."""
    for flat, grid in ((inputs, layout.input_grid), (outputs, layout.output_grid)):
        fields = layout.ends(flat, grid, axis)
        if fields is not None:
            xp = place_of(flat).xp
            gap = float(xp.max(xp.abs(fields[:, -1, :] - fields[:, 0, :])))
            if gap > _EQUAL * float(xp.max(xp.abs(fields))):
                return False
    return True


def _measured(layout: Layout, flat: Array, grid: tuple[int, ...], axis: int) -> tuple[float, float, float]:
    """The size of the fields, of their values at the ends, and the jump from end to end in jumps between neighbours.

    Sizes are in units of the largest value, whose square may be no number.
    """
    fields = layout.ends(flat, grid, axis)
    if fields is None:
        return 1.0, 1.0, 0.0
    xp = place_of(flat).xp
    fields = fields / (float(xp.max(xp.abs(fields))) or 1.0)
    size = float(xp.sqrt(xp.mean(fields**2))) or 1.0
    ends = max(float(xp.max(xp.abs(fields[:, i, :]))) for i in (0, -1))
    inner = float(xp.sqrt(xp.mean((fields[:, 1:, :] - fields[:, :-1, :]) ** 2)))
    jump = float(xp.sqrt(xp.mean((fields[:, 0, :] - fields[:, -1, :]) ** 2)))
    return size, ends, jump / inner if inner else 0.0 if jump == 0 else float("inf")
