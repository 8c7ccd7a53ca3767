import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcarann.backend.arrays import to_host
from pcarann.latent.smoothing import Smoothing

RNG = np.random.default_rng(0)
POINTS = 24
X = np.arange(POINTS) / POINTS
WAVES = np.stack([np.sin(2 * np.pi * X), np.cos(2 * np.pi * X), np.sin(4 * np.pi * X)])
PERIODIC = RNG.normal(size=(20, 3)) @ WAVES
RAMPS = PERIODIC + 3 * RNG.normal(size=(20, 1)) * X
ROUGH = RNG.normal(size=(5, POINTS))
everywhere = pytest.mark.parametrize("around", [True, False], ids=["periodic", "with ends"])


def gaussian(n, width, around):
    """G written out entry by entry."""
    G = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            apart = min(abs(i - j), n - abs(i - j)) if around else abs(i - j)
            G[i, j] = np.exp(-(apart**2) / (2 * (width * n) ** 2))
    return G / G.sum(axis=1, keepdims=True)


# What it does to fields


@everywhere
def test_smoothing_is_the_gaussian_of_the_docstring(backend, around):
    found = Smoothing(0.1, (around,))(backend(ROUGH), (POINTS,))
    assert np.allclose(to_host(found), ROUGH @ gaussian(POINTS, 0.1, around).T, rtol=0, atol=1e-14)


@given(st.floats(1e-300, 1.0), st.booleans(), st.integers(1, 30))
def test_constants_are_kept_at_any_width(width, around, points):
    assert np.allclose(Smoothing(width, (around,))(np.full((1, points), 7.0), (points,)), 7.0, rtol=1e-14)


def test_mass_is_kept_around_a_period():
    found = Smoothing(0.1, (True,))(ROUGH, (POINTS,))
    assert np.allclose(found.sum(axis=1), ROUGH.sum(axis=1), rtol=0, atol=1e-13)


@everywhere
def test_no_value_leaves_the_range_of_its_field(around):
    found = Smoothing(0.1, (around,))(ROUGH, (POINTS,))
    assert (found.max(axis=1) < ROUGH.max(axis=1)).all()
    assert (found.min(axis=1) > ROUGH.min(axis=1)).all()


def test_the_wider_the_smoother():
    spreads = [Smoothing(width, (True,))(ROUGH, (POINTS,)).std() for width in (0.0, 0.02, 0.05, 0.15, 0.5)]
    assert spreads == sorted(spreads, reverse=True)
    assert len(set(spreads)) == len(spreads)


def test_a_width_of_zero_hands_back_the_fields_themselves():
    assert Smoothing.of(ROUGH, (POINTS,), 0.0)(ROUGH, (POINTS,)) is ROUGH


def test_a_width_far_below_a_step_changes_nothing():
    assert np.array_equal(Smoothing(1e-200, (False,))(ROUGH, (POINTS,)), ROUGH)


def test_the_fields_handed_in_are_not_written_to():
    before = ROUGH.copy()
    Smoothing(0.1, (True,))(ROUGH, (POINTS,))
    assert np.array_equal(ROUGH, before)


def test_smoothing_commutes_with_shifts_around_a_period():
    smooth = Smoothing(0.07, (True,))
    shifted = smooth(np.roll(ROUGH, 5, axis=1), (POINTS,))
    # One row of G against another: the same products, summed in another order.
    assert np.allclose(shifted, np.roll(smooth(ROUGH, (POINTS,)), 5, axis=1), rtol=0, atol=1e-14)


def test_smoothing_with_ends_does_not_commute_with_shifts():
    smooth = Smoothing(0.07, (False,))
    shifted = smooth(np.roll(ROUGH, 5, axis=1), (POINTS,))
    assert np.abs(shifted - np.roll(smooth(ROUGH, (POINTS,)), 5, axis=1)).max() > 0.1


# Axes


def test_on_two_axes_each_is_smoothed_by_its_own_kernel():
    fields = RNG.normal(size=(3, 6, 9))
    found = Smoothing(0.1, (True, False))(fields.reshape(3, -1), (6, 9))
    expected = gaussian(6, 0.1, True) @ fields @ gaussian(9, 0.1, False).T
    assert np.allclose(found, expected.reshape(3, -1), rtol=0, atol=1e-14)


def test_the_first_of_three_axes_is_left_alone():
    fields = RNG.normal(size=(3, 4, 6, 9))
    smooth = Smoothing(0.1, (True, False))
    found = smooth(fields.reshape(3, -1), (4, 6, 9)).reshape(fields.shape)
    for channel in range(4):
        alone = smooth(fields[:, channel].reshape(3, -1), (6, 9))
        assert np.allclose(found[:, channel].reshape(3, -1), alone, rtol=0, atol=1e-14)


def test_blocks_of_samples_give_what_all_at_once_gives(monkeypatch):
    whole = Smoothing(0.1, (True,))(ROUGH, (POINTS,))
    monkeypatch.setattr("pcarann.latent.smoothing._BLOCK_BYTES", 2 * 8 * POINTS)
    assert np.allclose(Smoothing(0.1, (True,))(ROUGH, (POINTS,)), whole, rtol=0, atol=1e-14)


# Which axes are periodic


def test_fields_that_go_on_across_the_end_are_found_periodic(backend):
    assert Smoothing.of(backend(PERIODIC), (POINTS,), 0.1).periodic == (True,)


def test_fields_that_jump_at_the_end_are_found_not_periodic(backend):
    assert Smoothing.of(backend(RAMPS), (POINTS,), 0.1).periodic == (False,)


def test_a_grid_that_holds_both_ends_of_the_period_is_found_periodic():
    closed = np.concatenate([PERIODIC, PERIODIC[:, :1]], axis=1)
    assert Smoothing.of(closed, (POINTS + 1,), 0.1).periodic == (True,)


def test_white_noise_counts_as_periodic_since_its_end_is_no_rougher_than_its_inside():
    noise = np.random.default_rng(1).normal(size=(200, POINTS))
    assert Smoothing.of(noise, (POINTS,), 0.1).periodic == (True,)


def test_each_axis_is_judged_for_itself():
    fields = PERIODIC[:, :, None] + 3 * np.linspace(0, 1, 9)
    assert Smoothing.of(fields.reshape(20, -1), (POINTS, 9), 0.1).periodic == (True, False)
    assert Smoothing.of(fields.transpose(0, 2, 1).reshape(20, -1), (9, POINTS), 0.1).periodic == (False, True)


def test_two_points_are_no_period():
    assert Smoothing.of(ROUGH[:, :2], (2,), 0.1).periodic == (False,)
