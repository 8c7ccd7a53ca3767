"""The movable inputs of every kind of surrogate, from what its record kept of the training inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.containers.coding import InputCode, PartCode
from pcarann.containers.scaling import kept_points
from pcarann.containers.stacking import InputStack
from pcarann.explorer.sliders import Movable, Slider, Values
from pcarann.export.signature import Signature, Tensor
from pcarann.fitted import Fitted
from pcarann.mesh.mesh import Mesh
from pcarann.spatial.fitted import BEYOND, FittedStages
from pcarann.spatial.layout import Layout

__all__ = ["inputs_at", "movables_of"]

_MODES = 8  # sliders of a field
_MOST_VALUES = 1 << 20  # of all modes of a field
_MOST_COLUMNS = 64  # that have sliders of their own
_REACH = 3.0  # deviations to which a slider goes where no range is known
_FAR = 1e200  # an end of no range
_OF_WAVES = "half ranges; waves may be unlike the training inputs"
_FEW = 8  # values along one axis that are numbers, not a field


def movables_of(model: Any) -> tuple[Movable, ...]:
    """The inputs of a fitted surrogate, in the order of its tensors."""
    tensors = Signature.of(model).inputs
    fitted = model.fitted_
    if hasattr(model, "marched_"):
        return _of_flow(fitted, tensors)
    if isinstance(fitted, FittedStages):
        return tuple(replace(one, margin=BEYOND) for one in _of_stages(fitted, tensors))
    code = None if fitted.packing is None else fitted.packing.input_code
    if isinstance(code, InputCode):
        return _of_parts(fitted, code, tensors)
    return (_of_array(fitted, tensors[0]),)


def inputs_at(model: Any, settings: Mapping[str, Mapping[str, Any] | float] | None = None) -> Any:
    """One sample as `predict` takes it, with sliders of the explorer at these places; of a flow with controls both.

    `settings` has by the name of an input what differs from the start: places of sliders by label, and under "sample"
    an array from which they move it, in place of the mean. Of an input that is one number, that number will do.

    >>> import pcarann
    >>> model = pcarann.PCARaNN(n_components=(2, 5), widths=(20, 10), n_members=2)
    >>> table = np.random.default_rng(0).uniform(1, 2, (50, 2))
    >>> _ = model.fit(table, np.sin(table @ np.ones((2, 20)) * np.linspace(0, 1, 20)))
    >>> inputs_at(model, {"inputs": {"column 1": 1.25}})[0, 1].round(12)
    np.float64(1.25)
    """
    movables = {one.tensor.name: one for one in movables_of(model)}
    if strange := [name for name in settings or {} if name not in movables]:
        raise ValueError(f"The inputs are {', '.join(movables)}: {strange[0]!r} is none of them.")
    arrays = {name: one.at((settings or {}).get(name, {}))[None] for name, one in movables.items()}
    X, how = Signature.of(model).opened(arrays)
    return (X, how["controls"]) if "controls" in how else X


def _of_array(fitted: Fitted, tensor: Tensor) -> Movable:
    """One array, a table or a field, that a PCA was fitted to as it is."""
    mean, modes = _latent(fitted)
    narrow = len(tensor.shape) == 1 and tensor.size <= _FEW
    if tensor.size <= _MOST_COLUMNS and (fitted.own_units or tensor.columns or narrow):
        spread = np.sqrt((modes**2).sum(axis=0))
        unit = fitted.units.inputs
        low, high = _known_columns(fitted, (mean - _REACH * spread) / unit, (mean + _REACH * spread) / unit)
        low, high = unit * low, unit * high
        names = tensor.columns or tuple(f"column {i}" for i in range(tensor.size))
        return _columns(tensor, mean, low, high, names)
    low, high = _latent_range(fitted)
    return _field(tensor, mean, modes, low, high)


def _latent(fitted: Fitted) -> tuple[Values, Values]:
    """The mean of the training inputs and their modes, each as large as the deviation along it, in the user's units."""
    pca = fitted.ensemble.input_pca
    spread = to_host(pca.singular_values)[:, None] / math.sqrt(fitted.pca_samples)
    unit = fitted.units.inputs
    return unit * to_host(pca.mean), unit * spread * to_host(pca.modes)


def _latent_range(fitted: Fitted) -> tuple[Values, Values]:
    """Ends of the training inputs along each mode, in deviations."""
    spread = to_host(fitted.ensemble.input_pca.singular_values) / math.sqrt(fitted.pca_samples)
    if fitted.edge is None:
        return np.full(len(spread), -_REACH), np.full(len(spread), _REACH)
    there = np.where(spread > 0, spread, 1.0)
    return to_host(fitted.edge.low) / there, to_host(fitted.edge.high) / there


