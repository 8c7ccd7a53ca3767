import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import pytest
from served import X_fixture, arrays, fitted, model_fixture, path_fixture, question, running  # noqa: F401

from pcarann.serving.running import address, bound

INFER = "/v2/models/waves/infer"


@pytest.fixture
def served(path):
    """The command itself; its process and address."""
    command = [sys.executable, "-c", "from pcarann.cli import main; main()", "serve", str(path), "--port", "0"]
    environment = os.environ | {"PCARANN_TOKEN": "secret"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        line = process.stdout.readline()
        yield process, re.search(r"http://127\.0\.0\.1:\d+", line).group()
    finally:
        process.kill()
        process.communicate()


def test_the_command_answers_triton_and_ends_after_what_it_was_asked(served, model, X):
    triton = pytest.importorskip("tritonclient.http")
    process, url = served
    headers = {"Authorization": "Bearer secret"}
    with triton.InferenceServerClient(url.removeprefix("http://")) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("waves", headers=headers)
        assert client.get_model_metadata("waves", headers=headers)["outputs"][0]["shape"] == [-1, 2, 12]
        for binary in (True, False):
            sent = triton.InferInput("inputs", X.shape, "FP64")
            sent.set_data_from_numpy(X, binary_data=binary)
            outputs = [triton.InferRequestedOutput("outputs", binary_data=binary)]
            outputs.append(triton.InferRequestedOutput("outputs.std", binary_data=not binary))
            found = client.infer("waves", [sent], outputs=outputs, headers=dict(headers), request_id="7")
            assert np.array_equal(found.as_numpy("outputs"), model.predict(X))
            assert np.array_equal(found.as_numpy("outputs.std"), model.predict(X, return_std=True)[1])
            assert found.get_response()["id"] == "7"
        assert np.array_equal(
            client.infer("waves", [sent], headers=dict(headers)).as_numpy("outputs"), model.predict(X)
        )
        with pytest.raises(Exception, match="bearer token"):
            client.infer("waves", [sent])

    body = json.dumps(question(np.tile(X, (300, 1)))).encode()  # takes long enough to be in flight
    answers = []

    def ask():
        answers.append(httpx.post(url + INFER, content=body, headers=headers, timeout=30).status_code)

    thread = threading.Thread(target=ask)
    thread.start()
    until = time.monotonic() + 20
    with httpx.Client(base_url=url, headers=headers) as client:
        while "pcarann_requests_in_flight 1\n" not in client.get("/metrics").text:
            assert time.monotonic() < until
    process.send_signal(signal.SIGTERM)
    thread.join()
    assert (answers, process.wait(10)) == ([200], 0)


STUCK = """
import sys, threading
from pathlib import Path
from pcarann import load
from pcarann.serving.app import application
from pcarann.serving.limits import Limits
from pcarann.serving.running import address, bound, run

class Stuck:
    def __init__(self, path):
        self.model = load(path)
    def __getattr__(self, name):
        return getattr(self.model, name)
    def predict(self, X, **how):
        threading.Event().wait()

listener, limits = bound("127.0.0.1", 0), Limits(seconds=0.5)
app = application([Path(sys.argv[1])], limits=limits, open_model=Stuck)
run(app, listener, limits, lambda: print(address(listener), flush=True))
"""


def test_a_thread_that_never_ends_does_not_keep_the_process(path, X):
    with subprocess.Popen([sys.executable, "-c", STUCK, str(path)], stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip()
            assert httpx.post(url + INFER, json=question(X[:1]), timeout=20).status_code == 504
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        finally:
            process.kill()


def test_a_model_replaced_under_load_fails_no_request_and_mixes_no_answer(path, X):
    wanted = {name: fitted(seed).predict(X[:3]) for name, seed in (("old", 0), ("new", 3))}
    stop, faults, seen = threading.Event(), [], set()

    def ask(url):
        with httpx.Client(base_url=url) as client:
            while not stop.is_set():
                found = arrays(client.post(INFER, json=question(X[:3])))["outputs"]
                kinds = [name for name, u in wanted.items() if np.allclose(found, u, rtol=1e-9, atol=1e-12)]
                faults.extend([] if len(kinds) == 1 else [found])
                seen.update(kinds)

    with running([path], poll=0.05) as url:
        threads = [threading.Thread(target=ask, args=(url,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 30
        for name in ("old", "new"):
            while name not in seen and time.monotonic() < until:
                time.sleep(0.02)
            fitted(3).save(path)
        stop.set()
        for thread in threads:
            thread.join()
        counted = httpx.get(url + "/metrics").text
    assert (faults, seen) == ([], {"old", "new"})
    assert "pcarann_errors_total{" not in counted


def test_addresses_are_those_of_a_browser():
    with bound("127.0.0.1", 0) as listener:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", address(listener))
        port = listener.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1 port {port} cannot be served"):
            bound("127.0.0.1", port)
