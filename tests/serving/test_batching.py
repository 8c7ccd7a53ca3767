import asyncio
import gc
import weakref

import numpy as np
import pytest
from served import Slow, X_fixture, flow_fixture, model_fixture  # noqa: F401

from pcarann.serving.answers import Catalogue, answered
from pcarann.serving.batching import Batcher
from pcarann.serving.heard import listening


def together(model, parts, rows=1000, workers=1, wanted=()):
    """All parts asked at once; the outcomes, and the samples of each prediction."""
    catalogue, batches = Catalogue.of(model), []

    async def ask():
        batcher = Batcher(workers, rows, lambda requests, samples, seconds: batches.append((requests, samples)))
        questions = [catalogue.question({"inputs": part}, wanted, {}) for part in parts]
        found = await asyncio.gather(*(batcher.ask(catalogue, one) for one in questions), return_exceptions=True)
        assert batcher.waiting == 0
        batcher.close()
        return found

    return asyncio.run(ask()), batches


def test_what_comes_while_a_prediction_runs_is_answered_by_the_next_one(model, X):
    parts = [X[i : i + 1 + i % 3] for i in range(12)]
    found, batches = together(model, parts)
    assert batches == [(1, 1), (11, 23)]
    for answer, part in zip(found, parts, strict=True):
        np.testing.assert_allclose(answer.arrays["outputs"], model.predict(part), rtol=1e-9, atol=1e-12)


def test_batches_have_a_largest_size_but_a_large_question_is_answered(model, X):
    _, batches = together(model, [X[:1], X[:20], X[:2], X[:2], X[:2], X[:1]], rows=5)
    assert sorted(batches) == [(1, 1), (1, 20), (2, 3), (2, 4)]


def test_a_question_that_fails_fails_alone(model, X):
    bad = np.full_like(X[:1], np.nan)
    found, _ = together(model, [X[:1], bad, X[1:2], bad, X[2:3]])
    assert [type(one).__name__ for one in found] == ["Answer", "Refused", "Answer", "Refused", "Answer"]


class Picky:
    """A model that fails where one of the samples is among those that are asked for."""

    def __init__(self, model, sample):
        self.model, self.sample, self.asked = model, sample, []

    def __getattr__(self, name):
        return getattr(self.model, name)

    def predict(self, X, **how):
        self.asked.append(len(X))
        if (self.sample == X).all(axis=1).any():
            raise FloatingPointError("not this one")
        return self.model.predict(X, **how)


def test_where_a_batch_fails_each_is_asked_alone(model, X):
    picky = Picky(model, X[1])
    found, batches = together(picky, [X[:1], X[:1], X[1:2], X[2:3]])
    assert (batches, picky.asked) == ([(1, 1), (3, 3)], [1, 3, 1, 1, 1])
    assert isinstance(found.pop(2), FloatingPointError)
    for answer, row in zip(found, (0, 0, 2), strict=True):
        np.testing.assert_array_equal(answer.arrays["outputs"], model.predict(X[row : row + 1]))


def test_other_outputs_are_other_batches(model, X):
    catalogue, batches = Catalogue.of(model), []

    async def ask():
        batcher = Batcher(1, 100, lambda requests, samples, seconds: batches.append(requests))
        wanted = ["outputs", "outputs.std", "outputs", "outputs.std", "outputs"]
        questions = [catalogue.question({"inputs": X[:1]}, [name], {}) for name in wanted]
        await asyncio.gather(*(batcher.ask(catalogue, one) for one in questions))
        batcher.close()

    asyncio.run(ask())
    assert batches == [1, 2, 2]


def test_who_has_gone_is_not_answered(model, X):
    catalogue, batches = Catalogue.of(model), []

    async def ask():
        batcher = Batcher(1, 100, lambda requests, samples, seconds: batches.append(requests))
        question = catalogue.question({"inputs": X[:1]}, [], {})
        first, gone, last = (asyncio.create_task(batcher.ask(catalogue, question)) for _ in range(3))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(first, last)
        with pytest.raises(asyncio.CancelledError):
            await gone
        batcher.close()

    asyncio.run(ask())
    assert batches == [1, 1]


