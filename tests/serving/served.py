"""A small model in a file, and a client of an application that serves it."""

import contextlib
import threading
import time
from functools import cache
from urllib.request import urlopen

import numpy as np
import pytest
from starlette.testclient import TestClient

from conftest import smooth_pairs
from pcarann import Marching, PCARaNN
from pcarann.serving.app import application
from pcarann.serving.limits import Limits
from pcarann.serving.running import address, bound, configured

PAIRS = smooth_pairs(150, seed=2, points=12)


@cache
def fitted(seed=0):
    model = PCARaNN(n_components=4, widths=(12, 8), n_members=2, scales="energy", random_state=seed)
    return model.fit(*PAIRS[:80]).calibrate(*PAIRS[80:120])


@pytest.fixture(scope="module", name="model")
def model_fixture():
    return fitted()


@pytest.fixture(scope="module", name="X")
def X_fixture():
    return PAIRS.inputs[120:]


@pytest.fixture(scope="module", name="flow")
def flow_fixture():
    rng = np.random.default_rng(0)
    waves = np.cos(rng.uniform(0, 6, (30, 1, 1)) + 0.3 * np.arange(6)[:, None] + np.linspace(0, 6, 8))
    step = PCARaNN(n_components=2, widths=(6, 4), n_members=2, scales="energy")
    return Marching(step, step=1, choose=False).fit(waves[:, :2], waves[:, 2:], rng.normal(size=(30, 2))), waves


class Slow:
    """A model that predicts when it is let."""

    def __init__(self, model):
        self.model, self.free = model, threading.Event()

    def __getattr__(self, name):
        return getattr(self.model, name)

    def predict(self, X, **how):
        self.free.wait(10)
        return self.model.predict(X, **how)


@pytest.fixture(name="path")
def path_fixture(model, tmp_path):
    model.save(tmp_path / "waves.pcarann")
    return tmp_path / "waves.pcarann"


@pytest.fixture(name="client")
def client_fixture(path):
    with TestClient(application([path]), base_url="http://localhost") as found:
        yield found


def tensor(name, values, **more):
    values = np.asarray(values)
    return {"name": name, "shape": list(values.shape), "datatype": "FP64", "data": values.tolist(), **more}


def question(X, *outputs, **parameters):
    found = {"inputs": [tensor("inputs", X)], "parameters": parameters}
    return found | ({"outputs": [{"name": name} for name in outputs]} if outputs else {})


def arrays(answer):
    assert answer.status_code == 200, answer.text
    return {one["name"]: np.reshape(one["data"], one["shape"]).astype(float) for one in answer.json()["outputs"]}


@contextlib.contextmanager
def running(paths, limits=None, **options):
    """A real server in a thread; its address."""
    import uvicorn

    limits = limits or Limits()
    listener = bound("127.0.0.1", 0)
    server = uvicorn.Server(configured(application(paths, limits=limits, **options), limits))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        url = address(listener)
        while not server.started:
            time.sleep(0.01)
        assert urlopen(url + "/v2/health/live").status == 200
        yield url
    finally:
        server.should_exit = True
        thread.join()
