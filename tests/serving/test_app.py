import time

import numpy as np
from served import X_fixture, arrays, fitted, model_fixture, path_fixture, question  # noqa: F401
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from threadpoolctl import ThreadpoolController

from pcarann.serving.app import Addition, application

INFER = "/v2/models/waves/infer"


def test_additions_ask_the_same_service(path, model, X):
    def routes(service):
        async def ask(request):
            answer = await service.ask(service.shelf.entry("waves"), {"inputs": X}, ["outputs"])
            return JSONResponse(answer.arrays["outputs"].tolist())

        return [Route("/ask", ask)]

    with TestClient(application([path], additions=[Addition(routes)]), base_url="http://localhost") as client:
        assert np.array_equal(client.get("/ask").json(), model.predict(X))
        assert client.get("/v2").status_code == 200


def test_linear_algebra_stays_on_one_thread_while_it_runs_and_no_longer(path):
    controller = ThreadpoolController().select(user_api="blas")
    before = [one["num_threads"] for one in controller.info()]
    with TestClient(application([path]), base_url="http://localhost"):
        assert {one["num_threads"] for one in controller.info()} == {1}
    assert [one["num_threads"] for one in controller.info()] == before


def test_a_model_is_read_again_while_the_application_runs(path, X):
    with TestClient(application([path], poll=0.02), base_url="http://localhost") as client:
        fitted(3).save(path)
        until = time.monotonic() + 10
        while client.post(INFER, json=question(X[:1])).json()["model_version"] == "1":
            assert time.monotonic() < until
            time.sleep(0.01)
        assert np.array_equal(arrays(client.post(INFER, json=question(X)))["outputs"], fitted(3).predict(X))
        path.write_bytes(b"broken")
        while "stale" not in (found := client.get("/v2/models/waves/ready").json()):
            assert time.monotonic() < until
            time.sleep(0.01)
        assert found["ready"]
        assert client.post(INFER, json=question(X[:1])).json()["model_version"] == "2"
        counted = client.get("/metrics").text
        assert 'pcarann_reloads_total{model="waves",result="failed"}' in counted
        assert 'pcarann_model_stale{model="waves"} 1' in counted