def _of_parts(fitted: Fitted, code: InputCode, tensors: Sequence[Tensor]) -> tuple[Movable, ...]:
    """Parts by name, each coded apart: the latents z of the training samples are decoded from those that were kept."""
    z = to_host(fitted.ensemble.input_pca.decode(fitted.training_x))
    low, high = _known_columns(fitted, z.min(axis=0), z.max(axis=0))
    rows = fitted.units.inputs * np.stack([low, high, z.std(axis=0)])
    parts = zip(tensors, code.codes, code.slices, strict=True)
    return tuple(_of_part(tensor, one, rows[:, where] / to_host(one.factor)) for tensor, one, where in parts)


def _of_part(tensor: Tensor, code: PartCode, latents: Values) -> Movable:
    """One of them, by the ends and the deviation of its latents without weights, (3, latents)."""
    mean, kept, (low, high, spread) = code.unit * to_host(code.mean), kept_points(code.part), latents
    if code.modes is None:
        return _columns(tensor, mean, mean + code.unit * low, mean + code.unit * high, code.names)
    there = np.where(spread > 0, spread, 1.0)
    modes = np.zeros((len(spread), tensor.size))
    modes[:, kept] = code.unit * spread[:, None] * to_host(code.modes)
    start = np.full(tensor.size, np.nan)
    start[kept] = mean
    return _field(tensor, start, modes, low / there, high / there)


def _known_columns(fitted: Fitted, low: Values, high: Values) -> tuple[Values, Values]:
    """Ends of columns as they were in the training, in the units inside; those given where that was not kept."""
    if fitted.edge is None or fitted.edge.columns is None:
        return low, high
    ends = zip(fitted.edge.columns, (low, high), strict=True)
    least, most = (np.where(np.abs(to_host(end)) < _FAR, to_host(end), other) for end, other in ends)
    return least, most


def _of_flow(flow: Any, tensors: Sequence[Tensor]) -> tuple[Movable, ...]:
    """The state from which a flow departs, the same in all snapshots that are given, and constant controls."""
    state = Tensor(tensors[0].name, tensors[0].shape[1:])
    found, low, high = _of_step(flow.model, state)
    assert found.modes is not None
    modes = np.repeat(found.modes[:, None], tensors[0].shape[0], axis=1)
    whole = [replace(found, tensor=tensors[0], start=np.broadcast_to(found.start, tensors[0].shape), modes=modes)]
    for tensor in tensors[1:]:
        middle = (low + high) / 2
        sliders = _sliders(low, high, middle, [f"control {i}" for i in range(len(low))])
        modes = np.repeat(np.eye(len(low))[:, None], tensor.shape[0], axis=1)
        whole.append(Movable(tensor, np.broadcast_to(middle, tensor.shape), sliders, modes))
    return tuple(whole)


def _of_step(step: Any, state: Tensor) -> tuple[Movable, Values, Values]:
    """The state of a step, and the ends of the controls behind it, each a constant field."""
    if isinstance(step, FittedStages):
        low, high = (step.units.inputs * np.array(end) for end in step.value_range)
        return _waves(state, float(low[0]), float(high[0]), step.layout), low[1:], high[1:]
    mean, modes = _latent(step)
    found = _field(state, mean[: state.size], modes[:, : state.size], *_latent_range(step))
    behind = slice(state.size, None, state.size)
    pca = step.ensemble.input_pca
    values = mean[behind] + step.units.inputs * to_host(step.training_x) @ to_host(pca.modes)[:, behind]
    return found, values.min(axis=0), values.max(axis=0)


def _of_stages(fitted: FittedStages, tensors: Sequence[Tensor]) -> tuple[Movable, ...]:
    """Components of one array, or parts stacked on one grid, by the range that the training values had in each."""
    stack = None if fitted.packing is None else fitted.packing.input_code
    if fitted.start.model is not None and not isinstance(stack, InputStack):
        return (_of_array(fitted.start.model.fitted_, tensors[0]),)
    low, high = (fitted.units.inputs * np.array(end) for end in fitted.value_range)
    if not isinstance(stack, InputStack):
        return (_waves(tensors[0], float(low.min()), float(high.max()), fitted.layout),)
    found, start = [], 0
    for tensor, table, count in zip(tensors, stack.tables, stack.counts, strict=True):
        ends = low[start : start + count], high[start : start + count]
        start += count
        if table:
            names = tensor.columns or ((tensor.name,) if count == 1 else tuple(f"column {i}" for i in range(count)))
            found.append(_columns(tensor, (ends[0] + ends[1]) / 2, *ends, names))
        else:
            found.append(_waves(tensor, float(ends[0].min()), float(ends[1].max()), fitted.layout))
    return tuple(found)


