import warnings
from copy import deepcopy

import dask.array as da
import numpy as np
import pytest
from lazy_data import apart, fields, lazily

from pcarann import Staged
from pcarann.scale import calibration, limited

A, U = (one[:, :9] for one in fields(90))
OPTIONS = dict(n_features=6, n_members=1, n_stages=1)


def test_masked_outputs_in_memory_beside_lazy_inputs_are_refused():
    with pytest.raises(ValueError, match="y is a masked array: fill or drop"):
        Staged(**OPTIONS).fit(lazily(A, 7), np.ma.masked_less(U, 0.1))


@pytest.mark.parametrize("most", [40, None])
def test_stages_of_lazy_samples_are_those_in_memory(most):
    known = Staged(**OPTIONS, max_samples=most).fit(A, U, together=2)
    with limited("60MB"):
        model = Staged(**OPTIONS, max_samples=most).fit(lazily(A, 7), lazily(U, 20), together=2)
    assert apart(model.predict(A), known.predict(A)) < 1e-10
    assert np.allclose(model.fitted_.value_range, known.fitted_.value_range, rtol=1e-12)


def fitted(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Staged(**OPTIONS | {"n_members": 2} | options).fit(A[:50], U[:50])


@pytest.fixture(scope="module")
def model():
    return fitted(adaptable=True)


@pytest.mark.filterwarnings("ignore:.*outside the range")
@pytest.mark.parametrize("chunks", [(7, 9), (11, 4)])
def test_stages_do_with_lazy_samples_what_they_do_in_memory(model, chunks):
    known, lazy = deepcopy(model).calibrate(A[50:], U[50:]), deepcopy(model)
    x, y = lazily(A, *chunks), lazily(U, *chunks)
    with limited("60MB"):
        lazy.calibrate(x[50:], y[50:])
    found = lazy.predict(x, return_std=True)
    assert all(isinstance(part, da.Array) for part in found)
    for one, wanted in zip(found, known.predict(A, return_std=True), strict=True):
        assert apart(one.compute(), wanted) < 1e-10
    for method in ("sample", "simultaneous", "local"):
        band, wanted = lazy.predict_interval(x, 0.2, method), known.predict_interval(A, 0.2, method)
        assert apart(band.upper.compute(), wanted.upper) < 1e-9
    assert lazy.score(x, y) == pytest.approx(known.score(A, U), abs=1e-12)
    assert str(lazy.monitor) == str(known.monitor)


@pytest.mark.filterwarnings("ignore:.*outside the range")
def test_scores_of_stages_that_do_not_fit_are_counted(model):
    known, lazy = deepcopy(model).calibrate(A[50:], U[50:]), deepcopy(model)
    with limited("150kB"):
        lazy.calibrate(lazily(A[50:], 2), lazily(U[50:], 2))
    found, wanted = (one.fitted_.calibration.quantile(0.2) for one in (lazy, known))
    assert wanted < found <= wanted * (1 + 3.2e-5)


@pytest.mark.filterwarnings("ignore:.*outside the range")
def test_stages_learn_and_observe_lazy_streams_in_their_order(model, monkeypatch):
    monkeypatch.setattr(calibration, "_STREAM_ROWS", 15)
    for method, how in (("observe", {}), ("partial_fit", {"forgetting": 0.99})):
        known, lazy = (deepcopy(model).calibrate(A[50:60], U[50:60]) for _ in range(2))
        for start in (60, 75):
            getattr(known, method)(A[start : start + 15], U[start : start + 15], **how)
        getattr(lazy, method)(lazily(A[60:], 7), lazily(U[60:], 20), **how)
        assert apart(lazy.predict(A), known.predict(A)) < 1e-9
        assert str(lazy.monitor) == str(known.monitor)


def test_stages_whose_stream_breaks_stay_as_they_were(model):
    lazy, bad = deepcopy(model), U.copy()
    before, bad[77] = lazy.fitted_, np.nan
    for change in (lazy.partial_fit, lazy.calibrate):
        with pytest.raises(ValueError, match="y contains NaN or infinity in sample 77"):
            change(lazily(A, 7), lazily(bad, 20))
    assert lazy.fitted_ is before


@pytest.mark.filterwarnings("ignore:.*outside the range", "ignore:The model was trained on 40")
def test_stages_of_labelled_lazy_arrays_are_labelled_and_lazy():
    xarray = pytest.importorskip("xarray")
    coords = {"j": np.linspace(0, 1, 20), "sample": np.arange(90)}
    x = xarray.DataArray(A, dims=("sample", "i", "j"), coords=coords)
    y = xarray.DataArray(U, dims=("sample", "i", "j"), coords=coords, name="u")
    lazy = [one.chunk({"sample": 40}).transpose("i", "sample", "j") for one in (x, y)]
    model, known = (Staged(**OPTIONS, max_samples=40).fit(*pair) for pair in (lazy, (x, y)))
    found = model.predict(lazy[0])
    assert (found.chunks is not None, found.name, found.dims) == (True, "u", ("sample", "i", "j"))
    assert apart(found.values, known.predict(x).values) < 1e-10
    band, wanted = (one.calibrate(*pair) for one, pair in ((model, lazy), (known, (x, y))))
    assert apart(band.predict_interval(lazy[0]).upper.values, wanted.predict_interval(x).upper.values) < 1e-9
    with pytest.raises(ValueError, match="other coordinates"):
        model.calibrate(lazy[0], lazy[1].assign_coords(sample=np.arange(90)[::-1]))


def test_what_stages_cannot_read_is_refused(model):
    with pytest.raises(ValueError, match=r"X has fields of shape \(9, 19\), but Staged is expecting \(9, 20\)"):
        model.predict(lazily(A, 7)[:, :, 1:])
    with pytest.raises(ValueError, match="parts by name must be in memory"):
        Staged(**OPTIONS).fit({"a": lazily(A, 7)}, lazily(U, 7))
    with pytest.raises(ValueError, match="lower max_samples"), limited("1MB"):
        Staged(**OPTIONS).fit(lazily(A, 7), lazily(U, 7))
    with pytest.raises(ValueError, match="must divide the number of samples, found 90"):
        Staged(**OPTIONS).fit(lazily(A, 7), lazily(U, 7), together=4)
    bad = A.copy()
    bad[88, 3, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        Staged(**OPTIONS, max_samples=40).fit(lazily(bad, 7), lazily(U, 7))
