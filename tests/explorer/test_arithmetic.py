"""Three that evaluate graphs: onnxruntime, NumPy here, and the script of a page. They must agree on every operator."""

import numpy as np
import pytest

from browsers import node
from pcarann.explorer.arithmetic import evaluated
from pcarann.explorer.packed import packed
from pcarann.export.graph import OPERATORS, Graph, Sheet


def whole(*numbers):
    return np.asarray(numbers, dtype=np.int64)


def every_operator(rng):
    """A graph with an output for each operator, some more than once, on operands of random shapes, and its inputs."""
    m, k, n = (int(one) for one in rng.integers(1, 14, 3))
    samples = int(rng.integers(1, 4))
    sheet = Sheet()
    a, b = sheet.input("a", (m, k)), sheet.input("b", (k,))
    array = lambda *shape: rng.uniform(0.2, 2.0, shape)  # noqa: E731
    found = {}

    def write(operator, *operands, **attributes):
        name = f"{operator}{sum(one.startswith(operator) for one in found)}"
        found[name] = sheet(operator, *operands, **attributes), ()
        return found[name][0]

    for operator in ("Abs", "Cos", "Exp", "Log", "Neg", "Sin", "Sqrt", "Tanh", "Identity"):
        write(operator, a)
    for operator in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Greater", "Less"):
        write(operator, a, sheet("Unsqueeze", b, whole(1)))
        write(operator, a, array(m, 1))
        write(operator, array(2, 1, 1, k), a)
        write(operator, b, np.float64(0.7))
    write("Pow", a, np.float64(2.0))
    for operator in ("Max", "Min"):
        write(operator, a)
        write(operator, array(1), a, array(m, k))
    greater = write("Greater", a, array(k))
    write("Where", greater, a, array(m, 1))
    write("Where", rng.uniform(size=(m, 1)) < 0.5, np.float64(3.0), a)
    write("Cast", greater, to=11)
    write("Cast", sheet("Cast", a, to=7), to=11)
    write("Cast", a, to=9)
    write("Cast", sheet("Cast", a, to=1), to=11)
    write("Div", sheet("Cast", -100.0 * a, to=7), whole(7))
    write("Concat", a, sheet("Exp", a), axis=-1)
    write("Concat", a, a, sheet("Mul", a, a), axis=1)
    write("Transpose", a, perm=[2, 0, 1])
    write("Transpose", a)
    write("Transpose", sheet("Add", a, array(2, 1, m, k)), perm=[0, 3, 1, 2])
    write("Gather", a, rng.integers(-k, k, 5), axis=2)
    write("Gather", a, rng.integers(0, m, (2, 3)), axis=1)
    write("Gather", a, np.int64(0), axis=-1)
    for operator in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"):
        for axes in ((1,), (-1,), (0, 2), (1, 2)):
            write(operator, a, whole(*axes), keepdims=int(rng.integers(2)))
        write(operator, a)
    write("Reshape", a, whole(-1, m * k))
    write("Reshape", sheet("Reshape", a, whole(0, k, m)), whole(-1))
    write("Unsqueeze", a, whole(0, -1))
    write("MatMul", a, array(k, n))
    write("MatMul", array(n, m), a)
    write("MatMul", sheet("Unsqueeze", a, whole(1)), array(3, k, n))
    write("MatMul", a, array(k))
    write("MatMul", array(m), a)
    write("MatMul", b, array(k, 700))
    write("MatMul", a, sheet("Transpose", a, perm=[0, 2, 1]))
    return sheet.graph(found), {"a": array(samples, m, k), "b": array(samples, k)}


def by_onnxruntime(graph: Graph, inputs):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    make = onnx.helper
    nodes = [make.make_node(one.operator, list(one.inputs), [one.output], **one.attributes) for one in graph.nodes]
    ports = [make.make_tensor_value_info(one.name, 11, ["n", *one.shape]) for one in graph.inputs]
    ends = [make.make_empty_tensor_value_info(one.name) for one in graph.outputs]
    constants = [onnx.numpy_helper.from_array(values, name) for name, values in graph.constants.items()]
    model = make.make_model(
        make.make_graph(nodes, "all", ports, ends, constants), opset_imports=[make.make_opsetid("", 18)], ir_version=10
    )
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [one.name for one in graph.outputs]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def by_the_page(graphs, inputs):
    """Outputs of several graphs, one after another in one process; the second of two evaluations each."""
    code = """
        import { compile } from "./graph.js";
        import { unpacked } from "./unpacked.js";
        const found = given.map(([graph, inputs]) => {
          const evaluate = compile(graph, unpacked(graph.constants));
          evaluate(inputs);
          const outputs = evaluate(inputs);
          for (const one of Object.values(outputs)) one.data = [...one.data].map(String);
          return outputs;
        });
        console.log(JSON.stringify(found));
    """
    told = [
        {name: {"shape": one.shape, "data": one.ravel().tolist()} for name, one in given.items()} for given in inputs
    ]
    found = node(code, list(zip([packed(graph) for graph in graphs], told, strict=True)))
    return [
        {name: np.array([float(x) for x in one["data"]]).reshape(one["shape"]) for name, one in outputs.items()}
        for outputs in found
    ]


@pytest.fixture(scope="module")
def cases():
    return [every_operator(np.random.default_rng(seed)) for seed in range(12)]


def test_all_operators_are_tried(cases):
    assert {node.operator for node in cases[0][0].nodes} == OPERATORS


def test_numpy_agrees_with_onnxruntime_on_every_operator(cases):
    for graph, inputs in cases:
        assert_same(evaluated(graph, inputs), by_onnxruntime(graph, inputs))


def test_the_script_of_a_page_agrees_with_numpy_on_every_operator(cases):
    for (graph, inputs), found in zip(cases, by_the_page(*zip(*cases, strict=True)), strict=True):
        assert_same(found, evaluated(graph, inputs))


def assert_same(found, wanted):
    for name, values in wanted.items():
        assert found[name].shape == values.shape, name
        assert np.allclose(found[name], values, rtol=1e-12, atol=1e-12, equal_nan=True), name


def test_memory_is_used_again_and_never_while_it_is_needed():
    """Reshaped values share memory, and an output is needed to the end."""
    sheet = Sheet()
    x = sheet.input("x", (6,))
    first = sheet("Exp", x)
    shared = sheet.reshaped(first, (2, 3))
    later = x
    for _ in range(5):
        later = sheet.tanh(later)
    total = sheet("Add", sheet.reshaped(later, (2, 3)), shared)
    graph = sheet.graph({"first": (first, (6,)), "total": (total, (2, 3)), "same": (x, (6,)), "late": (later, (6,))})
    inputs = {"x": np.random.default_rng(0).normal(size=(4, 6))}
    (found,) = by_the_page([graph], [inputs])
    assert_same(found, evaluated(graph, inputs))
