from pathlib import Path

import numpy as np
import pytest

from pcarann.export import graph
from pcarann.export.graph import Sheet


def test_what_no_output_needs_is_left_out_and_constants_are_written_once():
    sheet = Sheet()
    x = sheet.input("inputs", (3,))
    matrix = np.arange(300.0).reshape(3, 100)
    y = sheet.tanh(x @ matrix) + 2
    sheet.sqrt(x @ np.ones((3, 3)))
    graph = sheet.graph({"a": (y, (100,)), "b": (x @ matrix, (100,))})
    assert [node.operator for node in graph.nodes] == ["MatMul", "Tanh", "Add", "MatMul", "Identity", "Identity"]
    assert sorted(one.shape for one in graph.constants.values()) == [(), (3, 100)]
    assert {one.dtype for one in graph.constants.values()} == {np.dtype(np.float64)}


def test_operators_that_are_not_known_are_refused():
    with pytest.raises(ValueError, match="Einsum is no operator"):
        Sheet()("Einsum")


def test_every_operator_is_written_by_some_graph():
    sources = [path for path in Path(graph.__file__).parent.glob("*.py") if path.stem != "precision"]
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    assert not [name for name in graph.OPERATORS if text.count(f'"{name}"') < 2]  # once in the list of them


def test_names_of_inputs_and_outputs_are_free():
    sheet = Sheet()
    c0, v0 = sheet.input("c0", (2,)), sheet.input("v0", (2,))
    graph = sheet.graph({"_v1": (c0 * 2.0 + v0, (2,)), "i0": (v0, (2,))})
    names = [node.output for node in graph.nodes] + [*graph.constants] + [port.name for port in graph.inputs]
    assert len(set(names)) == len(names)
    assert graph.nodes[0].inputs[0] == "c0"
    assert [port.name for port in graph.outputs] == [node.output for node in graph.nodes if node.operator == "Identity"]
