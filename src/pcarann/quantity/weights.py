"""Weights of linear functionals, qⱼ = Σ wⱼ u over all values of an output, as users hand them over.

One functional is an array of the shape of a field, k of them a stack (k, *grid). Of several outputs each has weights by
name, and none where it does not count. A quadrature is the user's to multiply with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, place_of, to_host
from pcarann.containers.packing import Packing
from pcarann.containers.parts import Part
from pcarann.containers.scaling import OutputCode
from pcarann.containers.weighing import by_name, laid_out

__all__ = ["Weights"]

Values = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class Weights:
    """Those of k functionals."""

    parts: Mapping[str, Values]
    """(k, *grid) of each output by name, 0 where it has no values"""
    grid: tuple[int, ...]
    """Shape of the values of one sample: () for one functional, (k,) for a stack"""

    @classmethod
    def of(cls, given: Any, outputs: Mapping[str, Part]) -> Weights:
        """Weights on these outputs, or a refusal."""
        if len(outputs) > 1 and not (isinstance(given, Mapping) or hasattr(given, "data_vars")):
            raise ValueError(f"Weights on several outputs go by name, {{name: weights}}: {', '.join(outputs)}.")
        parts = by_name(given, list(outputs.values()), "weights")
        if unknown := [name for name in parts if name not in outputs]:
            raise ValueError(f"There is no output {unknown[0]!r} to have weights, only {', '.join(outputs)}.")
        if not parts:
            raise ValueError("Weights by name must be those of one output or more, found none.")
        found = {name: _checked(value, outputs[name], name) for name, value in parts.items()}
        counts = {name: None if w.shape == outputs[name].grid else len(w) for name, w in found.items()}
        if len(set(counts.values())) > 1:
            said = ", ".join(f"{name} {found[name].shape}" for name in found)
            raise ValueError(f"Weights of all outputs must be of one functional, or stacks of as many, found {said}.")
        count = next(iter(counts.values()))
        stacks = {name: w[None, ...] if count is None else w for name, w in found.items()}
        return cls(stacks, () if count is None else (count,))

    @property
    def given(self) -> Any:
        """As they were handed over: an array, or arrays by name"""
        found = {name: w if self.grid else w[0, ...] for name, w in self.parts.items()}
        return found[""] if set(found) == {""} else found

    @property
    def count(self) -> int:
        """Functionals, k"""
        return len(next(iter(self.parts.values())))

    def side_by_side(self, packing: Packing | None, place: Place) -> Array:
        """(k, values) for outputs as a latent model knows them: parts side by side, each divided by its scale."""
        code = None if packing is None else packing.output_code
        if not isinstance(code, OutputCode):
            return place.put(next(iter(self.parts.values())).reshape(self.count, -1))
        found = []
        for part, scale, kept in zip(code.parts, code.scales, code.kept, strict=True):
            weights = self.parts.get(part.name, np.zeros((self.count, *part.grid)))
            found.append(scale * weights.reshape(self.count, -1)[:, kept])
        return place.put(np.concatenate(found, axis=1))

    def __call__(self, fields: Mapping[str, Array]) -> Array:
        """(samples, *grid) values of fields by name; where fields have no values, nothing is added."""
        total: Array = 0.0
        for name, weights in self.parts.items():
            place = place_of(fields[name])
            xp = place.xp
            flat = xp.reshape(place.put(fields[name]), (fields[name].shape[0], -1))
            rows = place.put(weights.reshape(self.count, -1))
            flat = xp.where(xp.any(rows != 0, axis=0), flat, 0.0)
            total = total + flat @ rows.T
        return total if self.grid else total[:, 0]


def _checked(value: Any, part: Part, name: str) -> Values:
    """Weights on one output, of its shape or a stack, zero where it has no values."""
    said = f"weights[{name!r}]" if name else "weights"
    laid = laid_out(value, part, said)
    try:
        found = np.array(to_host(laid), dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{said} must be an array of numbers, found {type(value).__name__}.") from None
    if part.grid not in (found.shape, found.shape[1:]) or not found.size:
        raise ValueError(
            f"{said} must have the shape {part.grid} of a field, or (k, *{part.grid}), found {found.shape}."
        )
    if part.holes is not None:
        holes = np.broadcast_to(part.holes, found.shape)
        if np.nan_to_num(found[holes]).any():
            raise ValueError(f"{said} must be 0 or NaN where the output has no values.")
        found[holes] = 0.0
    if not np.isfinite(found).all():
        raise ValueError(f"{said} must be finite numbers.")
    return found
