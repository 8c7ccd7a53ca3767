"""What a surrogate remembers of named parts, labels, holes and meshes, as a document and arrays, and back, checked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pcarann.backend.arrays import Place, to_host
from pcarann.containers.coding import InputCode, PartCode
from pcarann.containers.labels import Label
from pcarann.containers.packing import Packing
from pcarann.containers.parts import Part, Side
from pcarann.containers.scaling import OutputCode
from pcarann.containers.stacking import InputStack, OutputStack
from pcarann.mesh.mesh import Mesh
from pcarann.storage.arrays import Arrays, numbers
from pcarann.storage.formats import Document, Tensors
from pcarann.storage.limits import shape_of
from pcarann.storage.meshes import rebuilt_cells
from pcarann.storage.typed import checked

__all__ = ["described_label", "described_packing", "rebuilt_label", "rebuilt_packing"]

_NAME = "packing"


def described_packing(packing: Packing | None, tensors: Tensors) -> Document | None:
    """The document of a packing, whose arrays are added to those of the file."""
    if packing is None:
        return None
    inputs, outputs = packing.input_code, packing.output_code
    found: Document = {
        "inputs": _described_side(packing.inputs, "inputs", tensors),
        "outputs": _described_side(packing.outputs, "outputs", tensors),
        "mesh": _described_mesh(packing.mesh, tensors),
        "coded": None,
        "scales": None if outputs is None else list(outputs.scales),
        "stacked": isinstance(outputs, OutputStack),
    }
    if isinstance(inputs, InputStack):
        found["coded"] = [bool(table) for table in inputs.tables]
    elif inputs is not None:
        found["coded"] = [
            {"unit": code.unit, "far": code.far if math.isfinite(code.far) else None} for code in inputs.codes
        ]
        for i, code in enumerate(inputs.codes):
            arrays = {"mean": code.mean, "modes": code.modes, "quadrature": code.quadrature, "factor": code.factor}
            tensors |= {f"{_NAME}.code.{i}.{name}": to_host(a) for name, a in arrays.items() if a is not None}
    return found


def rebuilt_packing(
    document: Document | None, arrays: Arrays, grids: tuple[tuple[int, ...], tuple[int, ...]]
) -> Packing | None:
    """The packing that a document describes, of a model on these grids; a ValueError where they do not fit together."""
    if document is None:
        return None
    tensors, place = arrays.found, arrays.place
    inputs, outputs = (_side(document[name], name, arrays) for name in ("inputs", "outputs"))
    mesh = None if document["mesh"] is None else rebuilt_cells(document["mesh"], f"{_NAME}.mesh", arrays)
    stacked = checked(document["stacked"], bool, "stacked")
    output_code: OutputCode | OutputStack | None = None
    if document["scales"] is not None:
        scales = checked(document["scales"], tuple[float, ...], "the units of its outputs")
        if len(scales) != len(outputs.parts) or not all(0 < scale < math.inf for scale in scales):
            raise ValueError("its outputs have no such units")
        output_code = OutputStack(outputs.parts, scales, mesh) if stacked else OutputCode(outputs.parts, scales)
    input_code: InputCode | InputStack | None = None
    if document["coded"] is not None:
        if len(document["coded"]) != len(inputs.parts):
            raise ValueError("its inputs are other parts than it says")
        if stacked:
            if not isinstance(output_code, OutputStack):
                raise ValueError("its inputs and outputs do not fit together")
            tables = checked(document["coded"], tuple[bool, ...], "its tables")
            input_code = InputStack(inputs.parts, tables, output_code.space, mesh)
        else:
            codes = enumerate(zip(inputs.parts, document["coded"], strict=True))
            input_code = InputCode(tuple(_code(i, part, said, tensors, place) for i, (part, said) in codes))
    found = Packing(inputs, outputs, input_code, output_code, mesh)
    if found.grids != grids:
        raise ValueError("its parts are not those of its model")
    return found


def _code(i: int, part: Part, said: Document, tensors: Tensors, place: Place) -> PartCode:
    arrays = {name: tensors.get(f"{_NAME}.code.{i}.{name}") for name in ("mean", "modes", "quadrature", "factor")}
    mean, modes, quadrature, factor = arrays.values()
    values = math.prod(part.grid) - (0 if part.holes is None else int(part.holes.sum()))
    latents = values if modes is None else len(modes)
    shapes = {"mean": (values,), "modes": (latents, values), "quadrature": (values,), "factor": (latents,)}
    unit = checked(said["unit"], float, "the unit of an input")
    far = checked(said["far"], float | None, "what the modes of an input miss")
    if mean is None or factor is None or not 0 < unit < math.inf or not (far is None or 0 <= far < math.inf):
        raise ValueError(f"its input {part.name!r} is not complete")
    for name, array in arrays.items():
        if array is not None:
            numbers(tensors, f"{_NAME}.code.{i}.{name}", *shapes[name])
    if not (factor > 0).all():
        raise ValueError(f"the weights of its input {part.name!r} are not positive")
    return PartCode(
        part,
        unit,
        place.put(mean),
        None if modes is None else place.put(modes),
        None if quadrature is None else place.put(quadrature),
        place.put(factor),
        math.inf if far is None else far,
    )


def _described_side(side: Side, name: str, tensors: Tensors) -> Document:
    parts = []
    for i, part in enumerate(side.parts):
        if part.holes is not None:
            tensors[f"{_NAME}.{name}.{i}.holes"] = part.holes.astype(np.uint8)
        label = None if part.label is None else described_label(part.label, f"{_NAME}.{name}.{i}", tensors)
        parts.append({"name": part.name, "grid": list(part.grid), "columns": list(part.columns), "label": label})
    return {"parts": parts, "single": side.single, "samples": str(side.samples)}


def _side(document: Document, name: str, arrays: Arrays) -> Side:
    parts = []
    for i, said in enumerate(document["parts"]):
        grid, prefix = shape_of(said["grid"], "the grid of a part"), f"{_NAME}.{name}.{i}"
        holes = arrays.found.get(f"{prefix}.holes")
        if holes is not None and holes.shape != grid:
            raise ValueError("its parts have grids that do not fit")
        label = None if said["label"] is None else rebuilt_label(said["label"], prefix, arrays, grid)
        mask = None if holes is None else holes.astype(bool)
        columns = checked(said["columns"], tuple[str, ...], "columns of a part")
        if columns and grid != (len(columns),):
            raise ValueError("its columns do not fit its grids")
        parts.append(Part(checked(said["name"], str, "the name of a part"), grid, columns, label, mask))
    names = [part.name for part in parts]
    single = checked(document["single"], bool, "single")
    if not parts or len(set(names)) < len(names) or (names != [""] if single else "" in names):
        raise ValueError("its parts are none, or have one name")
    return Side(tuple(parts), single, checked(document["samples"], str, "the dimension of samples"))


def described_label(label: Label, prefix: str, tensors: Tensors) -> Document:
    """The document of a label, whose coordinates are added to the arrays under this prefix."""
    coords: Document = {}
    for j, (name, (dims, values)) in enumerate(label.coords.items()):
        coords[name] = {"dims": list(dims), "kind": values.dtype.kind, "dtype": str(values.dtype)}
        if values.dtype.kind in "fiub":
            tensors[f"{prefix}.coords.{j}"] = np.array(values, order="C")
        else:
            coords[name] |= {"values": values.astype(str).reshape(-1).tolist(), "shape": list(values.shape)}
    told = {
        str(key): value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        for key, value in label.attrs.items()
    }
    attrs = {key: value for key, value in told.items() if _is_plain(value)}
    return {"name": label.name, "dims": [str(dim) for dim in label.dims], "coords": coords, "attrs": attrs}


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_plain(part) for part in value)
    return isinstance(value, str | int | float | bool)


def rebuilt_label(document: Document, prefix: str, arrays: Arrays, grid: tuple[int, ...]) -> Label:
    """The label that a document describes, of fields on this grid."""
    labels, coords = checked(document["dims"], tuple[str, ...], "its dimensions"), {}
    if len(labels) != len(grid) or len(set(labels)) < len(labels):
        raise ValueError("its labels do not fit its grids")
    sizes = dict(zip(labels, grid, strict=True))
    for j, (name, said) in enumerate(document["coords"].items()):
        dims = checked(said["dims"], tuple[str, ...], "the dimensions of its coordinates")
        plain = checked(said["kind"], str, "the kind of its coordinates") in tuple("fiub")
        values = arrays.found[f"{prefix}.coords.{j}"] if plain else _words(said, arrays)
        if plain and (str(values.dtype) != said.get("dtype", str(values.dtype)) or not np.isfinite(values).all()):
            raise ValueError("its coordinates are not numbers of their type")
        if not set(dims) <= set(labels) or values.shape != tuple(sizes[dim] for dim in dims):
            raise ValueError("its coordinates do not fit its grids")
        coords[name] = dims, values
    attrs = document["attrs"]
    if not isinstance(attrs, dict) or not all(_is_plain(value) for value in attrs.values()):
        raise ValueError("its attributes must be an object of plain values")
    return Label(checked(document["name"], str | None, "the name of its label"), labels, coords, attrs)


def _words(said: Document, arrays: Arrays) -> np.ndarray[Any, Any]:
    """Coordinates that are words or times, each as long as the longest."""
    words = checked(said["values"], list[str], "its coordinates")
    kind = np.dtype(checked(said["dtype"], str, "the type of its coordinates")) if said["kind"] in ("m", "M") else None
    if kind is not None and kind.kind not in "mM":
        raise ValueError("its coordinates are no times")
    arrays.allowance.check(2 * 4 * len(words) * max(map(len, words), default=1), "its coordinates")
    return (
        np.asarray(words, dtype=str)
        .reshape(checked(said["shape"], list[int], "the shape of its coordinates"))
        .astype(kind or str)
    )


def _described_mesh(mesh: Mesh | None, tensors: Tensors) -> Document | None:
    if mesh is None:
        return None
    tensors[f"{_NAME}.mesh.points"] = mesh.points
    kinds = [] if mesh.cells is None else list(mesh.cells)
    tensors |= {f"{_NAME}.mesh.cells.{kind}": mesh.cells[kind].astype(np.int64) for kind in kinds}
    return {"cells": kinds, "components": mesh.components}
