"""Terms of an equation that a user knows, as channels: functions of fields in the user's own units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pcarann.backend.arrays import Array, place_of
from pcarann.latent.units import Units

__all__ = ["Terms"]


@dataclass(frozen=True)
class Terms:
    """Functions f(a, u) of (samples, *space) fields, with a last axis where there are several components."""

    functions: tuple[Callable[[Array, Array], Array], ...]
    units: Units

    @classmethod
    def of(cls, functions: Any, units: Units) -> Terms | None:
        """The functions that a user gave, or a refusal; None where there are none."""
        if not isinstance(functions, Sequence) or not all(callable(function) for function in functions):
            raise ValueError(f"terms must be a list of functions f(a, u), got {functions!r}.")
        return cls(tuple(functions), units) if functions else None

    @property
    def names(self) -> list[str]:
        """Of the functions"""
        return [getattr(function, "__name__", repr(function)) for function in self.functions]

    def __call__(self, inputs: Array, fields: Array) -> Array:
        """(samples, *space, terms) of inputs and prediction in the units inside."""
        sides = (inputs * self.units.inputs, fields * self.units.outputs)
        given = [part[..., 0] if part.shape[-1] == 1 else part for part in sides]
        space = tuple(fields.shape[:-1])
        parts = []
        for name, function in zip(self.names, self.functions, strict=True):
            found = function(*given)
            if not hasattr(found, "shape") or not hasattr(found, "dtype"):
                raise ValueError(f"The term {name} must return an array of shape {space}, got {type(found).__name__}.")
            shape = tuple(found.shape)
            if shape != space and shape[:-1] != space:
                raise ValueError(f"The term {name} must return fields of shape {space}, found {shape}.")
            if not bool(place_of(fields).xp.all(place_of(fields).xp.isfinite(found))):
                raise ValueError(f"The term {name} is not finite everywhere.")
            parts.append(found[..., None] if shape == space else found)
        return place_of(fields).xp.concat(parts, axis=-1)
