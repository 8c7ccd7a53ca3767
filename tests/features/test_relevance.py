import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern

from pcarann.backend.arrays import to_host
from pcarann.features.kernel import median_distance
from pcarann.features.relevance import learned_metric, power_weights

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) * [2.0, 1.0, 0.5]
Y = np.column_stack([np.sin(X[:, 0] + X[:, 1]), X[:, 2] ** 2])
METRICS = {"weights": np.array([1.0, 2.0, 0.5]), "matrix": RNG.normal(size=(3, 3))}
every_metric = pytest.mark.parametrize("metric", list(METRICS.values()), ids=list(METRICS))


def gradient_outer_product(metric, length, ridge, step=1e-5):
    """M by central differences of an explicit kernel ridge fit, scikit-learn's kernel in it."""
    R = np.diag(metric) if metric.ndim == 1 else metric
    k = Matern(length_scale=length * median_distance(X @ R), nu=2.5)
    alpha = np.linalg.solve(k(X @ R) + ridge * np.eye(len(X)), Y)
    sides = [[k((X + sign * step * e) @ R, X @ R) @ alpha for sign in (1, -1)] for e in np.eye(3)]
    gradients = np.stack([(ahead - behind) / (2 * step) for ahead, behind in sides], axis=1)
    return np.einsum("nio,njo->ij", gradients, gradients) / len(X)


# Powers


@pytest.mark.parametrize(("power", "expected"), [(0.0, [1, 1, 1]), (1.0, [1, 2, 8]), (-2.0, [1, 1 / 4, 1 / 64])])
def test_weights_are_powers_of_the_spread_in_units_of_the_largest(backend, power, expected):
    x = np.array([[4.0, 2.0, 0.5], [-4.0, 2.0, -0.5]])
    assert np.allclose(to_host(power_weights(backend(x), power)), expected, rtol=1e-14)


def test_power_one_whitens(backend):
    weighted = X * to_host(power_weights(backend(X), 1.0))
    spread = np.sqrt((weighted**2).mean(axis=0))
    assert np.allclose(spread, spread[0], rtol=1e-12)


@pytest.mark.parametrize("power", [1.0, -1.0])
def test_latents_without_spread_get_the_weight_one(backend, power):
    assert np.array_equal(to_host(power_weights(backend(np.zeros((4, 2))), power)), [1.0, 1.0])
    assert to_host(power_weights(backend(X * [1.0, 0.0, 1.0]), power))[1] == 1.0


# The learned metric


def matrix_power(M, power):
    values, vectors = np.linalg.eigh(M)
    return (vectors * values**power) @ vectors.T


@every_metric
@pytest.mark.parametrize("power", [0.5, 0.25])
def test_the_metric_is_a_power_of_the_gradient_outer_product(backend, metric, power):
    M = gradient_outer_product(metric, 2.0, 1e-2)
    found = learned_metric(backend(X), backend(Y), backend(metric), length=2.0, ridge=1e-2, power=power)
    # Central differences err by step², and rounding by eps/step: both are below 1e-9.
    assert np.allclose(to_host(found), matrix_power(M / np.trace(M), power), rtol=0, atol=1e-7)


@every_metric
@pytest.mark.parametrize("power", [0.5, 0.25])
def test_the_diagonal_form_is_a_power_of_its_diagonal_over_the_largest(metric, power):
    M = gradient_outer_product(metric, 2.0, 1e-2)
    found = learned_metric(X, Y, metric, length=2.0, ridge=1e-2, diagonal=True, power=power)
    assert np.allclose(found, (np.diag(M) / np.diag(M).max()) ** power, rtol=0, atol=1e-7)


def test_weights_and_the_diagonal_matrix_of_them_are_the_same_metric():
    weights = METRICS["weights"]
    one, other = (learned_metric(X, Y, metric, length=2.0, ridge=1e-2) for metric in (weights, np.diag(weights)))
    assert np.allclose(one, other, rtol=0, atol=1e-12)


def test_a_coordinate_that_moves_nothing_loses_its_weight():
    found = learned_metric(X, np.sin(X[:, :1]), np.ones(3), length=2.0, ridge=1e-3, diagonal=True)
    assert found[0] == 1.0
    assert found[1:].max() < 0.3


def test_a_direction_across_the_coordinates_is_found():
    x = np.random.default_rng(1).normal(size=(150, 3))
    direction = np.array([0.6, 0.8, 0.0])
    metric = np.ones(3)
    for _ in range(2):
        metric = learned_metric(x, np.sin(x @ direction)[:, None], metric, length=2.0, ridge=1e-4)
    leading = np.linalg.eigh(metric)[1][:, -1]
    assert abs(leading @ direction) > 0.999


@pytest.mark.parametrize("c", [1e-30, 1e30])
def test_the_unit_of_the_outputs_does_not_matter(c):
    plain, scaled = (learned_metric(X, unit * Y, np.ones(3), length=2.0, ridge=1e-2) for unit in (1.0, c))
    assert np.allclose(plain, scaled, rtol=0, atol=1e-12)


def test_gradients_at_a_part_of_the_samples_give_nearly_the_same_metric(monkeypatch):
    whole = learned_metric(X, Y, np.ones(3), length=2.0, ridge=1e-2)
    monkeypatch.setattr("pcarann.features.relevance._POINTS", 20)
    part = learned_metric(X, Y, np.ones(3), length=2.0, ridge=1e-2)
    assert 1e-6 < np.abs(part - whole).max() < 0.2


@pytest.mark.parametrize("diagonal", [False, True])
def test_constant_outputs_give_a_finite_metric(backend, diagonal):
    found = learned_metric(backend(X), backend(0 * Y), backend(np.ones(3)), length=2.0, ridge=1e-2, diagonal=diagonal)
    assert np.isfinite(to_host(found)).all()
