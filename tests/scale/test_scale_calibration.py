import warnings
from copy import deepcopy

import numpy as np
import pytest
from lazy_data import OPTIONS, apart, fields, lazily

from pcarann import PCARaNN
from pcarann.scale import calibration, limited
from pcarann.scale.calibration import Counts

A, U = fields(300)


FITTED = PCARaNN(**OPTIONS).fit(A[:160], U[:160])


def fitted():
    return deepcopy(FITTED)


def test_a_lazy_calibration_is_that_in_memory():
    lazy, known = fitted().calibrate(lazily(A[160:], 40), lazily(U[160:], 33)), fitted().calibrate(A[160:], U[160:])
    for method in ("sample", "pooled", "simultaneous"):
        found, wanted = lazy.predict_interval(A[:5], 0.1, method), known.predict_interval(A[:5], 0.1, method)
        assert apart(found.upper, wanted.upper) < 1e-9
    assert str(lazy.monitor) == str(known.monitor)


def test_training_samples_among_lazy_ones_are_said():
    with limited("8MB"), pytest.warns(UserWarning, match="trained on 40 of the 180 calibration samples"):
        fitted().calibrate(lazily(A[120:], 40), lazily(U[120:].astype(np.float32), 33))


def test_scores_that_do_not_fit_are_counted_and_cover_no_less():
    lazy, known = fitted(), fitted().calibrate(A[160:], U[160:])
    with limited("600kB"), pytest.warns(UserWarning, match="instead of 403 kB"):
        lazy.calibrate(lazily(A[160:], 20), lazily(U[160:], 20))
    for alpha in (0.05, 0.3):
        found, wanted = (model.fitted_.calibration.quantile(alpha) for model in (lazy, known))
        assert wanted <= found <= wanted * (1 + 3.2e-5)
    assert lazy.fitted_.calibration.quantile(0.1, "simultaneous") == pytest.approx(
        known.fitted_.calibration.quantile(0.1, "simultaneous")
    )
    with pytest.raises(ValueError, match=r"did not fit into memory.* fewer samples, or with more memory"):
        lazy.predict_interval(A[:5], 0.1, "local")


@pytest.mark.filterwarnings("ignore:[Xy] is read in")
@pytest.mark.parametrize("memory", ["600kB", "100MB"])
def test_repeats_among_lazy_samples_count_once(memory):
    known, rows = fitted().calibrate(A[160:165], U[160:165]), np.repeat(np.arange(160, 165), 28)
    lazy = fitted()
    with limited(memory), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lazy.calibrate(lazily(A[rows], 20), lazily(U[rows], 20))
    assert any("5 among 140" in str(one.message) for one in caught)
    assert (lazy.fitted_.calibration.local is None) == (memory == "600kB")
    for method in ("sample", "simultaneous"):
        found, wanted = (model.fitted_.calibration.quantile(0.4, method) for model in (lazy, known))
        assert wanted * (1 - 1e-9) <= found <= wanted * (1 + 3.2e-5)


def test_counts_give_upper_ends_and_keep_what_is_infinite():
    scores = np.array([0.0, 0.5, 0.25, np.inf])
    found = Counts.add([Counts.of(scores[:2]), Counts.of(scores[2:])]).at(np.arange(1, 5))
    assert found[0] < 1e-11
    assert np.allclose(found[1:3], [0.25, 0.5], rtol=2e-5)
    assert (found[1:3] > [0.25, 0.5]).all()
    assert found[3] == np.inf


def test_a_lazy_stream_is_learned_in_its_order_whatever_its_chunks(monkeypatch):
    monkeypatch.setattr(calibration, "_STREAM_ROWS", 50)
    known = fitted().calibrate(A[160:200], U[160:200])
    for start in (200, 250):
        known.partial_fit(A[start : start + 50], U[start : start + 50])
    for chunks in (30, 100):
        model = fitted().calibrate(A[160:200], U[160:200])
        model.partial_fit(lazily(A[200:], chunks), lazily(U[200:], chunks))
        assert apart(model.predict(A), known.predict(A)) < 1e-9
        assert apart(model.predict_interval(A[:9]).upper, known.predict_interval(A[:9]).upper) < 1e-9
        assert model.fitted_.n_adapted == 100


def test_a_stream_that_breaks_leaves_the_old_model():
    model = fitted()
    before, bad = model.fitted_, U.copy()
    bad[-1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(lazily(A, 40), lazily(bad, 40))
    assert model.fitted_ is before


def test_what_came_true_lazily_is_observed_in_its_order(monkeypatch):
    monkeypatch.setattr(calibration, "_STREAM_ROWS", 50)
    known, model = (fitted().calibrate(A[160:200], U[160:200]) for _ in range(2))
    for start in (200, 250):
        known.observe(A[start : start + 50], U[start : start + 50])
    model.observe(lazily(A[200:], 30), lazily(U[200:], 70))
    assert str(model.monitor) == str(known.monitor)
    assert apart(model.predict_interval(A[:9]).upper, known.predict_interval(A[:9]).upper) < 1e-9
    assert apart(model.predict(A), known.predict(A)) == 0


def test_a_refit_to_lazy_samples_is_that_in_memory():
    known = fitted().refit_readout(A[200:], U[200:], ridge=1e-6)
    with limited("8MB"):
        model = fitted().refit_readout(lazily(A[200:], 30), lazily(U[200:], 30), ridge=1e-6)
    assert apart(model.predict(A), known.predict(A)) < 1e-9
    with pytest.raises(ValueError, match="another grid cannot adapt"):
        model.on((9, 10)).refit_readout(lazily(A, 30), lazily(U, 30))
