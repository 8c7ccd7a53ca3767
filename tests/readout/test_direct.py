import tracemalloc

import numpy as np
import pytest
from conditioned_rows import conditioned, svd_ridge

from pcarann.backend.arrays import to_host
from pcarann.readout.direct import RidgeFactor, factorise, fit_readout, minimum_norm, ridge_readout, solve_readout

RNG = np.random.default_rng(0)


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


@pytest.mark.parametrize(
    ("shape", "condition", "ridge", "steps"),
    [
        ((60, 25), 1e2, 0.0, 0),
        ((60, 25), 1e5, 0.0, 1),
        ((60, 25), 1e5, 1e-9, 1),
        ((60, 25), 2.5e6, 0.0, 2),
        ((25, 60), 1e4, 0.0, 0),  # which the condition alone does not settle
        ((25, 60), 1e5, 1e-8, 0),
        ((25, 60), 5e5, 0.0, 1),
        ((25, 60), 1e6, 1e-11, 1),
        ((25, 60), 2.5e6, 0.0, 2),
    ],
)
def test_a_solution_is_refined_as_often_as_that_changes_it(shape, condition, ridge, steps, monkeypatch):
    H = conditioned(*shape, condition)
    Y = H @ np.random.default_rng(1).normal(size=(shape[1], 3))
    solved: list[tuple[int, ...]] = []
    solve = RidgeFactor.solve
    monkeypatch.setattr(RidgeFactor, "solve", lambda self, rhs: solved.append(rhs.shape) or solve(self, rhs))
    V, report = fit_readout(H, Y, ridge)
    oracle = svd_ridge(H, Y, ridge)
    assert report.solver == "cholesky"
    assert solved.count((min(shape), 3)) == 1 + steps
    assert np.linalg.norm(V - oracle) <= (1e-9 if steps else 1e-7) * np.linalg.norm(oracle)


def test_a_dual_solution_that_does_not_fit_to_eight_digits_is_refined():
    """Targets in which every direction is alike: the first solution has seven digits, and fits to no more."""
    H, Y = conditioned(25, 60, 1e5), np.random.default_rng(1).normal(size=(25, 3))
    V, report = fit_readout(H, Y)
    oracle = svd_ridge(H, Y, 0.0)
    assert report.solver == "cholesky"
    assert np.linalg.norm(V - oracle) <= 1e-9 * np.linalg.norm(oracle)  # 4e-8 without


def test_outputs_that_cancel_are_refined_like_others():
    H = conditioned(25, 60, 1e6)
    y = H @ np.random.default_rng(1).normal(size=(60, 1))
    V, _ = fit_readout(H, np.hstack([y, -y]))
    oracle = svd_ridge(H, y, 0.0)
    assert np.linalg.norm(V[:, :1] - oracle) <= 1e-9 * np.linalg.norm(oracle)  # 1e-6 without


@SHAPES
@pytest.mark.parametrize("condition", [1e2, 1e4, 1e5, 1e6, 1e8])
@pytest.mark.parametrize("unit", [2.0**-30, 2.0**30])
def test_units_of_features_and_targets_change_no_digit(shape, condition, unit):
    H, ridge = conditioned(*shape, condition), 1e-14
    for Y in (H @ RNG.normal(size=(shape[1], 3)), RNG.normal(size=(shape[0], 3))):
        V, report = fit_readout(H, Y, ridge)
        assert np.array_equal(fit_readout(H, unit * Y, ridge)[0], unit * V)
        same, scaled = fit_readout(unit * H, Y, unit**2 * ridge)
        assert np.array_equal(same, V / unit)
        assert (scaled.solver, scaled.condition) == (report.solver, report.condition)


