"""Harmonics of one axis, against SciPy's; slopes and means."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import fft, ndimage

from pcarann.backend.arrays import to_host
from pcarann.spatial.axis import Axis
from random_fields_in_space import BOUNDARIES, numpy_and_torch

# Both sides of the length from which an FFT takes the place of a matrix, even and odd.
points = st.one_of(st.integers(4, 40), st.integers(505, 520), st.integers(600, 640))


def fields(n, seed=0):
    return np.random.default_rng(seed).normal(size=(2, 3, n, 2))


@given(points, st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_cosines_are_the_orthonormal_dct_2(n, seed):
    given_fields = fields(n, seed)
    found = Axis(n, "free").forward(given_fields, 2)
    assert np.allclose(found, fft.dct(given_fields, type=2, norm="ortho", axis=2), rtol=0, atol=1e-11)
    assert np.allclose(Axis(n, "free").backward(found, 2), given_fields, rtol=0, atol=1e-11)


@given(points, st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_sines_are_the_orthonormal_dst_1_of_the_inner_points(n, seed):
    given_fields = fields(n, seed)
    found = Axis(n, "zero").forward(given_fields, 2)
    inner = given_fields[:, :, 1:-1]
    assert np.allclose(found, fft.dst(inner, type=1, norm="ortho", axis=2), rtol=0, atol=1e-11)
    again = Axis(n, "zero").backward(found, 2)
    assert np.allclose(again[:, :, 1:-1], inner, rtol=0, atol=1e-11)
    assert not again[:, :, [0, -1]].any()


@pytest.mark.parametrize(("boundary", "modes"), [("periodic", 9), ("zero", 7), ("free", 9)])
def test_modes_are_counted_as_they_come(boundary, modes):
    assert Axis(9, boundary).modes == modes


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_mode_k_turns_by_pi_k_along_the_length(boundary):
    axis = Axis(16, boundary)
    k, j = 3, np.arange(16)
    mode = {
        "periodic": np.cos(2 * np.pi * k * j / 16),
        "zero": np.sin(np.pi * k * j / 15),
        "free": np.cos(np.pi * k * (j + 0.5) / 16),
    }[boundary]
    turn = np.pi * k / axis.length
    second = mode[:-2] - 2 * mode[1:-1] + mode[2:]
    assert np.allclose(second, (2 * np.cos(turn) - 2) * mode[1:-1], atol=1e-12)


@pytest.mark.parametrize("boundary", ["zero", "free"])
@given(st.integers(4, 200), st.floats(-3, 3), st.floats(-3, 3))
@settings(max_examples=25, deadline=None)
def test_slopes_of_lines_are_exact(boundary, n, slope, height):
    line = (height + slope * np.arange(n))[None, :, None]
    assert np.allclose(Axis(n, boundary).slope(line, 1), slope, rtol=0, atol=1e-11)


def test_slopes_of_a_period_go_round():
    wave = np.sin(2 * np.pi * np.arange(10) / 10)[None, :, None]
    expected = np.sin(2 * np.pi / 10) * np.cos(2 * np.pi * np.arange(10) / 10)
    assert np.allclose(Axis(10, "periodic").slope(wave, 1)[0, :, 0], expected, atol=1e-14)


def test_one_point_has_no_slope():
    assert not Axis(1, "free").slope(np.ones((2, 1, 3)), 1).any()


@pytest.mark.parametrize(("boundary", "mode"), [("periodic", "wrap"), ("zero", "nearest"), ("free", "nearest")])
@pytest.mark.parametrize("width", [1.5, 3.0])
def test_means_are_those_of_a_gaussian_filter(boundary, mode, width):
    given_fields = fields(24)
    found = Axis(24, boundary).blurred(given_fields, 2, width)
    radius = int(np.ceil(2.5 * width))
    assert np.allclose(found, ndimage.gaussian_filter1d(given_fields, width, axis=2, mode=mode, radius=radius))


def test_a_mean_leaves_its_fields_alone():
    given_fields = fields(12)
    before = given_fields.copy()
    Axis(12, "free").blurred(given_fields, 2, 1.5)
    Axis(12, "free").slope(given_fields, 2)
    assert np.array_equal(given_fields, before)


@numpy_and_torch()
@pytest.mark.parametrize("boundary", ["zero", "free"])
@pytest.mark.parametrize("n", [9, 600])
def test_libraries_agree(library, boundary, n):
    axis, given_fields = Axis(n, boundary), fields(n)
    there = library(given_fields)
    found = axis.forward(there, 2)
    assert np.allclose(to_host(found), axis.forward(given_fields, 2), rtol=0, atol=1e-12)
    assert np.allclose(
        to_host(axis.backward(found, 2)), axis.backward(axis.forward(given_fields, 2), 2), rtol=0, atol=1e-12
    )
    assert np.allclose(to_host(axis.slope(there, 2)), axis.slope(given_fields, 2), rtol=0, atol=1e-14)
    assert np.allclose(to_host(axis.blurred(there, 2, 1.5)), axis.blurred(given_fields, 2, 1.5), rtol=0, atol=1e-14)


@given(
    st.builds(Axis, st.integers(2, 30), st.sampled_from(BOUNDARIES)) | st.sampled_from([Axis(25, "free", 3)]),
    st.integers(0, 5),
)
@settings(max_examples=60, deadline=None)
def test_slopes_and_means_have_their_adjoints(axis, seed):
    f, c = fields(axis.points, seed), fields(axis.points, seed + 10)
    assert np.sum(axis.slope(f, 2) * c) == pytest.approx(np.sum(f * axis.slope_adjoint(c, 2)), abs=1e-11)
    for width in (1.5, 3.0):
        ahead, back = axis.blurred(f, 2, width), axis.blurred_adjoint(c, 2, width)
        assert np.sum(ahead * c) == pytest.approx(np.sum(f * back), abs=1e-11)


@pytest.mark.parametrize("boundary", ["zero", "free"])
@pytest.mark.parametrize(("points", "stretch"), [(9, 1), (600, 1), (31, 2)])
def test_harmonics_have_their_adjoints(points, stretch, boundary):
    axis = Axis(points, boundary, stretch)
    f, c = fields(points), fields(axis.modes, 1)
    assert np.sum(axis.forward(f, 2) * c) == pytest.approx(np.sum(f * axis.forward_adjoint(c, 2)), abs=1e-11)
    assert np.sum(axis.backward(c, 2) * f) == pytest.approx(np.sum(c * axis.backward_adjoint(f, 2)), abs=1e-11)
