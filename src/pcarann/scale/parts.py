"""Lazy parts by name as one lazy matrix, whose blocks are parts again; and as the two sides of a fit.

    {"k": k, "angle": a}  ──▶  (samples, values of k and of angle)  ──▶  a block of samples  ──▶  {"k": k, "angle": a}

Outputs stand side by side, each divided by its spread, which takes a pass. Inputs become a table of latents, in memory:
their codes are found on samples that fit there, large fields being latents of a PCA by blocks, and a pass codes all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from pcarann.backend.arrays import Place, place_of, to_host
from pcarann.backend.random import spread
from pcarann.containers.coding import FAR, JUDGED, MOST_MODES, InputCode, PartCode, Recoding, is_table
from pcarann.containers.packing import Packed, Packing, is_one, opened_sides, told_weights
from pcarann.containers.parts import Opened, Part, Side, said_of
from pcarann.containers.scaling import OutputCode, power_of_two, squared_unit
from pcarann.latent.pca import PCA, mode_signs
from pcarann.latent.rows import Order
from pcarann.latent.source import PcaOptions
from pcarann.mesh.mesh import Mesh
from pcarann.scale.engine import Budget, computed, nothing, over_blocks
from pcarann.scale.fields import checked_lazy, cut_along, matrix_of, refuse_unknown, rows_of
from pcarann.scale.kinds import lazy_array
from pcarann.scale.reading import SHIFTED_BY
from pcarann.scale.source import Lazy, spread_rows
from pcarann.validation import in_block, unmasked

__all__ = ["Fold", "as_lazy", "lazily_packed", "lazy_parts", "refuse_unknown_parts"]

_MOST_CODED = 8192  # samples on which the code of inputs is found
_COPIES = 16  # of them that are in memory then
_FEWEST_CODED, _FEWEST_SPANNED = 200, 50  # samples and modes without which a code says little


@dataclass(frozen=True)
class Fold:
    """How the values of a sample are one array, or several by name."""

    grids: tuple[tuple[int, ...], ...]
    names: tuple[str, ...] = ()
    """Empty where there is one array"""

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
    return checked_lazy(da.from_array(to_host(unmasked(value, name))) if array is None else array, name, **wanted)


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
    coder, recoding, latents = _coded(inputs, given, as_lazy(array, "y", scalar=True), weights[0], place, seed)
    both = (np.ones(int(latents.shape[1])), weight)
    return Packed(latents, array, replace(packing, input_code=coder), both, recoding if coder.fields else None)


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
    some = rows_of(matrix, range(min(SHIFTED_BY, int(matrix.shape[0]))))
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
) -> tuple[InputCode, Recoding, Any]:
    """How inputs become latents, from samples that fit into memory, also without some of these; the latents of all."""
    fold, budget = Fold.of(replace(inputs, single=False)), Budget.now()
    arrays, outputs = dict(zip(inputs.names, lazy_parts(inputs, given, "X"), strict=True)), matrix_of(y)
    matrix, count = fold.joined(list(arrays.values())), int(y.shape[0])
    few, told, spanned = list(inputs.parts), dict(weights), {}
    if _room(fold.values, budget) < min(count, _MOST_CODED):
        for i, part in enumerate(inputs.parts):
            if (found := _Spanned.of(part, arrays[part.name], weights.get(part.name), place)) is not None:
                few[i], arrays[part.name], spanned[part.name] = found.short, found.latents, found
                told[part.name] = np.ones(found.short.grid)
    values = sum(math.prod(part.grid) for part in few)
    rows = spread(count, _enough(_room(values, budget), min(count, _MOST_CODED), values))
    judged = spread(len(rows), min(JUDGED, _enough(_room(int(outputs.shape[1]), budget), count, int(outputs.shape[1]))))
    some = {name: _some(array, rows) for name, array in arrays.items()}
    truth = rows_of(outputs, [rows[i] for i in judged])
    if not all(np.isfinite(one).all() for one in some.values()):
        for name in inputs.names:
            _refuse_bad(matrix_of(as_lazy(arrays[name], "X", scalar=True)), said_of("X", name))
    if not np.isfinite(truth).all():
        _refuse_bad(outputs, "y")
    coder, recoding = InputCode.fit(few, some, place.put(truth), told, seed, judged)
    codes = (spanned[one.part.name].of_fields(one) if one.part.name in spanned else one for one in coder.codes)
    coder = InputCode(tuple(codes))
    cut = cut_along(matrix, 0, budget, "X")
    own = [(part.start,) for part in cut.parts]
    constants = {"coder": coder, "fold": fold, "place": place}
    _, kept = over_blocks(coded_block, cut.blocks(matrix), own, constants, nothing, shown="coding X")
    return coder, replace(recoding, known=tuple(rows)), place.xp.concat([place.put(one) for one in kept])


def _room(values: int, budget: Budget) -> int:
    """Samples of so many values that a code can be found from in memory."""
    return budget.memory // (_COPIES * 8 * values)


def _enough(room: int, wanted: int, values: int) -> int:
    """So many samples as fit, or a refusal where these are few."""
    if room < min(wanted, _FEWEST_CODED):
        need = min(wanted, _FEWEST_CODED) * _COPIES * 8 * values
        raise ValueError(f"Parts by name of {values} values need {need / 1e9:.2g} GB: allow more memory.")
    return min(room, wanted)


def _some(array: Any, rows: list[int]) -> Any:
    """Some samples of a lazy array, or of latents in memory."""
    if lazy_array(array) is None:
        return array[np.asarray(rows)]
    return rows_of(matrix_of(array), rows).reshape(len(rows), *array.shape[1:])


@dataclass(frozen=True)
class _Spanned:
    """A field as its latents in modes that hold nearly all of it, found by passes over all samples."""

    part: Part
    short: Part
    """The latents as a part"""
    pca: PCA
    unit: float
    latents: Any
    outside: float
    """The most that the modes miss of a sample"""

    @classmethod
    def of(cls, part: Part, array: Any, weights: Any, place: Place) -> _Spanned | None:
        """That of a lazy field; None for a table, or for one of few values."""
        name, count = said_of("X", part.name), int(array.shape[0])
        if math.prod(part.grid) <= MOST_MODES:
            return None
        lazy = Lazy.of(array, name, place, least=2)
        if weights is None and is_table(part, lazy.rows(spread_rows(lazy))):
            return None
        flat = None if weights is None else np.ravel(weights)
        order = Order.whole(count)
        lazy = lazy.looked_at(order, flat, 1)
        most = max(_FEWEST_SPANNED, lazy.budget.memory // (_COPIES * 8 * count))
        pca, latents, measured = lazy.encoded(order, PcaOptions(min(most, MOST_MODES, *lazy.shape), part.grid))
        missed = to_host(measured.energies)[:, 0] - (to_host(latents) ** 2).sum(axis=1)
        outside = math.sqrt(max(float(missed.max()), 0.0))
        return cls(part, Part(part.name, (pca.n_components,)), pca, lazy.unit, to_host(latents), outside)

    def of_fields(self, code: PartCode) -> PartCode:
        """The code of the field, from that of its latents."""
        assert code.modes is not None
        weights, modes = self.pca.weights, code.modes @ self.pca.modes
        root = 1.0 if weights is None else place_of(weights).xp.sqrt(weights)
        return replace(
            code,
            part=self.part,
            unit=code.unit * self.unit,
            mean=self.pca.mean / code.unit + code.mean @ self.pca.modes,
            modes=modes * mode_signs(modes * root)[:, None],
            quadrature=weights,
            far=math.hypot(code.far, FAR * self.outside / code.unit),
        )


def coded_block(raw: Any, first: int, *, coder: Callable[..., Any], fold: Fold, place: Place) -> tuple[None, Any]:
    """The latents of a block of inputs."""
    with in_block(first):
        return None, to_host(coder(fold.folded(raw), place)[0])
