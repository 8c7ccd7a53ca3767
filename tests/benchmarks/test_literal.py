"""The literal algorithm and pcarann compute the same model."""

from __future__ import annotations

from dataclasses import replace

import benchmarks_path  # noqa: F401
import literal
import numpy as np
import pytest

from pcarann import PCARaNN
from pcarann.features.random_layers import HiddenLayers, anchor_features
from pcarann.features.validation_loss import ValidationLoss
from pcarann.latent.rows import Order
from pcarann.readout.recursive import Dual, Primal, RecursiveLeastSquares

COMPONENTS, SEED = (6, 8), 3


def literal_ensemble(inputs, outputs, widths, members):
    first, second = (literal.fit_modes(fields, n) for fields, n in zip((inputs, outputs), COMPONENTS, strict=True))
    x, y = first.encode(inputs), second.encode(outputs)
    layers = HiddenLayers(SEED, 0, (COMPONENTS[0], *widths))
    scales = literal.energy_scales(layers, x, y)
    fitted = [literal.fit_member(replace(layers, member=k), x, y, scales) for k in range(members)]
    return literal.Ensemble(first, second, fitted), scales


@pytest.fixture(scope="module")
def data(pairs):
    flat = pairs.outputs.reshape(len(pairs.outputs), -1)
    return pairs.inputs[:150], flat[:150], pairs.inputs[300:], flat[300:]


@pytest.mark.parametrize("widths", [(30, 20), (150, 60)], ids=["primal", "dual"])
def test_energy_matched_predictions_agree(data, widths):
    a, u, a_test, _ = data
    model = PCARaNN(COMPONENTS, widths, n_members=3, scales="energy", random_state=SEED).fit(a, u)
    ensemble, scales = literal_ensemble(a, u, widths, 3)
    np.testing.assert_allclose(scales, model.energy_scales_, rtol=1e-10)
    found, wanted = ensemble.predict(a_test), model.predict(a_test)
    # The features' condition, up to 1e9 here, multiplies the rounding of two different PCAs, 1e-15.
    assert np.abs(found - wanted).max() < 1e-6 * np.abs(wanted).max()


def test_same_model_predicts_the_same(data):
    a, u, a_test, u_test = data
    model = PCARaNN(COMPONENTS, (40, 30), n_members=3, scales="energy").fit(a, u)
    ensemble = literal.same_model(model)
    np.testing.assert_allclose(ensemble.predict(a_test), model.predict(a_test), atol=1e-12)
    inside = model.novelty(a_test).p_value > 0.01  # elsewhere the spread is not that of the members alone
    assert inside.sum() > 90
    calibration = model.calibrate(a_test[inside], u_test[inside]).fitted_.calibration
    found = ensemble.sorted_scores(a_test[inside], u_test[inside], calibration.floor)
    assert np.array_equal(calibration.ranks, np.arange(1, found.size + 1))  # all scores of so few samples are kept
    np.testing.assert_allclose(found, calibration.scores, rtol=1e-6)


def test_inner_split_and_latents_agree(data):
    a, u, _, _ = data
    _, _, x, y, count = literal.inner_latents(a, u, COMPONENTS, SEED)
    fitted = PCARaNN(COMPONENTS, (20, 10), n_members=1, random_state=SEED).fit(a, u).fitted_
    assert count == Order.split(len(a), SEED).inner == 120
    np.testing.assert_allclose(x, fitted.x, atol=1e-9)
    np.testing.assert_allclose(y, fitted.y, atol=1e-9)


@pytest.mark.parametrize("eta", [(0.0, 0.0), (0.7, -0.4)])
def test_validation_loss_agrees(data, eta):
    a, u, _, _ = data
    _, _, x, y, count = literal.inner_latents(a, u, COMPONENTS, SEED)
    layers = HiddenLayers(SEED, 0, (COMPONENTS[0], 40, 30))
    scales = literal.energy_scales(layers, x[:count], y[:count])
    member = literal._anchored(layers, x[:count], scales)
    features, _ = anchor_features(layers, x[:count], scales)
    ours = ValidationLoss.of(features, x, y, n_inner=count, ridge=1e-4)
    # A ridge of 1e-4 leaves about ten digits of the normal equations.
    assert literal.validation_loss(eta, member, x, y, count, 1e-4) == pytest.approx(ours(eta), rel=1e-6)


def test_literal_refinement_does_not_end_above_its_start(data):
    a, u, _, _ = data
    _, _, x, y, count = literal.inner_latents(a, u, COMPONENTS, SEED)
    layers = HiddenLayers(SEED, 0, (COMPONENTS[0], 20, 10))
    scales = literal.energy_scales(layers, x[:count], y[:count])
    found = literal.refine(layers, x, y, count, scales, 1e-4)
    member = literal._anchored(layers, x[:count], scales)
    start = literal.validation_loss((0.0, 0.0), member, x, y, count, 1e-4)
    assert found.loss < start
    assert found.evaluations >= 3 * (1 + found.iterations)  # one value and two differences at least


@pytest.mark.parametrize("width", [12, 60], ids=["primal", "dual"])
def test_rank_one_recursion_equals_block_update(width):
    rng = np.random.default_rng(0)
    H, Y = rng.normal(size=(30, width)), rng.normal(size=(30, 3))
    H_new, Y_new = rng.normal(size=(15, width)), rng.normal(size=(15, 3))
    V = np.linalg.lstsq(H, Y, rcond=None)[0]
    zeros = np.zeros_like(Y)
    state = Dual.of(H, zeros, 1e-2) if width > 30 else Primal(H.T @ H + 1e-2 * np.eye(width), H.T @ zeros)
    ours = RecursiveLeastSquares(1e-2, V, state).update(H_new, Y_new)
    P, found = literal.recursive_least_squares(literal.start_recursion(H, 1e-2), V, H_new, Y_new)
    np.testing.assert_allclose(found, ours.readout, atol=1e-9)
    np.testing.assert_allclose(P, ours.covariance, atol=1e-9 * np.abs(P).max())
