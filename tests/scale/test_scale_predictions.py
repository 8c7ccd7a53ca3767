import dask.array as da
import numpy as np
import pytest
from lazy_data import OPTIONS, apart, fields, lazily
from sklearn.exceptions import UndefinedMetricWarning

from pcarann import PCARaNN
from pcarann.scale import limited

A, U = fields(300)


@pytest.fixture(scope="module")
def model():
    return PCARaNN(**OPTIONS).fit(A[:160], U[:160]).calibrate(A[160:220], U[160:220])


def test_predictions_of_lazy_inputs_are_lazy_and_the_same(model):
    found = model.predict(lazily(A, 70))
    assert isinstance(found, da.Array)
    assert found.shape == U.shape
    assert apart(found.compute(), model.predict(A)) < 1e-12
    for lazy, known in zip(
        model.predict(lazily(A, 70), return_std=True), model.predict(A, return_std=True), strict=True
    ):
        assert apart(lazy.compute(), known) < 1e-10


def test_a_prediction_is_that_of_the_model_at_the_call(model):
    moved = PCARaNN(**OPTIONS).fit(A[:160], U[:160])
    before, known = moved.predict(lazily(A, 70)), moved.predict(A)
    moved.fit(A[100:], U[100:])
    assert apart(before.compute(), known) < 1e-12


def test_intervals_scores_and_novelty_are_those_in_memory(model):
    band, known = model.predict_interval(lazily(A, 70), 0.2), model.predict_interval(A, 0.2)
    assert apart(band.upper.compute(), known.upper) < 1e-10
    assert model.score(lazily(A, 70), lazily(U, 45)) == pytest.approx(model.score(A, U), abs=1e-12)
    found, seen = model.novelty(lazily(A, 70)), model.novelty(A)
    assert apart(found.p_value, seen.p_value) < 1e-9
    assert found.reasons == seen.reasons


@pytest.mark.filterwarnings("ignore:The model was trained on 150 of")
def test_labelled_lazy_arrays_stay_labelled_and_lazy():
    xarray = pytest.importorskip("xarray")
    x = xarray.DataArray(A[:150], dims=("sample", "i", "j"), coords={"i": np.linspace(0, 1, 18) ** 2})
    y = xarray.DataArray(U[:150], dims=("sample", "p", "j"), name="u", coords={"sample": np.arange(150)})
    lazy = [one.chunk({"sample": 40}) for one in (x, y)]
    model, known = PCARaNN(**OPTIONS).fit(*lazy), PCARaNN(**OPTIONS).fit(x, y)
    found = model.predict(lazy[0])
    assert found.chunks is not None
    assert found.dims == ("sample", "p", "j")
    assert apart(found.values, known.predict(x).values) < 1e-8
    model.calibrate(*lazy).partial_fit(*lazy)
    assert model.predict_interval(lazy[0]).lower.chunks is not None


def test_samples_are_weighed_in_lazy_scores(model):
    weights = np.random.default_rng(0).uniform(0, 2, 300)
    assert model.score(lazily(A, 70), U, weights) == pytest.approx(model.score(A, U, weights), abs=1e-12)
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(300,\), found \(299,\)"):
        model.score(A, lazily(U, 70), weights[1:])


@pytest.mark.parametrize(("weight", "said"), [(0.0, "at least one non-zero"), (np.nan, "NaN"), (np.inf, "infinity")])
def test_weights_without_a_score_are_refused_as_in_memory(model, weight, said):
    for pair in ((A[:20], U[:20]), (lazily(A[:20], 10), lazily(U[:20], 10))):
        with pytest.raises(ValueError, match=said):
            model.score(*pair, np.full(20, weight))


def test_the_score_of_one_sample_is_none_as_in_memory(model):
    for pair in ((A[:1], U[:1]), (lazily(A[:1], 1), lazily(U[:1], 1))):
        with pytest.warns(UndefinedMetricWarning, match="less than two samples"):
            assert np.isnan(model.score(*pair))


def test_scores_far_from_zero_lose_no_digits(model):
    far = PCARaNN(**OPTIONS).fit(A[:160], U[:160] + 1e6)
    assert far.score(lazily(A, 70), lazily(U + 1e6, 45)) == pytest.approx(far.score(A, U + 1e6), abs=1e-8)


def test_intervals_that_are_infinite_are_said_at_the_call_and_nothing_later(model, recwarn):
    with pytest.warns(UserWarning, match="60 calibration samples are too few for alpha=0.001"):
        band = model.predict_interval(lazily(A + 50, 70), 0.001)
    recwarn.clear()
    assert np.isinf(band.upper[:9].compute()).all()
    assert not recwarn


def test_other_grids_and_lengths_are_refused(model):
    with pytest.raises(ValueError, match=r"fields of shape \(9, 20\)"):
        model.predict(lazily(U, 70))
    with pytest.raises(ValueError, match="same number of samples"), limited("8MB"):
        model.score(lazily(A, 70), lazily(U[:50], 70))
