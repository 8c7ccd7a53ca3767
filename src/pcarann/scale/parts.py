"""Lazy parts by name as one lazy matrix, whose blocks are parts again; and as the two sides of a fit.

    {"k": k, "angle": a}  ──▶  (samples, values of k and of angle)  ──▶  a block of samples  ──▶  {"k": k, "angle": a}

Outputs stand side by side, each divided by its spread, which takes a pass. Inputs become a table of latents, in memory:
their PCAs and weights are found on as many samples as fit there, and a pass codes all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from pcarann.backend.arrays import Place, to_host
from pcarann.backend.random import spread
from pcarann.containers.coding import InputCode
from pcarann.containers.packing import Packed, Packing, is_one, opened_sides, told_weights
from pcarann.containers.parts import Opened, Side, said_of
from pcarann.containers.scaling import OutputCode, power_of_two, squared_unit
from pcarann.mesh.mesh import Mesh
from pcarann.scale.engine import Budget, computed, nothing, over_blocks
from pcarann.scale.fields import checked_lazy, cut_along, matrix_of, refuse_unknown, rows_of
from pcarann.scale.kinds import lazy_array
from pcarann.validation import in_block

__all__ = ["Fold", "as_lazy", "lazily_packed", "lazy_parts", "refuse_unknown_parts"]

_MOST_CODED = 8192  # samples on which the code of inputs is found
_COPIES = 16  # of them that are in memory then
_SHIFTED_BY = 64  # samples whose mean is near that of all


@dataclass(frozen=True)
class Fold:
    """How the values of a sample are one array, or several by name."""

    grids: tuple[tuple[int, ...], ...]
    names: tuple[str, ...] = ()
    """None where there is one array"""

    @classmethod
    def of(cls, side: Side) -> Fold:
        """That of one side of a model."""
        return cls(tuple(part.grid for part in side.parts), () if side.single else side.names)

    @property
    def values(self) -> int:
        """Of one sample"""
        return sum(map(math.prod, self.grids))

    def joined(self, arrays: Sequence[Any]) -> Any:
        """Lazy arrays (samples, *grid) as one (samples, values), in the chunks of the largest."""
        import dask.array as da

        matrices = [matrix_of(array) for array in arrays]
        if len(matrices) == 1:
            return matrices[0]
        largest = max(matrices, key=lambda one: int(one.shape[1]))
        return da.concatenate([one.rechunk({0: largest.chunks[0]}, method="tasks") for one in matrices], axis=1)

    def folded(self, raw: Any) -> Any:
        """A (samples, values) block as what a model takes."""
        found = [raw[:, part].reshape(len(raw), *grid) for part, grid in zip(self._slices, self.grids, strict=True)]
        return dict(zip(self.names, found, strict=True)) if self.names else found[0]

    def flat(self, fields: Any) -> Any:
        """What a model hands out as (samples, values), on the host."""
        parts = [fields[name] for name in self.names] if self.names else [fields]
        return np.concatenate([to_host(one).reshape(len(one), -1) for one in parts], axis=1)

    def unjoined(self, matrix: Any) -> list[Any]:
        """Lazy arrays (samples, *grid) of a lazy (samples, values), whose samples are whole chunks."""
        return [_reshaped(matrix[:, part], grid) for part, grid in zip(self._slices, self.grids, strict=True)]

    @property
    def _slices(self) -> list[slice]:
        return [slice(a, b) for a, b in pairwise(accumulate(map(math.prod, self.grids), initial=0))]


def _reshaped(matrix: Any, grid: tuple[int, ...]) -> Any:
    if len(grid) == 1:
        return matrix
    if not grid:
        return matrix[:, 0]
    chunks = (matrix.chunks[0], *((n,) for n in grid))
    axes, meta = list(range(2, 1 + len(grid))), np.empty((0,) * (1 + len(grid)), matrix.dtype)
    return matrix.map_blocks(_on_grid, grid, dtype=matrix.dtype, chunks=chunks, new_axis=axes, meta=meta)


def _on_grid(block: Any, grid: tuple[int, ...]) -> Any:
    return block.reshape(len(block), *grid)


def as_lazy(value: Any, name: str, **wanted: Any) -> Any:
    """One array as a Dask array, checked as far as that needs no numbers; one in memory too."""
    import dask.array as da

    array = lazy_array(value)
    return checked_lazy(da.from_array(to_host(value)) if array is None else array, name, **wanted)


def lazily_packed(X: Any, y: Any, *, mesh: Mesh | None, place: Place, seed: int) -> Packed:
    """Whatever was handed to `fit`, a part of it lazy, as two arrays: `packed` for what is not in memory."""
    if mesh is None and not any(isinstance(one, Mapping) or hasattr(one, "dims") for one in (X, y)):
        return Packed(X, y)
    refuse_unknown_parts(X=X, y=y)
    (inputs, given), (outputs, truth) = opened_sides(X, y)
    weights = told_weights(inputs, outputs, mesh)
    packing = Packing(inputs, outputs, mesh=mesh)
    array, weight = truth.first, weights[1].get(outputs.names[0])
    if not is_one(outputs):
        code = _spreads(outputs, truth)
        array, weight = _scaled(code, truth), code.weights(weights[1])
        packing = replace(packing, output_code=code)
    if is_one(inputs):
        return Packed(given.first, array, packing, (weights[0].get(inputs.names[0]), weight))
    coder, latents = _coded(inputs, given, as_lazy(array, "y", scalar=True), weights[0], place, seed)
    return Packed(latents, array, replace(packing, input_code=coder), (np.ones(int(latents.shape[1])), weight))


def refuse_unknown_parts(**sides: Any) -> None:
    """Refuse Dask arrays, alone or in a mapping, whose length nobody knows."""
    for what, value in sides.items():
        for name, one in value.items() if isinstance(value, Mapping) else [("", value)]:
            if (array := lazy_array(one)) is not None:
                refuse_unknown(array, said_of(what, name))


def lazy_parts(side: Side, opened: Opened, what: str) -> list[Any]:
    """All parts of a side as Dask arrays, checked as far as that needs no numbers."""
    return [as_lazy(opened.arrays[part.name], said_of(what, part.name), scalar=True) for part in side.parts]


def _refuse_bad(matrix: Any, name: str) -> None:
    """Refuse a lazy matrix in which something is not finite."""
    import dask.array as da

    finite = da.isfinite(matrix)
    count, first = computed([(~finite).sum(), finite.all(axis=1).argmin()])
    if count:
        raise ValueError(f"{name} contains NaN or infinity: {count} value(s), the first in sample {first}.")


def _spreads(outputs: Side, truth: Opened) -> OutputCode:
    """The scales of outputs, from one pass over all of them."""
    matrices = [matrix_of(array).astype(np.float64) for array in lazy_parts(outputs, truth, "y")]
    units, found = zip(*map(_measured, matrices), strict=True)
    most, scales = max(int(one.shape[1]) for one in matrices), []
    for one, unit, (largest, variance), part in zip(matrices, units, computed(list(found)), outputs.parts, strict=True):
        if not math.isfinite(largest):
            _refuse_bad(one, said_of("y", part.name))
        spread_of = unit * math.sqrt(max(float(variance), 0.0) * int(one.shape[1]) / most)
        scales.append(power_of_two(spread_of, float(largest)))
    return OutputCode(outputs.parts, tuple(scales))


def _measured(matrix: Any) -> tuple[float, tuple[Any, Any]]:
    """A unit in which values can be squared; lazily, the largest of them and their variance around the mean in it.

    Σ (a − ā)² = Σ (a − c)² − n (ā − c)², the shift c being the mean of some samples.
    """
    some = rows_of(matrix, range(min(_SHIFTED_BY, int(matrix.shape[0]))))
    unit = squared_unit(float(np.abs(some[np.isfinite(some)]).max(initial=0.0)))
    shift = (some / unit).mean(axis=0)
    moved = matrix / unit - np.where(np.isfinite(shift), shift, 0.0)
    return unit, (abs(matrix).max(), ((moved**2).mean(axis=0) - moved.mean(axis=0) ** 2).mean())


def _scaled(code: OutputCode, truth: Opened) -> Any:
    """Outputs side by side, lazy."""
    side = Side(code.parts, False)
    scaled = [one.astype(np.float64) / by for one, by in zip(lazy_parts(side, truth, "y"), code.scales, strict=True)]
    return Fold.of(side).joined(scaled)


def _coded(
    inputs: Side, given: Opened, y: Any, weights: Mapping[str, Any], place: Place, seed: int
) -> tuple[InputCode, Any]:
    """How inputs become latents, from samples that fit into memory, and the latents of all."""
    fold, budget = Fold.of(replace(inputs, single=False)), Budget.now()
    arrays = lazy_parts(inputs, given, "X")
    matrix, outputs = fold.joined(arrays), matrix_of(y)
    room = budget.memory // (_COPIES * 8 * (fold.values + int(outputs.shape[1])))
    count = int(matrix.shape[0])
    rows = spread(count, max(2, min(count, _MOST_CODED, room)))
    some, truth = rows_of(matrix, rows), rows_of(outputs, rows)
    if not np.isfinite(some).all():
        for part, array in zip(inputs.parts, arrays, strict=True):
            _refuse_bad(matrix_of(array), said_of("X", part.name))
    if not np.isfinite(truth).all():
        _refuse_bad(outputs, "y")
    coder = InputCode.fit(inputs.parts, fold.folded(some), place.put(truth), weights, seed)
    cut = cut_along(matrix, 0, budget, "X")
    own = [(part.start,) for part in cut.parts]
    constants = {"coder": coder, "fold": fold, "place": place}
    _, kept = over_blocks(coded_block, cut.blocks(matrix), own, constants, nothing, shown="coding X")
    return coder, place.xp.concat([place.put(one) for one in kept])


def coded_block(raw: Any, first: int, *, coder: Callable[..., Any], fold: Fold, place: Place) -> tuple[None, Any]:
    """The latents of a block of inputs."""
    with in_block(first):
        return None, to_host(coder(fold.folded(raw), place)[0])
