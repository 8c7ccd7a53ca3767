"""Terms of an equation on a sheet: functions f(a, u) that users wrote for arrays, called with what writes itself down.

A term may use arithmetic, powers, tanh, exp, log, sin, cos, sqrt, abs, maximum and minimum of NumPy, np.roll along an
axis of space, and components as u[..., i]. One that does anything else is refused, with what it stumbled over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pcarann.export.graph import Sheet, Value
from pcarann.spatial.terms import Terms
from pcarann.validation import unstopped

__all__ = ["Traced", "write_terms"]

_SAMPLES = 7919  # which no axis of space has: it stands for any number
_UFUNCS: Mapping[Any, str] = {
    np.add: "Add",
    np.subtract: "Sub",
    np.multiply: "Mul",
    np.true_divide: "Div",
    np.negative: "Neg",
    np.power: "Pow",
    np.tanh: "Tanh",
    np.exp: "Exp",
    np.log: "Log",
    np.sin: "Sin",
    np.cos: "Cos",
    np.sqrt: "Sqrt",
    np.absolute: "Abs",
    np.maximum: "Max",
    np.minimum: "Min",
}


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """A value with its shape, which NumPy's functions write down."""

    def __init__(self, value: Value, shape: tuple[int, ...]):
        self.value, self.shape = value, shape

    @property
    def ndim(self) -> int:
        """The number of axes, that of the samples among them"""
        return len(self.shape)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if ufunc is np.square:
            return inputs[0] * inputs[0]
        if ufunc not in _UFUNCS or method != "__call__" or options:
            return NotImplemented
        shape = np.broadcast_shapes(*(np.shape(one) if not isinstance(one, Traced) else one.shape for one in inputs))
        parts = (one.value if isinstance(one, Traced) else np.asarray(one, dtype=np.float64) for one in inputs)
        return Traced(self.value.sheet(_UFUNCS[ufunc], *parts), shape)

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Mapping[str, Any]) -> Any:
        return _rolled(*inputs, **options) if function is np.roll else NotImplemented

    def __getitem__(self, key: Any) -> Traced:
        if not isinstance(key, tuple) or len(key) != 2 or key[0] is not Ellipsis:
            raise TypeError("of the entries of a field only components can be taken, as in u[..., i]")
        left = np.arange(self.shape[-1])[key[1]]
        found = self.value.sheet.gathered(self.value, left, axis=self.ndim - 1)
        return Traced(found, (*self.shape[:-1], *np.shape(left)))


def write_terms(sheet: Sheet, terms: Terms, sides: tuple[Value, Value], shapes: tuple[tuple[int, ...], ...]) -> Value:
    """(samples, *space, terms) of inputs and prediction in the units inside, which have shapes (*space, components)."""
    units = (terms.units.inputs, terms.units.outputs)
    given = [_in_the_users(*side) for side in zip(sides, units, shapes, strict=True)]
    space = (_SAMPLES, *shapes[0][:-1])
    parts = []
    for name, function in zip(terms.names, terms.functions, strict=True):
        found = _called(name, function, given)
        fits = found.shape == space or found.shape[:-1] == space
        if not fits:
            raise ValueError(f"The term {name} cannot be written as a graph: it must return a field for every sample.")
        whole = (*space[1:], found.shape[-1] if found.ndim > len(space) else 1)
        parts.append(sheet.folded(found.value, whole))
    return sheet.joined(parts, axis=-1)


def _called(name: str, function: Callable[..., Any], given: list[Traced]) -> Traced:
    try:
        found = function(*given)
    except Exception as reason:
        raise ValueError(f"The term {name} cannot be written as a graph: {unstopped(reason)}.") from reason
    if not isinstance(found, Traced):
        raise ValueError(f"The term {name} cannot be written as a graph: it makes no use of its fields.")
    return found


def _in_the_users(side: Value, unit: float, shape: tuple[int, ...]) -> Traced:
    """A field in the user's units, without an axis of components where there is one."""
    value = side * unit
    if shape[-1] > 1:
        return Traced(value, (_SAMPLES, *shape))
    return Traced(value.sheet.folded(value, shape[:-1]), (_SAMPLES, *shape[:-1]))


def _rolled(field: Any, shift: int, axis: Any = None) -> Traced:
    """np.roll along one axis of space."""
    if not isinstance(field, Traced) or not isinstance(axis, int) or axis % field.ndim == 0:
        raise TypeError("np.roll needs one axis of space")
    at = axis % field.ndim
    index = np.roll(np.arange(field.shape[at]), shift)
    return Traced(field.value.sheet.gathered(field.value, index, axis=at), field.shape)
