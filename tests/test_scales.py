import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcarann.features import HiddenLayers, anchor_features
from pcarann.scales import energy_matched_scale, energy_matched_scales

positive = st.floats(1e-12, 1e12)


def paper_rule(S_in, S_out, n, gamma, tau=2.0, delta=2.0):
    """max{r_min, min{r_var, r_max}}, as printed."""
    r_var = math.sqrt(3 * gamma * S_out / (n * S_in))
    r_min, r_max = math.sqrt(3 * tau**2 / (n * S_in)), math.sqrt(3 * delta**2 / S_in)
    return max(r_min, min(r_var, r_max))


@given(positive, positive, st.integers(1, 5000), st.floats(0.01, 1))
def test_scale_is_the_papers_clipped_rule(S_in, S_out, n, gamma):
    found = energy_matched_scale(S_in, S_out, width=n, share=gamma)
    assert math.isclose(found, paper_rule(S_in, S_out, n, gamma), rel_tol=1e-12)


def test_second_scale_uses_pilot_features_of_the_first():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 5)), 3 * rng.normal(size=(200, 4))
    layers = HiddenLayers(0, 0, (5, 60, 40))
    S_X, S_Y = (x**2).sum(axis=1).mean(), (y**2).sum(axis=1).mean()
    r1 = paper_rule(S_X, S_Y, 60, 0.7)
    _, H = anchor_features(layers, x, (r1, 1.0))
    r2 = paper_rule((H[:, :60] ** 2).sum(axis=1).mean(), S_Y, 40, 0.3)
    assert energy_matched_scales(layers, x, y) == pytest.approx((r1, r2), rel=1e-12)


def test_small_signal_features_carry_the_energy_they_were_given():
    # Where tanh is nearly linear and the anchors are zero, E‖h‖² = γ S_Y: the derivation of the rule.
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 20))
    S_X, target, n = (x**2).sum(axis=1).mean(), 6.0, 400
    r = energy_matched_scale(S_X, target, width=n, share=0.7)
    energy = (np.tanh(r * x @ rng.uniform(-1, 1, (20, n))) ** 2).sum(axis=1).mean()
    assert energy == pytest.approx(0.7 * target, rel=0.03)


def test_inputs_without_energy_have_scale_one():
    assert energy_matched_scale(0.0, 5.0, width=10, share=0.7) == 1.0
