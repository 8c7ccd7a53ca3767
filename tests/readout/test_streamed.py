import numpy as np
import pytest
from conditioned_rows import conditioned, svd_ridge

from pcarann.backend.arrays import to_host
from pcarann.readout.direct import fit_readout
from pcarann.readout.streamed import NormalEquations, joined_triangle, solve_streamed_readout

RNG = np.random.default_rng(0)
SHAPES = pytest.mark.parametrize("shape", [(60, 25), (25, 60)], ids=["primal", "dual"])


def stream(H, Y, size, wrap=np.asarray):
    """A function that starts a stream of rows in blocks of this size, as `solve_streamed_readout` wants one."""
    return lambda: ((wrap(H[i : i + size]), wrap(Y[i : i + size])) for i in range(0, len(H), size))


@SHAPES
@pytest.mark.parametrize("size", [1, 7, 60])
@pytest.mark.parametrize("ridge", [0.0, 1e-4])
def test_a_stream_cut_anyhow_gives_the_readout_of_all_rows(backend, shape, size, ridge):
    H = conditioned(*shape, 1e3)
    Y = H @ RNG.normal(size=(shape[1], 3)) + 1e-3 * RNG.normal(size=(shape[0], 3))
    found = solve_streamed_readout(stream(H, Y, size, backend), ridge)
    V, report = found.readout, found.report
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
    found = solve_streamed_readout(stream(H, Y, size, backend))
    V, report = found.readout, found.report
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
    found = solve_streamed_readout(stream(H, Y, size, backend))
    V, report = found.readout, found.report
    assert np.allclose(to_host(V), np.linalg.lstsq(H, Y, rcond=None)[0], atol=1e-8)
    assert (report.solver, report.rank) == ("svd", 12)


@SHAPES
def test_a_ridge_too_small_for_cholesky_still_counts_in_a_stream(backend, shape):
    H, ridge = conditioned(*shape, 1e8), 1e-14
    Y = H @ RNG.normal(size=(shape[1], 2))
    found = solve_streamed_readout(stream(H, Y, 7, backend), ridge)
    V, report = found.readout, found.report
    oracle = svd_ridge(H, Y, ridge)
    assert report.solver == "svd"
    assert np.linalg.norm(to_host(V) - oracle) <= 1e-6 * np.linalg.norm(oracle)
    assert np.linalg.norm(oracle - svd_ridge(H, Y, 0.0)) > 1e-2 * np.linalg.norm(oracle)


def test_a_stream_without_energy_gives_zero_weights(backend):
    found = solve_streamed_readout(stream(np.zeros((9, 5)), np.ones((9, 2)), 4, backend))
    V, report = found.readout, found.report
    assert np.array_equal(to_host(V), np.zeros((5, 2)))
    assert report.rank == 0


@pytest.mark.parametrize(("condition", "times"), [(1e2, 1), (1e5, 3), (1e7, 2)])
def test_a_stream_is_read_again_for_two_refinements_or_an_orthogonal_solver(condition, times):
    H, Y = conditioned(60, 25, condition), RNG.normal(size=(60, 2))
    starts = []

    def counted():
        starts.append(1)
        return stream(H, Y, 7)()

    solve_streamed_readout(counted)
    assert len(starts) == times


@pytest.mark.parametrize(("condition", "solver"), [(1e2, "cholesky"), (1e6, "svd")])
def test_the_solution_of_a_stream_is_a_primal_one_with_its_inverse(condition, solver):
    H, Y = conditioned(60, 25, condition), RNG.normal(size=(60, 2))
    found = solve_streamed_readout(stream(H, Y, 7))
    inverse = np.linalg.pinv(H) @ np.linalg.pinv(H).T
    assert (found.report.solver, found.dual) == (solver, False)
    assert np.allclose(found.solve(np.eye(25)), inverse, rtol=0, atol=1e-8 * np.abs(inverse).max())


@pytest.mark.parametrize("limit", [100, 10])
def test_a_stream_that_is_not_finite_is_refused(monkeypatch, limit):
    monkeypatch.setattr("pcarann.readout.streamed._ORTHOGONAL_FEATURES", limit)
    H, Y = 1e200 * conditioned(60, 25, 1e2), RNG.normal(size=(60, 2))
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=r"^The features are not finite: .*rescale"):
        solve_streamed_readout(stream(H, Y, 7))


@pytest.mark.parametrize("parts", [1, 3])
def test_triangles_are_joined_to_that_of_all_rows(parts):
    H = RNG.normal(size=(12, 4))
    R = joined_triangle([np.linalg.qr(part, mode="r") for part in np.split(H, parts)])
    assert np.allclose(R.T @ R, H.T @ H)


