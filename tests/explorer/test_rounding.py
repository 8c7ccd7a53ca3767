import numpy as np
import pytest

from pcarann.explorer.arithmetic import evaluated
from pcarann.explorer.rounding import TOLERANCE, deviation, rounded, stored_kinds
from pcarann.export.graph import Sheet


def graph_with(middle):
    rng = np.random.default_rng(0)
    sheet = Sheet()
    x = sheet.input("x", (40,))
    h = sheet.tanh(x @ rng.normal(size=(40, 50)) / 40.0)
    return sheet.graph({"u": (middle(h) @ rng.normal(size=(50, 60)), (60,))})


def cancelling(h):
    """Coefficients of ±10⁴ that are nearly each other's negative, as those of a kernel with a small ridge."""
    rows, others = np.random.default_rng(1).normal(size=(2, 50, 50))
    return h @ (1e4 * rows) - h @ (1e4 * rows + others)


@pytest.fixture
def inputs():
    return {"x": np.random.default_rng(2).normal(size=(5, 40))}


def kinds_by_shape(graph, inputs):
    return sorted((graph.constants[name].shape, kind) for name, kind in stored_kinds(graph, inputs, few=0).items())


def test_all_are_short_where_nothing_is_amplified(inputs):
    assert kinds_by_shape(graph_with(lambda h: h), inputs) == [((40, 50), "float32"), ((50, 60), "float32")]


def test_what_rounding_is_amplified_in_is_longer(inputs):
    graph = graph_with(cancelling)
    kinds = stored_kinds(graph, inputs, few=0)
    found = {(graph.constants[name].shape, kind) for name, kind in kinds.items()}
    assert found >= {((50, 60), "float32"), ((50, 50), "float48")}
    exact = evaluated(graph, inputs)
    short = {name: rounded(graph.constants[name], kind) for name, kind in kinds.items()}
    assert deviation(evaluated(graph, inputs, short), exact) < TOLERANCE
    shorter = {name: rounded(graph.constants[name], "float32") for name in kinds}
    assert deviation(evaluated(graph, inputs, shorter), exact) > TOLERANCE


def test_nothing_is_rounded_where_all_is_small(inputs):
    graph = graph_with(lambda h: h)
    size = sum(one.size for one in graph.constants.values())
    assert not stored_kinds(graph, inputs, few=size)
    assert not stored_kinds(graph, inputs)
    assert stored_kinds(graph, inputs, few=size - 1)


def test_names_that_are_not_in_question_are_left_out(inputs):
    graph = graph_with(lambda h: h)
    first, *_ = stored_kinds(graph, inputs, few=0)
    assert first not in stored_kinds(graph, inputs, without=[first], few=0)


def test_deviations_are_beside_the_greatest_value_of_a_sample():
    wanted = {"u": np.array([[1.0, 100.0], [1.0, 2.0]])}
    assert deviation({"u": np.array([[1.0, 101.0], [1.1, 2.0]])}, wanted) == pytest.approx(0.05)


def test_holes_are_no_difference_and_what_becomes_infinite_is():
    wanted = {"u": np.array([[np.nan, 1.0]])}
    assert deviation({"u": np.array([[np.nan, 1.0]])}, wanted) == 0.0
    assert deviation({"u": np.array([[1.0, 1.0]])}, wanted) == np.inf
    assert deviation({"u": np.array([[np.nan, np.inf]])}, wanted) == np.inf
