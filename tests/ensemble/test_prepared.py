"""Calls with few samples: what is kept for them, what they cost, and that they say the same."""

import gc
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from conftest import periodic_pairs
from pcarann import Kernel, Marching, PCARaNN, Staged, Symmetry, load
from pcarann.backend.arrays import taken
from pcarann.backend.random import spread
from pcarann.ensemble.prepared import SingleFeatures

SMALL = dict(n_components=0.9999, widths=(60, 40), n_members=4, scales="energy")
HIDDEN = 8 * 60 * (6 + 40)
"""Bytes of a member's hidden weights, six latents in"""


@pytest.fixture(scope="module")
def fitted(pairs):
    return PCARaNN(**SMALL).fit(*pairs[:200])


@pytest.fixture
def model(pairs):
    return PCARaNN(**SMALL).fit(*pairs[:200])


def test_no_pool_is_made_for_one_sample(model, pairs, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a pool was made")

    monkeypatch.setattr("pcarann.backend.concurrency.ThreadPoolExecutor", refuse)
    monkeypatch.setattr("pcarann.backend.concurrency.cores", lambda: 8)
    one = pairs.inputs[:1]
    model.calibrate(*pairs[300:400])
    for _ in range(2):
        model.predict(one), model.predict(one, return_std=True), model.predict_interval(one)
        model.jvp(one, one), model.vjp(one, pairs.outputs[:1]), model.quantity(pairs.outputs[0]).gradient(one)
        model.prepare()


def test_long_calls_still_have_a_pool(pairs, monkeypatch):
    model, made = PCARaNN(**{**SMALL, "widths": (300, 200)}).fit(*pairs[:200]), []

    def counted(workers):
        made.append(workers)
        return ThreadPoolExecutor(workers)

    monkeypatch.setattr("pcarann.backend.concurrency.ThreadPoolExecutor", counted)
    monkeypatch.setattr("pcarann.backend.concurrency.cores", lambda: 2)
    model.predict(np.concatenate([pairs.inputs] * 4))
    assert made == [2]


@pytest.mark.parametrize("size", [1, 7, 64])
def test_a_sample_is_the_same_in_a_small_and_in_a_large_batch_to_rounding(fitted, pairs, size):
    inputs = pairs.inputs[:140]
    whole = fitted.predict(inputs)
    apart = np.concatenate([fitted.predict(inputs[i : i + size]) for i in range(0, 140, size)])
    assert np.allclose(apart, whole, rtol=0, atol=1e-9 * np.abs(whole).max())


def test_readouts_that_amplify_rounding_keep_few_samples_in_a_tile(fitted, pairs):
    ensemble, x = fitted.fitted_.ensemble, fitted.fitted_.x
    assert ensemble.tried(x).steady
    few = taken(x, spread(len(x), 3))
    readouts = []
    for member in ensemble.members:  # large numbers, of which nothing is left at these rows
        H, z = member.features(few), 1e9 * np.random.default_rng(0).normal(size=member.readout.shape)
        readouts.append(member.readout + z - np.linalg.pinv(H) @ (H @ z))
    assert not ensemble.with_readouts(readouts).tried(x).steady


@pytest.mark.parametrize("changes", [{}, {"linear": True}, {"regressor": Kernel(2.0)}, {"relevance": 0.5}], ids=str)
def test_few_samples_of_a_prepared_model_are_those_of_a_large_batch_to_rounding(pairs, changes):
    model = PCARaNN(**{**SMALL, **changes}).fit(*pairs[:200])
    inputs = pairs.inputs[:100]
    expected = model.predict(inputs, return_std=True)
    model.prepare()
    for rows in (slice(0, 1), slice(3, 8)):
        for found, whole in zip(model.predict(inputs[rows], return_std=True), expected, strict=True):
            assert np.allclose(found, whole[rows], rtol=0, atol=1e-12)
        assert np.allclose(model.predict(inputs[rows]), expected[0][rows], rtol=0, atol=1e-12)


def test_few_samples_of_a_prepared_model_do_not_depend_on_those_beside_them(model, pairs):
    model.prepare()
    inputs = pairs.inputs[:8]
    apart = [model.predict(inputs[i : i + 1], return_std=True) for i in range(8)]
    for part, together in enumerate(model.predict(inputs, return_std=True)):
        assert np.array_equal(np.concatenate([one[part] for one in apart]), together)


def test_a_prepared_model_keeps_its_symmetry():
    circular = periodic_pairs(60)
    circle = Symmetry.reflection(-1, periodic=True)
    model = PCARaNN(5, (30, 20), 2, scales=(0.3, 0.3), ridge=1e-3, symmetry=circle).fit(*circular[:40])
    inputs = circular.inputs[40:43]
    expected = model.predict(inputs, return_std=True)
    for found, whole in zip(model.prepare().predict(inputs, return_std=True), expected, strict=True):
        assert np.allclose(found, whole, rtol=0, atol=1e-12)


# What is kept


@pytest.mark.parametrize(("memory", "kept"), [("1GB", 4), (2 * HIDDEN, 2), (2 * HIDDEN - 1, 1), (0, 0)])
def test_as_many_members_keep_their_weights_as_fit_the_memory(model, pairs, memory, kept):
    expected = model.predict(pairs.inputs)
    told = model.prepare(memory).prepared_
    assert model.input_pca_.n_components == 6
    assert sum(member.features.weights is not None for member in model.ensemble_.members) == told.kept == kept
    assert told.bytes_kept == kept * HIDDEN
    assert told.drawn_bytes == (4 - kept) * HIDDEN
    assert np.array_equal(model.predict(pairs.inputs), expected)
    assert np.allclose(model.predict(pairs.inputs[:2]), expected[:2], rtol=0, atol=1e-12)


def test_single_precision_is_taken_where_it_changes_little(model, pairs):
    expected = model.predict(pairs.inputs[:5])
    told = model.prepare(4 * HIDDEN // 2, single=True).prepared_
    assert (told.single, told.kept, told.bytes_kept) == (True, 4, 2 * HIDDEN)
    assert 0 < told.change <= 0.01
    found = model.predict(pairs.inputs[:5])
    missed = np.sqrt(1 - model.fit_report_.r2) * model.predict(pairs.inputs).std()
    assert 0 < np.abs(found - expected).max() < 0.1 * missed
    assert "single precision changes" in str(told).lower()


def test_single_precision_is_refused_where_it_changes_more(model, monkeypatch):
    monkeypatch.setattr("pcarann.ensemble.prepared._ALLOWED", 1e-12)
    told = model.prepare(single=True).prepared_
    assert not told.single
    assert told.change > 1e-12
    assert all(member.quick is None for member in model.ensemble_.members)
    assert "would change" in str(told)


def test_new_readouts_are_not_used_with_what_was_measured_on_old_ones(model, pairs):
    model.prepare(single=True).partial_fit(*pairs[200:210])
    assert not model.prepared_.single
    whole = model.predict(pairs.inputs)
    assert np.allclose(model.predict(pairs.inputs[:2]), whole[:2], rtol=0, atol=1e-12)


def test_a_file_does_not_know_of_preparation(model, pairs, tmp_path):
    document, arrays = model.description()
    after = model.prepare(single=True).description()
    assert after[0] == document
    assert after[1].keys() == arrays.keys()
    assert all(np.array_equal(after[1][name], arrays[name]) for name in arrays)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    with pytest.raises(AttributeError, match="prepared_ exists after prepare only"):
        _ = again.prepared_


def test_single_features_round_the_products_alone(fitted, pairs):
    features = fitted.ensemble_.members[0].features
    x = fitted.ensemble_.encode(pairs.inputs[:5])
    single = SingleFeatures.of(features)
    assert single.weights[0].dtype == np.float32
    assert 0 < np.abs(single.predictors(x) - features(x)).max() < 1e-5


def test_a_kernel_says_that_it_has_nothing_to_prepare(pairs):
    model = PCARaNN(0.9999, regressor="kernel", n_members=2).fit(*pairs[:60])
    assert str(model.prepare().prepared_) == "A kernel has no hidden weights: nothing is to be prepared."


@pytest.mark.parametrize("memory", ["much", "1 XB", -1, 1.5, None, True, "-1GB", ""])
def test_memory_that_is_none_is_refused(fitted, memory):
    with pytest.raises(ValueError, match="memory must be a number of bytes"):
        fitted.prepare(memory)


def test_a_flow_and_stages_prepare_what_they_are_made_of():
    waves = np.cos(np.random.default_rng(0).uniform(0, 6, (40, 1, 1)) + 0.4 * np.arange(6)[:, None] + np.arange(16) / 3)
    flow = Marching(PCARaNN(2, (30, 20), 2, scales="energy"), choose=False).fit(waves[:, :1], waves[:, 1:])
    expected = flow.predict(waves[:1, :1])
    assert np.allclose(flow.prepare("1MB").predict(waves[:1, :1]), expected, rtol=0, atol=1e-9)
    assert flow.prepared_.memory == 10**6
    staged = Staged(n_features=5, n_members=1, n_stages=1).fit(waves[:, 0], waves[:, 1])
    assert "in memory" in str(staged.prepare().prepared_)


@pytest.mark.parametrize("single", [None, False, True])
def test_many_calls_do_not_grow_memory(model, pairs, single):
    if single is not None:
        model.prepare(single=single)
    one = pairs.inputs[:1]

    def held(calls):
        for _ in range(calls):
            model.predict(one)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        after = [held(100) for _ in range(4)]
        # What other parts of the process keep comes once; what a call keeps would come every time.
        assert min(np.diff(after)) < 5_000
    finally:
        tracemalloc.stop()
