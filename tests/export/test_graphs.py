"""Which outputs a graph has, and what is refused."""

from copy import copy
from inspect import signature
from types import SimpleNamespace

import pytest
from runtime import SMALL, assert_same, by_file, by_model, calibrated, pairs
from sklearn.exceptions import NotFittedError

from pcarann import PCARaNN
from pcarann.export.graph import OPERATORS
from pcarann.export.graphs import graph_of, level_of


@pytest.fixture(scope="module")
def data():
    return pairs()


@pytest.fixture(scope="module")
def model(data):
    return calibrated({}, *data)


def test_outputs_are_mean_spread_interval_and_novelty(model):
    graph = graph_of(model)
    assert [(one.name, one.shape) for one in graph.inputs] == [("inputs", (24,))]
    names = ["outputs", "outputs.std", "outputs.lower", "outputs.upper", "novelty"]
    assert [(one.name, one.shape) for one in graph.outputs] == [(n, () if n == "novelty" else (18,)) for n in names]
    assert {node.operator for node in graph.nodes} <= OPERATORS


def test_without_a_calibration_there_are_no_intervals_and_none_can_be_asked_for(data):
    plain = PCARaNN(**SMALL).fit(*data)
    assert [one.name for one in graph_of(plain).outputs] == ["outputs", "outputs.std", "novelty"]
    assert level_of(plain) is None
    with pytest.raises(NotFittedError, match="This PCARaNN has no calibration: call calibrate"):
        graph_of(plain, alpha=0.1)


def test_a_stale_calibration_is_none(data, model):
    changed = copy(model)
    changed.refit_readout(*data)
    assert level_of(changed) is None
    with pytest.raises(NotFittedError, match="stale calibration"):
        graph_of(changed, alpha=0.1)


def test_the_mean_alone_is_a_smaller_graph_without_intervals(data, model):
    graph = graph_of(model, mean_only=True)
    assert [one.name for one in graph.outputs] == ["outputs"]
    assert len(graph.nodes) < len(graph_of(model).nodes) / 3
    found = by_file(model, data[0][:4], mean_only=True)
    assert_same(found, {"outputs": model.predict(data[0][:4])}, 1e-12)
    with pytest.raises(ValueError, match="The mean alone has no intervals"):
        graph_of(model, alpha=0.1, mean_only=True)


@pytest.mark.parametrize("method", ["sample", "pooled", "simultaneous", "local"])
def test_every_method_and_level_is_that_of_the_model(data, model, method):
    asked = data[0][:4]
    found, wanted = by_file(model, asked, alpha=0.25, method=method), by_model(model, asked, 0.25, method)
    assert_same(found, wanted, 1e-12)
    assert level_of(model, 0.25) == 0.25


def test_levels_that_cannot_be_are_refused(model):
    with pytest.raises(ValueError, match="alpha must be a number strictly between 0 and 1, got 2"):
        graph_of(model, alpha=2)
    with pytest.raises(ValueError, match=r"30 calibration samples are too few for alpha=0.001 .*: 999 are needed"):
        graph_of(model, alpha=0.001)
    with pytest.raises(ValueError, match="method must be one of"):
        graph_of(model, method="all")


def test_an_output_of_that_name_gives_way_to_the_p_value(data):
    model = PCARaNN(**SMALL).fit(data[0], {"novelty": data[1]})
    names = [one.name for one in graph_of(model).outputs]
    assert names == ["novelty.output", "novelty.output.std", "novelty"]


def test_the_level_is_that_of_predict_interval_unless_told(model):
    assert level_of(model) == signature(model.predict_interval).parameters["alpha"].default


def test_an_unfitted_model_and_one_of_another_kind_are_refused(model):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        graph_of(PCARaNN())

    class Other(PCARaNN):
        def asked(self):
            return SimpleNamespace(calibration=None, packing=None)

    other = Other()
    other.fitted_ = model.fitted_
    with pytest.raises(ValueError, match="A Other cannot be written as a graph"):
        graph_of(other)
