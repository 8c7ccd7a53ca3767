"""Rough cases: finer solvers, exact solutions, roughness, the same data everywhere."""

import math

import numpy as np
import pytest

from pcarann.backend.arrays import place_of, to_host
from pcarann.benchmark.rough.cases import CASES, SIZES, continuous, rough_burgers, two_valued
from pcarann.problems.burgers import evolve
from pcarann.problems.darcy import solve

HOST = place_of(None)
SIMULATIONS = {"rough_burgers": rough_burgers, "two_valued": two_valued, "continuous64": continuous}


def apart(found, exact):
    return np.linalg.norm(found - exact) / np.linalg.norm(exact)


def test_burgers_agrees_with_a_finer_solver():
    (a, u), (fine_a, fine_u) = (
        rough_burgers(range(20), HOST, seed=0, **finer) for finer in ({}, {"grid": 1024, "steps": 400})
    )
    np.testing.assert_allclose(a, fine_a, rtol=0, atol=1e-12)
    assert apart(u, fine_u) < 1e-5


def test_burgers_in_scaled_time_is_the_cole_hopf_solution():
    """u = −2ν ∂ₓ log φ with φ a solution of the heat equation, at T = 0.2 in the units of the case."""
    x, viscosity, time = np.arange(128) / 128, 0.01, 0.2
    k = 2 * math.pi

    def exact(t):
        decayed = 0.9 * math.exp(-viscosity * k**2 * t)
        return 2 * viscosity * k * decayed * np.sin(k * x) / (1 + decayed * np.cos(k * x))

    found = evolve(time * exact(0.0)[None], viscosity=viscosity * time, times=1, steps=100)[0, -1] / time
    np.testing.assert_allclose(found, exact(time), atol=1e-6 * exact(time).max())


def test_the_initial_state_is_rough_and_of_root_mean_square_one():
    a, u = rough_burgers(range(200), HOST, seed=0)
    assert a.std() == pytest.approx(1.0, abs=0.05)
    spectra = np.abs(np.fft.rfft(a)).mean(axis=0)
    assert spectra[40] / spectra[10] == pytest.approx(10 / 40, rel=0.2)  # amplitudes fall like 1/k
    energy = np.linalg.svd(a - a.mean(axis=0), compute_uv=False) ** 2
    assert energy[30:].sum() > 0.03 * energy.sum()
    assert apart(u, a) > 0.5


def test_blocks_meet_between_nodes_whatever_the_factor():
    a, u = two_valued(range(6), HOST, seed=0)
    assert a.shape == u.shape == (6, 33, 33)
    assert np.unique(a).tolist() == [1.0, 10.0]
    blocks = a[:, 1::3, 1::3]
    np.testing.assert_array_equal(a, blocks.repeat(3, axis=1).repeat(3, axis=2))
    assert 0.3 < (blocks == 10).mean() < 0.7
    for factor, tolerance in ((1, 0.06), (3, 0.02)):
        coarse, found = two_valued(range(6), HOST, seed=0, finer=factor)
        np.testing.assert_array_equal(coarse, a)
        assert apart(found, two_valued(range(6), HOST, seed=0, finer=7)[1]) < tolerance


def test_the_harmonic_mean_is_exact_where_the_coefficient_jumps_between_nodes():
    """Layers across x, no flow along y: u(x) by hand, the flux 1·(c − x) continuous over the jump at ½ − h/2."""
    nodes = 34
    x = np.linspace(0, 1, nodes)
    a = np.where(x < 0.5, 1.0, 10.0)
    h = x[1]
    # The same tridiagonal problem by quadrature of u' = (c − x)/a, exact for piecewise constant a.
    middle = (x[:-1] + x[1:]) / 2
    resistance = np.where(middle < 0.5 - h / 2, 1.0, np.where(middle > 0.5 + h / 2, 0.1, (1.0 + 0.1) / 2))
    c = (resistance * middle).sum() / resistance.sum()
    u = np.concatenate([[0.0], np.cumsum(h * resistance * (c - middle))])
    # In the middle of a long strip the sides do not matter: 2-D fields with u given on all rows by a source in y.
    rows = np.sin(math.pi * x)
    coefficient = np.broadcast_to(a[:, None], (nodes, nodes))
    eigenvalue = (2 * math.sin(math.pi * h / 2) / h) ** 2
    source = np.outer(np.ones(nodes), rows) + eigenvalue * np.outer(a * u, rows)
    found = solve(coefficient[None], source[None], harmonic=True)[0]
    np.testing.assert_allclose(found, np.outer(u, rows), atol=1e-10)


def test_the_continuous_coefficient_is_log_normal_rough_and_solved_to_a_percent():
    a, u = continuous(range(6), HOST, seed=0)
    fine_a, fine_u = continuous(range(6), HOST, seed=0, finer=3)
    np.testing.assert_allclose(a, fine_a, rtol=1e-10)
    assert apart(u, fine_u) < 0.015
    g = np.log(continuous(range(60), HOST, seed=1)[0])
    assert g.std() == pytest.approx(0.7, abs=0.05)
    # e^{−10r} is 0.85 at the next of 63 intervals and 0.13 at the 13th; less, as g has no constant mode.
    inner = g[:, 20:40, 20:40]
    near, far = (np.mean(g[:, 20:40, 20 + d : 40 + d] * inner) / np.mean(inner**2) for d in (1, 13))
    assert near == pytest.approx(0.85, abs=0.1)
    assert abs(far) < 0.2


@pytest.mark.parametrize("name", ["two_valued", "continuous64"])
def test_the_pressure_vanishes_on_the_boundary_alone(name):
    _, u = SIMULATIONS[name](range(2), HOST, seed=0)
    inside = np.zeros(u.shape[1:], dtype=bool)
    inside[1:-1, 1:-1] = True
    assert ((u > 0) == inside).all()


@pytest.mark.parametrize("name", CASES)
def test_samples_depend_on_the_seed_and_their_number_alone(name):
    simulate = SIMULATIONS[name]
    a, u = simulate(range(12), HOST, seed=3)
    later_a, later_u = simulate(range(10, 12), HOST, seed=3)
    np.testing.assert_allclose(later_a, a[10:], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(later_u, u[10:], rtol=1e-8, atol=1e-10)
    assert abs(simulate(range(1), HOST, seed=4)[0] - a[:1]).max() > 0.1


@pytest.mark.parametrize("name", CASES)
def test_torch_makes_the_same_data(name):
    torch = pytest.importorskip("torch")
    expected = SIMULATIONS[name](range(2), HOST, seed=0)
    found = SIMULATIONS[name](range(2), place_of(torch.empty(0)), seed=0)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(to_host(one), other, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("name", CASES)
def test_a_case_gives_training_and_test_samples(name):
    case = CASES[name]
    assert (case.sizes, case.n_test, case.is_quick) == (SIZES, 200, False)
    train, test = case.quick().generate(seed=1)
    assert (len(train), len(test)) == (40, 10)
    assert train.inputs.shape[1:] == train.outputs.shape[1:] == tuple(map(len, case.coordinates.values()))
    assert len(case.axes) == train.inputs.ndim - 1


def test_grids_that_do_not_hold_the_data_are_refused():
    with pytest.raises(ValueError, match="grid must be a multiple of 128, got 300"):
        rough_burgers(range(1), HOST, seed=0, grid=300)
    with pytest.raises(ValueError, match="finer must be odd, so that blocks meet between nodes, got 2"):
        two_valued(range(1), HOST, seed=0, finer=2)
