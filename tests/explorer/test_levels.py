import numpy as np

from pcarann.explorer.arithmetic import evaluated
from pcarann.explorer.levels import joined
from pcarann.export.graph import Sheet

MATRIX = np.random.default_rng(0).normal(size=(4, 100))


def band(factor):
    """A mean that does not depend on the factor, and a half-width that does."""
    sheet = Sheet()
    x = sheet.input("the input", (4,))
    mean = sheet.tanh(x @ MATRIX.copy())
    return sheet.graph({"u": (mean, (100,)), "u.upper": (mean + factor * sheet.sqrt(mean * mean), (100,))})


def test_what_graphs_share_is_there_once_and_outputs_are_those_of_each():
    graphs = {"a": band(1.5), "b": band(2.5), "c": band(1.5)}
    whole, names = joined(graphs)
    assert [one.size for one in whole.constants.values()].count(400) == 1
    assert [node.operator for node in whole.nodes].count("Tanh") == 1
    assert names["a"] == names["c"]
    assert names["a"]["u"] == names["b"]["u"]
    assert names["a"]["u.upper"] != names["b"]["u.upper"]
    X = np.random.default_rng(1).normal(size=(3, 4))
    found = evaluated(whole, {"i0": X})
    for key, graph in graphs.items():
        for name, values in evaluated(graph, {"the input": X}).items():
            assert np.array_equal(found[names[key][name]], values)


def test_attributes_and_order_of_operands_tell_nodes_apart():
    sheet = Sheet()
    x = sheet.input("x", (2, 2))
    one, other = sheet.transposed(x, (0, 2, 1)), sheet.transposed(x, (1, 0, 2))
    graph = sheet.graph({"a": (one - x, (2, 2)), "b": (x - one, (2, 2)), "c": (other, (2, 2))})
    whole, names = joined({"": graph})
    assert len(set(names[""].values())) == 3
    X = np.arange(8.0).reshape(2, 2, 2)
    for name, values in evaluated(graph, {"x": X}).items():
        assert np.array_equal(evaluated(whole, {"i0": X})[names[""][name]], values)
