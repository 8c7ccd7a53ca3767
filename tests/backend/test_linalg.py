import numpy as np
import pytest
import scipy.linalg

from pcarann.backend.arrays import to_host
from pcarann.backend.linalg import cholesky, few_eigenvectors, solve_cholesky, solve_hermitian, solve_lower, triangle

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


def hermitian(*stack, n=5, is_complex=True, seed=0):
    """Positive definite matrices, (*stack, n, n)."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(*stack, n, 2 * n))
    rows = rows + 1j * rng.normal(size=rows.shape) if is_complex else rows
    return rows @ rows.conj().swapaxes(-1, -2)


# Strict arrays are real here: the standard's matrices of complex numbers are no part of what is used.
libraries = pytest.mark.parametrize("library", ["numpy", "torch"])


def into(library):
    if library == "numpy":
        return np.asarray
    torch = pytest.importorskip("torch")
    return lambda array: torch.asarray(np.asarray(array))


@libraries
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("stack", [(), (1,), (3,), (2, 3)])
def test_positive_definite_systems_are_solved_alone_and_in_stacks(library, is_complex, stack):
    put = into(library)
    matrix = hermitian(*stack, is_complex=is_complex)
    wanted = hermitian(*stack, is_complex=is_complex, seed=1)[..., :2]
    found = to_host(solve_hermitian(put(matrix), put(matrix @ wanted)))
    assert found.dtype == wanted.dtype
    assert np.allclose(found, wanted, rtol=0, atol=1e-10)


@libraries
@pytest.mark.parametrize("is_complex", [False, True])
def test_a_system_without_a_solution_is_not_a_number(library, is_complex):
    put = into(library)
    matrix = hermitian(is_complex=is_complex)
    found = to_host(solve_hermitian(put(0 * matrix), put(matrix[:, :2])))
    assert found.shape == (5, 2)
    assert np.isnan(found).all()


def test_one_of_a_stack_without_a_solution_leaves_the_others_on_torch():
    put = into("torch")
    stack = hermitian(3)
    stack[1] = 0
    found = to_host(solve_hermitian(put(stack), put(hermitian(3, seed=1))))
    assert np.isnan(found).any(axis=(1, 2)).tolist() == [False, True, False]


def test_a_few_eigenvectors_of_a_large_matrix_are_the_leading_ones(monkeypatch):
    monkeypatch.setattr("pcarann.backend.linalg._LARGE", 30)
    root = np.random.default_rng(0).normal(size=(40, 40))
    vectors, values = few_eigenvectors(root @ root.T, 3)
    assert np.allclose(values, np.linalg.eigvalsh(root @ root.T)[:-4:-1], rtol=1e-12)
    assert np.allclose(root @ root.T @ vectors, vectors * values, atol=1e-10 * values[0])
    assert few_eigenvectors((root @ root.T)[:20, :20], 1) is None
    assert few_eigenvectors(root @ root.T, 6) is None


def test_where_a_few_eigenvectors_are_not_found_all_are_sought(monkeypatch):
    def eigh(*_, **__):
        raise scipy.linalg.LinAlgError

    monkeypatch.setattr("pcarann.backend.linalg._LARGE", 30)
    monkeypatch.setattr(scipy.linalg, "eigh", eigh)
    assert few_eigenvectors(np.eye(40), 3) is None
