"""The example of a drifting stream: its solver, and what it shows in a short form."""

import doctest

import numpy as np
import pytest

from scripts import example


@pytest.fixture(scope="module")
def twin():
    return example("twin")


@pytest.fixture(scope="module")
def run(twin):
    with pytest.warns(UserWarning, match="no longer those of the calibration"):
        return twin.experiment(80, train=120, calibration=60, members=3)


def test_the_example_in_the_docstring_is_right(twin):
    assert doctest.testmod(twin).failed == 0


def test_a_coefficient_changes_the_solution_as_its_transform_says(twin):
    u = twin.solve(np.zeros((2, 4)), np.array([[8.0, 0.0]] * 2), np.array([0.0, 1.5]))
    assert np.allclose(u[1] + 0.75 * u[1] ** 2, u[0], rtol=0, atol=1e-12)
    assert (u[1] <= u[0]).all()


def test_heat_is_conserved_from_point_to_point(twin):
    log_k, load = np.array([[0.5, -0.5, 0.2, 0.0]]), np.array([[6.0, 3.0]])
    u = twin.solve(log_k, load, np.zeros(1))[0]
    k, f, h = np.exp(np.interp(twin.X, np.linspace(0, 1, 4), log_k[0])), 6 + 3 * np.sin(2 * np.pi * twin.X), twin.X[1]
    flux = -np.diff(u) / (h * (1 / k[1:] + 1 / k[:-1]) / 2)
    # Half of the trapezoid on either side of a point: h (f₋ + 2 f + f₊) / 4
    assert np.allclose(np.diff(flux), h * (f[:-2] + 2 * f[1:-1] + f[2:]) / 4, rtol=0, atol=1e-10)


def test_following_intervals_keep_their_level_where_fixed_ones_do_not(twin, run):
    told = twin.summary(run, 40)
    assert told["adapted, following"]["largest_departure"] < 0.08  # of 40 samples
    assert told["adapted, fixed"]["largest_departure"] > 0.2
    assert told["frozen"]["largest_departure"] > 0.5
    assert told["adapted, following"]["mean_error"] < 0.7 * told["frozen"]["mean_error"]
    assert told["alarms"][0][1] == pytest.approx(21, abs=8)


def test_the_picture_is_small(twin, run, tmp_path):
    pytest.importorskip("matplotlib")
    twin.draw(run, 20, tmp_path / "twin.png")
    assert 0 < (tmp_path / "twin.png").stat().st_size < 200_000


def test_rolling_means_are_means_of_windows(twin):
    assert np.allclose(twin.rolling([1, 2, 3, 4], 2), [1.5, 2.5, 3.5])
