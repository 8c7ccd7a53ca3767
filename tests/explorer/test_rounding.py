import numpy as np
import pytest

from pcarann.explorer.arithmetic import evaluated
from pcarann.explorer.rounding import TOLERANCE, deviation, single_enough
from pcarann.export.graph import Sheet


def graph_with(middle):
    rng = np.random.default_rng(0)
    sheet = Sheet()
    x = sheet.input("x", (40,))
    h = sheet.tanh(x @ rng.normal(size=(40, 50)) / 40.0)
    return sheet.graph({"u": (middle(h) @ rng.normal(size=(50, 60)), (60,))})


def cancelling(h):
    """Coefficients of ±10⁴ that are almost each other's negative, as those of a kernel with a small ridge."""
    rows = 1e4 * np.random.default_rng(1).normal(size=(50, 50))
    return h @ rows - h @ (rows + 1e-3)


@pytest.fixture
def inputs():
    return {"x": np.random.default_rng(2).normal(size=(5, 40))}


def test_all_are_rounded_where_nothing_is_amplified(inputs):
    graph = graph_with(lambda h: h)
    chosen = single_enough(graph, inputs)
    assert sorted(graph.constants[name].shape for name in chosen) == [(40, 50), (50, 60)]


def test_what_rounding_is_amplified_in_stays_double(inputs):
    graph = graph_with(cancelling)
    chosen = single_enough(graph, inputs)
    assert sorted(graph.constants[name].shape for name in chosen) == [(40, 50), (50, 60)]
    rounded = {name: graph.constants[name].astype(np.float32).astype(float) for name in chosen}
    assert deviation(evaluated(graph, inputs, rounded), evaluated(graph, inputs)) < TOLERANCE
    every = {name: one.astype(np.float32).astype(float) for name, one in graph.constants.items() if one.size > 1}
    assert deviation(evaluated(graph, inputs, every), evaluated(graph, inputs)) > TOLERANCE


def test_names_that_are_not_in_question_are_left_out(inputs):
    graph = graph_with(lambda h: h)
    (first, *_) = single_enough(graph, inputs)
    assert first not in single_enough(graph, inputs, without=[first])


def test_deviations_are_beside_the_greatest_value_of_a_sample():
    wanted = {"u": np.array([[1.0, 100.0], [1.0, 2.0]])}
    assert deviation({"u": np.array([[1.0, 101.0], [1.1, 2.0]])}, wanted) == pytest.approx(0.05)


def test_holes_are_no_difference_and_what_becomes_infinite_is():
    wanted = {"u": np.array([[np.nan, 1.0]])}
    assert deviation({"u": np.array([[np.nan, 1.0]])}, wanted) == 0.0
    assert deviation({"u": np.array([[1.0, 1.0]])}, wanted) == np.inf
    assert deviation({"u": np.array([[np.nan, np.inf]])}, wanted) == np.inf
