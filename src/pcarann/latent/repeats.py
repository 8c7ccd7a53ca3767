"""Repeats and near-repeats of samples: groups that must not be split between training and held-out samples.

A sample that is held out tests a model only if the model has not learned a copy of it. Two kinds of copies are found:

    repeats        inputs equal to rounding, whatever the outputs are (replicated runs)
    near-repeats   inputs that a gap separates from all others: of the edges of the minimum spanning tree many are
                   shorter than t, hardly any are between t and 5 t, and groups joined by the short ones are tight,

        rms distance within groups ≤ 5 % of the spread of inputs, and ≤ 30 % of that of outputs.

Distances are those of standardised columns; fields of many values are first projected onto random directions. Random
samples, sweeps, grids, designs and clusters whose inside is sampled continuously have no such gap, or no tight groups.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

from pcarann.backend.arrays import Array, place_of, to_host
from pcarann.backend.random import uniform

__all__ = ["groups_of", "joint_groups"]

Values = np.ndarray[Any, np.dtype[Any]]

_COLUMNS = 64  # values of a table at most: more are a field
_DIRECTIONS = 32  # onto which fields are projected
_STREAMS = ((-41,), (-42,))
_CONSTANT = 1e-13  # spread of a column, of its size, that is rounding
_ROUNDING = 1e-7  # of the spread, by which repeats may differ
_GAP = 5.0  # factor between lengths that are rare
_RARE = 0.1  # number of edges in the gap, of those on the smaller side
_TIGHT, _TIGHTER = 0.05, 0.02  # rms distance within groups, of the spread of all: small groups, large ones
_SMALL_GROUP = 20
_FEW_LEVELS = 4
_ALIKE = 0.3  # the same of outputs
_MOST_IN_ONE = 0.6  # of all samples in one group: more are the bulk of a set with outliers
_MOST_LINKED = 4000  # samples whose distances are computed: of more only repeats are found


def groups_of(inputs: Array, outputs: Array) -> list[int]:
    """Return a label per sample of (samples, values) pairs; repeats and near-repeats share a label.

    >>> import numpy as np
    >>> groups_of(np.asarray([[0.0], [1.0], [0.0], [3.0]]), np.asarray([[5.0], [1.0], [5.0], [2.0]]))
    [0, 1, 0, 2]
    """
    if int(inputs.shape[0]) < 3:
        return list(range(int(inputs.shape[0])))
    (x, precise), (y, _) = _standardised(inputs, _STREAMS[0]), _standardised(outputs, _STREAMS[1])
    labels = _repeats(precise)
    first = np.unique(labels, return_index=True)[1]
    if len(first) < _FEW_LEVELS and not _within(y, labels) <= _ALIKE:
        labels = _repeats(
            np.concatenate([precise, y], axis=1)
        )  # levels of a factor, whose outputs depend on something else
        first = np.unique(labels, return_index=True)[1]
    labels = _near_repeats(x[first], y[first])[labels]
    if labels.max() == 0:  # nothing could be held out
        return list(range(len(labels)))
    return _in_order(labels)


def joint_groups(inputs: Array, outputs: Array, together: int) -> list[int]:
    """Label (samples, values) pairs as `groups_of` does; of each block of `together` samples as of one sample."""
    xp, count = place_of(inputs).xp, int(inputs.shape[0]) // together
    labels = groups_of(*(xp.reshape(fields, (count, -1)) for fields in (inputs, outputs)))
    return [label for label in labels for _ in range(together)]


def _standardised(fields: Array, stream: tuple[int, ...]) -> tuple[Values, Values]:
    """Columns in units of their spread, or random projections of a field, (samples, ≤ 64), on the host.

    The second array also holds the logarithms of columns: numbers over many decades are equal only if all digits are.
    """
    place = place_of(fields)
    xp = place.xp
    fields = xp.astype(xp.reshape(fields, (int(fields.shape[0]), -1)), xp.float64)
    size = max(float(xp.max(fields)), -float(xp.min(fields))) or 1.0
    if int(fields.shape[1]) > _COLUMNS:
        weights = uniform((int(fields.shape[1]), _DIRECTIONS), seed=0, stream=stream, place=place, low=-1.0)
        found = to_host(fields @ (weights / size))
        found = found - found.mean(axis=0)
        scale = float(np.sqrt(np.mean(_spread(found) ** 2)))
        found = found / (scale if scale > _CONSTANT else 1.0)
        return found, found
    values = to_host(fields) / size
    found = values - values.mean(axis=0)
    scales = _spread(found)
    scales = np.where(scales > _CONSTANT * np.abs(values).max(axis=0), scales, np.inf)
    found = found / scales
    return found, np.concatenate([found, np.arcsinh(values / (1e-12 * scales))], axis=1)


def _spread(columns: Values) -> Values:
    """Standard deviation of each column from its inner 80 %, which outliers leave as it is."""
    low, high = np.quantile(columns, [0.1, 0.9], axis=0)
    inner = (high - low) / 2.563
    std = columns.std(axis=0)
    return np.asarray(np.where(inner > 1e-6 * std, inner, std))


def _repeats(x: Values) -> Values:
    """Labels from 0 of rows that agree to rounding: sorted along random directions, neighbours agree in each."""
    n = len(x)
    weights = np.random.default_rng(0).uniform(0.5, 1.0, (x.shape[1], 3)) * np.asarray([1.0, -1.0, 1.0])
    weights[1::2, 2] *= -1.0
    labels = np.zeros(n, dtype=np.int64)
    for along in (x @ weights).T:
        order = np.lexsort((along, labels))
        new = (np.diff(along[order]) > _ROUNDING * math.sqrt(x.shape[1])) | (np.diff(labels[order]) > 0)
        labels[order] = np.concatenate([[0], np.cumsum(new)])
    return labels


def _near_repeats(x: Values, y: Values) -> Values:
    """Labels from 0 of rows that are joined by edges below a gap."""
    n = len(x)
    alone = np.arange(n)
    if not 3 <= n <= _MOST_LINKED:
        return alone
    tree = linkage(pdist(x), "single")
    edges = tree[:, 2]
    upper = np.searchsorted(edges, _GAP * edges, side="left")  # edges below 5 t, for each t among them
    below = np.arange(1, n)
    clear = (upper - below <= _RARE * np.minimum(below, n - 1 - upper)) & (upper < n - 1)
    for k in np.flatnonzero(clear)[::-1]:
        labels = fcluster(tree, math.sqrt(_GAP) * edges[k], "distance") - 1
        counts = np.bincount(labels)
        limit = _TIGHT if n <= _SMALL_GROUP * len(counts) else _TIGHTER
        tight = counts.max() <= max(2, _MOST_IN_ONE * n) and _within(x, labels) <= limit
        if tight and _within(y, labels) <= _ALIKE:
            return np.asarray(labels)
    return alone


def _within(x: Values, labels: Values) -> float:
    """Rms distance of rows of the same label, of the upper quartile of all distances."""
    counts = np.bincount(labels)
    several = counts[labels] > 1
    if not several.any():
        return 0.0
    means = np.stack([np.bincount(labels, column) / counts for column in x.T], axis=1)
    within = np.sum((x - means[labels])[several] ** 2) / max(1, int(several.sum() - (counts > 1).sum()))
    some = x if len(x) <= 300 else x[np.linspace(0, len(x) - 1, 300).astype(int)]
    spread = float(np.quantile(pdist(some), 0.75))
    return math.inf if not spread > 0 else math.sqrt(2 * within) / spread


def _in_order(labels: Values) -> list[int]:
    """The same groups, numbered as they first appear."""
    number: dict[int, int] = {}
    return [number.setdefault(int(label), len(number)) for label in labels]
