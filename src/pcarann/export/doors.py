"""Inputs by name as the matrix that a model knows, and predicted matrices as outputs by name, on a sheet.

What `pcarann.containers` does with arrays is written down here: parts are coded side by side, points without values
are left out on the way in and are NaN on the way out.
"""

from __future__ import annotations

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.containers.coding import InputCode, PartCode
from pcarann.containers.packing import Packing
from pcarann.containers.scaling import OutputCode, kept_points
from pcarann.export.graph import Sheet, Value
from pcarann.export.signature import Signature

__all__ = ["by_name", "entered"]

Outputs = dict[str, tuple[Value, tuple[int, ...]]]


def entered(sheet: Sheet, signature: Signature, packing: Packing | None) -> Value:
    """All inputs of a signature, as the (samples, values) that a model knows."""
    flat = [sheet.reshaped(sheet.input(one.name, one.shape), (one.size,)) for one in signature.inputs]
    code = None if packing is None else packing.input_code
    if code is None:
        return flat[0]
    if not isinstance(code, InputCode):
        raise ValueError(f"Inputs by {type(code).__name__} cannot be written as a graph.")
    by_part = dict(zip((one.part for one in signature.inputs), flat, strict=True))
    return sheet.joined([_coded(sheet, one, by_part[one.part.name]) for one in code.codes])


def by_name(sheet: Sheet, signature: Signature, packing: Packing | None, fields: Value, suffix: str) -> Outputs:
    """Predicted (samples, values) as the outputs of a signature, each with its shape."""
    code = None if packing is None else packing.output_code
    if code is None:
        (one,) = signature.outputs
        return {one.name + suffix: (sheet.reshaped(fields, one.shape), one.shape)}
    if not isinstance(code, OutputCode):
        raise ValueError(f"Outputs by {type(code).__name__} cannot be written as a graph.")
    found, start = {}, 0
    for one, part, scale, kept in zip(signature.outputs, code.parts, code.scales, code.kept, strict=True):
        where = np.full(one.size, start, dtype=np.int64)
        where[kept] = start + np.arange(len(kept))
        values = sheet.gathered(fields, where) * scale
        if part.holes is not None:
            values = sheet.where(part.holes.reshape(1, -1), np.nan, values)
        found[one.name + suffix] = sheet.reshaped(values, one.shape), one.shape
        start += len(kept)
    return found


def _coded(sheet: Sheet, code: PartCode, values: Value) -> Value:
    """(samples, points) of a part as (samples, latents)."""
    if code.part.holes is not None:
        values = sheet.gathered(values, kept_points(code.part))
    centred = values / code.unit - to_host(code.mean)
    if code.modes is None:
        return centred * to_host(code.factor)
    if code.quadrature is not None:
        centred = centred * to_host(code.quadrature)
    return (centred @ to_host(code.modes).T) * to_host(code.factor)
