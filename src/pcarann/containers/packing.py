"""From what users hold to the two arrays that are fitted, and from predicted arrays back to what they hold.

    fit        {"k": k, "angle": a}, {"u": u, "T": T}  ──▶  X (samples, …), y (samples, …)
    predict    {"k": k, "angle": a}  ──▶  X  ──▶  ŷ  ──▶  {"u": û, "T": T̂}

Plain arrays and tables go by untouched: then there is no `Packing`. One array with labels keeps its grid, several parts
are coded side by side (`coding`, for models of latents) or stacked on one grid (`stacking`, for stages that see space).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np

from pcarann.backend.arrays import Array, Place, place_of
from pcarann.containers.coding import InputCode, Recoding
from pcarann.containers.labels import is_labelled, is_labelled_set
from pcarann.containers.parts import Opened, Side, refuse_other_samples
from pcarann.containers.quadrature import quadrature_of
from pcarann.containers.scaling import OutputCode, holes_of
from pcarann.containers.stacking import InputStack, OutputStack
from pcarann.mesh.mesh import Mesh
from pcarann.uncertainty.bands import Band
from pcarann.validation import check_fields, check_pair_lengths, required, warn_user

__all__ = ["Packed", "Packing", "is_one", "only_arrays", "opened_sides", "packed", "told_weights"]

Values = np.ndarray[Any, np.dtype[Any]]
_LEAST = 2  # samples
_BAND = ("mean", "std", "lower", "upper")


@dataclass(frozen=True, eq=False)
class Packing:
    """What a surrogate remembers of the things that it was fitted to."""

    inputs: Side
    outputs: Side
    input_code: InputCode | InputStack | None = None
    """None where the one array that there is stays as it is"""
    output_code: OutputCode | OutputStack | None = None
    mesh: Mesh | None = None

    @property
    def output_sizes(self) -> tuple[int, ...]:
        """Values of each output, side by side"""
        return () if self.output_code is None else self.output_code.sizes

    @property
    def shown(self) -> tuple[tuple[float, float], ...]:
        """Offset and factor by which latents of inputs are read in the user's units, where they were made of parts"""
        return self.input_code.shown if isinstance(self.input_code, InputCode) else ()

    @property
    def grids(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of one sample of the two arrays that were fitted"""
        inputs = self.inputs.parts[0].grid if self.input_code is None else self.input_code.grid
        outputs = self.outputs.parts[0].grid if self.output_code is None else self.output_code.grid
        return inputs, outputs

    def refuse_to_move(self, inputs: bool) -> None:
        """Refuse other grids where there is more than one field."""
        if inputs and (self.input_code is not None or self.mesh is not None):
            raise ValueError("Inputs of several parts, on a mesh or with points without values stay where they are.")
        if isinstance(self.output_code, OutputStack):
            raise ValueError("Outputs of several parts, or with points without values, stay where stages see them.")

    def moved(self, code: OutputCode, mesh: Mesh | None) -> Packing:
        """The same where several outputs are elsewhere."""
        return replace(self, outputs=replace(self.outputs, parts=code.parts), output_code=code, mesh=mesh)

    def on(
        self, inputs: tuple[int, ...], outputs: tuple[int, ...], mesh: Mesh | None = None, points: bool = False
    ) -> Packing:
        """The same where the one field on either side has another grid, outputs perhaps points."""
        self.refuse_to_move(inputs != self.grids[0])
        sides = (
            self.inputs if inputs == self.grids[0] else self.inputs.on(inputs, False),
            self.outputs.on(outputs, points),
        )
        return replace(self, inputs=sides[0], outputs=sides[1], mesh=mesh)

    def opened(self, X: Any, place: Place) -> tuple[Array, Opened]:
        """Inputs as the array that the model knows, and as they were handed over; or a refusal by name."""
        found = self.inputs.opened(X, "X")
        if self.input_code is None:
            return found.first, found
        if isinstance(self.input_code, InputStack):
            return self.input_code(found.arrays, place), found
        array, unlike = self.input_code(found.arrays, place)
        if unlike:
            warn_user(f"{'; '.join(unlike)} are unlike those of the training: do not trust their predictions.")
        return array, found

    def refuse_unaligned(self, X: Any, y: Any) -> None:
        """Refuse inputs and outputs whose samples are called otherwise."""
        given, truth = self.inputs.opened(X, "X"), self.outputs.opened(required(y), "y")
        refuse_other_samples(given.sample_coords.get(given.samples), truth.sample_coords.get(truth.samples), "y")

    def truth(self, y: Any, place: Place) -> Array:
        """Outputs as the array that the model knows, or a refusal by name."""
        found = self.outputs.opened(required(y), "y")
        return found.first if self.output_code is None else self.output_code(found.arrays, place)

    def handed(self, fields: Array, like: Opened) -> Any:
        """Predicted (samples, *grid) fields, as the kind of thing that inputs were handed over as."""
        place = place_of(like.first)
        flat = place_of(fields).xp.reshape(fields, (fields.shape[0], -1))
        if self.output_code is None:
            arrays = {self.outputs.names[0]: fields}
        else:
            arrays = dict(self.output_code.apart(flat))
        return self.outputs.container({name: place.put(array) for name, array in arrays.items()}, like)

    def handed_band(self, band: Band, like: Opened) -> Any:
        """A band whose parts are such things; of labelled arrays one Dataset, or one for each output by name."""
        return self.banded({name: self.handed(getattr(band, name), like) for name in _BAND})

    @staticmethod
    def banded(whole: dict[str, Any]) -> Any:
        """The same of mean, deviation and bounds as they are handed out."""
        first = whole["mean"]
        if is_labelled(first):
            return _as_set(whole)
        if is_labelled_set(first):
            return {
                str(name): _as_set({part: value[name] for part, value in whole.items()}) for name in first.data_vars
            }
        return Band(**whole)


class Packed(NamedTuple):
    """The two arrays of a fit, what to remember, and the weights of the values in inner products."""

    X: Any
    y: Any
    packing: Packing | None = None
    quadrature: tuple[Values | None, Values | None] = (None, None)
    recoding: Recoding | None = None
    """Codes of the inputs without some samples, where they were made of parts"""

    @property
    def is_plain(self) -> bool:
        """Whether inputs are one array as it was handed over"""
        return self.packing is None or self.packing.input_code is None

    @property
    def parts(self) -> dict[str, slice] | None:
        """Values of each output by name, where y was made of several"""
        code = None if self.packing is None else self.packing.output_code
        return code.named if isinstance(code, OutputCode) and len(code.parts) > 1 else None

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """Columns of X that are numbers as they were handed over, not modes of a field; None where X has no modes"""
        code = None if self.packing is None else self.packing.input_code
        return code.numbers if isinstance(code, InputCode) else None

    @property
    def fields(self) -> tuple[tuple[str, slice], ...]:
        """Name and columns of X of each field that became modes"""
        code = None if self.packing is None else self.packing.input_code
        return code.fields if isinstance(code, InputCode) else ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns of X, where it was made of parts"""
        if self.packing is None:
            return ()
        code = self.packing.input_code
        return code.names if isinstance(code, InputCode) else self.packing.inputs.parts[0].columns


def packed(
    X: Any, y: Any, *, mesh: Mesh | None = None, in_space: bool = False, device: str | None = None, seed: int = 0
) -> Packed:
    """Whatever was handed to `fit` as two arrays; `in_space` for stages."""
    y = required(y)
    if mesh is None and _is_plain(X) and _is_plain(y):
        return Packed(X, y)
    (inputs, given), (outputs, truth) = opened_sides(X, y)
    place = place_of(given.first, device).computing
    inputs, outputs = (side.with_holes(_holes(found, place)) for side, found in ((inputs, given), (outputs, truth)))
    told = told_weights(inputs, outputs, mesh, in_space)
    packing = Packing(inputs, outputs, mesh=mesh)
    if in_space:
        return _stacked(packing, given, truth, place)
    array, weight = truth.first, told[1].get(outputs.names[0])
    if not is_one(outputs):
        code = OutputCode.fit(outputs.parts, truth.arrays, place)
        packing, array, weight = replace(packing, output_code=code), code(truth.arrays, place), code.weights(told[1])
    if is_one(inputs):
        return Packed(given.first, array, packing, (told[0].get(inputs.names[0]), weight))
    flat = check_fields(array, "y", place, scalar=True)[0]
    coder, recoding = InputCode.fit(inputs.parts, given.arrays, flat, told[0], seed)
    found = coder(given.arrays, place)[0]
    weights = (np.ones(int(found.shape[1])), weight)
    return Packed(found, array, replace(packing, input_code=coder), weights, recoding if coder.fields else None)


def opened_sides(X: Any, y: Any) -> tuple[tuple[Side, Opened], tuple[Side, Opened]]:
    """Both sides of a fit, or a refusal of what does not go together."""
    inputs, given = Side.of(X, "X")
    outputs, truth = Side.of(y, "y", given.samples if given.labelled else None)
    outputs.refuse_clashes(given.samples)
    check_pair_lengths(int(given.first.shape[0]), int(truth.first.shape[0]))
    if given.first.shape[0] < _LEAST:
        raise ValueError(f"X: found {given.first.shape[0]} sample(s) while a minimum of {_LEAST} is required.")
    refuse_other_samples(given.sample_coords.get(given.samples), truth.sample_coords.get(truth.samples), "y")
    return (inputs, given), (outputs, truth)


def told_weights(inputs: Side, outputs: Side, mesh: Mesh | None, in_space: bool = False) -> list[dict[str, Any]]:
    """Weights of the values of inputs and of outputs by part, where something is known of them."""
    if mesh is not None and (in_space or not any(mesh.nodes in part.grid for part in outputs.parts)):
        for part in outputs.parts:
            mesh.node_axis(part.grid)
    weights = [{part.name: quadrature_of(part, mesh) for part in side.parts} for side in (inputs, outputs)]
    return [{name: w for name, w in one.items() if w is not None} for one in weights]


def only_arrays(**sides: Any) -> None:
    """Refuse parts where a surrogate takes one array alone."""
    for name, value in sides.items():
        if isinstance(value, Mapping) or is_labelled_set(value):
            raise ValueError(
                f"{name} has parts by name, but trajectories are one array (samples, times, *grid): what acts on the "
                "state goes into controls."
            )


def _stacked(packing: Packing, given: Opened, truth: Opened, place: Place) -> Packed:
    packing.outputs.refuse_other_axes(packing.inputs)
    if packing.mesh is None and is_one(packing.inputs) and is_one(packing.outputs):
        return Packed(given.first, truth.first, packing)
    outputs = OutputStack.fit(packing.outputs.parts, truth.arrays, place, packing.mesh)
    inputs = InputStack.of(packing.inputs.parts, given.arrays, outputs, place)
    packing = replace(packing, input_code=inputs, output_code=outputs)
    return Packed(inputs(given.arrays, place), outputs(truth.arrays, place), packing)


def _is_plain(value: Any) -> bool:
    """Whether it is an array or a table without holes, which needs no packing."""
    if hasattr(value, "tocsr"):  # some sparse matrices are mappings
        return True
    if isinstance(value, Mapping) or is_labelled(value) or is_labelled_set(value):
        return False
    if isinstance(value, tuple | list):
        return len({np.shape(part) for part in value if hasattr(part, "shape")}) < 2
    if not compat.is_array_api_obj(value) or value.ndim < 2:
        return True
    if isinstance(value, np.ma.MaskedArray):
        return True
    real = compat.array_namespace(value).isdtype(value.dtype, "real floating")
    return not real or not value.shape[0] or holes_of(value, place_of(value)) is None


def is_one(side: Side) -> bool:
    """Whether it is one field or table that can stay as it is."""
    return len(side.parts) == 1 and side.parts[0].holes is None and side.parts[0].grid != ()


def _holes(found: Opened, place: Place) -> dict[str, Values]:
    holes = {name: holes_of(array, place) for name, array in found.arrays.items()}
    return {name: mask for name, mask in holes.items() if mask is not None}


def _as_set(arrays: Mapping[str, Any]) -> Any:
    import xarray

    return xarray.Dataset({name: array.rename(name) for name, array in arrays.items()})
