import numpy as np
import pytest

from pcarann.backend.arrays import to_host
from pcarann.readout.recursive import Dual, Primal, RecursiveLeastSquares, appended

RNG = np.random.default_rng(0)
P = 12
FORMS = pytest.mark.parametrize("n_old", [40, 5], ids=["primal", "dual"])
STARTS = pytest.mark.parametrize("start", ["least-squares", "ridge"])
RIDGE = 1e-2


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    H = np.tanh(rng.normal(size=(n, P)))
    return H, H @ rng.normal(size=(P, 3)) + 0.1 * rng.normal(size=(n, 3))


def begin(n_old, start, wrap=np.asarray):
    H, Y = rows(n_old)
    prior = np.linalg.lstsq(H, Y, rcond=None)[0] if start == "least-squares" else None
    R = Y if prior is None else np.zeros_like(Y)
    if n_old >= P:
        state = Primal(wrap(H.T @ H + RIDGE * np.eye(P)), wrap(H.T @ R))
    else:
        state = Dual.of(wrap(H), wrap(R), RIDGE)
    return H, Y, prior, RecursiveLeastSquares(RIDGE, None if prior is None else wrap(prior), state)


def paper_recursion(H, V, new_H, new_Y):
    """The update as the paper prints it, one sample at a time on a full P."""
    inverse = np.linalg.inv(H.T @ H + RIDGE * np.eye(P))
    for h, y in zip(new_H, new_Y, strict=True):
        k = inverse @ h / (1 + h @ inverse @ h)
        V = V + np.outer(k, y - h @ V)
        inverse = inverse - np.outer(k, h @ inverse)
    return V


def batch_ridge(H, Y, weights=None):
    D = np.ones(len(H)) if weights is None else weights
    return np.linalg.solve((H.T * D) @ H + RIDGE * np.eye(P), (H.T * D) @ Y)


@FORMS
def test_block_update_equals_the_papers_recursion(backend, n_old):
    H, _, prior, learner = begin(n_old, "least-squares", backend)
    new_H, new_Y = rows(30, seed=1)
    found = to_host(learner.update(backend(new_H), backend(new_Y)).readout)
    assert np.allclose(found, paper_recursion(H, prior, new_H, new_Y), rtol=0, atol=1e-9)


@FORMS
def test_ridge_start_equals_a_batch_ridge_refit(backend, n_old):
    H, Y, _, learner = begin(n_old, "ridge", backend)
    new_H, new_Y = rows(30, seed=1)
    found = to_host(learner.update(backend(new_H), backend(new_Y)).readout)
    assert np.allclose(found, batch_ridge(np.vstack([H, new_H]), np.vstack([Y, new_Y])), rtol=0, atol=1e-9)


@FORMS
@STARTS
@pytest.mark.parametrize("forgetting", [1.0, 0.9])
def test_blocks_and_single_samples_give_the_same_weights(n_old, start, forgetting):
    *_, learner = begin(n_old, start)
    new_H, new_Y = rows(20, seed=1)
    whole = learner.update(new_H, new_Y, forgetting=forgetting)
    pieces = learner
    for cut in (slice(0, 7), slice(7, 8), slice(8, 20)):
        pieces = pieces.update(new_H[cut], new_Y[cut], forgetting=forgetting)
    single = learner
    for i in range(20):
        single = single.update(new_H[i : i + 1], new_Y[i : i + 1], forgetting=forgetting)
    assert np.allclose(pieces.readout, whole.readout, rtol=0, atol=1e-9)
    assert np.allclose(single.readout, whole.readout, rtol=0, atol=1e-9)


@FORMS
@STARTS
def test_order_of_samples_does_not_matter(n_old, start):
    *_, learner = begin(n_old, start)
    new_H, new_Y = rows(20, seed=1)
    order = RNG.permutation(20)
    first, second = learner.update(new_H, new_Y), learner.update(new_H[order], new_Y[order])
    assert np.allclose(first.readout, second.readout, rtol=0, atol=1e-9)


