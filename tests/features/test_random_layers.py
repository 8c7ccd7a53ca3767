from dataclasses import replace

import numpy as np
import pytest

from pcarann.backend.arrays import place_of, to_host
from pcarann.features.random_layers import HiddenLayers, anchor_features
from pcarann.latent.weighting import Weighting

HOST = place_of(None)
LAYERS = HiddenLayers(seed=5, member=2, sizes=(4, 30, 20))
X = np.random.default_rng(0).normal(size=(50, 4))
SCALES = (0.4, 0.2)


def oracle(x, train):
    """The paper's two layers, written out."""
    W1, W2 = LAYERS.weights(1, HOST), LAYERS.weights(2, HOST)
    q1, q2 = LAYERS.levels(1, HOST), LAYERS.levels(2, HOST)
    c1 = np.array([np.quantile(train @ w, q) for w, q in zip(W1, q1, strict=True)])
    h1 = lambda v: np.tanh(SCALES[0] * (v @ W1.T - c1))  # noqa: E731
    c2 = np.array([np.quantile(h1(train) @ w, q) for w, q in zip(W2, q2, strict=True)])
    return np.hstack([h1(x), np.tanh(SCALES[1] * (h1(x) @ W2.T - c2))])


def test_features_are_the_papers_two_layers_with_skip(backend):
    features, H = anchor_features(LAYERS, backend(X), SCALES)
    assert np.allclose(to_host(H), oracle(X, X), atol=1e-13)
    fresh = np.random.default_rng(1).normal(size=(7, 4))
    assert np.allclose(to_host(features(backend(fresh))), oracle(fresh, X), atol=1e-13)


def test_weights_fill_minus_one_to_one_and_levels_a_tenth_to_nine_tenths():
    layers = HiddenLayers(0, 0, (10, 2000, 100))
    weights, levels = layers.weights(1, HOST), layers.levels(1, HOST)
    assert -1 <= weights.min() < -0.99
    assert 0.99 < weights.max() < 1
    assert np.isclose((weights**2).mean(), 1 / 3, rtol=0.02)
    assert 0.1 <= levels.min() < 0.11
    assert 0.89 < levels.max() < 0.9


def test_each_neuron_bends_inside_the_data():
    _, H = anchor_features(LAYERS, X, SCALES)
    share_positive = (H > 0).mean(axis=0)
    assert 0.05 <= share_positive.min() <= share_positive.max() <= 0.95


def test_dropped_weights_are_drawn_again_bit_for_bit():
    features, _ = anchor_features(LAYERS, X, SCALES)
    assert np.array_equal(replace(features, weights=None)(X), features(X))


@pytest.mark.parametrize("change", [dict(seed=6), dict(member=3)])
def test_other_members_and_seeds_have_other_weights(change):
    assert not np.allclose(replace(LAYERS, **change).weights(1, HOST), LAYERS.weights(1, HOST))


# Relevance and the linear term

FRESH = np.random.default_rng(1).normal(size=(7, 4))
METRICS = {"weights": np.array([1.0, 0.1, 3.0, 0.5]), "matrix": np.random.default_rng(2).normal(size=(4, 4))}


@pytest.mark.parametrize("metric", list(METRICS.values()), ids=list(METRICS))
def test_relevance_means_the_layers_of_weighted_latents(backend, metric):
    weighted = [rows * metric if metric.ndim == 1 else rows @ metric for rows in (X, FRESH)]
    features, H = anchor_features(LAYERS, backend(X), SCALES, Weighting(backend(metric)))
    assert np.allclose(to_host(H), oracle(weighted[0], weighted[0]), atol=1e-12)
    assert np.allclose(to_host(features(backend(FRESH))), oracle(weighted[1], weighted[0]), atol=1e-12)


def test_weights_are_the_diagonal_matrix_of_them():
    weights = METRICS["weights"]
    one, other = (anchor_features(LAYERS, X, SCALES, Weighting(metric))[1] for metric in (weights, np.diag(weights)))
    assert np.allclose(one, other, rtol=0, atol=1e-13)


def test_the_linear_term_stands_behind_the_layers(backend):
    slopes = np.array([1.0, 2.0, 4.0, 8.0])
    features, H = anchor_features(LAYERS, backend(X), SCALES, Weighting(linear=backend(slopes)))
    assert features.count == H.shape[1] == 30 + 20 + 4
    assert np.allclose(to_host(H), np.hstack([oracle(X, X), X * slopes]), atol=1e-13)
    assert np.allclose(to_host(features(backend(FRESH))), np.hstack([oracle(FRESH, X), FRESH * slopes]), atol=1e-13)


def test_relevance_does_not_touch_the_linear_term():
    weighting = Weighting(METRICS["weights"], np.ones(4))
    assert np.array_equal(anchor_features(LAYERS, X, SCALES, weighting)[1][:, 50:], X)


def test_without_relevance_latents_are_handed_on_as_they_are():
    assert Weighting().weighted(X) is X