@pytest.mark.parametrize(("ridge", "solver"), [(1e-20, "qr"), (0.0, "svd")])
def test_a_solution_that_refinement_does_not_settle_goes_to_an_orthogonal_solver(ridge, solver):
    """A residual that outweighs the fit is rounded to more than the corrections."""
    H, noise = conditioned(60, 25, 2.5e6), 1e3 * RNG.normal(size=(60, 2))
    W = RNG.normal(size=(25, 2))
    found = solve_readout(H, H @ W + noise - H @ np.linalg.lstsq(H, noise, rcond=None)[0], ridge)
    assert found.report.solver == solver
    assert np.linalg.norm(H @ (found.readout - W)) <= 1e-4 * np.linalg.norm(H @ W)


@SHAPES
@pytest.mark.parametrize("ridge", [1e-2, 1e-20])
def test_a_ridge_readout_without_report_is_the_same(backend, shape, ridge):
    H = conditioned(*shape, 1e8)
    Y = RNG.normal(size=(shape[0], 3))
    V = ridge_readout(backend(H), backend(Y), ridge)
    assert np.allclose(H @ to_host(V), H @ svd_ridge(H, Y, ridge), atol=1e-6)


@pytest.mark.parametrize(("shape", "ridge"), [((60, 25), 1e-2), ((25, 60), 1e-2), ((25, 60), 1e-20)])
def test_a_ridge_readout_without_report_is_that_of_the_factor_to_the_last_digit(shape, ridge):
    H, Y = conditioned(*shape, 1e8), RNG.normal(size=(shape[0], 3))
    factor = factorise(H, ridge)
    assert factor.solver == ("cholesky" if ridge == 1e-2 else "qr")
    assert np.array_equal(ridge_readout(H, Y, ridge), factor.readout(H, Y))


@SHAPES
def test_rank_deficient_systems_get_the_minimum_norm_solution(backend, shape):
    H = conditioned(*shape, 1e3, rank=12)
    Y = RNG.normal(size=(shape[0], 3))
    V, report = fit_readout(backend(H), backend(Y))
    assert np.allclose(to_host(V), np.linalg.lstsq(H, Y, rcond=None)[0], atol=1e-8)
    assert (report.solver, report.rank) == ("svd", 12)
    assert report.form == ("primal" if shape[0] > shape[1] else "dual")


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
    assert (report.solver, report.ridge) == (solver, ridge)
    assert report.rank == (min(shape) if solver == "svd" else None)  # no other solver finds it
    assert np.allclose(H @ V, H @ svd_ridge(H, Y, ridge), atol=1e-9)


@SHAPES
def test_qr_factor_equals_the_normal_matrix(backend, shape):
    H = conditioned(*shape, 1e9)
    factor = factorise(backend(H), 1e-19)
    lower = to_host(factor.lower)
    normal = H @ H.T if factor.dual else H.T @ H
    assert (factor.solver, factor.dual) == ("qr", shape[1] > shape[0])
    assert np.allclose(lower @ lower.T, normal + 1e-19 * np.eye(len(normal)), atol=1e-14)


def test_features_without_energy_give_zero_weights(backend):
    V, report = fit_readout(backend(np.zeros((5, 8))), backend(np.ones((5, 2))))
    assert np.array_equal(to_host(V), np.zeros((8, 2)))
    assert (report.rank, report.condition) == (0, 1.0)


def test_targets_without_energy_give_zero_weights():
    H = conditioned(60, 25, 1e5)
    V, report = fit_readout(H, np.zeros((60, 2)))
    assert report.solver == "cholesky"
    assert np.array_equal(V, np.zeros((25, 2)))


def test_a_factor_with_its_inverse_at_hand_solves_by_products():
    """As on a GPU."""
    normal, rhs = np.array([[4.0, 2.0], [2.0, 3.0]]), np.array([[1.0], [5.0]])
    lower = np.linalg.cholesky(normal)
    factor = RidgeFactor(np.full((2, 2), np.nan), "cholesky", False, 0.0, inverse=np.linalg.inv(lower))
    assert np.allclose(factor.solve(rhs), np.linalg.solve(normal, rhs), rtol=1e-14)