@pytest.mark.parametrize("workers", [2, 4])
def test_several_workers_give_each_its_own(model, X, workers):
    found, batches = together(model, [X[i : i + 1] for i in range(30)], workers=workers)
    assert sum(requests for requests, _ in batches) == 30
    for i, answer in enumerate(found):
        np.testing.assert_allclose(answer.arrays["outputs"], model.predict(X[i : i + 1]), rtol=1e-9, atol=1e-12)


def test_what_nobody_waits_for_is_forgotten_at_once(model, X):
    slow = Slow(model)
    catalogue = Catalogue.of(slow)

    async def ask():
        batcher = Batcher(1, 100)
        first = asyncio.create_task(batcher.ask(catalogue, catalogue.question({"inputs": X[:1]}, [], {})))
        await asyncio.sleep(0)
        questions = [catalogue.question({"inputs": X[:1]}, names, {}) for names in ([], [], ["outputs.std"])]
        kept = [weakref.ref(one) for one in questions]
        others = [asyncio.create_task(batcher.ask(catalogue, questions.pop())) for _ in kept]
        await asyncio.sleep(0)
        assert batcher.waiting == 3
        for one in others:
            one.cancel()
        await asyncio.wait(others)
        assert batcher.waiting == 0
        del one, others
        gc.collect()
        assert [ref() for ref in kept] == [None] * 3
        await asyncio.sleep(0.02)
        assert 0.01 < batcher.stuck < 5
        slow.free.set()
        await first
        assert batcher.stuck == 0
        batcher.close()

    asyncio.run(ask())


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("wanted", ["outputs", "outputs.jvp", "novelty"])
def test_a_roll_out_that_nobody_waits_for_is_given_up_between_two_steps(flow, wanted):
    model, waves = flow
    steps = 200_000  # half a minute and more
    catalogue = Catalogue.of(model, steps)
    sent = {"inputs": waves[:1, :1], "controls": np.zeros((1, steps, 2))}
    sent |= {"inputs.tangent": waves[:1, :1]} if wanted.endswith("jvp") else {}

    async def ask():
        batcher = Batcher(1, 100)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await batcher.ask(catalogue, catalogue.question(sent, [wanted], {}))
        short = Catalogue.of(model, 2)
        question = short.question({"inputs": waves[:1, :1], "controls": np.zeros((1, 2, 2))}, [], {})
        async with asyncio.timeout(5):
            answer = await batcher.ask(short, question)
        batcher.close()
        return answer.arrays["outputs"].shape

    assert asyncio.run(ask()) == (1, 2, 8)


class Recorded:
    """A model that remembers how many samples it was asked for at a time."""

    def __init__(self, model):
        self.model, self.asked = model, []

    def __getattr__(self, name):
        return getattr(self.model, name)

    def predict(self, X, **how):
        self.asked.append(len(X))
        return self.model.predict(X, **how)


def test_small_questions_are_answered_between_the_blocks_of_a_large_one(model, X):
    recorded = Recorded(model)
    found, _ = together(recorded, [np.tile(X, (40, 1)), X[:1], X[:2]])
    assert [len(one.arrays["outputs"]) for one in found] == [1200, 1, 2]
    assert recorded.asked[-1] > 3
    assert max(recorded.asked) < 1200


def test_blocks_of_a_question_answer_as_the_whole_does(model, X):
    many = np.concatenate([np.tile(X, (20, 1)), 100 + X[:7], np.tile(X, (20, 1))])
    catalogue = Catalogue.of(model)
    names = ("outputs", "outputs.std", "outputs.upper", "novelty")
    with listening():
        whole = answered(catalogue, [catalogue.question({"inputs": many}, names, {})])[0]
        found = together(model, [many], wanted=names)[0][0]
    assert (found.said, found.outside) == (whole.said, whole.outside)
    for name in names:
        np.testing.assert_allclose(found.arrays[name], whole.arrays[name], rtol=1e-9, atol=1e-9)
