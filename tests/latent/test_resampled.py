"""Modes on another grid, and latent models whose predictions come there."""

import numpy as np
import pytest
from scipy.interpolate import RectBivariateSpline

from pcarann import Fields, Marching, PCARaNN, Symmetry, load
from pcarann.latent.pca import fit_pca
from pcarann.latent.resampled import Resampled, Target, resampled, spline_matrix
from pcarann.metrics import relative_l2
from random_fields_in_space import numpy_and_torch


def planes(n, shape, seed=0):
    """Smooth fields of three numbers on any grid of the square, with what they give."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.5, 1.5, (n, 3, 1, 1))
    x, y = np.meshgrid(*(np.linspace(0, 1, m) for m in shape), indexing="ij")
    a = np.sin(p[:, 0] * x + p[:, 1] * y) + p[:, 2] * x * y
    return a, np.exp(-p[:, 0] * x) * np.cos(p[:, 1] * y + p[:, 2] * x)


def fitted(**options):
    a, u = planes(120, (9, 11))
    model = PCARaNN(n_components=(5, 6), widths=(40, 30), n_members=3, **options)
    return model.fit(a[:80], u[:80])


@pytest.fixture(scope="module")
def model():
    a, u = planes(120, (9, 11))
    return fitted().calibrate(a[80:100], u[80:100])


def test_splines_are_those_of_scipy():
    fields = np.random.default_rng(0).normal(size=(7, 8))
    points = np.random.default_rng(1).uniform(size=(20, 2))
    axes = tuple(np.linspace(0, 1, n) for n in fields.shape)
    by_scipy = RectBivariateSpline(*axes, fields)(*points.T, grid=False)
    found = Target.of(points, fields.shape)(fields.reshape(1, -1), fields.shape)[0]
    assert np.allclose(found, by_scipy, atol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 4, 9])
def test_values_at_points_of_the_grid_stay(n):
    assert np.allclose(spline_matrix(n, np.linspace(0, 1, n)), np.eye(n), atol=1e-14)
    assert np.allclose(spline_matrix(n, np.array([0.3])) @ np.linspace(0, 1, n), 0.3)


@numpy_and_torch()
def test_fields_in_the_span_have_their_latents_on_any_grid(library):
    fields, _ = planes(60, (9, 11))
    pca, latents = fit_pca(library(fields.reshape(60, -1)), 4, grid=(9, 11))
    there = resampled(pca, Target.of((14, 23), (9, 11)))
    assert np.allclose(there.encode(there.decode(latents)), latents, atol=1e-10)
    assert np.abs(np.asarray(there.residual(there.decode(latents), latents))).max() < 1e-10
    assert float(there.weights.sum()) == pytest.approx(99)


def test_what_modes_miss_is_of_the_same_size_there():
    coarse, fine = (planes(60, shape)[0] for shape in ((9, 11), (33, 41)))
    pca, latents = fit_pca(coarse.reshape(60, -1), 2, grid=(9, 11))
    there = resampled(pca, Target.of((33, 41), (9, 11)))
    x = there.encode(fine.reshape(60, -1))
    here = pca.residual(coarse.reshape(60, -1), latents)
    assert np.median(there.residual(fine.reshape(60, -1), x) / here) == pytest.approx(1, abs=0.3)


def test_weights_of_a_quadrature_go_on_as_a_density():
    weights = np.full(9, 1 / 8)
    weights[[0, -1]] /= 2
    fields = np.random.default_rng(0).normal(size=(20, 9))
    pca, _ = fit_pca(fields, 3, grid=(9,), weights=weights)
    found = resampled(pca, Target.of(17, (9,))).weights
    assert np.allclose(found, np.r_[1 / 32, np.full(15, 1 / 16), 1 / 32])


def test_predictions_on_a_finer_grid_are_those_of_the_solution_there(model):
    (a, _), (fine_a, fine_u) = planes(120, (9, 11)), planes(120, (25, 31))
    there = model.on((25, 31))
    assert type(there) is PCARaNN
    assert relative_l2(there.predict(a[100:]), fine_u[100:]) < 1e-2
    assert relative_l2(model.on((25, 31), inputs=(25, 31)).predict(fine_a[100:]), fine_u[100:]) < 1e-2
    assert model.predict(a[100:]).shape == (20, 9, 11)


def test_predictions_come_at_points(model):
    (a, _), points = planes(120, (9, 11)), np.random.default_rng(2).uniform(size=(7, 2))
    found = model.on(points).predict(a[100:])
    axes = np.linspace(0, 1, 9), np.linspace(0, 1, 11)
    whole = model.predict(a[100:])
    by_scipy = np.stack([RectBivariateSpline(*axes, one)(*points.T, grid=False) for one in whole])
    assert np.allclose(found, by_scipy, atol=1e-10)


def test_leading_axes_stay():
    a, u = planes(80, (9, 11))
    both = np.stack([u, 2 * u], axis=1)
    model = PCARaNN(n_components=(5, 6), widths=(20, 10), n_members=2, fields=Fields(channels=True))
    model.fit(np.stack([a, a**2], axis=1), both)
    fine = planes(80, (17, 21))[0][:3]
    found = model.on((17, 21), inputs=(17, 21)).predict(np.stack([fine, fine**2], axis=1))
    assert found.shape == (3, 2, 17, 21)
    assert model.on([[0.5, 0.5]]).predict(np.stack([a, a**2], axis=1)[:3]).shape == (3, 2, 1)
    assert model.on(21).predict(np.stack([a, a**2], axis=1)[:3]).shape == (3, 2, 9, 21)


def test_intervals_of_shares_stay_and_those_of_whole_fields_are_asked_for_again(model):
    (a, _), (_, fine) = planes(120, (9, 11)), planes(120, (25, 31))
    there = model.on((25, 31))
    band = there.predict_interval(a[100:], 0.2)
    assert ((band.lower <= fine[100:]) & (fine[100:] <= band.upper)).mean() > 0.6
    with pytest.raises(ValueError, match=r"calibrated for 99 values, but 775.*calibrate again"):
        there.predict_interval(a[100:], 0.2, method="simultaneous")
    there.calibrate(a[80:100], fine[80:100])
    assert np.isfinite(there.predict_interval(a[100:], 0.2, method="simultaneous").upper).all()


@pytest.mark.parametrize("target", [(25, 31), np.array([[0.1, 0.2], [1.0, 0.0]])], ids=["grid", "points"])
def test_it_is_saved_and_loaded(model, target, tmp_path):
    a, _ = planes(120, (17, 21))
    there = model.on(target, inputs=(17, 21))
    there.save(tmp_path / "there.model")
    again = load(tmp_path / "there.model")
    assert np.array_equal(again.predict(a[100:]), there.predict(a[100:]))
    assert np.array_equal(again.predict_interval(a[100:], 0.2).upper, there.predict_interval(a[100:], 0.2).upper)
    assert isinstance(again.fitted_.ensemble.input_pca, Resampled)


def test_a_line_is_no_longer_compared_value_by_value(tmp_path):
    x = np.linspace(0, 1, 20)
    rates = np.random.default_rng(0).uniform(1, 3, (60, 1))
    model = PCARaNN(n_components=(4, 4), widths=(20, 10), n_members=2).fit(np.sin(rates * x), np.cos(rates * x))
    there, fine = model.on(41, inputs=41), np.sin(rates * np.linspace(0, 1, 41))
    assert relative_l2(there.predict(fine), np.cos(rates * np.linspace(0, 1, 41))) < 1e-2
    with pytest.raises(ValueError, match="ask the model this one came from"):
        there.novelty(fine)
    there.save(tmp_path / "line.model")
    assert np.array_equal(load(tmp_path / "line.model").predict(fine), there.predict(fine))


def test_a_symmetry_goes_along_where_it_is_stated_without_a_grid(tmp_path):
    def sums(n, points):
        a = planes(n, (points, points))[0]
        return a, a + np.swapaxes(a, 1, 2)

    exchange = Symmetry.of(lambda a: np.swapaxes(a, 1, 2), lambda u: np.swapaxes(u, 1, 2))
    a, u = sums(60, 9)
    model = PCARaNN(n_components=(5, 5), widths=(20, 10), n_members=2, symmetry=exchange).fit(a, u)
    there, (fine, _) = model.on((17, 17), inputs=(17, 17)), sums(60, 17)
    found = there.predict(fine[:5])
    assert np.allclose(np.swapaxes(found, 1, 2), there.predict(np.swapaxes(fine[:5], 1, 2).copy()), atol=1e-10)
    with pytest.raises(ValueError, match="cannot go to another grid"):
        model.on(np.array([[0.5, 0.5]]))


def test_flows_go_with_their_step():
    def trajectories(points):
        angle = np.random.default_rng(0).uniform(0, 6, (40, 1)) + 0.3 * np.arange(8)
        return np.cos(angle[:, :, None] + np.linspace(0, 6, points))

    coarse, fine = trajectories(24), trajectories(47)
    step = PCARaNN(n_components=0.999999, widths=(40, 20), n_members=2)
    flow = Marching(step).fit(coarse[:30, :2], coarse[:30, 2:])
    there = flow.on(47)
    assert relative_l2(there.predict(fine[30:, :2]), fine[30:, 2:]) < 1e-2
    assert flow.predict(coarse[30:, :2]).shape == (10, 6, 24)
    assert flow.marched_.reach.norm < there.marched_.reach.norm


def test_what_cannot_go_elsewhere_is_refused(model):
    a, u = planes(5, (25, 31))
    refused = {
        "at least 2 points": (1, 5),
        r"last axes of \(9, 11\)": (3, 3, 3),
        "1 of 2 points do not, such as": [[0.5, 0.5], [0.5, 1.2]],
        "tuple of whole numbers": "fine",
        "or an array": np.zeros(4),
    }
    for said, target in refused.items():
        with pytest.raises(ValueError, match=said):
            model.on(target)
    with pytest.raises(ValueError, match="points have no quadrature"):
        model.on((25, 31), inputs=[[0.5, 0.5]])
    with pytest.raises(ValueError, match=r"\(2, 2\) has fewer values than the 5 modes"):
        model.on((25, 31), inputs=(2, 2))
    there = model.on((25, 31), inputs=(25, 31))
    for change in (there.partial_fit, there.refit_readout):
        with pytest.raises(ValueError, match="cannot adapt"):
            change(a, u)
    with pytest.raises(ValueError, match="another grid already"):
        there.on((9, 11))


def test_a_table_has_no_grid():
    rates = np.random.default_rng(0).uniform(1, 3, (60, 3))
    rates[:, 1] *= 1e4  # of another unit
    model = PCARaNN(n_components=(3, 3), widths=(20, 10), n_members=2)
    model.fit(rates, np.sin(rates[:, :1] * np.linspace(0, 1, 9)))
    assert model.on(33).predict(rates).shape == (60, 33)
    with pytest.raises(ValueError, match="a table"):
        model.on(33, inputs=5)
