import os
import signal
import threading
import time

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster
from lazy_data import OPTIONS, apart, fields, lazily

from pcarann import PCARaNN
from pcarann.scale import limited
from pcarann.scale.engine import Budget, LostCluster, computed, over_blocks

A, U = fields(420)


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes, which are started again when they die."""
    options = dict(n_workers=2, threads_per_worker=1, memory_limit="600MB", dashboard_address=":0")
    with LocalCluster(**options, silence_logs=50) as found:
        yield found


def test_the_budget_is_what_was_stated_and_shared_by_threads():
    with limited("3GB"), dask.config.set(num_workers=3):
        assert (Budget.now().memory, Budget.now().each) == (3_000_000_000, 1_000_000_000)
    with limited("3GB"), dask.config.set(scheduler="synchronous"):
        assert Budget.now().tasks == 1
    assert Budget.now().memory > 0
    with pytest.raises(ValueError, match="memory must be"), limited("much"):
        pass


@pytest.mark.parametrize("alone", [False, True])
def test_blocks_are_added_and_kept_in_order(alone):
    blocks = [dask.delayed(i) for i in range(11)]
    total, kept = over_blocks(_squared, blocks, [(10,)] * 11, {"shift": 1}, sum, apart=alone)
    assert total == sum(i + 1 for i in range(11))
    assert kept == [10 * i for i in range(11)]


def _squared(block, factor, *, shift):
    return block + shift, block * factor


def test_a_fit_on_a_cluster_is_that_in_memory(cluster):
    known = PCARaNN(**OPTIONS).fit(A, U)
    with Client(cluster):
        model = PCARaNN(**OPTIONS).fit(lazily(A, 60), lazily(U, 45))
        assert model.scale_report_.tasks == 1
        model.calibrate(lazily(A, 60), lazily(U, 45))
        found = model.predict(lazily(A, 60)).compute()
    assert apart(found, known.predict(A)) < 1e-8


@pytest.mark.parametrize("reads", [2, 9])
def test_a_worker_that_is_killed_costs_nothing_but_its_tasks(cluster, tmp_path, reads):
    known = PCARaNN(**OPTIONS).fit(A, U)
    x = lazily(A, 60).map_blocks(_deadly, str(tmp_path), reads, dtype=float, meta=np.empty((0, 0, 0)))
    with Client(cluster):
        model = PCARaNN(**OPTIONS).fit(x, lazily(U, 60))
    assert (tmp_path / "killed").exists()
    assert apart(model.predict(A), known.predict(A)) < 1e-8


def _deadly(block, folder, reads):
    """Kill the process at the so-manieth block that is read, once."""
    number = len(os.listdir(folder))
    open(os.path.join(folder, f"{time.monotonic_ns()}"), "x").close()
    if number >= reads and not os.path.exists(os.path.join(folder, "killed")):
        open(os.path.join(folder, "killed"), "x").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return block


def test_a_lost_scheduler_is_said_in_one_sentence_and_the_model_stays():
    model = PCARaNN(**OPTIONS).fit(A, U)
    before = model.fitted_
    options = dict(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50)
    with LocalCluster(**options) as gone, Client(gone):
        x = lazily(A, 60).map_blocks(_slow, dtype=float, meta=np.empty((0, 0, 0)))
        timer = threading.Timer(0.5, gone.close)
        timer.start()
        with pytest.raises(LostCluster, match="Dask"):
            model.fit(x, lazily(U, 60))
        timer.join()
    assert model.fitted_ is before


def _slow(block):
    time.sleep(0.3)
    return block


def test_what_a_task_raises_is_raised_here():
    with pytest.raises(ZeroDivisionError):
        computed(dask.delayed(lambda: 1 / 0)())