def _columns(tensor: Tensor, start: Values, low: Values, high: Values, names: Sequence[str]) -> Movable:
    return Movable(tensor, np.reshape(start, tensor.shape), _sliders(low, high, start, names))


def _sliders(low: Values, high: Values, start: Values, names: Sequence[str]) -> tuple[Slider, ...]:
    rows = zip(names, low, high, start, strict=True)
    return tuple(Slider(str(name), float(a), float(b), float(s)) for name, a, b, s in rows)


def _field(tensor: Tensor, start: Values, modes: Values, low: Values, high: Values) -> Movable:
    """A field by its leading modes: those along which it varies most."""
    sizes = (modes**2).sum(axis=1)
    count = int(min(_MODES, max(1, _MOST_VALUES // max(tensor.size, 1)), (sizes > 0).sum()))
    first = np.argsort(-sizes, kind="stable")[:count]
    names = [f"mode {i + 1}" for i in range(count)]
    sliders = _sliders(low[first], high[first], np.zeros(count), names)
    shape = (count, *tensor.shape)
    return Movable(tensor, start.reshape(tensor.shape), sliders, modes[first].reshape(shape), "standard deviations")


def _waves(tensor: Tensor, low: float, high: float, layout: Layout) -> Movable:
    """A field by the longest waves of its domain: the longest as high as half the range of its values, others less."""
    mesh = None if layout.mesh is None else layout.mesh.mesh
    if mesh is not None and mesh.nodes in tensor.shape:
        numbers, flat = _on_mesh(tensor, mesh)
    else:
        numbers, flat = _on_grid(tensor, layout)
    peaks = np.abs(flat).max(axis=tuple(range(1, flat.ndim)), keepdims=True)
    heights = (high - low) / 2 / (1 + numbers)
    modes = heights.reshape(-1, *(1 for _ in tensor.shape)) * flat / np.maximum(peaks, 1e-300)
    ends, names = np.ones(len(modes)), [f"wave {i}" for i in range(len(modes))]
    sliders = _sliders(-ends, ends, np.zeros(len(modes)), names)
    return Movable(tensor, np.full(tensor.shape, (low + high) / 2), sliders, modes, _OF_WAVES, (low, high), BEYOND)


def _on_mesh(tensor: Tensor, mesh: Mesh) -> tuple[Values, Values]:
    """Squares of wavenumbers, and (waves, *shape), the first of them constant."""
    axis = mesh.node_axis(tensor.shape)
    functions = mesh.harmonics(min(_MODES, mesh.nodes)).functions
    shape = [mesh.nodes if i == axis else 1 for i in range(len(tensor.shape))]
    whole = np.broadcast_to(functions.reshape(-1, *shape), (len(functions), *tensor.shape))
    return np.arange(len(functions), dtype=np.float64), whole


def _on_grid(tensor: Tensor, layout: Layout) -> tuple[Values, Values]:
    """The same on a grid, along axes of space: cosines, and both waves of a period."""
    ends = dict(zip(layout.space, zip(layout.boundaries, layout.closed, strict=True), strict=True))
    rank = len(tensor.shape)
    space = [axis for axis in ends if -axis <= rank and tensor.shape[axis] > 1] or [-1]
    waves = sorted(product(range(_MODES), repeat=len(space)), key=lambda k: (sum(n * n for n in k), k))[:_MODES]
    found = []
    for numbers in waves:
        field = np.ones(tensor.shape)
        for axis, n in zip(space, numbers, strict=True):
            along = _wave(n, tensor.shape[axis], *ends.get(axis, ("free", False)))
            field = field * along.reshape([-1 if i == rank + axis else 1 for i in range(rank)])
        found.append(field)
    return np.array([float(sum(n * n for n in k)) for k in waves]), np.stack(found)


def _wave(n: int, points: int, boundary: str, closed: bool) -> Values:
    """Half waves of a cosine, or of a period the sines and cosines in turn."""
    if boundary != "periodic":
        return np.asarray(np.cos(np.pi * n * np.linspace(0, 1, points)))
    phase = 2 * np.pi * ((n + 1) // 2) * np.arange(points) / (points - closed)
    return np.asarray(np.sin(phase) if n % 2 else np.cos(phase))
