import numpy as np
import pytest

from conftest import blas_threads
from pcarann import PCARaNN
from pcarann.ensemble.mean_and_spread import _TILE, _blocks


@pytest.fixture(scope="module")
def fitted(pairs):
    a, u = pairs[:200]
    return PCARaNN(n_components=0.9999, widths=(60, 40), n_members=4, scales="energy").fit(a, u)


def member_fields(model, inputs):
    ensemble = model.ensemble_
    x = ensemble.input_pca.encode(inputs)
    return np.stack([ensemble.output_pca.decode(member(x)) for member in ensemble.members])


def test_mean_and_spread_are_those_of_the_members_fields(fitted, pairs):
    inputs = pairs.inputs[200:330]
    inputs = inputs[fitted.novelty(inputs).p_value > 0.01]  # elsewhere more is counted than their spread
    fields = member_fields(fitted, inputs)
    mean, std = fitted.predict(inputs, return_std=True)
    assert len(inputs) > 120
    assert np.allclose(mean.reshape(len(inputs), -1), fields.mean(axis=0), atol=1e-12)
    assert np.allclose(std.reshape(len(inputs), -1), fields.std(axis=0, ddof=1), atol=1e-12)


def test_mean_alone_equals_mean_with_spread(fitted, pairs):
    inputs = pairs.inputs[200:300]
    assert np.allclose(fitted.predict(inputs), fitted.predict(inputs, return_std=True)[0], atol=1e-13)


def test_the_spread_of_one_member_is_that_of_left_out_residuals(pairs):
    a, u = pairs[:100]
    model = PCARaNN(n_components=0.999, widths=(30, 20), n_members=1, scales="energy").fit(a, u)
    std = model.predict_parts(a).members
    assert np.allclose(std, std[0], rtol=1e-12)
    size = np.sqrt((std[0] ** 2).mean() / (u**2).mean())
    assert 0.5 <= size / model.fit_report_.relative_error <= 2


@pytest.mark.parametrize("n", [1, 63, 64, 65, 5000])
def test_blocks_cover_every_row_once_in_whole_tiles(n):
    blocks = list(_blocks(n, 2048))
    assert [row for block in blocks for row in range(block.start, block.stop)] == list(range(n))
    assert all((block.stop - block.start) % _TILE == 0 for block in blocks[:-1])


@pytest.mark.filterwarnings("ignore:This input lies outside the training data")  # one in a hundred does by chance
def test_a_prediction_does_not_depend_on_the_samples_beside_it(fitted, pairs):
    inputs = pairs.inputs[200:270]
    together = fitted.predict(inputs)
    apart = np.concatenate([fitted.predict(inputs[i : i + 1]) for i in range(70)])
    assert np.allclose(together, apart, rtol=0, atol=1e-13)


def test_spread_in_small_blocks_of_fields_equals_spread_at_once(fitted, pairs, monkeypatch):
    inputs = pairs.inputs[:200]
    whole = fitted.predict(inputs, return_std=True)
    monkeypatch.setattr("pcarann.ensemble.mean_and_spread._FIELD_BYTES", 1)
    blocks = fitted.predict(inputs, return_std=True)
    assert np.allclose(whole[0], blocks[0], atol=1e-13)
    assert np.allclose(whole[1], blocks[1], atol=1e-13)


@pytest.mark.parametrize("members", [1, 3])
def test_predictions_are_the_same_bytes_on_any_number_of_threads_and_beside_any_samples(members):
    rng, x = np.random.default_rng(0), np.linspace(0, 1, 2000)
    a = sum(rng.normal(size=(600, 1)) * np.sin(k * x) / k for k in range(1, 20))
    u = np.tanh(a)
    model = PCARaNN(n_components=1 - 1e-12, widths=(60, 40), n_members=members, scales="energy").fit(a[:100], u[:100])
    found = []
    for threads in (1, 2):
        with blas_threads(threads):
            found.append(model.ensemble_.mean_fields([model.ensemble_.encode(a[100:])]))
    other = a[100:].copy()
    other[1:] = other[:0:-1]
    assert np.array_equal(*found)
    assert np.array_equal(model.ensemble_.mean_fields([model.ensemble_.encode(other)])[0], found[0][0])
