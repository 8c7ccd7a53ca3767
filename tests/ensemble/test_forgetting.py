"""Forgetting chosen from the stream: next to nothing without a drift, as good as the best factor with one."""

import numpy as np
import pytest

from pcarann import Adapt, PCARaNN, Symmetry, load
from pcarann.ensemble.forgetting import FACTORS

X = np.linspace(0, 1, 16)
STEPS = 120


def pairs(count, seed, change=0.0):
    rng = np.random.default_rng(seed)
    a = rng.uniform(-1, 1, (count, 2))
    c = np.broadcast_to(np.asarray(change, dtype=float), (count,))[:, None]
    f = a @ np.sin(np.pi * np.outer([1, 2], X))
    return a, 1 + np.tanh((1 + c) * f) + c * f**2 + 0.01 * rng.normal(size=(count, 1)) * np.sin(np.pi * X)


STREAMS = {
    "none": np.zeros(STEPS),
    "abrupt": np.r_[np.zeros(30), np.ones(STEPS - 30)],
    "slow": np.linspace(0, 1.5, STEPS),
    "return": np.r_[np.zeros(20), np.ones(50), np.zeros(50)],
}


def fitted(forgetting, **options):
    step = PCARaNN(
        (2, 8), (60, 40), n_members=2, scales=(1.0, 0.5), ridge=1e-4, adapt=Adapt(forgetting=forgetting), **options
    )
    return step.fit(*pairs(150, 0))


def error_of(forgetting, name):
    """Mean relative error along a stream, each block predicted before it is learned; and the model at its end."""
    model, found = fitted(forgetting), []
    a, u = pairs(STEPS, 1, STREAMS[name])
    for rows in (slice(i, i + 5) for i in range(0, STEPS, 5)):
        found.append(np.linalg.norm(model.predict(a[rows]) - u[rows], axis=1) / np.linalg.norm(u[rows], axis=1))
        model.partial_fit(a[rows], u[rows])
    return np.mean(found), model


def test_without_a_drift_it_is_as_good_as_to_forget_nothing():
    error, model = error_of("auto", "none")
    assert model.monitor.forgetting >= 0.98
    assert error < 1.02 * error_of(1.0, "none")[0]


@pytest.mark.parametrize("name", ["abrupt", "slow", "return"])
def test_with_a_drift_it_is_about_as_good_as_the_best_factor(name):
    error, model = error_of("auto", name)
    best = min(error_of(factor, name)[0] for factor in (1.0, 0.98, 0.9, 0.8))
    assert error < 1.3 * best
    assert error < 0.8 * error_of(1.0, name)[0]
    assert model.monitor.forgetting in FACTORS[1:]
    assert model.monitor.forgotten > 0


def test_the_ensemble_is_that_of_the_chosen_factor_from_the_start():
    chosen = error_of("auto", "abrupt")[1]
    factor = chosen.monitor.forgetting
    a, u = pairs(STEPS, 1, STREAMS["abrupt"])
    alone = fitted(factor).partial_fit(a, u)
    assert np.allclose(chosen.predict(a), alone.predict(a), rtol=0, atol=1e-7)


def test_the_choice_goes_on_after_loading(tmp_path):
    model, (a, u) = fitted("auto"), pairs(60, 1, 1.0)
    model.partial_fit(a[:40], u[:40]).save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.monitor.forgetting == model.monitor.forgetting < 1
    for one in (model, loaded):
        one.partial_fit(a[40:], u[40:])
    assert loaded.monitor.forgetting == model.monitor.forgetting
    assert np.allclose(loaded.predict(a), model.predict(a), rtol=0, atol=1e-8)


def test_copies_under_a_symmetry_age_together():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(80, 3)) @ np.cos(np.pi * np.outer(range(3), X))
    symmetric = PCARaNN(3, (40, 20), n_members=2, scales=(0.6, 0.4), ridge=1e-4, symmetry=Symmetry.reflection(-1))
    symmetric.set_params(adapt__forgetting="auto").fit(a[:50], np.tanh(a[:50]))
    symmetric.partial_fit(a[50:], 2 * np.tanh(a[50:]))
    assert symmetric.monitor.remembered + symmetric.monitor.forgotten == pytest.approx(80)


@pytest.mark.parametrize("wrong", ["often", 0.0, 1.5, None])
def test_other_words_and_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match=r"^adapt\.forgetting must"):
        fitted(wrong)
