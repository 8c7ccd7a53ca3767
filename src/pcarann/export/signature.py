"""The tensors that go into a model and come out of it, by name: what a caller elsewhere has to know.

One array without a name is called `inputs` or `outputs`, parts keep their names. What belongs to an output stands after
a dot: `u`, `u.std`, `u.lower`, `u.upper`.

Of a flow, `inputs` are the snapshots from which it departs, (times, *grid), and `controls`, where it has some, a row of
numbers for each step; `outputs` are the snapshots that follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array
from pcarann.containers.parts import Part
from pcarann.marching.flow import Flow

__all__ = ["Signature", "Tensor", "in_words"]

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
    may_be_longer: bool = False
    """Whether the first axis of a sample may have more entries, of which the last ones count: earlier snapshots"""

    @property
    def size(self) -> int:
        """Values of one sample"""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Signature:
    """All tensors of a model."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    steps: int | None = None
    """Snapshots that a flow predicts; None of other surrogates"""

    @classmethod
    def of(cls, model: Any, steps: int | None = None) -> Signature:
        """That of a fitted surrogate of fields; of a flow over so many steps, those of its fit unless told."""
        if hasattr(model, "marched_"):
            return cls._of_flow(model.asked(steps))
        if steps is not None:
            raise ValueError(f"steps are those of a flow, but the model is a {type(model).__name__}.")
        packing, grids = model.fitted_.packing, (_input_grid(model), model.fitted_.output_grid)
        if packing is None:
            columns = tuple(getattr(model.fitted_, "names", ()))
            return cls((Tensor("inputs", grids[0], columns=columns),), (Tensor("outputs", grids[1]),))
        outputs = tuple(_tensor(part, part.name or "outputs") for part in packing.outputs.parts)
        taken = {one.name for one in outputs}
        inputs = tuple(_tensor(part, _free(part.name or "inputs", taken)) for part in packing.inputs.parts)
        return cls(inputs, outputs)

    @classmethod
    def _of_flow(cls, flow: Flow) -> Signature:
        state = Tensor("inputs", (flow.step, *flow.model.output_grid), may_be_longer=True)
        acting = [Tensor("controls", (flow.window, flow.n_controls))] if flow.n_controls else []
        return cls((state, *acting), (Tensor("outputs", flow.output_grid),), flow.window)

    def opened(self, arrays: Mapping[str, Array]) -> tuple[Any, dict[str, Any]]:
        """Inputs by name, each (samples, *shape), as X and the options that `predict` takes, or a refusal by name.

        X, how = signature.opened(arrays)
        model.predict(X, **how)
        """
        wanted = {one.name for one in self.inputs}
        faults = ((wanted - set(arrays), "missing"), (set(arrays) - wanted, "unknown"))
        if found := [f"{', '.join(sorted(names))} {why}" for names, why in faults if names]:
            raise ValueError(f"The inputs are {', '.join(sorted(wanted))}: {', '.join(found)[:300]}.")
        for one in self.inputs:
            _refuse_shape(one, tuple(int(n) for n in arrays[one.name].shape))
        first = self.inputs[0]
        if self.steps is not None:
            acting = {one.name: arrays[one.name] for one in self.inputs[1:]}
            return arrays[first.name][:, -first.shape[0] :, ...], {"steps": self.steps, **acting}
        if len(self.inputs) == 1 and not first.part:
            return arrays[first.name], {}
        return {one.part: arrays[one.name] for one in self.inputs}, {}

    def by_name(self, predicted: Any, suffix: str = "") -> dict[str, Array]:
        """Predicted fields, as a model hands them out for what `opened` gave, by the names of tensors."""
        if len(self.outputs) == 1 and not self.outputs[0].part:
            return {self.outputs[0].name + suffix: predicted}
        return {one.name + suffix: predicted[one.part] for one in self.outputs}


def in_words(shape: tuple[int, ...]) -> str:
    """The shape of samples, each of this one.

    >>> in_words((2, 12)), in_words(())
    ('(samples, 2, 12)', '(samples,)')
    """
    return f"(samples, {', '.join(map(str, shape))})" if shape else "(samples,)"


def _refuse_shape(tensor: Tensor, found: tuple[int, ...]) -> None:
    wanted, more = tensor.shape, ""
    if tensor.may_be_longer:
        wanted, more = (max((wanted[0], *found[1:2])), *wanted[1:]), ", or more snapshots before"
    if not found or found[1:] != wanted:
        raise ValueError(f"{tensor.name} has shape {found}, expected {in_words(tensor.shape)}{more}.")


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