# Conditions and ranks


@pytest.mark.parametrize("ridge", [0.0, 1e-3])
def test_as_many_features_as_samples_are_primal(ridge):
    H, Y = conditioned(20, 20, 1e2), RNG.normal(size=(20, 2))
    found = solve_readout(H, Y, ridge)
    assert (found.dual, found.report.form) == (False, "primal")
    assert np.allclose(found.readout, svd_ridge(H, Y, ridge), rtol=0, atol=1e-9)
    assert minimum_norm(H, Y).report.form == "primal"


def test_without_a_ridge_that_is_named_there_is_none():
    H, Y = conditioned(20, 5, 1e2), RNG.normal(size=(20, 2))
    assert np.array_equal(solve_readout(H, Y).readout, solve_readout(H, Y, 0.0).readout)


@pytest.mark.parametrize("ridge", [1e-30, 0.0])
def test_the_condition_is_the_norm_times_that_of_the_inverse(ridge):
    """cond(L Lᵀ) in the Frobenius norm, to the digits that two inverse power steps give where one direction is weak."""
    H = np.diag([1.0, 1.0, 1e-4])
    assert fit_readout(H, np.ones((3, 1)), ridge)[1].condition == pytest.approx(2**0.25 * 1e4, rel=1e-6)


def test_two_features_that_are_nearly_the_same_are_seen_in_the_condition():
    """(1, −1), the weak direction, is one that the sum of all features does not see."""
    a, b = np.eye(4)[:, :1], 1e-4 * np.eye(4)[:, 1:2]
    report = fit_readout(np.hstack([a + b, a - b]), np.ones((4, 1)))[1]
    assert report.condition == pytest.approx(1e4, rel=1e-6)


def test_a_factor_that_overflows_when_inverted_has_an_infinite_condition():
    assert factorise(np.diag([1.0, 1e-170]), 5e-324).condition == np.inf


def test_the_rank_counts_singular_values_above_rounding_of_the_first():
    rounding = 20 * 2.0**-52  # max(N, p) · eps
    H = np.zeros((20, 4))
    H[range(4), range(4)] = [3.0, 1e-9, 3 * 1.5 * rounding, 3 * 0.75 * rounding]
    assert minimum_norm(H, np.ones((20, 1))).report.rank == 3


def test_a_minimum_norm_takes_memory_of_the_order_of_its_rows():
    H, Y = np.ones((1500, 4)), np.ones((1500, 1))
    tracemalloc.start()
    minimum_norm(H, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6  # samples × samples would be 18 MB


# Reports


def test_a_rank_that_was_not_computed_is_not_reported():
    H = np.random.default_rng(0).normal(size=(60, 20))
    report = fit_readout(H, H[:, :2], 1e-3)[1]
    assert (report.solver, report.rank) == ("cholesky", None)


def test_the_ridge_that_was_asked_for_is_reported():
    H = np.random.default_rng(0).normal(size=(60, 20))
    assert fit_readout(H, H[:, :2], 1e-3)[1].ridge == 1e-3


@pytest.mark.parametrize(("shape", "rank"), [((60, 25), 10), ((25, 60), 25), ((25, 60), 10)])
def test_a_minimum_norm_solution_knows_its_condition_and_its_inverse(shape, rank):
    """(HᵀH)⁺, or (HHᵀ)⁻¹ where all samples are interpolated."""
    H = conditioned(*shape, 1e3, rank=rank)
    found = minimum_norm(H, RNG.normal(size=(shape[0], 2)))
    normal = H @ H.T if found.dual else H.T @ H
    expected = np.linalg.pinv(normal, rcond=1e-9)
    assert found.dual == (rank == shape[0])
    assert np.allclose(found.solve(np.eye(len(normal))), expected, rtol=0, atol=1e-8 * np.abs(expected).max())
    assert found.report.condition == pytest.approx(1e3, rel=1e-9)
