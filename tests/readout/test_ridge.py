import tracemalloc

import numpy as np
import pytest
from conditioned_rows import conditioned

from pcarann import PCARaNN
from pcarann.backend.arrays import to_host
from pcarann.readout.ridge import choose_ridge, spectrum_of_gram, spectrum_of_rows, spectrum_of_sums
from pcarann.readout.streamed import NormalEquations

SHAPES = pytest.mark.parametrize("shape", [(30, 9), (14, 25)], ids=["primal", "dual"])
CRITERIA = pytest.mark.parametrize("criterion", ["gcv", "loo"])
RIDGES = (1e-3, 0.1, 3.0, 200.0)


def noisy(shape, seed=0, rank=None, noise=0.3):
    rng = np.random.default_rng(seed)
    H = rng.normal(size=shape)
    if rank:
        H = H[:, :rank] @ rng.normal(size=(rank, shape[1]))
    return H, H @ rng.normal(size=(shape[1], 2)) + noise * rng.normal(size=(shape[0], 2))


def literal_gcv(H, Y, ridge):
    """Generalised cross-validation from the matrix I − S itself."""
    samples, size = H.shape
    if size > samples:
        rest = ridge * np.linalg.inv(H @ H.T + ridge * np.eye(samples))
    else:
        rest = np.eye(samples) - H @ np.linalg.solve(H.T @ H + ridge * np.eye(size), H.T)
    return samples * ((rest @ Y) ** 2).sum() / np.trace(rest) ** 2


def literal_loo(H, Y, ridge):
    """Mean squared error of N explicit refits, each without one sample."""
    others = np.array([np.delete(np.arange(len(Y)), i) for i in range(len(Y))])
    A, B = H[others], Y[others]
    T = A.transpose(0, 2, 1)
    if H.shape[1] > H.shape[0]:
        V = T @ np.linalg.solve(A @ T + ridge * np.eye(len(Y) - 1), B)
    else:
        V = np.linalg.solve(T @ A + ridge * np.eye(H.shape[1]), T @ B)
    return (((H[:, None, :] @ V)[:, 0, :] - Y) ** 2).sum(axis=1).mean()


LITERAL = {"gcv": literal_gcv, "loo": literal_loo}


def least_on_the_grid(H, Y):
    """The best of the ridges tried, 1e-14 to 10 times the largest σ² in quarters of a decade, by brute force."""
    grid = np.linalg.norm(H, 2) ** 2 * 10 ** np.arange(-14, 1.01, 0.25)
    return grid, np.array([literal_gcv(H, Y, ridge) for ridge in grid])


@SHAPES
@CRITERIA
def test_the_criteria_equal_explicit_refits(backend, shape, criterion):
    H, Y = noisy(shape)
    spectrum = spectrum_of_rows(backend(H), backend(Y))
    for ridge in RIDGES:
        assert getattr(spectrum, criterion)(ridge) == pytest.approx(LITERAL[criterion](H, Y, ridge), rel=1e-9)


@SHAPES
@CRITERIA
def test_the_criteria_hold_for_features_of_lower_rank(shape, criterion):
    H, Y = noisy(shape, rank=5)
    spectrum = spectrum_of_rows(H, Y)
    assert spectrum.squares.shape == (5,)
    for ridge in RIDGES:
        assert getattr(spectrum, criterion)(ridge) == pytest.approx(LITERAL[criterion](H, Y, ridge), rel=1e-8)


@SHAPES
@pytest.mark.parametrize("noise", [0.3, 10.0])
def test_the_ridge_chosen_is_the_best_on_the_grid_by_brute_force(shape, noise):
    H, Y = noisy(shape, noise=noise)
    grid, errors = least_on_the_grid(H, Y)
    found = choose_ridge(spectrum_of_rows(H, Y))
    assert np.isclose(grid, found, rtol=1e-9, atol=0).sum() == 1
    # The error is flat where the ridge is small: equal errors, not equal ridges.
    assert literal_gcv(H, Y, found) == pytest.approx(errors.min(), rel=1e-8)


@CRITERIA
def test_the_criteria_stay_exact_where_features_interpolate_and_the_ridge_vanishes(criterion):
    H, Y = noisy((14, 25))
    spectrum = spectrum_of_rows(H, Y)
    for ridge in (1e-6, 1e-10, 1e-13):
        assert getattr(spectrum, criterion)(ridge) == pytest.approx(LITERAL[criterion](H, Y, ridge), rel=1e-9)


@pytest.mark.parametrize("shape", [(14, 25), (20, 20)])
def test_ill_conditioned_features_that_interpolate_have_orthonormal_left_vectors(shape):
    """From HHᵀ, whose eigenvectors they are: from HᵀH they would come divided by σ, and err by eps/σ²."""
    left = spectrum_of_rows(conditioned(*shape, 1e6), np.ones((shape[0], 1))).left
    assert np.allclose(left.T @ left, np.eye(shape[0]), rtol=0, atol=1e-13)


