"""Inputs by name as the matrix that a model knows, and predicted matrices as outputs by name, on a sheet.

What `pcarann.containers` does with arrays is written down here: parts are coded side by side, points without values
are left out on the way in and are NaN on the way out. Several inputs without a code, the snapshots and controls of a
flow, stand side by side.
"""

from __future__ import annotations

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.containers.coding import PartCode
from pcarann.containers.packing import Packing
from pcarann.containers.scaling import kept_points
from pcarann.containers.stacking import InputStack, OutputStack
from pcarann.export.graph import Sheet, Value
from pcarann.export.signature import Signature
from pcarann.export.stacks import stacked, unstacked

__all__ = ["by_name", "entered"]

Outputs = dict[str, tuple[Value, tuple[int, ...]]]


def entered(sheet: Sheet, signature: Signature, packing: Packing | None) -> Value:
    """All inputs of a signature, as the (samples, values) that a model knows."""
    flat = [sheet.folded(sheet.input(one.name, one.shape), (one.size,)) for one in signature.inputs]
    code = None if packing is None else packing.input_code
    if code is None:
        return sheet.joined(flat)
    by_part = dict(zip((one.part for one in signature.inputs), flat, strict=True))
    if isinstance(code, InputStack):
        return stacked(sheet, code, by_part)
    return sheet.joined([_coded(sheet, one, by_part[one.part.name]) for one in code.codes])


def by_name(sheet: Sheet, signature: Signature, packing: Packing | None, fields: Value, suffix: str) -> Outputs:
    """Predicted (samples, values) as the outputs of a signature, each with its shape."""
    code = None if packing is None else packing.output_code
    if code is None:
        (one,) = signature.outputs
        return {one.name + suffix: (sheet.folded(fields, one.shape), one.shape)}
    if isinstance(code, OutputStack):
        pairs = zip(signature.outputs, unstacked(sheet, code, signature.outputs, fields), strict=True)
        return {one.name + suffix: (values, one.shape) for one, values in pairs}
    found, start = {}, 0
    for one, part, scale, kept in zip(signature.outputs, code.parts, code.scales, code.kept, strict=True):
        where = np.full(one.size, start, dtype=np.int64)
        where[kept] = start + np.arange(len(kept))
        values = sheet.gathered(fields, where) * scale
        if part.holes is not None:
            values = sheet.where(part.holes.reshape(1, -1), np.nan, values)
        found[one.name + suffix] = sheet.folded(values, one.shape), one.shape
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
