"""The file itself: what it says, how many samples it takes, how it is written."""

import json
import os
from copy import copy

import numpy as np
import onnx
import pytest
from runtime import SMALL, assert_same, by_file, by_model, calibrated, evaluated, pairs, rounded

from meshes import triangles
from pcarann import Fields, PCARaNN, __version__
from pcarann.export import onnx_file, to_onnx
from pcarann.export.signature import Signature


@pytest.fixture(scope="module")
def data():
    return pairs()


@pytest.fixture(scope="module")
def model(data):
    return calibrated({}, *data)


@pytest.mark.parametrize("single", [False, True])
def test_the_checker_finds_a_sound_file_of_the_stated_opset(model, tmp_path, single):
    to_onnx(model, tmp_path / "model.onnx", single=single)
    found = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(found, full_check=True)
    assert [(one.domain, one.version) for one in found.opset_import] == [("", onnx_file.OPSET)]
    kinds = {one.type.tensor_type.elem_type for one in (*found.graph.input, *found.graph.output)}
    assert kinds == {onnx.TensorProto.FLOAT if single else onnx.TensorProto.DOUBLE}
    assert {one.type.tensor_type.shape.dim[0].dim_param for one in found.graph.output} == {"samples"}
    assert "inputs inputs, outputs outputs, outputs.std" in found.doc_string


@pytest.mark.parametrize("count", [1, 7, 80])
def test_any_number_of_samples_goes_in(model, data, count):
    found = by_file(model, data[0][:count])
    assert found["outputs"].shape == (count, 18)
    assert found["novelty"].shape == (count,)
    assert_same(found, by_model(model, data[0][:count]), 1e-12)


def about(file):
    return {one.key.removeprefix("pcarann."): json.loads(one.value) for one in onnx.load(file).metadata_props}


def test_metadata_tell_what_the_tensors_are(data, tmp_path):
    xarray = pytest.importorskip("xarray")
    X, y = data
    x = np.linspace(0, 2, 18)
    labelled = xarray.DataArray(y, dims=("sample", "x"), coords={"x": x}, attrs={"units": "K"})
    model = PCARaNN(**SMALL).fit({"k": X, "speed": X[:, 0]}, xarray.Dataset({"T": labelled}))
    to_onnx(model, tmp_path / "model.onnx")
    found = about(tmp_path / "model.onnx")
    assert (found["kind"], found["version"], found["precision"]) == ("PCARaNN", __version__, "float64")
    assert found["inputs"] == [{"name": "k", "shape": [24]}, {"name": "speed", "shape": []}]
    (output,) = found["outputs"]
    assert (output["dims"], output["attrs"]) == (["x"], {"units": "K"})
    assert output["coords"]["x"] == x.tolist()
    assert (found["level"], found["method"]) == (None, None)


def test_metadata_tell_level_method_and_columns(data, tmp_path):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(data[0][:, :3], columns=["a", "b", "c"])
    model = PCARaNN(**SMALL).fit(X[30:], data[1][30:]).calibrate(X[:30], data[1][:30])
    to_onnx(model, tmp_path / "model.onnx", alpha=0.2, method="pooled")
    found = about(tmp_path / "model.onnx")
    assert (found["level"], found["method"]) == (0.8, "pooled")
    assert found["inputs"][0]["columns"] == ["a", "b", "c"]


def test_metadata_hold_the_mesh(tmp_path):
    mesh = triangles(4)
    X, y = pairs(inputs=(3,), outputs=(mesh.nodes,))
    to_onnx(PCARaNN(**SMALL, fields=Fields(mesh=mesh)).fit(X, y), tmp_path / "model.onnx")
    found = about(tmp_path / "model.onnx")["mesh"]
    assert np.array_equal(found["points"], mesh.points)
    assert [np.shape(one) for one in found["cells"].values()] == [(len(mesh.cells["triangle"]), 3)]


def test_a_file_that_would_be_too_large_is_refused_and_the_old_one_stays(model, tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    monkeypatch.setattr(onnx_file, "_MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="an ONNX file holds 2 GB at most"):
        to_onnx(model, path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.onnx"]


def test_numbers_that_single_precision_cannot_hold_are_refused(data):
    X, y = data
    for size in (1e200, 1e50, 1e-60):
        model = PCARaNN(**SMALL).fit(X, y * size)
        with pytest.raises(ValueError, match="not fit into single precision"):
            onnx_file.onnx_bytes(model, single=True)


@pytest.mark.parametrize("single", [False, True])
def test_a_file_of_names_that_others_could_have_is_sound_and_tells_them_apart(data, single):
    X, y = data
    given = {"p": X, "p.double": X[:, :2], "novelty": X[:, 2:5], "u.std": X[:, 5:9], "u": X[:, 9:12]}
    model = PCARaNN(**SMALL).fit(given, {"u": y, "u.std": y[:, :3], "v0": y[:, 3:]})
    file = onnx_file.onnx_bytes(model, single=single)
    onnx.checker.check_model(onnx.load_from_string(file), full_check=True)
    asked = rounded({name: one[:3] for name, one in given.items()})
    wanted, signature = model.predict(asked), Signature.of(model)
    kind = np.float32 if single else np.float64
    found = evaluated(file, {one.name: asked[one.part].astype(kind) for one in signature.inputs})
    for one in signature.outputs:
        assert found[one.name] == pytest.approx(wanted[one.part], abs=1e-5)


def test_a_missing_package_is_said_in_one_sentence(model, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'pcarann\[onnx\]'"):
        onnx_file.onnx_bytes(copy(model))
