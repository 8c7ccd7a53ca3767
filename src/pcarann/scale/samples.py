"""What is handed to `fit` where it is lazy: checked, looked at once, and as the fit wants it.

Tables, and outputs of a few values, are no larger than latents are: they are read into memory. All else stays where it
is and is read block by block.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, place_of, to_host
from pcarann.containers.packing import Packing
from pcarann.features.column_units import hint_at_strangers, looks_like_table
from pcarann.fitting import Samples, order_of
from pcarann.latent.repeats import joint_groups
from pcarann.latent.smoothing import Smoothing
from pcarann.latent.units import Units
from pcarann.scale.engine import computed
from pcarann.scale.kinds import lazy_array
from pcarann.scale.members import on_workers
from pcarann.scale.parts import lazily_packed
from pcarann.scale.report import ScaleReport
from pcarann.scale.source import Lazy, spread_rows
from pcarann.settings import Settings
from pcarann.validation import check_fields, check_pair_lengths, check_weights, required

__all__ = ["lazy_samples", "scale_report"]

_MOST_COLUMNS = 256  # of a table that is read into memory, as novelty looks at so many one by one
_FEW_VALUES = 16  # of outputs that are


def lazy_samples(
    X: Any, y: Any, settings: Settings, together: int, device: str | None
) -> tuple[Settings, Samples, Packing | None]:
    """Settings and samples of a fit to lazy inputs, lazy outputs or both, and what to remember of their labels."""
    begun = time.perf_counter()
    if settings.symmetry is not None:
        raise ValueError("A symmetry needs copies of the samples in memory: lazy arrays are fitted without one.")
    place = place_of(None, device).computing
    pair = lazily_packed(X, required(y), mesh=settings.fields.mesh, place=place, seed=settings.seed)
    settings = settings.with_packed(pair)
    sides = [_side(value, name, place) for value, name in ((pair.X, "X"), (pair.y, "y"))]
    grids = (sides[0][1], sides[1][1])
    count = int(sides[0][0].shape[0])
    check_pair_lengths(count, int(sides[1][0].shape[0]))
    if count % together:
        raise ValueError(f"together={together} must divide the number of samples, found {count}.")
    weights = settings.fields.quadrature
    inputs, smoothing = _smoothed(sides[0][0], grids[0], settings.fields.smoothing)
    if isinstance(inputs, Lazy) and len(grids[0]) == 1 and pair.packing is None:
        hint_at_strangers(inputs.rows(spread_rows(inputs, 2000)))
    groups = _groups(inputs, sides[1][0], together)
    order = order_of(settings, count, groups)
    found, units = [], []
    for side, fields in enumerate((inputs, sides[1][0])):
        channels = grids[0][0] if settings.fields.channels and side == 0 and len(grids[0]) > 1 else 1
        checked = check_weights(weights[side], f"fields.quadrature[{side}]", grids[side], place)
        if isinstance(fields, Lazy):
            fields = fields.looked_at(order, None if checked is None else to_host(checked), channels)
        found.append(fields)
        units.append(_unit(fields))
    divided = [one if isinstance(one, Lazy) or u == 1.0 else one / u for one, u in zip(found, units, strict=True)]
    parts = (pair.names, groups, pair.numbers, pair.parts, pair.fields, pair.recoding, on_workers)
    about = (grids, Units(*units), smoothing, *parts, time.perf_counter() - begun)
    return settings, Samples(divided[0], divided[1], *about), pair.packing


def _groups(inputs: Any, outputs: Any, together: int) -> list[int]:
    """Labels of samples that repeat each other, where all of them fit into memory; else of `together` in a row."""
    count = int(inputs.shape[0])
    if any(isinstance(one, Lazy) and one.most_rows < count for one in (inputs, outputs)):
        return [sample // together for sample in range(count)]
    x, u = (one.rows(list(range(count))) if isinstance(one, Lazy) else one for one in (inputs, outputs))
    return joint_groups(x, u, together)


def scale_report(samples: Samples) -> ScaleReport:
    """What was done with the lazy sides of a fit."""
    lazy = [side for side in (samples.inputs, samples.outputs) if isinstance(side, Lazy)]
    budget = lazy[0].budget if lazy else None
    return ScaleReport(
        tuple(side.report for side in lazy), budget.memory if budget else 0, budget.tasks if budget else 0
    )


def _side(value: Any, name: str, place: Place) -> tuple[Array | Lazy, tuple[int, ...]]:
    """One side as (samples, values) in memory or lazy, and its grid."""
    array = lazy_array(value)
    if array is None:
        return check_fields(value, name, place, scalar=name == "y", least=2)
    lazy = Lazy.of(array, name, place, least=2)
    few = lazy.shape[1] <= _FEW_VALUES if name == "y" else len(lazy.grid) == 1 and lazy.shape[1] <= _MOST_COLUMNS
    if not few and name == "X" and len(lazy.grid) == 1:
        some = np.asarray(rows_in_memory(lazy))
        few = looks_like_table(some, some.std(axis=0))
    if not few:
        return lazy, lazy.grid
    if 16 * math.prod(lazy.shape) > lazy.budget.memory:
        raise ValueError(f"{name} is a table, which must fit into memory: {8 * math.prod(lazy.shape) / 1e9:.3g} GB.")
    return check_fields(computed(array), name, place, scalar=name == "y", least=2)


def rows_in_memory(lazy: Lazy) -> Any:
    """Some of the fields, on the host."""
    return to_host(lazy.rows(spread_rows(lazy, 2000)))


def _smoothed(fields: Any, grid: tuple[int, ...], width: float) -> tuple[Any, Smoothing]:
    if isinstance(fields, Lazy):
        return fields.smoothed(width)
    smoothing = Smoothing.of(fields, grid, width)
    return smoothing(fields, grid), smoothing


def _unit(fields: Any) -> float:
    return fields.unit if isinstance(fields, Lazy) else Units.of(fields, fields).inputs
