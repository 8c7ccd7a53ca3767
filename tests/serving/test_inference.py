import json

import numpy as np
import pytest
from served import X_fixture, arrays, client_fixture, flow_fixture, model_fixture, path_fixture, question, tensor  # noqa: F401
from starlette.testclient import TestClient

from conftest import smooth_pairs
from pcarann import PCARaNN
from pcarann.serving.app import application

INFER = "/v2/models/waves/infer"


def test_the_server_and_its_health(client):
    assert client.get("/v2").json()["extensions"] == ["binary_tensor_data"]
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/v2/models").json() == {"models": ["waves"]}
    assert client.get("/v2/models/waves/versions/1/ready").json() == {"name": "waves", "ready": True}
    assert client.post("/v2/repository/index").json()[0]["name"] == "waves"


def test_metadata_list_the_tensors_of_a_model(client):
    found = client.get("/v2/models/waves").json()
    assert found["inputs"] == [{"name": "inputs", "datatype": "FP64", "shape": [-1, 12]}]
    assert found["outputs"][0] == {"name": "outputs", "datatype": "FP64", "shape": [-1, 2, 12]}
    by_name = {one["name"]: one for one in found["outputs"]}
    assert by_name["outputs.jvp"]["parameters"] == {"on_request": True, "made_of": ["inputs.tangent"]}
    assert by_name["novelty"]["shape"] == [-1]
    about = found["parameters"]
    assert about.pop("mark")
    assert about == {"kind": "PCARaNN", "calibrated": True, "level": 0.95, "calibration_samples": 40}


def test_metadata_tell_labels_and_columns(tmp_path):
    xarray, pandas = pytest.importorskip("xarray"), pytest.importorskip("pandas")
    pairs = smooth_pairs(20, points=5)
    x = {"x": np.linspace(0, 1, 5)}
    y = xarray.DataArray(pairs.inputs, dims=("sample", "x"), coords=x, attrs={"units": "K"})
    table = pandas.DataFrame(pairs.inputs[:, :2], columns=["speed", "angle"])
    PCARaNN(n_components=2, widths=(6, 4), n_members=2, scales="energy").fit({"p": table}, y).save(tmp_path / "m")
    with TestClient(application([tmp_path / "m"]), base_url="http://localhost") as client:
        found = client.get("/v2/models/m").json()
        sent = {"inputs": [tensor("p", pairs.inputs[:1, :2])]}
        assert arrays(client.post("/v2/models/m/infer", json=sent))["outputs"].shape == (1, 5)
    assert found["inputs"][0]["parameters"]["columns"] == ["speed", "angle"]
    about = found["outputs"][0]["parameters"]
    assert (about["dims"], about["attrs"], about["coords"]["x"]) == (["x"], {"units": "K"}, x["x"].tolist())


def test_json_in_and_out_is_the_prediction(client, model, X):
    found = client.post(INFER, json=question(X, "outputs", "outputs.upper", alpha=0.2) | {"id": "mine"})
    band = model.predict_interval(X, 0.2)
    assert np.array_equal(arrays(found)["outputs"], band.mean)
    assert np.array_equal(arrays(found)["outputs.upper"], band.upper)
    about = found.json()
    assert (about["id"], about["model_name"], about["model_version"]) == ("mine", "waves", "1")


@pytest.mark.parametrize("datatype", ["FP64", "FP32"])
def test_bytes_in_and_out_are_the_prediction(client, model, X, datatype):
    values = X.astype(np.float32 if datatype == "FP32" else np.float64)
    about = {"name": "inputs", "shape": list(X.shape), "datatype": datatype}
    about["parameters"] = {"binary_data_size": values.nbytes}
    parameters = {"binary_data_output": True, "datatype": datatype}
    text = json.dumps({"inputs": [about], "parameters": parameters}).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    found = client.post(INFER, content=text + values.tobytes(), headers=headers)
    length = int(found.headers["inference-header-content-length"])
    (one,) = json.loads(found.content[:length])["outputs"]
    assert (one["datatype"], one["parameters"]["binary_data_size"]) == (datatype, len(found.content) - length)
    back = np.frombuffer(found.content[length:], values.dtype).reshape(one["shape"])
    assert np.array_equal(back, model.predict(values.astype(float)).astype(values.dtype))


def test_a_warning_of_the_model_comes_with_the_answer_and_is_counted(client, X):
    assert "parameters" not in client.post(INFER, json=question(X[:1])).json()
    found = client.post(INFER, json=question(9 * X[:2])).json()
    assert "2 of 2 inputs lie outside the training data" in found["parameters"]["warning"]
    counted = client.get("/metrics").text
    for line in (
        'inputs_total{model="waves"} 3',
        'inputs_outside_total{model="waves"} 2',
        'alarms_total{model="waves"} 1',
    ):
        assert f"pcarann_{line}\n" in counted


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_flow_is_asked_for_steps(flow, tmp_path):
    model, waves = flow
    model.save(tmp_path / "flow")
    with TestClient(application([tmp_path / "flow"]), base_url="http://localhost") as client:
        controls = np.zeros((2, 7, 2))
        sent = {"inputs": [tensor("inputs", waves[:2, :1]), tensor("controls", controls)], "parameters": {"steps": 7}}
        found = arrays(client.post("/v2/models/flow/infer", json=sent))["outputs"]
        assert np.array_equal(found, model.predict(waves[:2, :1], steps=7, controls=controls))
        for steps in (0, "7", True):
            sent["parameters"] = {"steps": steps}
            assert "steps" in client.post("/v2/models/flow/infer", json=sent).json()["error"]


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"alhpa": 0.1}, "no parameter alhpa"),
        ({"priority": 1}, "no parameter priority"),
        ({"datatype": "FP16"}, "must be FP64 or FP32"),
        ({"binary_data_output": 1}, "true or false"),
        ({"steps": 3}, "steps are those of a flow"),
        ({"timeout": "now"}, "timeout must be"),
    ],
)
def test_parameters_that_would_do_nothing_are_refused(client, X, parameters, why):
    found = client.post(INFER, json=question(X[:1], **parameters))
    assert (found.status_code, why in found.json()["error"]) == (400, True)


def test_a_length_that_is_no_number_is_refused(client):
    found = client.post(INFER, content=b"{}", headers={"Inference-Header-Content-Length": "-1"})
    assert found.json() == {"error": "Inference-Header-Content-Length must be a whole number."}


def test_values_that_are_none_are_refused_by_the_model(client, X):
    sent = question(X[:1])
    sent["inputs"][0]["data"][0][0] = None
    found = client.post(INFER, json=sent)
    assert (found.status_code, "finite" in found.json()["error"] or "NaN" in found.json()["error"]) == (400, True)
