"""The benchmark of the server: what its callers meet, and whether they would see a fault."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading

import benchmarks_path  # noqa: F401
import numpy as np
import pytest

# isort: split
import callers
import uvicorn

import serving
from pcarann import load
from pcarann.serving.app import application
from pcarann.serving.limits import Limits
from pcarann.serving.running import address, bound, configured

LIMITS = Limits(body=1 << 20, seconds=2.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("models")
    serving._models("sensors", found, quick=True)
    return found


@contextlib.contextmanager
def served(folder):
    listener = bound("127.0.0.1", 0)
    server = uvicorn.Server(configured(application([folder / "served" / "sensors.pcarann"], limits=LIMITS), LIMITS))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield address(listener)
    server.should_exit = True
    thread.join()


def asked(folder, url, *models):
    known = {"inputs": str(folder / "sensors.npy"), "models": [str(folder / f"sensors-{k}") for k in models]}
    return known | {"url": url, "name": "sensors", "clients": 4, "seconds": 0.3}


def test_load_is_met_with_the_numbers_of_the_model_and_others_would_be_seen(folder):
    with served(folder) as url:
        found = callers.load_of(asked(folder, url, 0))
        other = callers.load_of(asked(folder, url, 1))
    assert (set(found["met"]), set(other["met"])) == ({"model 0"}, {"other numbers"})
    assert found["answers"] == sum(found["met"].values())
    assert 0 < found["p50_ms"] <= found["p99_ms"]


def test_every_fault_is_answered_in_a_sentence(folder):
    X = np.load(folder / "sensors.npy")[:1]
    wanted = load(folder / "sensors-0").predict(X)
    with served(folder) as url:
        asyncio.run(serving._dying(url, callers.bytes_of(X, "sensors"), 6))
        large = asyncio.run(serving._large(url, "sensors", 3 << 20))
        malformed = serving._statuses(asyncio.run(callers.replies(url, serving._malformed("sensors", X))))
        damaged = serving._statuses(asyncio.run(callers.replies(url, serving._damaged("sensors", X, 60))))
        assert serving._is_right(url, "sensors", X, wanted)
        assert not serving._is_right(url, "sensors", X, wanted + 1)
    assert {one["answer"].split()[1] for one in large.values()} == {"413"}
    assert malformed["statuses"] == {"400": malformed["refusals_in_a_sentence"]}
    assert set(damaged["statuses"]) <= {"200", "400"}
    assert damaged["refusals"] == damaged["refusals_in_a_sentence"] > 20


def test_what_is_no_sentence_is_not_counted_as_one():
    found = serving._statuses([(500, b"Internal"), (400, json.dumps({"error": "No."}).encode()), (200, b"")])
    assert (found["refusals"], found["refusals_in_a_sentence"]) == (2, 1)
