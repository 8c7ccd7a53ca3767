"""What a page needs to know of a model, as one JSON document.

    {"format": 1, "name": "plate", "file": "plate.pcarann", "kind": "PCARaNN", "about": "500 samples, 20 members",
     "inputs": [INPUT, …], "outputs": [TENSOR, …], "meshes": [MESH, …],
     "alphas": [0.5, 0.2, 0.1, 0.05, 0.01], "alpha": 0.05, "spread": true, "novelty": true}

    TENSOR   {"name", "part", "shape", "units", "kind", "axes": [AXIS, …], "columns", "mesh": 0 or null}
    AXIS     {"role", "name", "size", "coords": [number, …] or null}
    INPUT    TENSOR and {"start": VALUES, "sliders": [{"label", "low", "high", "start"}, …], "modes": VALUES or null,
             "unit": what a slider counts, "range": {"low", "high"} or null, "margin"}
    MESH     {"points": VALUES, "seen": VALUES, "triangles": VALUES, "nodes": VALUES, "words"}
    VALUES   {"shape": [n, …], "datatype": "FP64" or "INT32", "base64": little-endian}

Of an input, `range` is that of all training values of a field of which no modes are known, and one is outside that lies
beyond a range, its own or that of a slider, by more than `margin` times its width.

`name` is that of a tensor (`pcarann.export.signature`), `part` the name that the model knows it by. `kind` is "number",
"table" or "field". The role of an axis is "space", "time", "component" or "node"; a tensor with an axis of nodes names
its mesh. An input is start + Σ (s − s̄) mode over its sliders; without modes, value i is what slider i says. `alphas`
are levels for which a page may ask intervals, none where the model is not calibrated, and `alpha` the one that it shows
first, null where there is none; `spread` and `novelty` say whether there are outputs `NAME.std` and `novelty`. Of a
mesh, `points` are (nodes, dimensions), `seen` (nodes, 1 or 2) where nodes are on paper, `triangles` in the order in
which they are painted, `nodes` those that are drawn as dots where there are no triangles, and `words` say what is seen.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

from pcarann.explorer.moving import movables_of
from pcarann.explorer.places import axes_of, mesh_of, units_of
from pcarann.explorer.sliders import Movable, Values
from pcarann.export.signature import Signature, Tensor
from pcarann.mesh.mesh import Mesh
from pcarann.uncertainty.conformal import ALPHA

__all__ = ["ALPHAS", "portrait"]

ALPHAS = (0.5, 0.2, 0.1, 0.05, 0.01)
"""Levels 1 − α that a page offers, as far as the calibration reaches"""
_FEW = 8  # values along one axis that are numbers, not a field


def portrait(model: Any, name: str = "model", file: str | None = None) -> dict[str, Any]:
    """The document of a fitted surrogate, which a server calls by this name."""
    signature, fitted = Signature.of(model), model.fitted_
    mesh = None if fitted.packing is None else fitted.packing.mesh
    flow = hasattr(model, "marched_")
    state, alphas = fitted.model if flow else fitted, _alphas(fitted)
    return {
        "format": 1,
        "name": name,
        "file": file or f"{name}.pcarann",
        "kind": type(model).__name__,
        "about": _about(state, "steps" if flow else "samples"),
        "inputs": [_movable(one, mesh, flow) for one in movables_of(model)],
        "outputs": [_tensor(one, mesh, flow, _is_table(one)) for one in signature.outputs],
        "meshes": [] if mesh is None else [_packed(mesh_of(mesh))],
        "alphas": alphas,
        "alpha": ALPHA if ALPHA in alphas else alphas[-1] if alphas else None,
        "spread": state.members > 1 or state.residual_spread is not None,
        "novelty": getattr(state, "novelty_test", None) is not None,
    }


def _about(state: Any, counted: str) -> str:
    members = f"{state.members} member{'s' if state.members > 1 else ''}"
    return f"{state.samples} training {counted}, {members}"


def _alphas(fitted: Any) -> list[float]:
    """Levels that the calibration can give: 1 − α needs 1/α samples or so."""
    if fitted.calibration is None or fitted.stale:
        return []
    return [alpha for alpha in ALPHAS if math.isfinite(fitted.calibration.quantile(alpha))]


def _is_table(tensor: Tensor) -> bool:
    return len(tensor.shape) == 1 and not tensor.dims and (bool(tensor.columns) or tensor.size <= _FEW)


def _tensor(tensor: Tensor, mesh: Mesh | None, flow: bool, table: bool) -> dict[str, Any]:
    there = mesh is not None and mesh.nodes in tensor.shape
    return {
        "name": tensor.name,
        "part": tensor.part,
        "shape": list(tensor.shape),
        "units": units_of(tensor),
        "kind": "number" if not tensor.shape else "table" if table else "field",
        "axes": axes_of(tensor, mesh, flow=flow),
        "columns": list(tensor.columns),
        "mesh": 0 if there else None,
    }


def _movable(movable: Movable, mesh: Mesh | None, flow: bool) -> dict[str, Any]:
    sliders = [{"label": one.label, "low": one.low, "high": one.high, "start": one.start} for one in movable.sliders]
    table = movable.modes is None or movable.tensor.name == "controls"
    return _tensor(movable.tensor, mesh, flow, table) | {
        "start": _values(movable.start),
        "sliders": sliders,
        "modes": None if movable.modes is None else _values(movable.modes),
        "unit": movable.unit,
        "range": None if movable.ends is None else dict(zip(("low", "high"), movable.ends, strict=True)),
        "margin": movable.margin,
    }


def _packed(mesh: dict[str, Any]) -> dict[str, Any]:
    return {key: value if isinstance(value, str) else _values(value) for key, value in mesh.items()}


def _values(array: Values) -> dict[str, Any]:
    whole = array.dtype.kind in "iu"
    plain = np.ascontiguousarray(array, dtype="<i4" if whole else "<f8")
    return {
        "shape": list(array.shape),
        "datatype": "INT32" if whole else "FP64",
        "base64": base64.b64encode(plain.tobytes()).decode("ascii"),
    }
