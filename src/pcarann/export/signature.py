"""The tensors that go into a model and come out of it, by name: what a caller elsewhere has to know.

One array without a name is called `inputs` or `outputs`, parts keep their names. What belongs to a tensor stands after
a dot: `u.std`, `u.lower`, `u.upper`, `u.jvp` and `u.cotangent` of an output u, `k.tangent` and `k.vjp` of an input k;
`novelty` belongs to the model. No name is there twice: a part whose name, or a name that belongs to it, is taken by a
part before it, outputs first, has `.output` or `.input` behind its name, as often as it takes.

Of a flow, `inputs` are the snapshots from which it departs, (times, *grid), and `controls`, where it has some, a row of
numbers for each step; `outputs` are the snapshots that follow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array
from pcarann.containers.parts import Part
from pcarann.marching.flow import Flow

__all__ = ["NOVELTY", "OF_INPUTS", "OF_OUTPUTS", "Signature", "Tensor", "in_words"]

Values = np.ndarray[Any, np.dtype[Any]]

OF_OUTPUTS = ("", ".std", ".lower", ".upper", ".jvp", ".cotangent")
"""What there is of an output, by the end of its name"""
OF_INPUTS = ("", ".tangent", ".vjp")
"""What there is of an input"""
NOVELTY = "novelty"
"""The p-values of inputs"""


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
        return math.prod(self.shape)

    @property
    def known(self) -> dict[str, Any]:
        """What is known beside name and shape in words that JSON has; its part where that has another name"""
        coords = {dim: np.asarray(values).tolist() for dim, values in self.coords.items()}
        found = {"columns": list(self.columns), "dims": list(self.dims), "coords": coords, "attrs": dict(self.attrs)}
        found |= {"part": "" if self.part == self.name else self.part}
        return {name: value for name, value in found.items() if value}


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
        outputs, inputs = packing.outputs.parts, packing.inputs.parts
        names = _names([one.name or "outputs" for one in outputs], [one.name or "inputs" for one in inputs])
        outputs_named, inputs_named = zip(outputs, names[0], strict=True), zip(inputs, names[1], strict=True)
        return cls(tuple(_tensor(*one) for one in inputs_named), tuple(_tensor(*one) for one in outputs_named))

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


def _names(outputs: Sequence[str], inputs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names under which tensors, and all that belongs to them, are there once.

    >>> _names(["u", "u.std"], ["p", "u"])
    (['u', 'u.std.output'], ['p', 'u.input'])
    """
    asked = [(name, OF_OUTPUTS, ".output") for name in outputs] + [(name, OF_INPUTS, ".input") for name in inputs]
    found, taken, late = [name for name, _, _ in asked], {NOVELTY}, []
    for k, (name, ends, _) in enumerate(asked):
        own = {name + end for end in ends}
        if own & taken:
            late.append(k)
        else:
            taken |= own
    for k in late:
        name, ends, more = asked[k]
        while {name + end for end in ends} & taken:
            name += more
        found[k] = name
        taken |= {name + end for end in ends}
    return found[: len(outputs)], found[len(outputs) :]
