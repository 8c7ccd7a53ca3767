"""`pcarann export`: an ONNX file from a model file, never over data."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from pcarann import Marching, PCARaNN
from pcarann.cli import main

onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(60, 4))
    found = PCARaNN(n_components=4, widths=(12, 6), n_members=2, scales="energy").fit(X[:40], np.tanh(X[:40]))
    found.calibrate(X[40:], np.tanh(X[40:])).save("model")
    return found, X


def run(*arguments, code=0):
    result = CliRunner().invoke(main, ["export", *arguments])
    assert result.exit_code == code, result.output
    return result


def test_a_model_file_becomes_an_onnx_file_that_is_written_again(model):
    said = json.loads(run("model", "-o", "model.onnx", "--alpha", "0.2", "--json").stdout)
    assert said["inputs"] == ["inputs (samples, 4)"]
    assert said["outputs"][-2:] == ["outputs.upper (samples, 4)", "novelty (samples)"]
    session = onnxruntime.InferenceSession("model.onnx")
    (lower,) = session.run(["outputs.lower"], {"inputs": model[1][:5]})
    assert np.allclose(lower, model[0].predict_interval(model[1][:5], 0.2).lower, rtol=1e-9, atol=1e-9)
    assert "float32" not in session.get_modelmeta().custom_metadata_map["pcarann.precision"]
    run("model", "-o", "model.onnx", "--single", "--method", "pooled")
    found = onnxruntime.InferenceSession("model.onnx").get_modelmeta().custom_metadata_map
    assert (found["pcarann.precision"], found["pcarann.method"]) == ('"float32"', '"pooled"')
    said = json.loads(run("model", "-o", "model.onnx", "--mean-only", "--json").stdout)
    assert said["outputs"] == ["outputs (samples, 4)"]


def test_what_cannot_be_written_is_refused_and_stays_as_it_is(model, tmp_path):
    assert "must end in .onnx" in run("model", "-o", "model.txt", code=2).output
    (tmp_path / "data.onnx").write_bytes(b"measured")
    assert "not evidently an ONNX file that export wrote" in run("model", "-o", "data.onnx", code=1).output
    assert (tmp_path / "data.onnx").read_bytes() == b"measured"
    (tmp_path / "link.onnx").symlink_to("model")
    assert "is being read" in run("model", "-o", "link.onnx", "--force", code=1).output
    assert "alpha must be a number" in run("model", "-o", "new.onnx", "--alpha", "1.5", code=1).output
    assert not (tmp_path / "new.onnx").exists()
    run("model", "-o", "data.onnx", "--force")


@pytest.mark.filterwarnings("ignore:the roll-outs")
def test_a_flow_is_written_over_as_many_steps_as_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    waves = np.cos(np.arange(20.0)[:, None, None] + 0.3 * np.arange(5)[:, None] + np.linspace(0, 6, 9))
    step = PCARaNN(n_components=2, widths=(8, 6), n_members=2, scales="energy")
    Marching(step, choose=False).fit(waves[:, :1], waves[:, 1:]).save("flow")
    said = json.loads(run("flow", "-o", "flow.onnx", "--steps", "2", "--json").stdout)
    assert (said["inputs"], said["outputs"][0]) == (["inputs (samples, 1, 9)"], "outputs (samples, 2, 9)")