def test_sums_are_those_of_all_rows(backend):
    H, Y = conditioned(60, 25, 1e2), RNG.normal(size=(60, 2))
    sums = NormalEquations.of(stream(H, Y, 7, backend)())
    assert np.allclose(to_host(sums.normal), H.T @ H, rtol=0, atol=1e-13)
    assert np.allclose(to_host(sums.moment), H.T @ Y, rtol=0, atol=1e-13)
    assert sums.energy == pytest.approx((Y**2).sum(), rel=1e-12)
    assert sums.samples == 60


@pytest.mark.parametrize("ridge", [0.0, 1e-6])
def test_a_stream_of_very_many_features_is_shifted_to_where_cholesky_exists(backend, monkeypatch, ridge):
    monkeypatch.setattr("pcarann.readout.streamed._ORTHOGONAL_FEATURES", 10)
    H = conditioned(60, 25, 1e2, rank=12)
    Y = H @ RNG.normal(size=(25, 2))
    found = solve_streamed_readout(stream(H, Y, 7, backend), ridge)
    V, report = found.readout, found.report
    assert report.solver == "cholesky"
    # The shift is at the rounding of HᵀH, so that predictions on the rows move by no more than its root.
    assert np.allclose(H @ to_host(V), H @ svd_ridge(H, Y, ridge), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("limit", "solver"), [(24, "cholesky"), (25, "svd")])
def test_as_many_features_as_an_orthogonal_solver_takes_go_to_it(monkeypatch, limit, solver):
    monkeypatch.setattr("pcarann.readout.streamed._ORTHOGONAL_FEATURES", limit)
    H, Y = conditioned(60, 25, 1e8), RNG.normal(size=(60, 2))
    assert solve_streamed_readout(stream(H, Y, 7)).report.solver == solver


def test_very_many_features_are_shifted_to_the_rounding_of_their_products_even_where_a_factor_exists(monkeypatch):
    monkeypatch.setattr("pcarann.readout.streamed._ORTHOGONAL_FEATURES", 2)
    H, Y = np.diag([1.0, 1.0, 1e-10]), np.ones((3, 1))
    report = solve_streamed_readout(stream(H, Y, 1)).report
    assert report.ridge == pytest.approx(2 * 2.0**-52 * 2, rel=1e-12, abs=0)


def test_very_many_features_are_shifted_no_further_than_a_factor_needs(monkeypatch):
    monkeypatch.setattr("pcarann.readout.streamed._ORTHOGONAL_FEATURES", 10)
    monkeypatch.setattr("pcarann.readout.streamed._LEAST_SHIFT", 1e-6)  # which rounding outweighs
    H, Y = conditioned(60, 25, 1e2, rank=12), RNG.normal(size=(60, 2))
    report = solve_streamed_readout(stream(H, Y, 7)).report
    normal = NormalEquations.of(stream(H, Y, 7)()).normal
    assert report.solver == "cholesky"
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(normal + 0.1 * report.ridge * np.eye(25))


def test_very_many_features_without_energy_give_zero_weights(monkeypatch):
    monkeypatch.setattr("pcarann.readout.streamed._ORTHOGONAL_FEATURES", 2)
    found = solve_streamed_readout(stream(np.zeros((9, 5)), np.ones((9, 2)), 4))
    assert np.array_equal(found.readout, np.zeros((5, 2)))
    assert found.report.ridge == 1.0


def test_a_ridge_that_a_stream_had_to_raise_is_reported():
    rng = np.random.default_rng(0)
    H, Y = rng.normal(size=(200, 40)) @ rng.normal(size=(40, 1510)), rng.normal(size=(200, 2))
    report = solve_streamed_readout(lambda: [(H[:90], Y[:90]), (H[90:], Y[90:])]).report
    rounding = 2.0**-52 * (H**2).sum()  # of HᵀH, which is what a factor must be lifted over
    assert rounding <= report.ridge <= 100 * rounding


@pytest.mark.parametrize("ridge", [0.0, 1e-10])
def test_a_stream_of_middling_condition_is_refined_to_the_digits_of_an_orthogonal_solver(ridge):
    H = conditioned(60, 25, 1e5)
    Y = H @ RNG.normal(size=(25, 3))
    found = solve_streamed_readout(stream(H, Y, 7), ridge)
    expected = svd_ridge(H, Y, ridge)
    assert found.report.solver == "cholesky"
    assert np.abs(found.readout - expected).max() < 1e-10 * np.abs(expected).max()  # 1e-7 without


def test_sums_of_parts_add_to_those_of_all_rows():
    H, Y = RNG.normal(size=(12, 4)), RNG.normal(size=(12, 2))
    parts = [NormalEquations.of(stream(H[rows], Y[rows], 3)()) for rows in (slice(5), slice(5, 9), slice(9, 12))]
    found = NormalEquations.add(parts)
    assert np.allclose(found.normal, H.T @ H)
    assert np.allclose(found.moment, H.T @ Y)
    assert (found.energy, found.samples) == (pytest.approx((Y**2).sum()), 12)
