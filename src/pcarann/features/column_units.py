"""Columns of a table of parameters, each in its own unit.

Columns of a table have units of their own, and none of them should count more for being a large number:
each is measured in its spread, by quadrature weights 1/s² in the input PCA. A table is told from a field along one
axis by its neighbours, which are nearly uncorrelated. Where the sizes of the columns do mean something (coefficients
of a decaying series), leaving samples out tells: a kernel then predicts some combinations of the outputs better from
the columns as they are.
"""

from __future__ import annotations

from pcarann.backend.arrays import Array, place_of, taken
from pcarann.backend.random import spread, uniform
from pcarann.features.kernel import choose_length
from pcarann.latent.weighting import Weighting

__all__ = ["column_weights", "looks_like_table"]

_NEIGHBOURS = 0.5  # mean correlation of neighbours from which columns are points of a field
_JUDGED, _MIXED = 300, 16  # samples and combinations of the outputs on which units are judged
_BETTER = 0.9  # of the error with units of their own: columns as they are must be this much better
_WIDEST = 1e60
_STREAM = (-10,)


def column_weights(inputs: Array, outputs: Array, grid: tuple[int, ...]) -> Array | None:
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
    x, y = taken(inputs, rows), taken(outputs, rows)
    y = (y - xp.mean(y, axis=0)) @ uniform((y.shape[1], _MIXED), seed=0, stream=_STREAM, place=place_of(y), low=-1.0)
    x = x - xp.mean(x, axis=0)
    own, shared = (choose_length(x / unit, y, Weighting())[2] for unit in (units, largest_spread))
    return None if shared < _BETTER * own else 1.0 / units**2


def looks_like_table(inputs: Array, spreads: Array) -> bool:
    """Whether neighbouring columns have little to do with each other."""
    xp = place_of(inputs).xp
    some = taken(inputs, spread(int(inputs.shape[0]), 2000))
    z = (some - xp.mean(some, axis=0)) / xp.where(spreads > 0, spreads, xp.ones_like(spreads))
    moved = xp.astype(spreads > 0, xp.float64)
    pairs = moved[1:] * moved[:-1]
    correlations = xp.abs(xp.mean(z[:, 1:] * z[:, :-1], axis=0)) * pairs
    return bool(xp.sum(correlations) < _NEIGHBOURS * xp.sum(pairs)) or not bool(xp.any(pairs > 0))
