import numpy as np
import pytest

from pcarann.backend.arrays import to_host
from pcarann.backend.linalg import cholesky, solve_cholesky, solve_lower, triangle

RNG = np.random.default_rng(0)
SPD = np.cov(RNG.normal(size=(5, 50)))


def test_cholesky_factors_and_solves(backend):
    lower, rhs = cholesky(backend(SPD)), RNG.normal(size=(5, 2))
    assert np.allclose(to_host(lower @ lower.T), SPD)
    assert np.allclose(SPD @ to_host(solve_cholesky(lower, backend(rhs))), rhs)
    assert np.allclose(to_host(lower @ solve_lower(lower, backend(rhs))), rhs)
    assert np.allclose(to_host(lower.T @ solve_lower(lower, backend(rhs), transposed=True)), rhs)


@pytest.mark.parametrize("n", [1, 64, 65, 300])
@pytest.mark.parametrize("transposed", [False, True])
def test_triangular_systems_of_any_size_are_solved(backend, n, transposed):
    lower = np.tril(RNG.normal(size=(n, n))) / np.sqrt(n) + 2 * np.eye(n)
    wanted = RNG.normal(size=(n, 3))
    rhs = (lower.T if transposed else lower) @ wanted
    found = to_host(solve_lower(backend(lower), backend(rhs), transposed=transposed))
    assert np.allclose(found, wanted, rtol=0, atol=1e-12)


def test_triangle_is_that_of_a_qr_factorisation(backend):
    matrix = RNG.normal(size=(9, 4))
    R = to_host(triangle(backend(matrix)))
    assert R.shape == (4, 4)
    assert not np.tril(R, -1).any()
    assert np.allclose(R.T @ R, matrix.T @ matrix)


def test_cholesky_of_an_indefinite_matrix_is_none(backend):
    assert cholesky(backend(np.diag([1.0, -1.0]))) is None
