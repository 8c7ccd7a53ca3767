import numpy as np
import pytest

from pcarann.backend.arrays import to_host
from pcarann.readout import direct as readout
from pcarann.readout.direct import NormalEquations, factorise, fit_readout, fit_streamed_readout, ridge_readout

RNG = np.random.default_rng(0)


def conditioned(samples, features, condition, seed=0, rank=None):
    """A matrix with singular values from 1 down to 1/condition, and the given rank."""
    rng = np.random.default_rng(seed)
    size = min(samples, features)
    left, right = (np.linalg.qr(rng.normal(size=(n, size)))[0] for n in (samples, features))
    singular = np.geomspace(1, 1 / condition, rank or size)
    return (left[:, : len(singular)] * singular) @ right[:, : len(singular)].T


def svd_ridge(H, Y, ridge):
    left, s, right = np.linalg.svd(H, full_matrices=False)
    keep = s > max(H.shape) * np.finfo(float).eps * s[0]
    gain = s[keep] / (s[keep] ** 2 + ridge)
    return right[keep].T @ (gain[:, None] * (left[:, keep].T @ Y))


SHAPES = pytest.mark.parametrize("shape", [(60, 25), (25, 60)], ids=["primal", "dual"])


@SHAPES
@pytest.mark.parametrize("condition", [1e1, 1e4, 1e6])
@pytest.mark.parametrize("ridge", [0.0, 1e-4])
def test_readout_equals_the_svd_oracle(backend, shape, condition, ridge):
    H = conditioned(*shape, condition)
    Y = H @ RNG.normal(size=(shape[1], 3)) + 1e-3 * RNG.normal(size=(shape[0], 3))
    V, _ = fit_readout(backend(H), backend(Y), ridge)
    oracle = svd_ridge(H, Y, ridge)
    # Least squares is known to condition² · eps · (residual/solution): the oracle itself is no better.
    # In the dual seven digits of V are promised with eight of what it fits, or ten of V.
    dual = shape[1] > shape[0]
    assert np.linalg.norm(to_host(V) - oracle) <= (1e-7 if dual else 1e-8) * np.linalg.norm(oracle)
    allowed = 1e-8 * np.linalg.norm(H @ oracle) + 1e-10 * np.linalg.norm(oracle)
    assert np.linalg.norm(H @ to_host(V) - H @ oracle) <= allowed


@pytest.mark.parametrize(("condition", "steps"), [(1e4, 0), (1e6, 1)])
def test_a_dual_solution_is_refined_only_where_that_changes_it(condition, steps, monkeypatch):
    H = conditioned(25, 60, condition)
    Y = H @ RNG.normal(size=(60, 3))
    solved: list[tuple[int, ...]] = []
    solve = readout.RidgeFactor.solve
    monkeypatch.setattr(readout.RidgeFactor, "solve", lambda self, rhs: solved.append(rhs.shape) or solve(self, rhs))
    V, report = fit_readout(H, Y)
    assert report.solver == "cholesky"
    assert report.condition > 1e3  # so that the condition alone does not settle it
    assert np.allclose(H @ V, Y, rtol=0, atol=1e-8 * np.abs(Y).max())
    assert (solved.count(Y.shape) > 1) == bool(steps)


@SHAPES
@pytest.mark.parametrize("ridge", [1e-2, 1e-20])
def test_a_ridge_readout_without_report_is_the_same(backend, shape, ridge):
    H = conditioned(*shape, 1e8)
    Y = RNG.normal(size=(shape[0], 3))
    V = ridge_readout(backend(H), backend(Y), ridge)
    assert np.allclose(H @ to_host(V), H @ svd_ridge(H, Y, ridge), atol=1e-6)


@SHAPES
def test_rank_deficient_systems_get_the_minimum_norm_solution(backend, shape):
    H = conditioned(*shape, 1e3, rank=12)
    Y = RNG.normal(size=(shape[0], 3))
    V, report = fit_readout(backend(H), backend(Y))
    assert np.allclose(to_host(V), np.linalg.lstsq(H, Y, rcond=None)[0], atol=1e-8)
    assert (report.solver, report.rank) == ("svd", 12)


