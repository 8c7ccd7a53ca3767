import asyncio
import json
import threading
import time

import numpy as np
import pytest
from served import Slow, X_fixture, arrays, flow_fixture, model_fixture, path_fixture, question, tensor  # noqa: F401
from starlette.testclient import TestClient

from pcarann import load
from pcarann.serving.app import application
from pcarann.serving.limits import Limits, Refused

INFER = "/v2/models/waves/infer"


def test_an_answer_that_takes_too_long_is_given_up(path, X):
    slow = Slow(load(path))
    with TestClient(application([path], open_model=lambda _: slow), base_url="http://localhost") as client:
        slow.free.set()
        assert client.post(INFER, json=question(X[:1], timeout=10**400)).status_code == 200
        slow.free.clear()
        found = client.post(INFER, json=question(X[:1], timeout=20_000))
        assert (found.status_code, found.json()["error"][:37]) == (504, "There was no answer within 0.02 s: as")
        slow.free.set()
        assert arrays(client.post(INFER, json=question(X[:1])))["outputs"].shape == (1, 2, 12)
        assert 'pcarann_errors_total{kind="late"} 1' in client.get("/metrics").text


def test_an_answer_that_is_too_large_is_not_made(path, X):
    with TestClient(application([path], limits=Limits(answer=1000)), base_url="http://localhost") as client:
        assert client.post(INFER, json=question(X[:5])).status_code == 200
        found = client.post(INFER, json=question(X[:6]))
        assert (found.status_code, "1152 bytes, more than 1000" in found.json()["error"]) == (413, True)


def test_bodies_and_answers_wait_for_memory(path, X):
    with TestClient(application([path], limits=Limits(memory=6000)), base_url="http://localhost") as client:
        assert client.post(INFER, json=question(X[:1])).status_code == 200
        assert client.post(INFER, json=question(X[:10])).status_code == 503
        assert client.post(INFER, json=question(X[:1])).status_code == 200


def test_what_the_model_fails_at_is_no_fault_of_the_caller(path, X, caplog):
    class Broken(Slow):
        def predict(self, X, **how):
            raise ValueError("secret inside")

    broken = Broken(load(path))
    with TestClient(application([path], open_model=lambda _: broken), base_url="http://localhost") as client:
        found = client.post(INFER, json=question(X[:1]))
        assert (found.status_code, "secret" in found.text, "secret inside" in caplog.text) == (500, False, True)
        found = client.post(INFER, json=question(X[:2]) | {"inputs": [tensor("inputs", X[:2, :3])]})
        assert found.json() == {"error": "inputs has shape (2, 3), expected (samples, 12)."}


def test_json_is_sent_up_to_a_size_and_more_as_bytes(path, X):
    with TestClient(application([path], limits=Limits(text=26 * 48)), base_url="http://localhost") as client:
        assert client.post(INFER, json=question(X[:2])).status_code == 200
        found = client.post(INFER, json=question(X[:3]))
        assert (found.status_code, "72 numbers, more than the 48" in found.json()["error"]) == (413, True)
        assert client.post(INFER, json=question(X[:3], binary_data_output=True)).status_code == 200


def test_tensors_are_admitted_at_the_size_that_they_will_have(path):
    about = {"name": "inputs", "shape": [100, 12], "datatype": "INT8", "parameters": {"binary_data_size": 1200}}
    text = json.dumps({"inputs": [about], "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    held = 9 * len(text) + 1200 + 8 * 100 * (12 + 24)
    for memory, status in ((held - 1, 503), (held, 200)):
        with TestClient(application([path], limits=Limits(memory=memory)), base_url="http://localhost") as client:
            assert client.post(INFER, content=text + bytes(1200), headers=headers).status_code == status
    found = json.dumps({"inputs": [about | {"shape": [1200, 1]}]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(found))}
    with TestClient(
        application([path], limits=Limits(memory=9 * len(found) + 1200)), base_url="http://localhost"
    ) as one:
        assert one.post(INFER, content=found + bytes(1200), headers=headers).status_code == 400


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_steps_are_bounded_and_so_is_what_they_make(flow, tmp_path):
    model, waves = flow
    model.save(tmp_path / "flow")
    url = "/v2/models/flow/infer"

    def asked(client, steps, *names):
        sent = [tensor("inputs", waves[:1, :1]), tensor("controls", np.zeros((1, min(steps, 500), 2)))]
        outputs = [{"name": name} for name in names]
        found = client.post(url, json={"inputs": sent, "outputs": outputs, "parameters": {"steps": steps}})
        return found.status_code, found.json().get("error", "")

    with TestClient(application([tmp_path / "flow"]), base_url="http://localhost") as client:
        assert asked(client, 400)[0] == 200
        for steps in (401, 10**30, 10**400):
            assert asked(client, steps) == (400, "steps must be a whole number from 1 to 400.")
    limits = Limits(steps=7, answer=8 * 8 * 5)
    with TestClient(application([tmp_path / "flow"], limits=limits), base_url="http://localhost") as client:
        assert asked(client, 8)[1] == "steps must be a whole number from 1 to 7."
        assert asked(client, 5, "novelty")[0] == 200
        assert asked(client, 6, "novelty")[0] == 413


def test_a_server_whose_workers_are_all_stuck_is_not_ready(path, X):
    slow = Slow(load(path))
    limits = Limits(seconds=0.05)
    app = application([path], limits=limits, open_model=lambda _: slow)
    with TestClient(app, base_url="http://localhost") as client:
        for _ in range(app.service.workers):
            assert client.post(INFER, json=question(X[:1])).status_code == 504
        time.sleep(0.06)
        found = client.get("/v2/health/ready")
        assert (found.status_code, "No worker has been free" in found.json()["error"]) == (503, True)
        assert client.get("/v2/health/live").status_code == 200
        slow.free.set()
        until = time.monotonic() + 5
        while client.get("/v2/health/ready").status_code != 200:
            assert time.monotonic() < until


def test_what_is_done_apart_has_a_time_limit(path):
    app, free = application([path], limits=Limits(seconds=0.05)), threading.Event()
    with pytest.raises(Refused, match=r"no answer within 0\.05 s") as found:
        asyncio.run(app.service.apart(lambda: free.wait(5)))
    free.set()
    assert found.value.status == 504


@pytest.mark.parametrize("gauge", ["waiting 0", "requests_in_flight 0", 'model_version{model="waves"} 1'])
def test_gauges_are_those_of_now(path, gauge):
    with TestClient(application([path]), base_url="http://localhost") as client:
        assert f"pcarann_{gauge}\n" in client.get("/metrics").text
