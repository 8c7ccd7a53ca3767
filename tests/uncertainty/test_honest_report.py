"""What a fit reports of itself against its error on new samples, also where training samples are repeated."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from pcarann import PCARaNN
from pcarann.readout.direct import solve_readout
from pcarann.readout.leave_out import distinct_residuals, refitted_residuals
from pcarann.uncertainty.fit_report import FitReport

W = np.random.default_rng(1).normal(size=(6, 30))


def wild(n, seed=0):
    """Six numbers in, outputs that so few samples do not tell."""
    X = np.random.default_rng(seed).normal(size=(n, 6))
    return X, np.sin(X @ W)


def smooth(n, seed=0):
    X = np.random.default_rng(seed).uniform(-1, 1, size=(n, 3))
    return X, np.sin(2 * X[:, :1] + X[:, 1:2] * X[:, 2:] + np.linspace(0, 1, 20)) + 2


def error(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = model.predict(X)
    return np.mean(np.linalg.norm(predicted - y, axis=1) / np.linalg.norm(y, axis=1))


def fitted(X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PCARaNN(**options).fit(X, y)


def twice(X, y):
    return np.concatenate([X, X]), np.concatenate([y, y])


def four_times_shuffled(X, y):
    order = np.random.default_rng(5).permutation(np.repeat(np.arange(len(X)), 4))
    return X[order], y[order]


def nearly_four_times(X, y):
    X = np.repeat(X, 4, axis=0)
    X = X + 1e-3 * np.random.default_rng(5).normal(size=X.shape)
    return X, np.sin(X @ W)


REPEATS = [twice, four_times_shuffled, nearly_four_times]
OPTIONS = [{"n_members": 3}, {"n_members": 2, "regressor": "kernel"}, {"n_members": 2, "ridge": "gcv"}]


@pytest.mark.parametrize("repeated", REPEATS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_repeats_do_not_hide_the_error(repeated, options):
    model = fitted(*repeated(*wild(50)), **options)
    real = error(model, *wild(500, seed=1))
    assert 0.67 <= model.fit_report_.relative_error / real <= 1.5
    assert model.fit_report_.distinct == 50


@pytest.mark.parametrize("options", [{}, {"n_members": 1}, {"n_members": 5, "ridge": "refined"}], ids=str)
@pytest.mark.parametrize("n", [20, 60])
def test_the_median_of_reported_over_real_error_is_near_one(n, options):
    ratios = []
    for seed in range(6):
        for problem in (wild, smooth):
            X, y = problem(n + 300, seed=seed)
            model = fitted(X[:n], y[:n], **options)
            ratios.append(model.fit_report_.relative_error / error(model, X[n:], y[n:]))
    assert 0.7 <= np.median(ratios) <= 1.4
    assert np.mean(np.asarray(ratios) < 0.5) <= 0.1


def test_a_large_ensemble_reports_its_own_error_and_not_that_of_a_member():
    X, y = smooth(700)
    one, many = (fitted(X[:300], y[:300], n_members=k) for k in (1, 20))
    for model in (one, many):
        assert 0.5 <= model.fit_report_.relative_error / error(model, X[300:], y[300:]) <= 2


def test_all_samples_of_a_small_fit_are_judged():
    report = fitted(*smooth(20), n_members=2).fit_report_
    assert report.samples == report.distinct == 20


def test_equal_rows_are_left_out_as_by_a_fit_without_them():
    rng = np.random.default_rng(0)
    base, y = rng.normal(size=(12, 40)), rng.normal(size=(24, 3))
    H, groups = np.concatenate([base, base]), [[i, i + 12] for i in range(12)]
    found = distinct_residuals(H, y, 0.0, groups)
    for i, group in enumerate(groups):
        others = [row for row in range(24) if row not in group]
        V = solve_readout(H[others], y[others], 0.0).readout
        assert np.allclose(found[2 * i : 2 * i + 2], y[group] - H[group] @ V, atol=1e-9)


def test_refitted_residuals_are_those_of_fits_without_the_fold():
    rng = np.random.default_rng(0)
    H, y = rng.normal(size=(10, 30)), rng.normal(size=(10, 2))
    found = refitted_residuals(H, y, 1e-3, [[i] for i in range(10)])
    for i in range(10):
        others = [row for row in range(10) if row != i]
        assert np.allclose(found[i], y[i] - H[i] @ solve_readout(H[others], y[others], 1e-3).readout, atol=1e-9)


@pytest.mark.parametrize("repeated", REPEATS)
def test_calibration_on_repeated_training_samples_warns(repeated):
    X, y = repeated(*wild(60))
    model = fitted(X, y, n_members=2)
    with pytest.warns(UserWarning, match="trained on"):
        model.calibrate(X[:60], y[:60])


def test_a_ridge_is_chosen_alike_with_and_without_repeats():
    rng = np.random.default_rng(0)
    X, y = smooth(100)
    y = y + 0.3 * rng.normal(size=y.shape)
    options = {"n_components": (3, 3), "widths": (60, 40), "scales": (1.0, 1.0), "n_members": 1, "ridge": "gcv"}
    once, often = fitted(X, y, **options), fitted(*four_times_shuffled(X, y), **options)
    assert 0.1 <= often.ridge_ / once.ridge_ <= 10


def test_a_lazy_fit_groups_repeats_as_one_in_memory():
    dask_array = pytest.importorskip("dask.array")
    X, u = (np.repeat(part, 5, axis=0) for part in _table(12))
    lazy = [dask_array.from_array(part, chunks=(17, *part.shape[1:])) for part in (X, u)]
    found, known = (PCARaNN(n_members=2, widths=(40, 20)).fit(*pair).fit_report_ for pair in (lazy, (X, u)))
    assert found.distinct == known.distinct == 12
    assert found.relative_error == pytest.approx(known.relative_error, rel=1e-6)


def test_repeats_of_a_sample_count_once_in_the_error():
    groups = [0] * 50 + list(range(1, 51))
    report = FitReport.of_errors([1.0] * 50 + [0.0] * 50, [1.0] * 100, [2.0] * 100, groups=groups)
    assert report.relative_error == pytest.approx(1 / 51)


def _table(samples):
    X = np.random.default_rng(3).uniform(0.5, 2, (samples, 3))
    return X, X[:, :1] * np.sin(3 * np.linspace(0, 1, 30) * (1 + X[:, 1:2])) + X[:, 2:]