def test_a_spectrum_of_many_samples_takes_memory_of_the_order_of_its_rows():
    H, Y = noisy((1000, 4))
    tracemalloc.start()
    spectrum_of_rows(H, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6  # samples × samples would be 8 MB


def test_the_rank_counts_eigenvalues_above_rounding_of_the_largest():
    rounding = 20 * 2.0**-52
    squares = np.r_[np.zeros(16), 3 * 0.75 * rounding, 3 * 1.5 * rounding, 1e-9, 3.0]
    spectrum = spectrum_of_gram(np.diag(squares), np.ones((20, 1)))
    assert np.array_equal(spectrum.squares, squares[-3:])


def test_sums_have_no_more_directions_than_samples_even_where_rounding_stands_above_the_cut():
    sums = NormalEquations(np.diag([1e-14, 1.0, 2.0]), np.ones((3, 1)), 5.0, samples=2)
    assert np.array_equal(spectrum_of_sums(sums).squares, [1.0, 2.0])


@SHAPES
@CRITERIA
def test_the_gram_matrix_gives_the_same_criteria_as_the_rows(backend, shape, criterion):
    H, Y = noisy(shape)
    spectrum = spectrum_of_gram(backend(H @ H.T), backend(Y))
    expected = LITERAL[criterion](H, Y, 0.5)
    assert getattr(spectrum, criterion)(0.5) == pytest.approx(expected, rel=1e-8)


@SHAPES
@pytest.mark.parametrize("size", [1, 4, 30])
def test_streamed_sums_give_the_same_cross_validation_for_any_blocks(backend, shape, size):
    H, Y = noisy(shape)
    blocks = ((backend(H[i : i + size]), backend(Y[i : i + size])) for i in range(0, len(H), size))
    spectrum = spectrum_of_sums(NormalEquations.of(blocks))
    for ridge in RIDGES:
        assert spectrum.gcv(ridge) == pytest.approx(literal_gcv(H, Y, ridge), rel=1e-8)


def test_more_noise_asks_for_a_larger_ridge():
    chosen = [choose_ridge(spectrum_of_rows(*noisy((30, 9), noise=s))) for s in (1e-3, 1.0, 30.0)]
    assert chosen == sorted(chosen)
    assert chosen[0] < chosen[2]


@pytest.mark.parametrize("c", [1e-20, 1e20])
def test_the_ridge_follows_the_unit_of_the_features_and_not_that_of_the_targets(c):
    H, Y = noisy((30, 9))
    plain, scaled = choose_ridge(spectrum_of_rows(H, Y)), choose_ridge(spectrum_of_rows(c * H, Y))
    assert scaled == pytest.approx(c**2 * plain, rel=1e-9, abs=0)
    assert choose_ridge(spectrum_of_rows(H, c * Y)) == pytest.approx(plain, rel=1e-12)


def test_features_without_energy_get_a_ridge_all_the_same(backend):
    assert choose_ridge(spectrum_of_rows(backend(np.zeros((6, 4))), backend(np.ones((6, 1))))) == 1.0


def test_interpolating_features_and_clean_targets_choose_a_tiny_ridge():
    H, Y = noisy((14, 25), noise=0.0)
    assert choose_ridge(spectrum_of_rows(H, Y)) < 1e-9 * np.linalg.norm(H, 2) ** 2


@pytest.mark.parametrize("widths", [(12, 8), (60, 40)], ids=["primal", "dual"])
@pytest.mark.parametrize("regressor", ["random", "kernel"])
def test_a_model_reports_the_ridge_that_brute_force_finds_on_its_first_member(pairs, widths, regressor):
    a, u = pairs[:36]
    u = u + 0.3 * np.random.default_rng(0).normal(size=u.shape)
    options = dict(n_components=(4, 3), widths=widths, scales=(0.4, 0.3), n_members=2)
    model = PCARaNN(**options, regressor=regressor, ridge="gcv").fit(a, u)
    fitted = model._fitted
    H = fitted.ensemble.members[0].features(fitted.x)
    grid, errors = least_on_the_grid(H, fitted.y)
    assert np.isclose(grid, model.ridge_, rtol=1e-9, atol=0).sum() == 1
    assert literal_gcv(H, fitted.y, model.ridge_) == pytest.approx(errors.min(), rel=1e-6)


def test_every_member_is_fitted_with_the_ridge_chosen(backend, pairs):
    a, u = pairs[:36]
    model = PCARaNN(n_components=(4, 3), widths=(12, 8), scales=(0.4, 0.3), n_members=2, ridge="gcv")
    fitted = model.fit(backend(a), backend(u))._fitted
    for member in fitted.ensemble.members:
        H, Y = to_host(member.features(fitted.x)), to_host(fitted.y)
        expected = np.linalg.solve(H.T @ H + model.ridge_ * np.eye(20), H.T @ Y)
        assert np.allclose(to_host(member.readout), expected, rtol=0, atol=1e-7 * np.abs(expected).max())


def test_without_a_ridge_and_a_degree_of_freedom_nothing_is_cross_validated():
    H, Y = noisy((9, 9))
    assert spectrum_of_rows(H, Y).gcv(0.0) == np.inf
