"""Columns of a table of parameters, each in its own unit.

Columns of a table have units of their own, and none of them should count more for being a large number:
each is measured in its spread, by quadrature weights 1/s² in the input PCA. A table is told from a field along one
axis by its neighbours, which are nearly uncorrelated. Where the sizes of the columns do mean something (coefficients
of a decaying series), leaving samples out tells: a kernel then predicts some combinations of the outputs better from
the columns as they are.
"""

from __future__ import annotations

import numpy as np

from pcarann.backend.arrays import Array, place_of, taken, to_host
from pcarann.backend.random import spread, uniform
from pcarann.features.kernel import choose_length
from pcarann.latent.source import Source
from pcarann.latent.weighting import Weighting
from pcarann.validation import warn_user

__all__ = ["column_weights", "hint_at_strangers", "looks_like_table", "strangers"]

_NEIGHBOURS = 0.5  # mean correlation of neighbours from which columns are points of a field
_JUDGED, _MIXED = 300, 16  # samples and combinations of the outputs on which units are judged
_BETTER = 0.9  # of the error with units of their own: columns as they are must be this much better
_WIDEST = 1e60
_FIELD, _STRANGE = 0.7, 0.35  # correlations of neighbours inside a field, and of numbers that were put beside it
_MOST_STRANGERS, _FEWEST_POINTS = 16, 64
_STREAM = (-10,)


def column_weights(inputs: Array, outputs: Array | Source, grid: tuple[int, ...]) -> Array | None:
    """Return 1/s² of each column of a table, (values,); None where the inputs are fields, or better as they are."""
    if len(grid) != 1 or grid[0] < 2:
        return None
    xp = place_of(inputs).xp
    spreads = xp.std(inputs, axis=0)
    # A column of rounding alone is constant.
    spreads = xp.where(spreads > 1e-14 * xp.max(xp.abs(inputs), axis=0), spreads, xp.zeros_like(spreads))
    largest_spread = float(xp.max(spreads))
    if not largest_spread or not looks_like_table(inputs, spreads):
        return None
    units = xp.where(spreads > 0, spreads, xp.ones_like(spreads) * largest_spread)
    if float(xp.min(units)) > 0.5 * largest_spread:
        return None  # they are alike
    if largest_spread / float(xp.min(units)) > _WIDEST:
        raise ValueError(f"The columns of X differ in size by more than {_WIDEST:g}: give them other units.")
    rows = spread(int(inputs.shape[0]), _JUDGED)
    x, y = taken(inputs, rows), outputs.rows(rows) if isinstance(outputs, Source) else taken(outputs, rows)
    y = (y - xp.mean(y, axis=0)) @ uniform((y.shape[1], _MIXED), seed=0, stream=_STREAM, place=place_of(y), low=-1.0)
    x = x - xp.mean(x, axis=0)
    own, shared = (choose_length(x / unit, y, Weighting())[2] for unit in (units, largest_spread))
    return None if shared < _BETTER * own else 1.0 / units**2


def looks_like_table(inputs: Array, spreads: Array) -> bool:
    """Whether neighbouring columns have little to do with each other."""
    xp = place_of(inputs).xp
    correlations, pairs = _neighbours(inputs, spreads)
    return bool(xp.sum(correlations) < _NEIGHBOURS * xp.sum(pairs)) or not bool(xp.any(pairs > 0))


def strangers(inputs: Array) -> tuple[int, int]:
    """How many of the first and of the last columns of a field along one axis have nothing to do with the field.

    Numbers that were put beside the values of a field are lost among them: their neighbours are none.
    """
    count = int(inputs.shape[1])
    if count < _FEWEST_POINTS:
        return 0, 0
    correlations, pairs = _neighbours(inputs, place_of(inputs).xp.std(inputs, axis=0))
    found, moved = to_host(correlations), to_host(pairs) > 0
    inner = slice(_MOST_STRANGERS, len(found) - _MOST_STRANGERS)
    if not moved.all() or np.median(found[inner]) < _FIELD or np.quantile(found[inner], 0.05) < _STRANGE:
        return 0, 0
    ends = []
    for side in (found[:_MOST_STRANGERS], found[::-1][:_MOST_STRANGERS]):
        alone = 0
        while alone < _MOST_STRANGERS and side[alone] < _STRANGE:
            alone += 1
        ends.append(alone)
    return ends[0], ends[1]


def _neighbours(inputs: Array, spreads: Array) -> tuple[Array, Array]:
    """Correlations of columns beside each other, and whether both change, (columns − 1,) each."""
    xp = place_of(inputs).xp
    some = taken(inputs, spread(int(inputs.shape[0]), 2000))
    z = (some - xp.mean(some, axis=0)) / xp.where(spreads > 0, spreads, xp.ones_like(spreads))
    moved = xp.astype(spreads > 0, xp.float64)
    pairs = moved[1:] * moved[:-1]
    return xp.abs(xp.mean(z[:, 1:] * z[:, :-1], axis=0)) * pairs, pairs


def hint_at_strangers(inputs: Array) -> None:
    """Say that numbers beside a field are better handed over apart from it."""
    first, last = strangers(inputs)
    if first or last:
        where = " and ".join(f"{side} {n}" for side, n in (("first", first), ("last", last)) if n)
        warn_user(
            f"The {where} of the {int(inputs.shape[1])} columns of X have nothing to do with those beside them, which "
            "are those of a field, and are lost among them: hand them over by name, fit({'field': …, 'numbers': …}, y)."
        )
