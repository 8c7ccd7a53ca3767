"""Calibration counts distinct samples, and recognises those of the training, for every surrogate and for quantities."""

import warnings

import numpy as np
import pytest

from pcarann import Marching, PCARaNN, Staged

SMALL = dict(n_components=(4, 8), widths=(30, 20), n_members=3, scales="energy")


def samples(count, seed, kind="fields"):
    """Inputs and outputs of sines; trajectories of them for a flow."""
    rng, x = np.random.default_rng(seed), np.linspace(0, 2 * np.pi, 16, endpoint=False)
    phase, size = rng.uniform(0, 6, (count, 1)), rng.uniform(0.5, 1.5, (count, 1))
    a = size * np.sin(x + phase) + 0.1 * rng.normal(size=(count, 16))
    if kind == "flow":
        steps = [a]
        for _ in range(3):
            steps.append(0.9 * np.roll(steps[-1], 1, axis=1) + 0.05 * rng.normal(size=a.shape))
        whole = np.stack(steps, axis=1)
        return whole[:, :1], whole[:, 1:]
    return a, np.tanh(2 * a) + 0.05 * rng.normal(size=a.shape)


MODELS = {
    "fields": lambda: PCARaNN(**SMALL),
    "stages": lambda: Staged(n_features=8, n_members=2, n_stages=1),
    "flow": lambda: Marching(PCARaNN(**SMALL), choose=False),
}


@pytest.fixture(scope="module")
def models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {kind: make().fit(*samples(40, 0, kind)) for kind, make in MODELS.items()}


def calibrated(model, X, y, **how):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.calibrate(X, y, **how)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("near", [0.0, 1e-4])
def test_five_samples_twenty_times_give_the_bands_of_five(models, kind, near):
    model, (X, y), rng = models[kind], samples(5, 1, kind), np.random.default_rng(3)
    X_new = samples(3, 2, kind)[0]
    calibrated(model, X, y)
    five = model.predict_interval(X_new, alpha=0.3, method="simultaneous")
    order = rng.permutation(np.repeat(np.arange(5), 20))
    moved = [part[order] + near * rng.normal(size=part[order].shape) for part in (X, y)]
    said = calibrated(model, *moved)
    assert any("5 among 100" in one for one in said)
    assert model.fitted_.calibration.n_samples == 5
    again = model.predict_interval(X_new, alpha=0.3, method="simultaneous")
    assert (again.upper > five.upper - 1e-9).all()  # the largest score of near-repeats
    width, wanted = (band.upper - band.lower for band in (again, five))
    assert np.allclose(width, wanted, rtol=0.1 if near else 1e-9)


@pytest.mark.parametrize("kind", MODELS)
def test_one_sample_sixty_times_gives_infinite_intervals_with_a_warning(models, kind):
    model, (X, y) = models[kind], samples(1, 1, kind)
    calibrated(model, np.repeat(X, 60, axis=0), np.repeat(y, 60, axis=0))
    with pytest.warns(UserWarning, match="1 calibration sample is too few"):
        band = model.predict_interval(X, alpha=0.05)
    assert np.isinf(band.upper).all()


def test_distinct_samples_are_all_counted_without_a_warning(models):
    assert calibrated(models["fields"], *samples(60, 5)) == []
    assert models["fields"].fitted_.calibration.n_samples == 60


@pytest.mark.parametrize("by", ["fields", "values"])
def test_a_quantity_calibrated_on_training_samples_warns(models, by):
    model, (X, y) = models["fields"], samples(40, 0)
    quantity, weights = model.quantity(np.full(16, 1 / 16)), np.full(16, 1 / 16)
    truth = {"y": y} if by == "fields" else {"values": y @ weights}
    said = calibrated(quantity, X, truth.pop("y", None), **truth)
    assert any("trained on 40 of the 40" in one for one in said)
    X, y = samples(40, 7)
    truth = {"y": y} if by == "fields" else {"values": y @ weights}
    assert calibrated(quantity, X, truth.pop("y", None), **truth) == []


def test_a_quantity_of_a_flow_recognises_trajectories(models):
    model, (X, y) = models["flow"], samples(40, 0, "flow")
    quantity = model.quantity(lambda fields: fields.reshape(len(fields), -1).max(axis=1))
    assert any("trained on 40 of the 40" in one for one in calibrated(quantity, X, y))


def test_a_quantity_counts_repeats_once(models):
    X, y = (np.repeat(part, 20, axis=0) for part in samples(5, 1))
    quantity = models["fields"].quantity(np.full(16, 1 / 16))
    for truth in ({"y": y}, {"values": y.mean(axis=1)}):
        assert any("5 among 100" in one for one in calibrated(quantity, X, truth.pop("y", None), **truth))
        with pytest.warns(UserWarning, match="5 calibration samples are too few"):
            assert np.isinf(quantity.predict_interval(X[:1], alpha=0.05).upper).all()
