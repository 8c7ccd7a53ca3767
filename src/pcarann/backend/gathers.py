"""The adjoint of a gather: where (g a)ᵢ = a_{jᵢ}, (gᵀ c)ⱼ is the sum of all cᵢ with jᵢ = j.

A value that is read twice, as on a closed periodic grid, gets both. The standard has no such sum; here it is one gather
for the first place that reads each value, one for the second, and so on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of

__all__ = ["gather_adjoint"]

Index = np.ndarray[Any, np.dtype[Any]]


def gather_adjoint(rows: Array, index: Index, count: int) -> Array:
    """(samples, gathered) cotangents of `take(values, index, axis=1)` as those of (samples, count) values.

    >>> gather_adjoint(np.array([[1.0, 2.0, 4.0]]), np.array([2, 0, 2]), 3)
    array([[2., 0., 5.]])
    """
    place = place_of(rows)
    xp = place.xp
    total, left = None, np.arange(len(index))
    while len(left):
        source = np.full(count, -1, dtype=np.int64)
        source[index[left]] = left  # of several that read one value, the last
        some = xp.take(rows, xp.asarray(np.maximum(source, 0), device=place.device), axis=1)
        if (source < 0).any():
            some = xp.where(xp.asarray(source >= 0, device=place.device), some, xp.zeros_like(some))
        total = some if total is None else total + some
        left = left[source[index[left]] != left]
    return place.zeros(rows.shape[0], count) if total is None else total
