"""Backward heat: exact decay of modes, order, an independent stepper, and the same data everywhere."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import splu

from pcarann.backend.arrays import place_of, to_host
from pcarann.problems import backward_heat

HOST = place_of(None)
ALPHA = 0.05


def mode(p, q, grid=64):
    x = math.pi * np.linspace(0, 1, grid)
    return np.outer(np.sin(p * x), np.sin(q * x))


def eigenvalue(p, q, grid=64):
    h = 1 / (grid - 1)
    return 4 / h**2 * (math.sin(math.pi * p * h / 2) ** 2 + math.sin(math.pi * q * h / 2) ** 2)


@pytest.mark.parametrize(("p", "q"), [(1, 1), (2, 1), (3, 7), (20, 31), (62, 62)])
def test_modes_decay_at_the_factor_of_crank_and_nicolson(p, q):
    z = 0.005 * ALPHA * eigenvalue(p, q) / 2
    factor = (1 - z) / (1 + z)
    found = backward_heat.evolve(mode(p, q)[None], diffusivity=ALPHA, times=20, steps=10)[0]
    expected = mode(p, q) * factor ** (10 * np.arange(21))[:, None, None]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_sparse_time_stepping_gives_the_same_states():
    grid, steps, times = 12, 5, 4
    initial = backward_heat.initial_states(range(2), HOST, seed=0, grid=grid, length=0.2)
    line = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(grid - 2, grid - 2)) * (grid - 1) ** 2
    identity = sparse.eye_array(grid - 2)
    stiffness = ALPHA / (2 * times * steps) * (sparse.kron(line, identity) + sparse.kron(identity, line))
    unit = sparse.eye_array((grid - 2) ** 2)
    solver = splu((unit + stiffness).tocsc())
    state = initial[:, 1:-1, 1:-1].reshape(2, -1).T
    for _ in range(times * steps):
        state = solver.solve((unit - stiffness) @ state)
    found = backward_heat.evolve(initial, diffusivity=ALPHA, times=times, steps=steps)[:, -1, 1:-1, 1:-1]
    np.testing.assert_allclose(found, state.T.reshape(found.shape), rtol=0, atol=1e-12)


def test_the_integrator_has_order_two():
    exact = mode(2, 3) * math.exp(-ALPHA * eigenvalue(2, 3))
    errors = []
    for steps in (10, 20, 40):
        states = backward_heat.evolve(mode(2, 3)[None], diffusivity=ALPHA, times=1, steps=steps)
        errors.append(abs(states[0, -1] - exact).max())
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2, atol=0.1)


def test_the_initial_state_has_the_covariance_of_the_prior_and_its_envelope():
    n = 1000
    fields = backward_heat.initial_states(range(n), HOST, seed=0, grid=9, length=0.2)
    line = np.sin(math.pi * np.linspace(0, 1, 9)) ** 2
    # The square of a normal of variance s² scatters by √2 s².
    deviation = (fields**2).mean(axis=0) - np.outer(line, line)
    assert (abs(deviation) <= 5 * math.sqrt(2 / n) * np.outer(line, line) + 1e-30).all()


def test_temperatures_vanish_on_the_boundary():
    a, u = backward_heat.simulate(range(2), HOST, seed=0)
    for fields in (a, u):
        edges = [fields[..., 0, :], fields[..., -1, :], fields[..., 0], fields[..., -1]]
        assert all((edge == 0).all() for edge in edges)


def test_the_first_output_is_the_initial_state():
    _, u = backward_heat.simulate(range(2), HOST, seed=0)
    initial = backward_heat.initial_states(range(2), HOST, seed=0, grid=64, length=0.2)
    np.testing.assert_allclose(u[:, 0], initial, rtol=0, atol=1e-13)


def test_the_input_is_the_state_after_the_last_output():
    a, u = backward_heat.simulate(range(2), HOST, seed=0)
    later = backward_heat.evolve(u[:, -1], diffusivity=ALPHA, times=20, steps=10)[:, 1]
    np.testing.assert_allclose(later, a, rtol=0, atol=1e-13)


def test_samples_do_not_depend_on_their_batch():
    together = backward_heat.simulate(range(14), HOST, seed=3)  # more than one piece
    first, second = (backward_heat.simulate(part, HOST, seed=3) for part in (range(5), range(5, 14)))
    for whole, *parts in zip(together, first, second, strict=True):
        np.testing.assert_allclose(np.concatenate(parts), whole, rtol=0, atol=1e-13)


def test_torch_makes_the_same_data():
    torch = pytest.importorskip("torch")
    expected = backward_heat.simulate(range(3), HOST, seed=0)
    found = backward_heat.simulate(range(3), place_of(torch.empty(0)), seed=0)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(to_host(one), other, rtol=0, atol=1e-12)


def test_other_seeds_are_other_data():
    one, other = (backward_heat.simulate(range(2), HOST, seed=seed)[1] for seed in (0, 1))
    assert abs(one - other).max() > 0.1


def test_generated_data_have_the_shapes_of_the_task():
    data = backward_heat.generate(2, cache=False)
    assert data.inputs.shape == (2, 64, 64)
    assert data.outputs.shape == (2, 20, 64, 64)
    np.testing.assert_allclose(data.coordinates["t"], 0.05 * np.arange(20), atol=1e-15)
