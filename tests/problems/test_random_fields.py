"""The priors have the spectra that they claim, and sample i depends on (seed, i) alone."""

import math

import numpy as np
import pytest

from pcarann.backend.arrays import place_of, to_host
from pcarann.problems.random_fields import (
    Covariance,
    neumann_square,
    periodic_interval,
    periodic_square,
    squared_exponential,
    squared_exponential_factor,
)
from pcarann.problems.spectral import wavenumbers

HOST = place_of(None)
COVARIANCE = Covariance(variance=3.0, shift=5.0, power=2.0)


def interval(samples, place=HOST, seed=0, grid=16, modes=6):
    return periodic_interval(samples, place, COVARIANCE, grid=grid, modes=modes, seed=seed, tag=1)


def square(samples, place=HOST, seed=0, grid=12, modes=4):
    return periodic_square(samples, place, COVARIANCE, grid=grid, modes=modes, seed=seed, tag=2)


def neumann(samples, place=HOST, seed=0, grid=9, modes=6):
    return neumann_square(samples, place, COVARIANCE, grid=grid, modes=modes, seed=seed, tag=3)


def gaussian(samples, place=HOST, seed=0, grid=9):
    return squared_exponential(samples, place, grid=grid, length=0.2, seed=seed, tag=4)


FIELDS = [interval, square, neumann, gaussian]


def cosine_coefficients(fields):
    """Coefficients in the orthonormal cosines, by the trapezoidal rule, exact for the modes of the grid."""
    n = fields.shape[-1]
    nodes, k = np.arange(n), np.arange(n - 1)
    weights = np.where((nodes == 0) | (nodes == n - 1), 0.5, 1.0) / (n - 1)
    basis = np.cos(math.pi * np.outer(nodes, k) / (n - 1)) * np.where(k > 0, math.sqrt(2), 1.0)
    return np.einsum("sij,ik,jl->skl", fields, weights[:, None] * basis, weights[:, None] * basis)


# A power |û|² of a complex normal has a standard deviation equal to its mean: over N samples the ratio to λ scatters
# by 1/√N. Five standard deviations at every mode. A real one scatters by √(2/N).


def test_interval_has_the_spectrum_of_its_covariance():
    n = 4000
    power = (abs(np.fft.fft(interval(range(n))) / 16) ** 2).mean(axis=0)
    k = wavenumbers(16)
    expected = COVARIANCE.eigenvalues(4 * math.pi**2 * k**2) * (abs(k) <= 6)
    np.testing.assert_allclose(power[expected > 0], expected[expected > 0], rtol=5 / math.sqrt(n))
    assert power[expected == 0].max() < 1e-30


def test_square_has_the_spectrum_of_its_covariance():
    n = 2000
    power = (abs(np.fft.fft2(square(range(n))) / 12**2) ** 2).mean(axis=0)
    k = wavenumbers(12)
    inside = (abs(k[:, None]) <= 4) & (abs(k) <= 4)
    expected = COVARIANCE.eigenvalues(4 * math.pi**2 * (k[:, None] ** 2 + k**2)) * inside
    np.testing.assert_allclose(power[expected > 0], expected[expected > 0], rtol=5 / math.sqrt(n))
    assert power[expected == 0].max() < 1e-30


def test_neumann_field_has_the_spectrum_of_its_covariance():
    n = 2000
    power = (cosine_coefficients(neumann(range(n))) ** 2).mean(axis=0)
    k = np.arange(8)
    inside = (k[:, None] < 6) & (k < 6)
    expected = COVARIANCE.eigenvalues(math.pi**2 * (k[:, None] ** 2 + k**2)) * inside
    np.testing.assert_allclose(power[expected > 0], expected[expected > 0], rtol=5 * math.sqrt(2 / n))
    assert power[expected == 0].max() < 1e-30


def test_modes_of_the_square_are_uncorrelated():
    n = 2000
    modes = np.fft.fft2(square(range(n)))[:, 1:3, :3].reshape(n, -1)
    modes /= np.sqrt((abs(modes) ** 2).mean(axis=0))
    correlation = abs(modes.T @ modes.conj() / n - np.eye(modes.shape[1]))
    assert correlation.max() < 5 / math.sqrt(n)


@pytest.mark.parametrize("length", [0.05, 0.2, 1.0])
def test_the_factor_of_the_squared_exponential_is_exact(length):
    x = np.linspace(0, 1, 64)
    R = squared_exponential_factor(x, length)
    np.testing.assert_allclose(R @ R.T, np.exp(-((x[:, None] - x) ** 2) / (2 * length**2)), rtol=0, atol=2e-14)


def test_squared_exponential_has_its_covariance():
    n = 2000
    fields = gaussian(range(n)).reshape(n, -1)
    x = np.linspace(0, 1, 9)
    line = np.exp(-((x[:, None] - x) ** 2) / (2 * 0.2**2))
    # A product of two unit normals of correlation c has the variance 1 + c² ≤ 2.
    np.testing.assert_allclose(fields.T @ fields / n, np.kron(line, line), atol=5 * math.sqrt(2 / n))


@pytest.mark.parametrize(("field", "grids"), [(interval, (16, 32)), (square, (12, 24)), (neumann, (9, 17))])
def test_a_finer_grid_shows_the_same_field(field, grids):
    coarse, fine = (field(range(2), grid=grid) for grid in grids)
    every_second = fine[:, ::2] if fine.ndim == 2 else fine[:, ::2, ::2]
    np.testing.assert_allclose(every_second, coarse, atol=1e-14)


def test_a_coarse_interval_leaves_out_the_modes_that_it_cannot_hold():
    coarse, fine = (np.fft.fft(interval(range(3), grid=grid)) / grid for grid in (9, 16))
    np.testing.assert_allclose(coarse[:, :5], fine[:, :5], atol=1e-15)


def test_a_coarse_square_leaves_out_the_modes_that_it_cannot_hold():
    coarse, fine = (np.fft.fft2(square(range(3), grid=grid)) / grid**2 for grid in (5, 12))
    np.testing.assert_allclose(coarse[:, :3, :3], fine[:, :3, :3], atol=1e-15)


def test_a_coarse_neumann_field_leaves_out_the_modes_that_it_cannot_hold():
    coarse, fine = (cosine_coefficients(neumann(range(3), grid=grid)) for grid in (5, 9))
    # The last mode of a grid, k = 4 here, has twice its mean square there: it is left aside.
    np.testing.assert_allclose(coarse[:, :4, :4], fine[:, :4, :4], atol=1e-14)


@pytest.mark.parametrize("field", FIELDS)
def test_a_sample_does_not_depend_on_its_batch(field):
    together = field(range(10))
    apart = np.concatenate([field(range(4)), field(range(4, 10))])
    np.testing.assert_allclose(apart, together, rtol=0, atol=1e-14 * abs(together).max())


@pytest.mark.parametrize("field", FIELDS)
def test_torch_draws_the_same_fields(field):
    torch = pytest.importorskip("torch")
    expected = field(range(3))
    drawn = to_host(field(range(3), place_of(torch.empty(0))))
    np.testing.assert_allclose(drawn, expected, rtol=0, atol=1e-13 * abs(expected).max())


@pytest.mark.parametrize("field", FIELDS)
def test_other_seeds_and_samples_are_other_fields(field):
    one = field(range(2))
    other = field(range(2), seed=1)
    assert abs(one - other).max() > 0.1 * abs(one).max()
    assert abs(one[0] - one[1]).max() > 0.1 * abs(one).max()
