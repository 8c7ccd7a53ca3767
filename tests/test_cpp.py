"""The C++ example, where a compiler is there: its numbers are those of ONNX Runtime and of `predict`."""

import shutil
import subprocess

import numpy as np
import pytest

from house import ROOT
from pcarann import PCARaNN
from pcarann.export.graph import OPERATORS, Sheet
from pcarann.export.onnx_file import to_onnx

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
COMPILER = shutil.which("g++") or shutil.which("clang++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no compiler of C++ is there")
SOURCES = ROOT / "examples" / "cpp"


@pytest.fixture(scope="module")
def predict(tmp_path_factory):
    """The program: an ONNX file and samples to outputs by name."""
    program = tmp_path_factory.mktemp("cpp") / "predict"
    strict = ["-std=c++17", "-O0", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    subprocess.run([COMPILER, *strict, SOURCES / "predict.cpp", "-o", program], check=True)

    def run(path, *inputs):
        rows = np.concatenate([one.reshape(len(one), -1) for one in inputs], axis=1)
        text = "\n".join(" ".join(map(repr, row)) for row in rows.tolist())
        done = subprocess.run([program, path], input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(done.stderr)
        return _outputs(done.stdout.splitlines())

    return run


def _outputs(lines):
    found, at = {}, 0
    while at < len(lines):
        name, *shape = lines[at].split()
        shape = [int(n) for n in shape]
        rows = lines[at + 1 : at + 1 + shape[0]]
        found[name] = np.array([float(one) for row in rows for one in row.split()]).reshape(shape)
        at += 1 + shape[0]
    return found


def _written(graph, path):
    """A graph as an ONNX file."""
    make, double = onnx.helper, onnx.TensorProto.DOUBLE
    nodes = [make.make_node(node.operator, node.inputs, [node.output], **node.attributes) for node in graph.nodes]
    ports = [
        [make.make_tensor_value_info(port.name, double, ["samples", *port.shape]) for port in side]
        for side in (graph.inputs, graph.outputs)
    ]
    constants = [onnx.numpy_helper.from_array(values, name) for name, values in graph.constants.items()]
    model = make.make_model(
        make.make_graph(nodes, "test", *ports, constants), opset_imports=[make.make_opsetid("", 18)], ir_version=8
    )
    path.write_bytes(model.SerializeToString())
    return path


def _every_operator(sheet, x):
    """Each in the ways that it can be used: (samples, 2, 3) in, values and their shapes out."""
    a, b = np.arange(6.0).reshape(2, 3) - 2.5, np.linspace(-1, 1, 3)
    index = lambda *n: np.array(n, dtype=np.int64)  # noqa: E731
    yield from ((sheet(name, x), (2, 3)) for name in ("Abs", "Cos", "Exp", "Identity", "Neg", "Sin", "Tanh"))
    yield from ((sheet(name, sheet("Abs", x)), (2, 3)) for name in ("Log", "Sqrt"))
    yield from ((sheet(name, x, b), (2, 3)) for name in ("Add", "Sub", "Mul", "Div", "Max", "Min"))
    yield sheet("Max", x, a, np.array(0.25)), (2, 3)
    yield sheet("Pow", sheet("Abs", x), np.array(1.5)), (2, 3)
    for name in ("Greater", "Less"):
        chosen = sheet(name, x, sheet("Tanh", sheet("Mul", x, a)))
        yield sheet("Cast", chosen, to=11), (2, 3)
        yield sheet("Where", chosen, x, np.array(7.0)), (2, 3)
    for name in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"):
        yield sheet(name, x, index(1), keepdims=0), (3,)
        yield sheet(name, x, index(-1, 1), keepdims=1), (1, 1)
    yield x @ np.arange(12.0).reshape(3, 4), (2, 4)
    yield x @ b, (2,)
    yield np.arange(4.0).reshape(2, 2) @ x, (2, 3)
    yield sheet("Unsqueeze", x, index(1)) @ np.arange(24.0).reshape(2, 3, 4), (2, 2, 4)
    yield sheet("Concat", x, sheet("Neg", x), axis=-1), (2, 6)
    yield sheet("Gather", x, index(1, -1, 0, 1), axis=2), (2, 4)
    yield sheet("Gather", x, np.array([[0, 1], [1, 0]]), axis=1), (2, 2, 3)
    yield sheet.reshaped(x, (3, 2)), (3, 2)
    yield sheet("Reshape", x, index(0, -1)), (6,)
    yield sheet.transposed(x, (0, 2, 1)), (3, 2)
    yield sheet("Unsqueeze", x, index(1, -1)), (1, 2, 3, 1)
    yield sheet("Cast", sheet("Div", sheet("Cast", x * 9.0, to=7), index(2)), to=11), (2, 3)  # whole: 3 / 2 is 1


def test_every_operator_is_as_onnx_runtime_has_it(predict, tmp_path):
    sheet = Sheet()
    x = sheet.input("x", (2, 3))
    graph = sheet.graph({f"y{k}": pair for k, pair in enumerate(_every_operator(sheet, x))})
    assert {node.operator for node in graph.nodes} == OPERATORS
    path, X = _written(graph, tmp_path / "all.onnx"), np.random.default_rng(0).normal(size=(4, 2, 3))
    expected = onnxruntime.InferenceSession(path).run(None, {"x": X})
    found = predict(path, X)
    for port, one in zip(graph.outputs, expected, strict=True):
        assert found[port.name] == pytest.approx(one, rel=1e-14, abs=1e-15), port.name


def test_predictions_of_an_exported_model_are_those_of_predict(predict, tmp_path):
    rng = np.random.default_rng(1)
    X = {"k": rng.normal(size=(80, 2, 3)), "f": rng.normal(size=80)}
    y = {"u": np.tanh(X["k"] + X["f"][:, None, None]), "v": X["k"][:, 0] ** 2}
    fit, rest = ({name: part[rows] for name, part in X.items()} for rows in (slice(60), slice(60, None)))
    model = PCARaNN(n_components=4, widths=(12, 8), n_members=2, scales="energy")
    model.fit(fit, {name: part[:60] for name, part in y.items()})
    model.calibrate(rest, {name: part[60:] for name, part in y.items()})
    to_onnx(model, tmp_path / "model.onnx", alpha=0.2)
    found, band = predict(tmp_path / "model.onnx", rest["k"], rest["f"]), model.predict_interval(rest, 0.2)
    # Spread is a small difference of members, which rounding shows in.
    for kind, fields, tolerance in (("", band.mean, 1e-12), (".std", band.std, 1e-10), (".upper", band.upper, 1e-12)):
        for name in ("u", "v"):
            assert np.abs(found[name + kind] - fields[name]).max() <= tolerance * np.abs(fields[name]).max()


def test_what_is_wrong_is_said_in_one_sentence(predict, tmp_path):
    sheet = Sheet()
    x = sheet.input("x", (3,))
    path = _written(sheet.graph({"y": (sheet.tanh(x), (3,))}), tmp_path / "tanh.onnx")
    with pytest.raises(ValueError, match="a line ends before the last number of x"):
        predict(path, np.ones((1, 2)))
    with pytest.raises(ValueError, match="there is no file"):
        predict(tmp_path / "none.onnx", np.ones((1, 3)))
    short = tmp_path / "short.onnx"
    short.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ValueError, match="no ONNX file, or it ends too early"):
        predict(short, np.ones((1, 3)))
    unknown = tmp_path / "unknown.onnx"
    unknown.write_bytes(path.read_bytes().replace(b"Tanh", b"Sinh"))
    with pytest.raises(ValueError, match="the operator Sinh is not known"):
        predict(unknown, np.ones((1, 3)))
