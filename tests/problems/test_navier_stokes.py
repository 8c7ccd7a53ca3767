"""Navier–Stokes: exact solutions and symmetries, order, an independent solver, and the same data everywhere."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from pcarann.backend.arrays import place_of, to_host
from pcarann.problems import navier_stokes
from pcarann.problems.random_fields import periodic_square

HOST = place_of(None)
NU = 1e-3


def states(samples, grid=64):
    return navier_stokes.initial_states(samples, HOST, seed=0, grid=grid)


def flow(initial, time=1, steps=50, forcing=0.1, viscosity=NU):
    return navier_stokes.evolve(initial, range(time, time + 1), viscosity=viscosity, forcing=forcing, steps=steps)[:, 0]


def mesh(grid):
    return np.meshgrid(np.arange(grid) / grid, np.arange(grid) / grid, indexing="ij")


def test_vortices_of_taylor_and_green_decay_exactly():
    x, y = mesh(32)
    vortices = np.cos(4 * math.pi * x) * np.cos(4 * math.pi * y)
    found = flow(vortices[None], time=3, forcing=0.0)[0]
    np.testing.assert_allclose(found, vortices * math.exp(-2 * (4 * math.pi) ** 2 * NU * 3), rtol=0, atol=1e-13)


def test_forcing_from_rest_gives_the_laminar_flow():
    x, y = mesh(32)
    rate = 2 * (2 * math.pi) ** 2 * NU
    wave = np.sin(2 * math.pi * (x + y)) + np.cos(2 * math.pi * (x + y))
    found = flow(np.zeros((1, 32, 32)), time=5)[0]
    np.testing.assert_allclose(found, 0.1 * wave * (1 - math.exp(-5 * rate)) / rate, rtol=0, atol=1e-10)


def test_an_independent_solver_of_the_advective_form_agrees():
    grid = 24
    x, y = mesh(grid)
    initial = 3 * periodic_square(range(1), HOST, navier_stokes.PRIOR, grid=grid, modes=5, seed=0, tag=0)[0]
    k = np.fft.fftfreq(grid, 1 / grid)
    kx, ky = 2j * math.pi * k[:, None], 2j * math.pi * k
    laplacian = kx**2 + ky**2
    inverse = np.divide(-1, laplacian, where=laplacian != 0, out=np.zeros_like(laplacian))
    kept = (3 * abs(k[:, None]) < grid) & (3 * abs(k) < grid)
    force = 0.1 * np.sin(2 * math.pi * (x + y)) + 0.1 * np.cos(2 * math.pi * (x + y))

    def derivative(_, flat):
        w = np.fft.fft2(flat.reshape(grid, grid))
        real = [np.fft.ifft2(part).real for part in (ky * inverse * w, -kx * inverse * w, kx * w, ky * w)]
        u, v, w_x, w_y = real
        return np.fft.ifft2(
            NU * laplacian * w - kept * np.fft.fft2(u * w_x + v * w_y) + np.fft.fft2(force)
        ).real.ravel()

    solution = solve_ivp(derivative, (0, 2), initial.ravel(), method="DOP853", rtol=1e-10, atol=1e-12)
    found = flow(initial[None], time=2, steps=100)[0]
    expected = solution.y[:, -1].reshape(grid, grid)
    assert abs(expected - initial).max() > 0.3
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_the_integrator_has_order_four():
    initial = 4 * states(range(1), grid=32)
    exact = flow(initial, steps=320)
    errors = [abs(flow(initial, steps=steps) - exact).max() for steps in (20, 40, 80)]
    assert errors[-1] > 1e-11  # above rounding
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 4, atol=0.3)


def test_samples_of_the_prior_agree_with_a_refined_run():
    coarse = flow(states(range(2)), time=3)
    refined = flow(states(range(2), grid=128), time=3, steps=100)
    np.testing.assert_allclose(coarse, refined[:, ::2, ::2], rtol=0, atol=1e-6)


def shift(w):
    """ω(x + s, y − s), s = 5/64"""
    return np.roll(w, (-5, 5), axis=(-2, -1))


def glide(w):
    """−ω(y + ¼, x + ¼)"""
    return -np.roll(np.swapaxes(w, -2, -1), (-16, -16), axis=(-2, -1))


def half_turn(w):
    """ω(⅛ − x, ⅛ − y)"""
    return np.roll(w[..., ::-1, ::-1], (9, 9), axis=(-2, -1))


@pytest.mark.parametrize("symmetry", [shift, glide, half_turn])
def test_the_flow_commutes_with_its_symmetries(symmetry):
    initial = states(range(2))
    np.testing.assert_allclose(flow(symmetry(initial), time=2), symmetry(flow(initial, time=2)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("symmetry", [shift, glide, half_turn])
def test_a_symmetry_is_the_map_of_points_that_it_claims(symmetry):
    def field(x, y):
        return np.sin(2 * math.pi * x) + 0.5 * np.cos(2 * math.pi * (2 * x - y))

    x, y = mesh(64)
    moved = {
        shift: field(x + 5 / 64, y - 5 / 64),
        glide: -field(y + 1 / 4, x + 1 / 4),
        half_turn: field(1 / 8 - x, 1 / 8 - y),
    }
    np.testing.assert_allclose(symmetry(field(x, y)), moved[symmetry], atol=1e-14)


def test_a_shift_in_x_alone_is_no_symmetry():
    initial = states(range(2))
    difference = flow(np.roll(initial, 8, axis=-2), time=2) - np.roll(flow(initial, time=2), 8, axis=-2)
    assert abs(difference).max() > 0.05


def test_windows_see_one_trajectory():
    first = navier_stokes.simulate(range(1), HOST, seed=0, window=1, steps=10)
    later = navier_stokes.simulate(range(1), HOST, seed=0, window=11, steps=10)
    np.testing.assert_array_equal(later[0], first[1])


def test_initial_states_have_no_mean_and_the_variance_of_the_prior():
    fields = navier_stokes.initial_states(range(200), HOST, seed=0, grid=64)
    k = np.arange(-31, 32)
    spectrum = navier_stokes.PRIOR.eigenvalues(4 * math.pi**2 * (k[:, None] ** 2 + k**2))
    # The mean square is Σ|ŵₖ|², whose independent pairs ±k have variance 4λₖ² each.
    deviation = math.sqrt(2 * (spectrum**2).sum() / 200)
    assert abs((fields**2).mean() - spectrum.sum()) < 5 * deviation
    assert abs(fields.mean(axis=(1, 2))).max() < 1e-15


def test_samples_do_not_depend_on_their_batch():
    together = navier_stokes.simulate(range(18), HOST, seed=3, window=0, steps=4)
    parts = (range(3), range(3, 18))
    first, second = (navier_stokes.simulate(part, HOST, seed=3, window=0, steps=4) for part in parts)
    for whole, *apart in zip(together, first, second, strict=True):
        np.testing.assert_allclose(np.concatenate(apart), whole, rtol=0, atol=1e-12)


def test_torch_makes_the_same_data():
    torch = pytest.importorskip("torch")
    expected = navier_stokes.simulate(range(2), HOST, seed=0, window=0, steps=4)
    found = navier_stokes.simulate(range(2), place_of(torch.empty(0)), seed=0, window=0, steps=4)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(to_host(one), other, rtol=0, atol=1e-12)


def test_other_seeds_are_other_data():
    one, other = (navier_stokes.initial_states(range(1), HOST, seed=seed, grid=64) for seed in (0, 1))
    assert abs(one - other).max() > 0.1 * abs(one).max()


def test_generated_data_have_the_shapes_of_the_task():
    data = navier_stokes.generate(2, cache=False, window=11, steps=5)
    assert data.inputs.shape == data.outputs.shape == (2, 10, 64, 64)
    assert data.coordinates["t_inputs"].tolist() == list(range(11, 21))
    assert data.coordinates["t"].tolist() == list(range(21, 31))


@pytest.mark.parametrize(
    ("wrong", "message"), [({"grid": 96}, "multiple of 64, got 96"), ({"window": -1}, "t ≥ 0, got -1")]
)
def test_wrong_settings_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        navier_stokes.simulate(range(1), HOST, seed=0, **wrong)
