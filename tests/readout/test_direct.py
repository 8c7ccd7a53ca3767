import numpy as np
import pytest
from conditioned_rows import conditioned, svd_ridge

from pcarann.backend.arrays import to_host
from pcarann.readout import direct as readout
from pcarann.readout.direct import factorise, fit_readout, minimum_norm, ridge_readout

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
