"""Small problems, in memory and lazy, and models of them."""

from __future__ import annotations

import dask.array as da
import numpy as np

OPTIONS = dict(n_components=(12, 14), widths=(40, 30), n_members=2, ridge=1e-8, scales="energy")


def fields(n, decay=1.5, seed=0):
    """Inputs (n, 18, 20) and outputs (n, 9, 20); with a negative decay amplitudes fall by powers of ten."""
    rng = np.random.default_rng(seed)
    orders = np.arange(16)
    sizes = 10.0 ** (decay * orders) if decay < 0 else 1.0 / (1 + orders) ** decay
    t = np.linspace(0, 1, 360)
    a = (rng.normal(size=(n, 16)) * sizes) @ np.cos(np.pi * orders[:, None] * t) + 3
    u = np.tanh(a[:, ::2]) * a[:, 1::2].mean(1, keepdims=True)
    return a.reshape(n, 18, 20), u.reshape(n, 9, 20)


def lazily(array, *chunks):
    """The same as a Dask array; axes that are not named have one chunk."""
    return da.from_array(array, chunks=chunks + (-1,) * (array.ndim - len(chunks)))


def apart(found, known):
    """The largest difference, relative to the largest number."""
    return float(np.abs(np.asarray(found) - known).max() / np.abs(known).max())
