from copy import deepcopy

import dask.array as da
import numpy as np
import pytest
from lazy_data import OPTIONS, fields, lazily
from sklearn.base import clone

from pcarann import PCARaNN, Symmetry
from pcarann.scale import limited

A, U = fields(120)


def refused(match, x=None, y=None, **options):
    with pytest.raises(ValueError, match=match) as found:
        PCARaNN(**OPTIONS | options).fit(lazily(A, 50) if x is None else x, lazily(U, 50) if y is None else y)
    assert "\n" not in str(found.value)


def test_what_cannot_be_read_is_refused_in_one_sentence():
    refused("unknown size: call X.compute_chunk_sizes", lazily(A, 50)[lazily(A[:, 0, 0], 50) > 0])
    refused("chunk of length 0 along axis 0, the one at 1", da.from_array(A, chunks=((50, 0, 70), 18, 20)))
    refused("Complex data", lazily(A + 0j, 50))
    refused("real numbers, found dtype <U", lazily(A.astype(str), 50))
    refused("same number of samples, found 120 and 100", y=lazily(U[:100], 50))
    refused("minimum of 2", lazily(A[:1], 1), lazily(U[:1], 1))
    refused("must have shape", lazily(A[:, 0, 0], 50))


def masked(array, *where):
    """A masked array, masked here and there."""
    found = np.ma.MaskedArray(array, mask=np.zeros(array.shape, dtype=bool))
    for one in where:
        found[one] = np.ma.masked
    return found


MODEL = PCARaNN(**OPTIONS).fit(A, U).calibrate(A + 0.01, U)
MASKED = r"{} is a masked array: fill or drop the masked values first"


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("method", ["fit", "predict", "score", "observe", "partial_fit", "novelty"])
def test_masked_values_are_refused_whether_dask_knows_of_them_or_not(method, hidden):
    x = lazily(masked(A, (70, 3, 4)), 25)
    x = x.map_blocks(lambda block: block, meta=np.empty((0, 0, 0))) if hidden else x
    pair = () if method in ("predict", "novelty") else (lazily(U, 50),)
    with pytest.raises(ValueError, match=MASKED.format("X")):
        np.asarray(getattr(clone(MODEL) if method == "fit" else deepcopy(MODEL), method)(x, *pair))


def test_masked_outputs_in_memory_beside_lazy_inputs_are_refused():
    for method in ("fit", "score", "observe"):
        with pytest.raises(ValueError, match=MASKED.format("y")):
            getattr(clone(MODEL) if method == "fit" else MODEL, method)(lazily(A, 50), masked(U, (3, 3, 3)))


def test_a_masked_array_without_masked_values_is_one_like_others():
    assert np.array_equal(MODEL.predict(lazily(masked(A), 50)).compute(), MODEL.predict(lazily(A, 50)).compute())


def test_samples_that_belong_together_are_whole_groups():
    with pytest.raises(ValueError, match="together=7 must divide the number of samples, found 120"):
        PCARaNN(**OPTIONS).fit(lazily(A, 50), lazily(U, 50), together=7)


def test_values_that_are_not_finite_are_counted_and_the_first_is_named():
    for array, name in ((A, "X"), (U, "y")):
        bad = array.copy()
        bad[70, 3, 4], bad[110, 0, :2] = np.nan, np.inf
        pair = (lazily(bad, 50), None) if name == "X" else (None, lazily(bad, 50))
        refused(f"{name} contains NaN or infinity: 3 value.s., the first in sample 70", *pair)


def test_what_lazy_fits_do_not_do_is_refused():
    refused("symmetry needs copies", symmetry=Symmetry.dihedral())


def test_chunks_and_fields_that_do_not_fit_are_refused():
    with limited("300kB"):
        refused("X has chunks of .* make smaller chunks", lazily(A, 120))
    with limited("11kB"):
        refused("One value of all samples of X has 960 bytes, too much for the 5.5 kB", lazily(A, 1, 1))


def test_chunks_along_space_are_read_with_a_warning_that_says_the_cost():
    table = np.tile(A.reshape(120, -1)[:, :50], (10, 1)) + np.random.default_rng(0).normal(size=(1200, 50))
    x = lazily(table.reshape(1200, 5, 10), 1200, 1)
    with limited("400kB"), pytest.warns(UserWarning, match="lie across them: each pass may read"):
        PCARaNN(**OPTIONS | {"n_components": (5, 5)}).fit(x, lazily(np.tile(U, (10, 1, 1)), 20))


def test_a_store_that_changes_under_the_fit_is_noticed(tmp_path):
    zarr = pytest.importorskip("zarr")
    store = zarr.create_array(tmp_path / "x.zarr", shape=A.shape, chunks=(40, 18, 20), dtype="float64")
    store[:] = A
    seen = []

    def spoil(block):
        seen.append(1)
        return block + (1e-9 if len(seen) > 6 else 0.0)  # repeats are looked for in a pass of its own

    x = da.from_zarr(store).map_blocks(spoil, dtype=float)
    model = PCARaNN(**OPTIONS)
    with pytest.raises(ValueError, match="X has changed while it was read"), limited("8MB"):
        model.fit(x, lazily(U, 40))
    assert not hasattr(model, "fitted_")
