"""Function-valued random features: the closed form against dense least squares, the choice, layouts, refusals."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from pcarann.baselines import random_features
from pcarann.baselines.feature_maps import FourierMap
from pcarann.baselines.fields import split
from pcarann.baselines.random_features import RandomFeatures
from pcarann.metrics import relative_l2


def waves(n, points=32, seed=0):
    """Periodic fields of three modes."""
    rng = np.random.default_rng(seed)
    x = 2 * np.pi * np.arange(points) / points
    return sum(rng.normal(size=(n, 1)) * np.cos(k * x) + rng.normal(size=(n, 1)) * np.sin(k * x) for k in (1, 2, 3))


def burgers_like(a):
    """A shift-equivariant nonlinear map."""
    return np.tanh(a) + 0.5 * np.roll(a, 2, axis=-1)


def test_weights_are_those_of_a_dense_weighted_ridge_regression():
    a = waves(40)
    u = burgers_like(a)
    model = RandomFeatures(n_features=30, cutoffs=(0.05,), ridges=(1e-3,)).fit(a, u)
    rows, _ = split(40, 0.2, 0)
    maps, mean = FourierMap.drawn(a[rows][:, None], 30, cutoff=0.05), u[rows].mean(axis=0)
    sizes = np.linalg.norm(u, axis=1)[:, None]
    A = (maps(a[:, None]) / sizes[:, None]).swapaxes(1, 2).reshape(-1, 30)
    y = ((u - mean) / sizes).ravel()
    penalty = np.sqrt(1e-3 * np.mean(np.sum(A**2, axis=0)))
    alpha = np.linalg.lstsq(np.vstack([A, penalty * np.eye(30)]), np.concatenate([y, np.zeros(30)]), rcond=None)[0]
    new = waves(5, seed=1)
    expected = mean + np.einsum("njx,j->nx", maps(new[:, None]), alpha)
    # The ridge bounds the condition by 30/1e-3, and normal equations keep ten digits.
    np.testing.assert_allclose(model.predict(new), expected, rtol=1e-8, atol=1e-8)


def test_blocks_of_samples_give_the_same_sums(monkeypatch):
    a = waves(30)
    whole = RandomFeatures(n_features=20, cutoffs=(0.05,), ridges=(1e-4,)).fit(a, a**2).predict(a)
    monkeypatch.setattr(random_features, "_BLOCK_BYTES", 8 * 20 * 32 * 7)  # seven samples
    parts = RandomFeatures(n_features=20, cutoffs=(0.05,), ridges=(1e-4,)).fit(a, a**2).predict(a)
    np.testing.assert_allclose(parts, whole, atol=1e-9)


def test_the_validation_chooses_and_its_error_is_that_on_the_held_part():
    a = waves(60)
    u = burgers_like(a)
    model = RandomFeatures(n_features=40, cutoffs=(0.001, 0.05), ridges=(1e-8, 1e2)).fit(a, u)
    assert (model.choice.cutoff, model.choice.ridge) == (0.05, 1e-8)
    rows, held = split(60, 0.2, 0)
    maps, mean = FourierMap.drawn(a[rows][:, None], 40, cutoff=0.05), u[rows].mean(axis=0)
    sizes = np.linalg.norm(u, axis=1)[:, None]
    A = (maps(a[rows][:, None]) / sizes[rows][:, None]).swapaxes(1, 2).reshape(-1, 40)
    y = ((u[rows] - mean) / sizes[rows]).ravel()
    gram = A.T @ A
    alpha = np.linalg.solve(gram + 1e-8 * np.mean(np.diag(gram)) * np.eye(40), A.T @ y)
    missed = u[held] - mean - np.einsum("njx,j->nx", maps(a[held][:, None]), alpha)
    expected = np.sqrt(np.mean((np.linalg.norm(missed, axis=1) / sizes[held, 0]) ** 2))
    assert model.choice.error == pytest.approx(expected, rel=1e-4)  # the condition number is 1e8


def test_it_learns_an_equivariant_operator_and_more_features_help():
    a, new = waves(300), waves(100, seed=5)
    errors = [
        relative_l2(RandomFeatures(n_features=m).fit(a, burgers_like(a)).predict(new), burgers_like(new))
        for m in (10, 200)
    ]
    assert errors[1] < 0.15 < errors[0]


def test_few_equations_suffice_for_smooth_fields():
    a, new = waves(200), waves(50, seed=5)
    all_points, few = (
        relative_l2(RandomFeatures(n_features=60, equations=n).fit(a, burgers_like(a)).predict(new), burgers_like(new))
        for n in (100_000, 1600)
    )
    assert few != all_points
    assert few < 1.3 * all_points


def test_an_input_on_a_line_is_mapped_to_every_time():
    a = waves(80)
    u = np.stack([a, np.tanh(a), np.roll(a, 3, axis=1)], axis=1)
    model = RandomFeatures(n_features=400, cutoffs=(0.05,)).fit(a, u)
    assert model.n_parameters == 1200
    found = model.predict(a)
    assert found.shape == (80, 3, 32)
    for time in range(3):
        assert relative_l2(found[:, time], u[:, time]) < 0.25


def test_channels_of_the_input_are_all_seen():
    rng = np.random.default_rng(0)
    x = 2 * np.pi * np.arange(8) / 8
    plane = np.stack([np.cos(x[:, None] + x), np.sin(x[:, None] + x), np.cos(x[:, None] - x), np.sin(x[:, None] - x)])
    a = np.einsum("nck,kxy->ncxy", rng.normal(size=(60, 2, 4)), plane)
    u = np.roll(a[:, 0], 1, axis=1) - 2 * a[:, 1]
    model = RandomFeatures(n_features=300, cutoffs=(0.05,)).fit(a, u)
    blind = RandomFeatures(n_features=300, cutoffs=(0.05,)).fit(a[:, 0], u)
    assert relative_l2(model.predict(a), u) < 0.5 * relative_l2(blind.predict(a[:, 0]), u)


def test_a_closed_axis_repeats_its_first_point():
    a = waves(40)
    closed = np.concatenate([a, a[:, :1]], axis=1)
    settings = dict(n_features=40, cutoffs=(0.05,))
    found = RandomFeatures(closed=True, **settings).fit(closed, closed**2).predict(closed)
    np.testing.assert_array_equal(found[:, 0], found[:, -1])
    np.testing.assert_allclose(found[:, :-1], RandomFeatures(**settings).fit(a, a**2).predict(a), atol=1e-8)


def test_darcy_by_prediction_and_correction_is_better_than_by_convolutions():
    from pcarann.problems import darcy

    data = darcy.generate(120, fine=29, cache=False)
    (train, test) = data.split(100, 20)
    errors = {
        features: relative_l2(
            RandomFeatures(n_features=100, features=features).fit(train.inputs, train.outputs).predict(test.inputs),
            test.outputs,
        )
        for features in ("fourier", "predictor_corrector")
    }
    assert errors["predictor_corrector"] < 0.06 < errors["fourier"]


def test_the_same_seed_gives_the_same_model_and_another_seed_another():
    a = waves(20)
    one, same, other = (RandomFeatures(n_features=10, seed=seed).fit(a, a**2).predict(a) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert abs(one - other).max() > 1e-6


def test_what_cannot_be_is_refused():
    with pytest.raises(NotFittedError, match="call fit"):
        RandomFeatures().predict(waves(2))
    with pytest.raises(ValueError, match=r"outputs must live on the grid \(32,\) of the inputs, found fields \(16,\)"):
        RandomFeatures().fit(waves(10), waves(10, points=16))
    model = RandomFeatures(n_features=4).fit(waves(10), waves(10))
    with pytest.raises(ValueError, match=r"shape \(16,\), but the model was fitted to \(32,\)"):
        model.predict(waves(2, points=16))
    with pytest.raises(ValueError, match="features must be one of"):
        RandomFeatures(features="wavelet")
    with pytest.raises(ValueError, match="n_features"):
        RandomFeatures(n_features=0)
    with pytest.raises(ValueError, match="cutoffs"):
        RandomFeatures(cutoffs=(0.0,))
