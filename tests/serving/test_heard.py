import threading
import warnings

import numpy as np
import pytest
from served import X_fixture, flow_fixture, model_fixture  # noqa: F401

from conftest import periodic_pairs
from pcarann import Staged
from pcarann.serving.answers import Catalogue, answered
from pcarann.serving.heard import entered, hearing, listening, sighted


def said(model, X):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.predict(X)
    return tuple(str(one.message) for one in found)


def test_each_question_hears_what_it_would_hear_alone(model, X):
    catalogue = Catalogue.of(model)
    parts = [X[:2], 9 * X[2:4], X[4:5], np.concatenate([X[5:6], 5 * X[6:7]])]
    with listening():
        found = answered(catalogue, [catalogue.question({"inputs": part}, (), {}) for part in parts])
    assert [one.said for one in found] == [said(model, part) for part in parts]
    assert [bool(one.said) for one in found] == [False, True, False, True]
    assert [one.outside for one in found] == [0, 2, 0, 1]


def test_stages_say_it_for_each_question_too():
    pairs = periodic_pairs(30, points=8)
    model = Staged(n_stages=1, n_features=8, n_members=1, random_state=0).fit(*pairs[:])
    catalogue = Catalogue.of(model)
    assert "novelty" not in catalogue.kinds
    parts = [pairs.inputs[:2], 99 * pairs.inputs[2:4]]
    with listening():
        found = answered(catalogue, [catalogue.question({"inputs": part}, (), {}) for part in parts])
    assert [one.said for one in found] == [said(model, part) for part in parts]
    assert [one.outside for one in found] == [0, 2]


def test_an_interval_that_is_infinite_is_said_to_all(model, X):
    catalogue = Catalogue.of(model)
    parameters = {"alpha": 1e-4, "method": "simultaneous"}
    with listening():
        questions = [catalogue.question({"inputs": part}, ["outputs.upper"], parameters) for part in (X[:1], X[1:3])]
        found = answered(catalogue, questions)
    assert all(len(one.said) == 1 and "calibration" in one.said[0] for one in found)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_flow_says_where_it_leaves_the_data(flow):
    model, waves = flow
    catalogue = Catalogue.of(model)
    sent = {"inputs": 40 * waves[:2, :1], "controls": np.zeros((2, model.fitted_.window, 2))}
    with listening():
        (found,) = answered(catalogue, [catalogue.question(sent, (), {})])
    assert "of the roll-out" in found.said[0]
    assert found.outside == 2


def test_threads_hear_what_they_said_themselves():
    heard = {}

    def speak(name):
        with hearing() as found:
            for _ in range(3):
                warnings.warn(name, stacklevel=1)
        heard[name] = found

    with listening():
        threads = [threading.Thread(target=speak, args=(name,)) for name in ("a", "b", "c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert heard == {"a": ["a"], "b": ["b"], "c": ["c"]}


def test_what_nobody_hears_is_shown_as_ever():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with listening():
            warnings.warn("aloud", stacklevel=1)
    assert [str(one.message) for one in found] == ["aloud"]


def test_a_flow_looks_along_the_way(flow):
    model, waves = flow
    inside = entered(model, waves[:2, :1], {"steps": 3, "controls": np.zeros((2, 3, 2))})
    assert len(inside) == 2
    assert sighted(model, inside) is None
    with pytest.raises(ValueError, match="controls"):
        entered(model, waves[:2, :1], {"steps": 3})
