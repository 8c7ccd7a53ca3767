"""What a model has met, as a part of its file: it comes back as it was, and what does not fit is refused."""

import numpy as np
import pytest

from pcarann.storage.streams import (
    described_followed,
    described_history,
    described_known,
    rebuilt_choice,
    rebuilt_followed,
    rebuilt_history,
    rebuilt_known,
)
from pcarann.uncertainty.adaptive import Followed
from pcarann.uncertainty.fingerprints import Fingerprints
from pcarann.uncertainty.monitor import History, Met, Monitor

RNG = np.random.default_rng(0)
SCORES = np.sort(RNG.lognormal(size=(40, 8)))


@pytest.fixture
def followed():
    found = Followed.start(np.sort(SCORES.ravel()), np.arange(1, SCORES.size + 1), np.sort(SCORES.max(axis=1)))
    for row in 3 * SCORES[:10]:
        found, _ = found.observed(row[None, :])
    return found


@pytest.fixture
def history():
    found = History.calibrated(RNG.lognormal(size=50, sigma=0.3))
    for size in (1.0, 9.0):
        found = found.after(Met.of(20, errors=size * RNG.lognormal(size=20, sigma=0.3)), learned=True)
    return found


def test_intervals_come_back_as_they_were(followed):
    tensors = {}
    described_followed(followed, "a", tensors)
    found = rebuilt_followed("a", tensors)
    assert found.points.factor(0.1) == followed.points.factor(0.1)
    later = [one.observed(SCORES[:1])[0].whole.factor(0.2) for one in (found, followed)]
    assert later[0] == later[1]


def test_files_without_a_stream_have_none():
    tensors = {}
    described_followed(None, "a", tensors)
    assert (tensors, rebuilt_followed("a", tensors), described_history(None, "h", tensors)) == ({}, None, None)
    assert (rebuilt_history(None, "h", tensors), rebuilt_choice(None)) == (None, None)


@pytest.mark.parametrize("part", ["points.rows", "points.scales", "whole.ahead", "whole.losses", "points.shifts"])
@pytest.mark.parametrize("wrong", [np.zeros(3), np.full((2, 2), np.nan), np.zeros((2, 1), dtype=np.float32)])
def test_intervals_that_do_not_fit_are_refused(followed, part, wrong):
    tensors = {}
    described_followed(followed, "a", tensors)
    with pytest.raises(ValueError, match=r"do not fit the stream|dtype"):
        rebuilt_followed("a", tensors | {f"a.{part}": wrong})


def test_a_history_comes_back_as_it_was(history):
    tensors = {}
    found = rebuilt_history(described_history(history, "h", tensors), "h", tensors)
    assert found.alarms == history.alarms != ()
    assert str(Monitor.of(found, None, None)) == str(Monitor.of(history, None, None))
    more = Met.of(80, errors=np.full(80, 0.5))
    assert found.after(more, learned=False).alarms == history.after(more, learned=False).alarms


@pytest.mark.parametrize("part", ["errors", "missed", "test.sums", "test.reference"])
def test_a_history_that_does_not_fit_is_refused(history, part):
    tensors = {}
    described = described_history(history, "h", tensors)
    with pytest.raises(ValueError, match="does not fit together"):
        rebuilt_history(described, "h", tensors | {f"h.{part}": np.zeros((2, 2))})


@pytest.mark.parametrize("wrong", [[[1.0], 0], [[0.0] * 6, 6], [[0.0] * 6, -1]])
def test_a_choice_among_other_factors_is_refused(wrong):
    with pytest.raises(ValueError, match="its choice of forgetting is none"):
        rebuilt_choice(wrong)


def test_what_is_remembered_of_samples_comes_back_as_it_was():
    known, tensors = Fingerprints.of(np.arange(12.0).reshape(4, 3), np.ones((4, 2))), {}
    described_known(known, tensors)
    found = rebuilt_known(tensors)
    assert np.array_equal(found.numbers, known.numbers)
    assert found.sizes == known.sizes
    described_known(None, tensors := {})
    assert rebuilt_known(tensors) is None


@pytest.mark.parametrize("part", ["numbers", "sizes"])
@pytest.mark.parametrize("wrong", [np.zeros(3), np.full((2, 4), np.nan), np.zeros((0, 4)), np.array([1.0, -1.0])])
def test_what_is_remembered_of_samples_is_refused_where_it_is_damaged(part, wrong):
    tensors = {"known.numbers": np.zeros((2, 4)), "known.sizes": np.ones(2), f"known.{part}": wrong}
    with pytest.raises(ValueError, match="remembers of its training samples is damaged"):
        rebuilt_known(tensors)
