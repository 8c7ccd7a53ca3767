"""Burgers: exact solutions, order, refinement, prior, and the same data everywhere."""

import math

import numpy as np
import pytest

from pcarann.backend.arrays import place_of, to_host
from pcarann.problems import burgers

HOST = place_of(None)
NU = 0.01


def cole_hopf(x, t):
    """u = −2ν φₓ/φ for a solution φ of the heat equation: φ₀ comes down to 0.15, which makes u₀ steep."""
    waves = [(1.0, 0.8, 0.0), (2.0, 0.3, 1.0)]
    decay = [np.exp(-4 * math.pi**2 * NU * k**2 * t) for k, _, _ in waves]
    phases = [2 * math.pi * k * x + shift for k, _, shift in waves]
    phi = 1 + sum(a * d * np.cos(p) for (_, a, _), d, p in zip(waves, decay, phases, strict=True))
    slope = -sum(2 * math.pi * k * a * d * np.sin(p) for (k, a, _), d, p in zip(waves, decay, phases, strict=True))
    return -2 * NU * slope / phi


def test_solution_of_cole_and_hopf_is_met():
    x, t = np.arange(300) / 300, np.linspace(0, 1, 101)[:, None]
    exact = cole_hopf(x, t)
    found = burgers.evolve(cole_hopf(x, 0.0)[None], viscosity=NU, times=100, steps=4)[0]
    assert abs(exact).max() > 0.2  # as large as the prior's
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-9)


def test_the_integrator_has_order_four():
    x = np.arange(100) / 100
    initial = 3 * cole_hopf(x, 0.0)[None]
    errors = []
    exact = burgers.evolve(initial, viscosity=NU, times=1, steps=1280)[:, -1]
    for steps in (40, 80, 160):
        errors.append(abs(burgers.evolve(initial, viscosity=NU, times=1, steps=steps)[:, -1] - exact).max())
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert errors[-1] > 1e-12  # above rounding
    np.testing.assert_allclose(orders, 4, atol=0.3)


def test_samples_of_the_prior_agree_with_a_refined_run():
    _, u = burgers.simulate(range(20), HOST, seed=0)
    _, refined = burgers.simulate(range(20), HOST, seed=0, grid=400, steps=8)
    np.testing.assert_allclose(u, refined, rtol=0, atol=1e-6)


def test_shifts_and_reflections_commute_with_the_flow():
    initial = burgers.initial_states(range(3), HOST, seed=0, grid=100)
    states = burgers.evolve(initial, viscosity=NU, times=4, steps=50)
    shifted = burgers.evolve(np.roll(initial, 7, axis=-1), viscosity=NU, times=4, steps=50)
    reflected = burgers.evolve(-initial[:, ::-1], viscosity=NU, times=4, steps=50)
    np.testing.assert_allclose(shifted, np.roll(states, 7, axis=-1), atol=1e-13)
    np.testing.assert_allclose(reflected, -states[..., ::-1], atol=1e-13)


def test_initial_states_have_the_root_mean_square_of_the_protocol():
    fields = burgers.initial_states(range(2000), HOST, seed=0, grid=50)
    k = np.arange(1, 65)
    variance = 2 * (625.0**2 * (4 * math.pi**2 * k**2 + 25) ** -4.0).sum()
    # Almost all the variance is in one pair of modes: its mean over N samples scatters by 1/√N.
    np.testing.assert_allclose((fields**2).mean(), variance, rtol=5 / math.sqrt(2000))
    assert math.sqrt(variance) == pytest.approx(0.22, abs=0.01)


def test_initial_states_have_no_mean():
    assert abs(burgers.initial_states(range(5), HOST, seed=0, grid=50).mean(axis=1)).max() < 1e-15


def test_the_last_point_repeats_the_first():
    _, u = burgers.simulate(range(3), HOST, seed=0)
    np.testing.assert_array_equal(u[..., -1], u[..., 0])


def test_the_solution_starts_at_the_input():
    a, u = burgers.simulate(range(3), HOST, seed=0)
    np.testing.assert_array_equal(u[:, 0], a)


def test_samples_do_not_depend_on_their_batch():
    together = burgers.simulate(range(60), HOST, seed=3)  # more than one piece
    apart = zip(burgers.simulate(range(7), HOST, seed=3), burgers.simulate(range(7, 60), HOST, seed=3), strict=True)
    for whole, parts in zip(together, apart, strict=True):
        np.testing.assert_allclose(np.concatenate(parts), whole, rtol=0, atol=1e-13)


def test_torch_makes_the_same_data():
    torch = pytest.importorskip("torch")
    expected = burgers.simulate(range(3), HOST, seed=0)
    found = burgers.simulate(range(3), place_of(torch.empty(0)), seed=0)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(to_host(one), other, rtol=0, atol=1e-12)


def test_other_seeds_are_other_data():
    one, other = (burgers.simulate(range(2), HOST, seed=seed)[0] for seed in (0, 1))
    assert abs(one - other).max() > 0.05


def test_generated_data_have_the_shapes_of_the_task():
    data = burgers.generate(3, cache=False)
    assert data.inputs.shape == (3, 101)
    assert data.outputs.shape == (3, 101, 101)
    assert data.coordinates["x"][[0, -1]].tolist() == data.coordinates["t"][[0, -1]].tolist() == [0.0, 1.0]


def test_a_grid_without_the_points_of_the_data_is_refused():
    with pytest.raises(ValueError, match="grid must be a multiple of 100, got 128"):
        burgers.simulate(range(1), HOST, seed=0, grid=128)
