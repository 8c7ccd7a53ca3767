"""The tensors that go into a model and come out of it, by name: what a caller elsewhere has to know.

One array without a name is called `inputs` or `outputs`, parts keep their names. What belongs to an output stands after
a dot: `u`, `u.std`, `u.lower`, `u.upper`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array
from pcarann.containers.parts import Part

__all__ = ["Signature", "Tensor"]

Values = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Tensor:
    """One of them."""

    name: str
    shape: tuple[int, ...]
    """Of one sample; () for a number"""
    part: str = ""
    """The name that the model knows it by; "" for its one array"""
    columns: tuple[str, ...] = ()
    """Of a table, where they have names"""
    dims: tuple[str, ...] = ()
    """Of the grid, where it is labelled"""
    coords: Mapping[str, Values] = field(default_factory=dict)
    """Along these, where they are numbers"""
    attrs: Mapping[str, str] = field(default_factory=dict)
    """What else is known, such as its units"""

    @property
    def size(self) -> int:
        """Values of one sample"""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Signature:
    """All tensors of a model."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    @classmethod
    def of(cls, model: Any) -> Signature:
        """That of a fitted surrogate of fields."""
        packing, grids = model.fitted_.packing, (_input_grid(model), model.fitted_.output_grid)
        if packing is None:
            columns = tuple(getattr(model.fitted_, "names", ()))
            return cls((Tensor("inputs", grids[0], columns=columns),), (Tensor("outputs", grids[1]),))
        outputs = tuple(_tensor(part, part.name or "outputs") for part in packing.outputs.parts)
        taken = {one.name for one in outputs}
        inputs = tuple(_tensor(part, _free(part.name or "inputs", taken)) for part in packing.inputs.parts)
        return cls(inputs, outputs)

    def opened(self, arrays: Mapping[str, Array]) -> Any:
        """Inputs by name as the model takes them, each (samples, *shape), or a refusal by name."""
        wanted = {one.name for one in self.inputs}
        for names, how in ((wanted - set(arrays), "missing"), (set(arrays) - wanted, "unknown")):
            if names:
                raise ValueError(f"The inputs are {', '.join(sorted(wanted))}: {', '.join(sorted(names))} {how}.")
        for one in self.inputs:
            if tuple(arrays[one.name].shape[1:]) != one.shape:
                found = tuple(arrays[one.name].shape)
                raise ValueError(f"{one.name} has shape {found}, expected (samples, *{one.shape}).")
        if len(self.inputs) == 1 and not self.inputs[0].part:
            return arrays[self.inputs[0].name]
        return {one.part: arrays[one.name] for one in self.inputs}

    def by_name(self, predicted: Any, suffix: str = "") -> dict[str, Array]:
        """Predicted fields, as a model hands them out for what `opened` gave, by the names of tensors."""
        if len(self.outputs) == 1 and not self.outputs[0].part:
            return {self.outputs[0].name + suffix: predicted}
        return {one.name + suffix: predicted[one.part] for one in self.outputs}


def _input_grid(model: Any) -> tuple[int, ...]:
    fitted = model.fitted_
    grid: tuple[int, ...] = fitted.layout.input_grid if hasattr(fitted, "layout") else fitted.ensemble.input_pca.grid
    return grid


def _tensor(part: Part, name: str) -> Tensor:
    label = part.label
    if label is None:
        return Tensor(name, part.grid, part.name, part.columns)
    coords = {dim: values for dim in label.dims if (values := label.along(dim)) is not None}
    attrs = {str(key): str(value) for key, value in label.attrs.items()}
    return Tensor(name, part.grid, part.name, part.columns, label.dims, coords, attrs)


def _free(name: str, taken: set[str]) -> str:
    return f"{name}.input" if name in taken else name
