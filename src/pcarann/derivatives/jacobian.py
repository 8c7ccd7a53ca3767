"""Jacobians, row by row or column by column: whichever are fewer.

    whole            J = f′(x)              a push for each input value, or a pull for each output value
    of functionals   Jᵀw, one for each w    a pull for each, or a push for each input value

Few samples go several times through the surrogate at once, since products of larger matrices cost less than many of
small ones. A Jacobian that would not fit is refused: products with it never need it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, cuts
from pcarann.containers.parts import Part
from pcarann.containers.weighing import by_name, laid_out
from pcarann.derivatives.fields import FieldDerivative
from pcarann.validation import check_numeric

__all__ = ["jacobian"]

MOST_BYTES = 1 << 30
"""Of a whole Jacobian"""
_AT_ONCE = 256  # rows through the surrogate, of a sample with many directions


def jacobian(at: FieldDerivative, of: Any = None) -> Any:
    """The whole Jacobian at inputs, or that of functionals with these weights; by name where parts have names."""
    if of is not None:
        given = getattr(of, "weights", of)
        if given is None:
            raise ValueError("of is a quantity of a function, which has no weights: ask for its gradient instead.")
        weights, stacked = _weights(at, given)
        rows = _of_functionals(at, weights)
        return _named(at.apart(rows if stacked else rows[:, 0, :], at.inputs))
    inputs, outputs = at.sizes
    size = 8 * at.samples * inputs * outputs
    if size > MOST_BYTES:
        raise ValueError(
            f"The whole Jacobian of {at.samples} sample(s), {outputs} × {inputs} values each, takes "
            f"{size / 2**30:.1f} GB, above {MOST_BYTES / 2**30:.0f} GB: ask for functionals (of=), or for products "
            "with it (jvp, vjp)."
        )
    if outputs <= inputs:
        rows = _pulls(at, outputs, lambda some: _units(at, some, outputs))
    else:
        rows = _pushes(at, inputs, lambda some: _units(at, some, inputs))
    return _named({name: _named(at.apart(part, at.inputs)) for name, part in _of_outputs(at, rows)})


def _of_functionals(at: FieldDerivative, weights: Array) -> Array:
    """(samples, functionals, input values)"""
    count, inputs = int(weights.shape[0]), at.sizes[0]
    if count <= inputs:
        return _pulls(at, count, lambda some: weights[some, :])
    return _pushes(at, inputs, lambda some: _units(at, some, inputs), weights)


def _of_outputs(at: FieldDerivative, rows: Array) -> list[tuple[str, Array]]:
    """(samples, *grid, input values) of each output, nothing where it has no values."""
    xp, found, start = at.place.xp, [], 0
    for part in at.outputs:
        size = math.prod(part.grid)
        own = xp.reshape(rows[:, start : start + size, :], (rows.shape[0], *part.grid, rows.shape[2]))
        start += size
        if part.holes is not None:
            holes = xp.asarray(part.holes[..., None], device=at.place.device)
            own = xp.where(holes, xp.nan * xp.ones_like(own), own)
        found.append((part.name, own))
    return found


def _pulls(at: FieldDerivative, count: int, cotangents: Callable[[slice], Array]) -> Array:
    """(samples, count, input values)"""
    return at.place.xp.moveaxis(_through(at, count, cotangents, back=True), 0, 1)


def _pushes(at: FieldDerivative, count: int, tangents: Callable[[slice], Array], weights: Array | None = None) -> Array:
    """(samples, output values, count), or their products with (functionals, output values) weights"""
    return at.place.xp.moveaxis(_through(at, count, tangents, back=False, weights=weights), 0, 2)


def _through(
    at: FieldDerivative,
    count: int,
    directions: Callable[[slice], Array],
    back: bool,
    weights: Array | None = None,
) -> Array:
    """(count, samples, values) of so many (count, values) directions, the same for every sample."""
    xp, samples = at.place.xp, at.samples
    copies = min(count, max(1, _AT_ONCE // samples))
    record = at.rows if copies == 1 else at.repeated(copies)
    found = []
    for some in cuts(count, copies):
        given = directions(some)
        if given.shape[0] < copies:
            given = xp.concat([given, at.place.zeros(copies - given.shape[0], given.shape[1])], axis=0)
        rows = xp.broadcast_to(given[:, None, :], (copies, samples, given.shape[1]))
        rows = xp.reshape(rows, (copies * samples, given.shape[1]))
        made = record.pull(rows) if back else record.push(rows)
        if weights is not None:  # points without values have weight 0
            made = xp.where(xp.any(weights != 0, axis=0), made, 0.0) @ weights.T
        found.append(xp.reshape(made, (copies, samples, -1))[: some.stop - some.start, ...])
    return xp.concat(found, axis=0)


def _units(at: FieldDerivative, some: slice, size: int) -> Array:
    """Some rows of the identity matrix."""
    xp = at.place.xp
    every, chosen = (xp.arange(a, b, device=at.place.device) for a, b in ((0, size), (some.start, some.stop)))
    return xp.astype(chosen[:, None] == every[None, :], xp.float64)


def _weights(at: FieldDerivative, of: Any) -> tuple[Array, bool]:
    """(functionals, output values), and whether there is a stack of them."""
    arrays = by_name(of, at.outputs, "of")
    names = [part.name for part in at.outputs]
    unknown = [str(name) for name in arrays if name not in names]
    if callable(of) or unknown or not arrays or (not isinstance(of, Mapping) and len(names) > 1):
        wanted = f", by the names {', '.join(names)}" if names != [""] else ""
        given = f"the names {', '.join(unknown)}" if unknown else type(of).__name__
        raise ValueError(
            f"of must be weights on the outputs' grid, or a stack of them{wanted}, or have them as `weights`, found "
            f"{given}."
        )
    arrays = {part.name: laid_out(arrays[part.name], part, _said(part)) for part in at.outputs if part.name in arrays}
    shapes = {part.name: _stack(np.shape(arrays[part.name]), part) for part in at.outputs if part.name in arrays}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"of must have as many weights for every output, found {shapes}.")
    count = next(iter(shapes.values()))
    found = []
    for part in at.outputs:
        if part.name not in arrays:
            found.append(at.place.zeros(count or 1, math.prod(part.grid)))
            continue
        array = at.place.put(check_numeric(arrays[part.name], "of"))
        found.append(at.matrix(array if count else array[None, ...], part, _said(part)))
    return at.place.xp.concat(found, axis=1), count is not None


def _stack(shape: tuple[int, ...], part: Part) -> int | None:
    """How many weights there are; None for one without an axis that counts them."""
    if shape == part.grid:
        return None
    if not shape or shape[1:] != part.grid or not shape[0]:
        raise ValueError(
            f"{_said(part)} must have the shape of an output, {part.grid}, or of a stack of these, found {shape}."
        )
    return int(shape[0])


def _said(part: Part) -> str:
    return f"of[{part.name!r}]" if part.name else "of"


def _named(parts: Mapping[str, Any]) -> Any:
    """The one part that there is without a name, or all of them by name."""
    return parts[""] if "" in parts else dict(parts)