@SHAPES
def test_duplicated_samples_change_nothing_but_the_rank(shape):
    H = conditioned(*shape, 1e2)
    Y = RNG.normal(size=(shape[0], 3))
    V, _ = fit_readout(np.vstack([H, H]), np.vstack([Y, Y]))
    assert np.allclose(V, np.linalg.lstsq(H, Y, rcond=None)[0], atol=1e-8)


@SHAPES
def test_the_report_names_solver_form_condition_and_ridge(shape):
    _, report = fit_readout(conditioned(*shape, 1e3), RNG.normal(size=(shape[0], 2)), 1e-12)
    assert report.solver == "cholesky"
    assert report.form == ("primal" if shape[0] >= shape[1] else "dual")
    assert report.ridge == 1e-12
    assert 2e2 < report.condition < 1e4


@SHAPES
@pytest.mark.parametrize(("ridge", "solver"), [(1e-20, "qr"), (0.0, "svd"), (1e-2, "cholesky")])
def test_ill_conditioned_systems_go_to_an_orthogonal_solver(shape, ridge, solver):
    H = conditioned(*shape, 1e10)
    Y = H @ RNG.normal(size=(shape[1], 2))
    V, report = fit_readout(H, Y, ridge)
    assert report.solver == solver
    assert report.rank == (min(shape) if solver == "svd" else None)  # no other solver finds it
    assert np.allclose(H @ V, H @ svd_ridge(H, Y, ridge), atol=1e-9)


@SHAPES
def test_qr_factor_equals_the_normal_matrix(backend, shape):
    H = conditioned(*shape, 1e9)
    factor = factorise(backend(H), 1e-19)
    lower = to_host(factor.lower)
    normal = H @ H.T if factor.dual else H.T @ H
    assert factor.solver == "qr"
    assert np.allclose(lower @ lower.T, normal + 1e-19 * np.eye(len(normal)), atol=1e-14)


def test_features_without_energy_give_zero_weights(backend):
    V, report = fit_readout(backend(np.zeros((5, 8))), backend(np.ones((5, 2))))
    assert np.array_equal(to_host(V), np.zeros((8, 2)))
    assert report.rank == 0


# Streams


def stream(H, Y, size, wrap=np.asarray):
    """A function that starts a stream of rows in blocks of this size, as `fit_streamed_readout` wants one."""
    return lambda: ((wrap(H[i : i + size]), wrap(Y[i : i + size])) for i in range(0, len(H), size))


@SHAPES
@pytest.mark.parametrize("size", [1, 7, 60])
@pytest.mark.parametrize("ridge", [0.0, 1e-4])
def test_a_stream_cut_anyhow_gives_the_readout_of_all_rows(backend, shape, size, ridge):
    H = conditioned(*shape, 1e3)
    Y = H @ RNG.normal(size=(shape[1], 3)) + 1e-3 * RNG.normal(size=(shape[0], 3))
    V, report = fit_streamed_readout(stream(H, Y, size, backend), ridge)
    expected, _ = fit_readout(H, Y, ridge)
    assert np.allclose(to_host(V), expected, rtol=0, atol=1e-8 * np.abs(expected).max())
    assert report.form == "primal"
    assert report.rank == (None if report.solver == "cholesky" else shape[1] if ridge else min(shape))


@SHAPES
@pytest.mark.parametrize("size", [7, 60])
@pytest.mark.parametrize("condition", [1e7, 1e9])
def test_an_ill_conditioned_stream_goes_to_an_orthogonal_solver(backend, shape, size, condition):
    H = conditioned(*shape, condition)
    Y = H @ RNG.normal(size=(shape[1], 2))
    V, report = fit_streamed_readout(stream(H, Y, size, backend))
    assert report.solver == "svd"
    assert report.rank == min(shape)
    # Without a residual the solution errs by condition · eps.
    oracle = svd_ridge(H, Y, 0.0)
    assert np.linalg.norm(to_host(V) - oracle) <= 1e-14 * condition * np.linalg.norm(oracle)


