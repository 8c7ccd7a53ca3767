"""The flows that marching is measured on are what they say, and the comparison tells blow-ups from the rest."""

from __future__ import annotations

import benchmarks_path  # noqa: F401

# isort: split
import numpy as np
import pytest

import marching


def test_the_larger_step_of_fitzhugh_nagumo_is_two_of_the_smaller():
    fine, coarse = (marching.fitzhugh_nagumo(3, step=step, times=5) for step in (0.5, 1.0))
    assert np.allclose(fine[:, ::2], coarse[:, :3], rtol=0, atol=1e-12)


def test_waves_travel_and_decay_as_the_equation_says():
    waves = np.fft.rfft(marching.advection_diffusion(4))
    k = np.arange(1, 9)
    assert np.allclose(waves[:, 1:, k] / waves[:, :-1, k], np.exp(0.1 * (-1j * k - k**2 / 20)))


def test_errors_are_relative_at_each_step():
    truth = np.ones((2, 3, 4))
    assert np.allclose(marching.errors(truth * [[[1.0]], [[1.5]]], truth), [[0.0] * 3, [0.5] * 3])


@pytest.mark.filterwarnings("error")
def test_the_choice_is_compared_with_the_model_as_given():
    flow = marching.fitzhugh_nagumo(60, step=1.0, points=32)
    rows = marching.compared(flow, 45, 1, n_components=20, widths=(200, 80), n_members=1, linear=True)
    assert rows[True][1] < 1.0 < rows[False][1]
