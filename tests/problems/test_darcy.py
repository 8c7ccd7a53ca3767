"""Darcy: a manufactured solution, a direct solver, the permeability, and the same data everywhere."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import spsolve

from pcarann.backend.arrays import place_of, to_host
from pcarann.problems import darcy

HOST = place_of(None)


def manufactured(nodes):
    """a = e^{x + y/2}, u = sin(πx) sin(2πy), and f = −∇·(a ∇u) by hand."""
    x, y = np.meshgrid(np.linspace(0, 1, nodes), np.linspace(0, 1, nodes), indexing="ij")
    pi = math.pi
    a = np.exp(x + y / 2)
    u = np.sin(pi * x) * np.sin(2 * pi * y)
    u_x, u_y = pi * np.cos(pi * x) * np.sin(2 * pi * y), 2 * pi * np.sin(pi * x) * np.cos(2 * pi * y)
    return a, u, a * (5 * pi**2 * u - u_x - u_y / 2)


def direct_solution(a, f):
    """The same five-point system, entry by entry, by sparse elimination."""
    n = len(a)
    number = -np.ones((n, n), dtype=int)
    number[1:-1, 1:-1] = np.arange((n - 2) ** 2).reshape(n - 2, n - 2)
    matrix = sparse.lil_array(((n - 2) ** 2, (n - 2) ** 2))
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            for k, m in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
                edge = (a[i, j] + a[k, m]) / 2 * (n - 1) ** 2
                matrix[number[i, j], number[i, j]] += edge
                if number[k, m] >= 0:
                    matrix[number[i, j], number[k, m]] = -edge
    u = np.zeros((n, n))
    u[1:-1, 1:-1] = spsolve(matrix.tocsc(), f[1:-1, 1:-1].ravel()).reshape(n - 2, n - 2)
    return u


def test_a_manufactured_solution_is_met_with_order_two():
    errors = []
    for nodes in (17, 33, 65):
        a, u, f = manufactured(nodes)
        errors.append(abs(darcy.solve(a[None], f[None])[0] - u).max())
    assert errors[-1] < 2e-3
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2, atol=0.1)


def test_a_sparse_direct_solver_gives_the_same_pressure():
    a = darcy.permeabilities(range(2), HOST, seed=0, fine=57)
    found = darcy.solve(a, np.ones(a.shape))
    for one, permeability in zip(found, a, strict=True):
        expected = direct_solution(permeability, np.ones(permeability.shape))
        np.testing.assert_allclose(one, expected, rtol=0, atol=1e-10 * expected.max())


def test_a_smaller_tolerance_is_a_smaller_error():
    a = darcy.permeabilities(range(2), HOST, seed=0, fine=57)
    exact = darcy.solve(a, np.ones(a.shape), tolerance=1e-13)
    errors = [abs(darcy.solve(a, np.ones(a.shape), tolerance=t) - exact).max() for t in (1e-3, 1e-6, 1e-9)]
    assert errors[0] > 100 * errors[1] > 1e4 * errors[2]


@pytest.mark.parametrize("fine", [29, 141])
def test_thirty_five_iterations_suffice_on_any_grid(fine, monkeypatch):
    monkeypatch.setattr(darcy, "_MOST_ITERATIONS", 35)
    a = darcy.permeabilities(range(4), HOST, seed=0, fine=fine)
    assert darcy.solve(a, np.ones(a.shape)).max() > 0


def test_a_residual_that_cannot_be_reached_raises():
    a = darcy.permeabilities(range(1), HOST, seed=0, fine=29)
    with pytest.raises(ArithmeticError, match=r"did not converge to 0\.0 in 200 iterations"):
        darcy.solve(a, np.ones(a.shape), tolerance=0.0)
    with pytest.raises(ArithmeticError, match="did not converge to 1e-12 in 5 iterations"):
        darcy.solve(a, np.ones(a.shape), most=5)


def test_a_permeability_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="permeability must be positive, found 0"):
        darcy.solve(np.zeros((1, 9, 9)), np.ones((1, 9, 9)))


def test_no_source_gives_no_pressure():
    a = np.ones((2, 9, 9))
    source = np.stack([np.zeros((9, 9)), np.ones((9, 9))])
    u = darcy.solve(a, source)
    assert abs(u[0]).max() == 0 < u[1].max()


def test_the_permeability_is_3_or_12():
    a, _ = darcy.simulate(range(5), HOST, seed=0, fine=29)
    assert np.unique(a).tolist() == [3.0, 12.0]


def test_the_permeability_is_half_and_half():
    share = (darcy.permeabilities(range(100), HOST, seed=0, fine=29) == 12).mean(axis=(1, 2))
    assert abs(share.mean() - 0.5) < 4 * share.std() / math.sqrt(len(share))
    assert share.std() < 0.2  # without its mean mode no field is of one sign


def test_pressure_vanishes_on_the_boundary_alone():
    _, u = darcy.simulate(range(2), HOST, seed=0, fine=57)
    inside = np.zeros((29, 29), dtype=bool)
    inside[1:-1, 1:-1] = True
    assert ((u > 0) == inside).all()
    assert (u[:, ~inside] == 0).all()


def test_other_fine_grids_show_the_same_samples():
    (a, u), (coarse_a, coarse_u) = (darcy.simulate(range(4), HOST, seed=0, fine=fine) for fine in (281, 141))
    assert (a == coarse_a).mean() > 0.97  # nodes beside the interface may change sides
    assert np.linalg.norm(u - coarse_u) < 0.02 * np.linalg.norm(u)


def test_samples_do_not_depend_on_their_batch():
    together = darcy.simulate(range(10), HOST, seed=3, fine=57)
    first, second = (darcy.simulate(part, HOST, seed=3, fine=57) for part in (range(3), range(3, 10)))
    for whole, *parts in zip(together, first, second, strict=True):
        np.testing.assert_allclose(np.concatenate(parts), whole, rtol=0, atol=1e-13)


def test_torch_makes_the_same_data():
    torch = pytest.importorskip("torch")
    expected = darcy.simulate(range(3), HOST, seed=0, fine=57)
    found = darcy.simulate(range(3), place_of(torch.empty(0)), seed=0, fine=57)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(to_host(one), other, rtol=0, atol=1e-12)


def test_other_seeds_are_other_data():
    one, other = (darcy.simulate(range(1), HOST, seed=seed, fine=29)[0] for seed in (0, 1))
    assert (one != other).mean() > 0.1


@pytest.mark.parametrize("fine", [57, 141])
def test_generated_data_have_the_shapes_of_the_task(fine):
    data = darcy.generate(2, cache=False, fine=fine)
    assert data.inputs.shape == data.outputs.shape == (2, 29, 29)
    assert data.coordinates["x"].tolist() == np.linspace(0, 1, 29).tolist()


def test_a_fine_grid_without_the_points_of_the_data_is_refused():
    with pytest.raises(ValueError, match=r"fine must be 28m \+ 1 with m ≥ 1, such as 141 or 421, got 100"):
        darcy.simulate(range(1), HOST, seed=0, fine=100)
