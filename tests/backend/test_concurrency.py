import json
import subprocess
import sys
import threading

import numpy as np
import pytest

from conftest import blas_threads
from pcarann.backend.arrays import place_of
from pcarann.backend.concurrency import concurrently, least_seconds, single_threaded


@pytest.mark.parametrize("bytes_each", [1, 2 << 30], ids=["threads", "one at a time"])
def test_concurrent_results_come_in_order(bytes_each):
    found = concurrently(lambda n: n * n, range(20), place=place_of(None), bytes_each=bytes_each)
    assert list(found) == [n * n for n in range(20)]


def test_overlapping_limits_on_linear_algebra_are_lifted_by_the_last():
    from threadpoolctl import threadpool_info

    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with blas_threads(2):
        first, second = single_threaded(place_of(None)), single_threaded(place_of(None))
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(threads()) == {1}
        second.__exit__(None, None, None)
        assert set(threads()) == {2}


def test_what_the_caller_has_set_for_itself_holds_in_its_threads():
    with np.errstate(over="raise"):
        found = list(concurrently(lambda _: np.geterr()["over"], range(4), place=place_of(np.empty(0)), bytes_each=1))
    assert found == ["raise"] * 4


@pytest.mark.parametrize("seconds", [least_seconds(1e6, 8e6), least_seconds(1e9)], ids=["short", "long"])
def test_short_calls_stay_in_the_thread_of_the_caller_with_linear_algebra_on_one(seconds, monkeypatch):
    from threadpoolctl import threadpool_info

    monkeypatch.setattr("pcarann.backend.concurrency.cores", lambda: 2)

    def seen(_):
        return threading.get_ident(), {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

    with blas_threads(2):
        found = list(concurrently(seen, range(3), place=place_of(None), bytes_each=1, seconds_each=seconds))
    assert all(threads == {1} for _, threads in found)
    assert all((ident == threading.get_ident()) == (seconds < 1e-3) for ident, _ in found)


def test_the_limit_on_linear_algebra_is_set_by_one_thread_and_lifted_by_another():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    controller, place = threadpoolctl.ThreadpoolController().select(user_api="blas"), place_of(None)

    def threads():
        return [one["num_threads"] for one in controller.info()]

    entered, leave = threading.Event(), threading.Event()

    def inside():
        with single_threaded(place):
            entered.set()
            leave.wait(10)

    with blas_threads(2):
        with single_threaded(place):  # this thread was the first to set a limit
            assert set(threads()) == {1}
        first = threading.Thread(target=inside)
        first.start()
        entered.wait(10)
        assert set(threads()) == {1}
        with single_threaded(place):
            leave.set()
            first.join()
            assert set(threads()) == {1}
        assert set(threads()) == {2}


SINGLE_CALLS = """
import json
from threadpoolctl import threadpool_info, threadpool_limits
from pcarann.backend.arrays import place_of
from pcarann.backend.concurrency import alike, concurrently

def threads(_=None):
    return sorted({one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"})

found = {}
place_of(None)  # the library whose threads are counted is there from here on
with threadpool_limits(2, user_api="blas"):
    for seconds in (0.1, 10.0):
        (called,) = concurrently(threads, [0], place=place_of(None), bytes_each=1, seconds_each=seconds)
        with alike(place_of(None), seconds):
            found[seconds] = called, threads()
print(json.dumps(found))
"""


def test_a_single_call_stays_on_one_thread_unless_it_takes_long():
    # In a process of its own: in this one, a thread or a server may hold the limit.
    run = subprocess.run([sys.executable, "-c", SINGLE_CALLS], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == {"0.1": [[1], [1]], "10.0": [[2], [2]]}