def test_a_stream_that_outgrows_the_features_switches_to_the_primal():
    H, Y, _, learner = begin(5, "ridge")
    new_H, new_Y = rows(30, seed=1)
    assert isinstance(learner.state, Dual)
    for i in range(30):
        learner = learner.update(new_H[i : i + 1], new_Y[i : i + 1])
        assert isinstance(learner.state, Dual if 5 + i + 1 <= P else Primal)
        expected = batch_ridge(np.vstack([H, new_H[: i + 1]]), np.vstack([Y, new_Y[: i + 1]]))
        assert np.allclose(learner.readout, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("n_old", "n_new"), [(40, 10), (5, 4), (5, 10)], ids=["primal", "dual", "outgrown"])
def test_forgetting_weighs_rows_by_age(n_old, n_new):
    H, Y, _, learner = begin(n_old, "ridge")
    new_H, new_Y = rows(n_new, seed=1)
    found = learner.update(new_H, new_Y, forgetting=0.8).readout
    ages = np.concatenate([np.full(n_old, n_new), np.arange(n_new)[::-1]])
    expected = batch_ridge(np.vstack([H, new_H]), np.vstack([Y, new_Y]), 0.8**ages)
    assert np.allclose(found, expected, rtol=0, atol=1e-9)


def test_a_dual_that_forgets_nothing_keeps_its_rows_and_their_factor():
    *_, learner = begin(5, "ridge")
    new_H, new_Y = rows(4, seed=1)
    state = learner.update(new_H, new_Y).state
    assert state.blocks[0] is learner.state.blocks[0]
    assert state.blocks[1] is new_H
    assert np.array_equal(state.lower[:5, :5], learner.state.lower)


def test_rows_that_are_appended_one_by_one_stay_in_order_and_in_few_blocks():
    """Like the digits of a binary number: 22 = 16 + 4 + 2."""
    H, _ = rows(22)
    blocks = (H[:1],)
    for i in range(1, 22):
        blocks = appended(blocks, H[i : i + 1])
    assert [len(block) for block in blocks] == [16, 4, 2]
    assert np.array_equal(np.vstack(blocks), H)
    assert [len(block) for block in appended(blocks, H[:3])] == [16, 9]


def test_samples_that_rounding_makes_the_same_ask_for_a_larger_ridge():
    with pytest.raises(ValueError, match=r"use a larger ridge"):
        Dual.of(np.ones((2, 4)), np.zeros((2, 1)), 1e-30)


@FORMS
def test_covariance_is_the_inverse_that_the_paper_keeps(n_old):
    H, _, _, learner = begin(n_old, "least-squares")
    assert np.allclose(learner.covariance, np.linalg.inv(H.T @ H + RIDGE * np.eye(P)), rtol=1e-9)


@pytest.mark.parametrize("forgetting", [1.0, 0.999])
def test_a_hundred_thousand_updates_stay_positive_and_close_to_the_batch(forgetting):
    H, Y, _, learner = begin(40, "ridge")
    many_H, many_Y = rows(500, seed=2)
    all_H, all_Y = [H], [Y]
    for block in range(1000):  # a thousand blocks of a hundred, each sample seen two hundred times
        cut = slice(100 * (block % 5), 100 * (block % 5) + 100)
        learner = learner.update(many_H[cut], many_Y[cut], forgetting=forgetting)
        all_H.append(many_H[cut])
        all_Y.append(many_Y[cut])
    covariance = learner.covariance
    weights = forgetting ** np.concatenate([np.full(40, 100_000), np.arange(99_999, -1, -1)])
    expected = batch_ridge(np.vstack(all_H), np.vstack(all_Y), weights)
    assert np.allclose(covariance, covariance.T, rtol=1e-12)
    assert np.linalg.eigvalsh(covariance).min() > 0
    assert np.allclose(learner.readout, expected, rtol=0, atol=1e-9)


def test_one_sample_repeated_under_forgetting_does_not_blow_up():
    *_, learner = begin(40, "least-squares")
    h, y = rows(1, seed=3)
    for _ in range(3000):
        learner = learner.update(h, y, forgetting=0.9)
    assert np.isfinite(learner.readout).all()
    # The ridge is never forgotten: no direction is less certain than it was before any data.
    assert np.linalg.eigvalsh(learner.covariance).max() <= 1 / RIDGE * (1 + 1e-12)