@SHAPES
@pytest.mark.parametrize("size", [1, 7, 60])
def test_a_rank_deficient_stream_gets_the_minimum_norm_solution(backend, shape, size):
    H = conditioned(*shape, 1e3, rank=12)
    Y = RNG.normal(size=(shape[0], 3))
    V, report = fit_streamed_readout(stream(H, Y, size, backend))
    assert np.allclose(to_host(V), np.linalg.lstsq(H, Y, rcond=None)[0], atol=1e-8)
    assert (report.solver, report.rank) == ("svd", 12)


@SHAPES
def test_a_ridge_too_small_for_cholesky_still_counts_in_a_stream(backend, shape):
    H, ridge = conditioned(*shape, 1e8), 1e-14
    Y = H @ RNG.normal(size=(shape[1], 2))
    V, report = fit_streamed_readout(stream(H, Y, 7, backend), ridge)
    oracle = svd_ridge(H, Y, ridge)
    assert report.solver == "svd"
    assert np.linalg.norm(to_host(V) - oracle) <= 1e-6 * np.linalg.norm(oracle)
    assert np.linalg.norm(oracle - svd_ridge(H, Y, 0.0)) > 1e-2 * np.linalg.norm(oracle)


def test_a_stream_without_energy_gives_zero_weights(backend):
    V, report = fit_streamed_readout(stream(np.zeros((9, 5)), np.ones((9, 2)), 4, backend))
    assert np.array_equal(to_host(V), np.zeros((5, 2)))
    assert report.rank == 0


def test_a_stream_that_is_well_conditioned_is_read_once():
    H, Y = conditioned(60, 25, 1e2), RNG.normal(size=(60, 2))
    starts = []

    def counted():
        starts.append(1)
        return stream(H, Y, 7)()

    fit_streamed_readout(counted)
    assert len(starts) == 1


def test_sums_are_those_of_all_rows(backend):
    H, Y = conditioned(60, 25, 1e2), RNG.normal(size=(60, 2))
    sums = NormalEquations.of(stream(H, Y, 7, backend)())
    assert np.allclose(to_host(sums.normal), H.T @ H, rtol=0, atol=1e-13)
    assert np.allclose(to_host(sums.moment), H.T @ Y, rtol=0, atol=1e-13)
    assert sums.energy == pytest.approx((Y**2).sum(), rel=1e-12)
    assert sums.samples == 60


@pytest.mark.parametrize("ridge", [0.0, 1e-6])
def test_a_stream_of_very_many_features_is_shifted_to_where_cholesky_exists(backend, monkeypatch, ridge):
    monkeypatch.setattr("pcarann.readout.direct._ORTHOGONAL_FEATURES", 10)
    H = conditioned(60, 25, 1e2, rank=12)
    Y = H @ RNG.normal(size=(25, 2))
    V, report = fit_streamed_readout(stream(H, Y, 7, backend), ridge)
    assert report.solver == "cholesky"
    # The shift is at the rounding of HᵀH, so that predictions on the rows move by no more than its root.
    assert np.allclose(H @ to_host(V), H @ svd_ridge(H, Y, ridge), rtol=0, atol=1e-5)


# Reports


def test_a_rank_that_was_not_computed_is_not_reported():
    H = np.random.default_rng(0).normal(size=(60, 20))
    report = fit_readout(H, H[:, :2], 1e-3)[1]
    assert (report.solver, report.rank) == ("cholesky", None)


def test_the_ridge_that_was_asked_for_is_reported():
    H = np.random.default_rng(0).normal(size=(60, 20))
    assert fit_readout(H, H[:, :2], 1e-3)[1].ridge == 1e-3


def test_a_ridge_that_a_stream_had_to_raise_is_reported():
    rng = np.random.default_rng(0)
    H, Y = rng.normal(size=(200, 40)) @ rng.normal(size=(40, 1510)), rng.normal(size=(200, 2))
    _, report = fit_streamed_readout(lambda: [(H[:90], Y[:90]), (H[90:], Y[90:])])
    rounding = 2.0**-52 * (H**2).sum()  # of HᵀH, which is what a factor must be lifted over
    assert rounding <= report.ridge <= 100 * rounding
