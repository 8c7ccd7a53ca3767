import warnings

import numpy as np
import pytest

import pcarann.ensemble.members
from conftest import periodic_pairs, smooth_pairs
from pcarann import PCARaNN
from pcarann.latent.pca import fit_pca
from pcarann.metrics import relative_l2
from pcarann.readout.direct import ReadoutReport
from pcarann.symmetry.generators import Symmetry
from pcarann.uncertainty.fit_report import FitReport

OPTIONS = {
    "refined": {},
    "energy": {"scales": "energy"},
    "kernel": {"regressor": "kernel"},
    "ridge": {"ridge": 1e-3},
    "dual": {"widths": (300, 200), "scales": "energy", "ridge": 1e-6},
}


def truth(model, inputs, outputs):
    """Relative error and 1 − R² of a test set."""
    missed, centred = model.predict(inputs) - outputs, outputs - outputs.mean(axis=0)
    return relative_l2(model.predict(inputs), outputs), (missed**2).sum() / (centred**2).sum()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_error_of_a_fit_on_smooth_data_is_that_of_a_test_set(options):
    pairs = smooth_pairs(700)
    model = PCARaNN(**{"n_components": 6, "widths": (80, 40), "n_members": 4} | options).fit(*pairs[:300])
    error, unexplained = truth(model, *pairs[300:])
    assert 0.5 <= model.fit_report_.relative_error / error <= 2
    assert 0.25 <= (1 - model.fit_report_.r2) / unexplained <= 4  # its square


def test_the_error_of_a_fit_with_copies_is_that_of_a_test_set():
    pairs = periodic_pairs(400)
    model = PCARaNN(n_components=5, widths=(60, 30), n_members=4, scales="energy", symmetry=Symmetry.shifts(-1))
    error, unexplained = truth(model.fit(*pairs[:100]), *pairs[100:])
    assert 0.5 <= model.fit_report_.relative_error / error <= 2
    assert 0.25 <= (1 - model.fit_report_.r2) / unexplained <= 4


def test_the_error_of_a_streamed_fit_is_that_of_a_test_set(monkeypatch):
    monkeypatch.setattr(pcarann.ensemble.members, "_ANCHOR_ROWS", 200)
    pairs = smooth_pairs(700)
    model = PCARaNN(n_components=6, widths=(80, 40), n_members=4, scales="energy").fit(*pairs[:400])
    error, unexplained = truth(model, *pairs[400:])
    assert 0.5 <= model.fit_report_.relative_error / error <= 2
    assert 0.25 <= (1 - model.fit_report_.r2) / unexplained <= 4


def without_what_counts(n=200):
    """Parameters that the outputs do not depend on, and the outputs."""
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, (n, 3)), np.sin(3 * rng.uniform(-1, 1, (n, 1)) + np.linspace(0, 1, 12))


@pytest.mark.parametrize("options", [{}, {"scales": "energy"}, {"regressor": "kernel"}], ids=str)
def test_a_fit_without_the_input_that_counts_warns(options):
    model = PCARaNN(n_components=(3, 0.999), widths=(60, 30), n_members=2, **options)
    with pytest.warns(UserWarning, match="(no|hardly) better than the mean field. Do the inputs hold all"):
        model.fit(*without_what_counts())


def test_a_fit_that_is_worth_something_does_not_warn(pairs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PCARaNN(n_components=6, widths=(40, 30), n_members=2).fit(*pairs[:200])
    assert model.fit_report_.r2 > 0.9


def test_the_numbers_of_a_report_worked_by_hand():
    fields = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 4.0], [0.0, -4.0]])
    pca, y = fit_pca(fields, 2)
    residuals = np.array([[0.3, 0.0], [0.0, 0.6], [0.4, 0.0], [0.0, 0.0]])
    report = FitReport.of(residuals, fields, y, pca, ReadoutReport("cholesky", "primal", None, 1.0, 1e-3))
    assert report.relative_error == pytest.approx((0.1 + 0.2 + 0.1 + 0) / 4)
    assert report.r2 == pytest.approx(1 - (0.09 + 0.36 + 0.16) / 50)
    assert (report.samples, report.solver, report.rank, report.ridge) == (4, "cholesky", None, 1e-3)


def test_what_the_output_modes_miss_counts_as_an_error():
    fields = np.array([[3.0, 0.1], [-3.0, 0.1], [4.0, -0.1], [-4.0, -0.1]])
    pca, y = fit_pca(fields, 1)
    report = FitReport.of(np.zeros((4, 1)), fields, y, pca, ReadoutReport("svd", "primal", 1, 1.0))
    assert report.r2 == pytest.approx(1 - 0.04 / 50.04, rel=1e-9)


@pytest.mark.parametrize(
    ("r2", "said"),
    [(0.5, "50 %"), (0.999951, "R² 0.99995"), (-1.0, "no better than the mean field"), (0.0, "no better")],
)
def test_a_report_says_what_a_fit_is_worth(r2, said):
    assert said in str(FitReport(0.1, r2, 20, "svd", 3, 0.0))


@pytest.mark.parametrize("ridge", [1e-3, 0.0])
def test_a_report_names_the_ridge_in_use(pairs, ridge):
    model = PCARaNN(n_components=6, widths=(20, 10), n_members=1, scales="energy", ridge=ridge).fit(*pairs[:100])
    assert model.fit_report_.ridge == ridge


def test_the_standard_error_is_the_scatter_of_means_over_samples():
    rng = np.random.default_rng(0)
    missed, sizes, centred = rng.exponential(size=(3, 4000, 25))
    reports = [FitReport.of_errors(*rows) for rows in zip(missed, 4 + sizes, 1 + centred, strict=True)]
    for figure, deviation in (("relative_error", "standard_error"), ("r2", "r2_standard_error")):
        scatter = np.std([getattr(report, figure) for report in reports])
        assert np.mean([getattr(report, deviation) for report in reports]) == pytest.approx(scatter, rel=0.1)


def test_repeats_do_not_make_an_error_more_certain():
    missed, sizes, centred = np.random.default_rng(0).exponential(size=(3, 12)) + np.array([[0], [4], [1]])
    once = FitReport.of_errors(missed, sizes, centred)
    repeated = (np.repeat(part, 50) for part in (missed, sizes, centred))
    often = FitReport.of_errors(*repeated, groups=np.repeat(np.arange(12), 50))
    assert often.distinct == once.distinct == 12
    for name in ("relative_error", "r2", "standard_error", "r2_standard_error"):
        assert getattr(often, name) == pytest.approx(getattr(once, name), rel=1e-12)


@pytest.mark.parametrize("n", [4, 6, 9])
def test_a_fit_to_few_samples_of_noise_warns(n):
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="better than the mean field"):
        PCARaNN(n_components=2, n_members=2, scales="energy", ridge="gcv").fit(
            rng.normal(size=(n, 4)), rng.normal(size=(n, 6))
        )


@pytest.mark.parametrize(("distinct", "cautious"), [(4, True), (40, False)])
def test_a_report_from_few_distinct_samples_is_cautious(distinct, cautious):
    ones = np.ones(40)
    report = FitReport.of_errors(1e-6 * ones, ones, ones, groups=np.arange(40) % distinct)
    assert ("Caution" in str(report)) is cautious
