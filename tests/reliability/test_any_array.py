"""Arrays of any shape, type, order of memory and size give what float64 arrays in C order give."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcarann import Marching, PCARaNN, Staged
from pcarann.spatial.channels import Channels

LATENT = dict(n_components=3, widths=(6, 5), n_members=2, ridge=1e-3)
KINDS = {
    "latent": lambda: PCARaNN(**LATENT),
    "stages": lambda: Staged("mean", n_stages=1, n_features=6, n_members=1, channels=Channels(singles=2)),
    "flow": lambda: Marching(PCARaNN(**LATENT), choose=False),
}
TYPES = ("f2", "f4", "f8", ">f8", ">f4", "i1", "i4", ">i8", "u2", "?")


def _strided(array):
    """Every second value of a larger array, from its end."""
    wide = np.zeros([2 * n for n in array.shape], array.dtype)[tuple(slice(None, None, -2) for _ in array.shape)]
    wide[...] = array
    return wide


def _unaligned(array):
    found = np.empty(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


def _read_only(array):
    array.flags.writeable = False
    return array


LAYOUTS = {
    "Fortran": np.asfortranarray,
    "strided": _strided,
    "unaligned": _unaligned,
    "read-only": _read_only,
    "of rows": lambda array: list(array),
    "broadcast": lambda array: np.broadcast_to(array, array.shape),
}
axes = st.lists(st.integers(1, 4), min_size=0, max_size=2)
grids = st.tuples(axes, st.integers(2, 5)).map(lambda parts: (*parts[0], parts[1]))


def samples(kind, grid, other, seed):
    """Inputs and outputs of 24 samples, as this surrogate takes them: whole numbers, which all types hold."""
    rng = np.random.default_rng(seed)
    grid = (*grid[:-1], grid[-1] + 8) if kind == "stages" else grid  # which need space to see
    drawn = rng.integers(0, 12, size=(24, *grid)).astype(float)
    if kind == "latent":
        return drawn, rng.integers(0, 12, size=(24, *other)) + drawn.reshape(24, -1)[:, 0].reshape(
            24, *[1] * len(other)
        )
    states = np.stack([drawn, drawn[::-1] + drawn, 12 - drawn], axis=1)
    return (states[:, :1], states[:, 1:]) if kind == "flow" else (drawn, states[:, 1])


def bands(kind, X, y):
    """Predictions and intervals of a model that was fitted to these, calibrated with these and asked for these."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ranks that are clipped, and of samples outside these few
        model = KINDS[kind]().fit(X[:14], y[:14]).calibrate(X[14:], y[14:])
        band = model.predict_interval(X[14:], alpha=0.3)
    return np.stack([np.asarray(part, float) for part in (band.mean, band.lower, band.upper)])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(
    shapes=st.tuples(grids, grids),
    types=st.tuples(st.sampled_from(TYPES), st.sampled_from(TYPES)),
    layouts=st.tuples(st.sampled_from(sorted(LAYOUTS)), st.sampled_from(sorted(LAYOUTS))),
    seed=st.integers(0, 99),
)
def test_types_and_layouts_change_no_byte(kind, shapes, types, layouts, seed):
    plain = [array.astype(kept) for array, kept in zip(samples(kind, *shapes, seed), types, strict=True)]
    given = [LAYOUTS[name](array.copy()) for name, array in zip(layouts, plain, strict=True)]
    found = bands(kind, *given)
    assert found.shape[2:] == plain[1].shape[1:]
    assert np.array_equal(found, bands(kind, *(array.astype(np.float64) for array in plain)))
    assert all(np.array_equal(one, array) for one, array in zip(given, plain, strict=True))  # and none was changed


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(shapes=st.tuples(grids, grids), power=st.integers(-300, 300), seed=st.integers(0, 99))
def test_the_unit_of_all_fields_is_that_of_predictions_and_intervals(kind, shapes, power, seed):
    X, y = samples(kind, *shapes, seed)
    found, wanted = bands(kind, 2.0**power * X, 2.0**power * y) / 2.0**power, bands(kind, X, y)
    # A power of two rounds nothing; what underflows among the smallest squares is worth 1e-13.
    assert np.allclose(found, wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())
