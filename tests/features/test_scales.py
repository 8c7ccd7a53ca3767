import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcarann.backend.random import spread
from pcarann.features.random_layers import HiddenLayers, anchor_features
from pcarann.features.scales import energy_matched_scale, energy_matched_scales, gain_scales
from pcarann.operator import PCARaNN

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


@pytest.mark.parametrize("width", [4, 100, 2500])
def test_without_a_target_the_scale_is_the_geometric_middle_of_its_bounds(width):
    lowest, highest = (paper_rule(3.0, energy, width, 0.7) for energy in (0.0, 1e30))
    middle = energy_matched_scale(3.0, None, width=width, share=0.7)
    assert middle == pytest.approx(math.sqrt(lowest * highest), rel=1e-14)


def test_outputs_whose_energy_overflows_take_the_largest_scales():
    rng = np.random.default_rng(0)
    layers, x, y = HiddenLayers(0, 0, (5, 40, 20)), rng.normal(size=(50, 5)), rng.normal(size=(50, 4))
    assert energy_matched_scales(layers, x, y, unit=1e200) == energy_matched_scales(layers, x, y, unit=1e20)


def test_inputs_without_energy_have_scale_one():
    assert energy_matched_scale(0.0, 5.0, width=10, share=0.7) == 1.0


# Gains


GAINS = (0.3, 0.15)


def root_mean_square(matrix):
    return math.sqrt((matrix**2).mean())


@pytest.mark.parametrize("widths", [(20, 10), (300, 150)])
def test_gains_are_the_root_mean_squares_of_the_arguments_of_tanh(backend, widths):
    x = np.random.default_rng(0).normal(size=(80, 5)) * [9.0, 3.0, 1.0, 0.3, 0.1]
    layers = HiddenLayers(0, 0, (5, *widths))
    r1, r2 = gain_scales(layers, backend(x), GAINS)
    features, H = anchor_features(layers, x, (r1, r2))
    W1, W2 = features.hidden_weights()
    assert r1 * root_mean_square(W1 @ x.T) == pytest.approx(GAINS[0], rel=1e-12)
    assert r2 * root_mean_square(W2 @ H[:, : widths[0]].T) == pytest.approx(GAINS[1], rel=1e-12)


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_gains_do_not_depend_on_the_unit_of_the_inputs(unit):
    x = np.random.default_rng(0).normal(size=(80, 5))
    layers = HiddenLayers(0, 0, (5, 20, 10))
    r1, r2 = gain_scales(layers, x, GAINS)
    assert gain_scales(layers, unit * x, GAINS) == pytest.approx((r1 / unit, r2), rel=1e-12, abs=0)


def test_gains_of_many_samples_are_those_of_some_spread_over_all():
    x = np.sort(np.random.default_rng(0).normal(size=(3000, 5)), axis=0)
    layers = HiddenLayers(0, 0, (5, 20, 10))
    assert gain_scales(layers, x, GAINS) == gain_scales(layers, x[spread(3000, 2048)], GAINS)
    assert gain_scales(layers, x, GAINS) == pytest.approx(gain_scales(layers, x[::2], GAINS), rel=0.05)


def test_inputs_without_energy_take_the_gain_as_their_scale():
    scales = gain_scales(HiddenLayers(0, 0, (5, 20, 10)), np.zeros((80, 5)), GAINS)
    assert scales == GAINS


@pytest.mark.parametrize("widths", [(20, 10), (200, 100)])
@pytest.mark.parametrize("relevance", [0.0, -1.0])
def test_the_estimator_gives_every_member_the_gains_it_was_asked_for(pairs, widths, relevance):
    inputs, outputs = pairs[:150]
    model = PCARaNN(n_components=(5, 5), widths=widths, n_members=2, scales=("gain", *GAINS), relevance=relevance).fit(
        inputs, outputs
    )
    x = model.input_pca_.encode(inputs)
    for member in model.ensemble_.members:
        features = member.features
        W1, W2 = features.hidden_weights()
        first = features.scales[0] * root_mean_square(W1 @ features.weighting.weighted(x).T)
        second = features.scales[1] * root_mean_square(W2 @ features(x)[:, : widths[0]].T)
        # Members share the scales of the first, so that the others have its gains up to the chance of their weights.
        tolerance = 1e-12 if features.member == 0 else 0.4
        assert (first, second) == pytest.approx(GAINS, rel=tolerance)


def test_gains_are_what_scales_reports(pairs):
    inputs, outputs = pairs[:150]
    settings = dict(n_components=(5, 5), widths=(30, 20), n_members=1)
    model = PCARaNN(**settings, scales=("gain", *GAINS)).fit(inputs, outputs)
    same = PCARaNN(**settings, scales=model.scales_).fit(inputs, outputs)
    assert np.array_equal(model.predict(inputs), same.predict(inputs))


@pytest.mark.parametrize("scales", [("gain", 0.1), ("gain", 0.1, -1.0), ("loss", 0.1, 0.1), ("gain", 0.1, np.nan)])
def test_gains_that_make_no_sense_are_refused(pairs, scales):
    with pytest.raises(ValueError, match=r"^scales must be .*got .*\.$"):
        PCARaNN(scales=scales).fit(*pairs[:20])


def test_outputs_in_a_unit_have_the_scales_of_those_that_were_handed_in():
    rng = np.random.default_rng(0)
    layers, x, y = HiddenLayers(0, 0, (5, 40, 20)), rng.normal(size=(50, 5)), 5 * rng.normal(size=(50, 4))
    found = energy_matched_scales(layers, x, y / 4, unit=4.0)
    assert found == pytest.approx(energy_matched_scales(layers, x, y), rel=1e-14)
    assert found[0] != energy_matched_scales(layers, x, y / 4)[0]  # which neither end of what is allowed clips
