import threading

import pytest
from served import X_fixture, arrays, model_fixture, path_fixture, question  # noqa: F401
from starlette.testclient import TestClient

from pcarann import load
from pcarann.serving.app import application
from pcarann.serving.limits import Limits

INFER = "/v2/models/waves/infer"


class Slow:
    """A model that predicts when it is let."""

    def __init__(self, model):
        self.model, self.free = model, threading.Event()

    def __getattr__(self, name):
        return getattr(self.model, name)

    def predict(self, X, **how):
        self.free.wait(10)
        return self.model.predict(X, **how)


def test_an_answer_that_takes_too_long_is_given_up(path, X):
    slow = Slow(load(path))
    with TestClient(application([path], open_model=lambda _: slow), base_url="http://localhost") as client:
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


@pytest.mark.parametrize("gauge", ["waiting 0", "requests_in_flight 0", 'model_version{model="waves"} 1'])
def test_gauges_are_those_of_now(path, gauge):
    with TestClient(application([path]), base_url="http://localhost") as client:
        assert f"pcarann_{gauge}\n" in client.get("/metrics").text
