"""Random maps: the Fourier formula point by point, two Poisson equations, equal draws."""

import math

import numpy as np
import pytest

from pcarann.baselines.feature_maps import FourierMap, PredictorCorrector, fourier_filter


def convolved(kernel, field):
    """𝓕⁻¹(𝓕θ · 𝓕a) on a line, by its definition as a sum over shifts."""
    n = len(field)
    return np.array([sum(kernel[s] * field[(i - s) % n] for s in range(n)) for i in range(n)])


def test_a_fourier_map_is_elu_of_a_circular_convolution():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(3, 2, 12))
    maps = FourierMap.drawn(a, 4, cutoff=0.05)
    found = maps(a)
    assert found.shape == (3, 4, 12)
    kernels = np.fft.irfft(maps.kernels, n=12)
    for sample, features in zip(a, found, strict=True):
        for kernel, feature in zip(kernels, features, strict=True):
            z = convolved(kernel[0], sample[0]) + convolved(kernel[1], sample[1])
            expected = np.where(z < 0, np.exp(z) - 1, z)
            np.testing.assert_allclose(feature, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("space", [(16,), (9, 12)])
def test_fourier_maps_commute_with_shifts_and_do_not_depend_on_units(space):
    a = np.random.default_rng(1).normal(size=(5, 1, *space))
    maps = FourierMap.drawn(a, 6, cutoff=0.05)
    moved = np.roll(a, 3, axis=-1)
    np.testing.assert_allclose(maps(moved), np.roll(maps(a), 3, axis=-1), atol=1e-12)
    scaled = FourierMap.drawn(1e3 * a, 6, cutoff=0.05)
    np.testing.assert_allclose(scaled(1e3 * a), maps(a), atol=1e-10)
    assert math.sqrt(np.mean(maps.arguments(a) ** 2)) == pytest.approx(1.0)


def test_the_filter_passes_a_band_that_the_cutoff_places():
    a = np.random.default_rng(2).normal(size=(2, 1, 128))
    for cutoff, peak in ((0.02, 4), (0.01, 8)):  # 2πkδ = ½ at k = 0.08/δ
        kernels = FourierMap.drawn(a, 200, cutoff=cutoff).kernels
        k = np.arange(65)
        passed = np.abs(kernels[:, 0]).mean(axis=0) * ((2 * math.pi * k) ** 2 + 25)
        assert passed[0] == 0
        assert abs(int(np.argmax(passed)) - peak) <= 1
    assert fourier_filter(np.array([0.5]), 4.0) == 1.0


def test_the_first_maps_are_the_same_maps():
    a = 1 + np.random.default_rng(3).random(size=(2, 1, 9, 9))
    for maps in (FourierMap.drawn(a, 5, cutoff=0.1), PredictorCorrector.drawn(a, 5)):
        np.testing.assert_array_equal(maps.first(2)(a), maps(a)[:, :2])


def five_point(p):
    """−Δp at the inner nodes of a unit square."""
    h = 1 / (p.shape[-1] - 1)
    inner = 4 * p[..., 1:-1, 1:-1] - p[..., 2:, 1:-1] - p[..., :-2, 1:-1] - p[..., 1:-1, 2:] - p[..., 1:-1, :-2]
    return inner / h**2


def test_a_corrected_feature_solves_its_poisson_equation_and_vanishes_on_the_boundary():
    a = np.full((2, 1, 17, 17), 2.0)
    a[1] = 5.0
    maps = PredictorCorrector.drawn(a, 3)
    found = maps(a)
    assert abs(found[..., 0, :]).max() == abs(found[..., -1]).max() == 0
    # A constant coefficient has no gradient of its logarithm: −Δp₁ = 1/a + s₂.
    source = five_point(found)
    np.testing.assert_allclose(source[0] - source[1], 1 / 2 - 1 / 5, atol=1e-9)
    random = source[0] - 1 / 2
    assert -1 / 3 <= random.min() < -0.2 < 0 < random.max() <= 1 / 12


def test_prediction_and_correction_come_near_the_solution_of_a_smooth_coefficient():
    x = np.linspace(0, 1, 33)
    a = np.exp(0.3 * np.sin(math.pi * x)[:, None] * np.ones(33))[None, None]
    maps = PredictorCorrector.drawn(a, 1)
    silent = PredictorCorrector(tuple(np.zeros_like(g) for g in maps.gradients), np.zeros_like(maps.solutions))
    from pcarann.problems.darcy import solve

    u = solve(a[:, 0], np.ones((1, 33, 33)))
    first, corrected = solve(np.ones((1, 33, 33)), 1 / a[:, 0]), silent(a)[:, 0]
    assert np.linalg.norm(corrected - u) < 0.3 * np.linalg.norm(first - u)


@pytest.mark.parametrize("shape", [(2, 1, 9), (2, 2, 9, 9)])
def test_prediction_and_correction_are_for_a_positive_coefficient_on_a_square(shape):
    with pytest.raises(ValueError, match="need positive inputs"):
        PredictorCorrector.drawn(np.ones(shape), 2)
    with pytest.raises(ValueError, match="need positive inputs"):
        PredictorCorrector.drawn(np.zeros((2, 1, 9, 9)), 2)
