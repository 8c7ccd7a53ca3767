import threading
import time

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster
from lazy_data import OPTIONS, fields, lazily

from pcarann import PCARaNN
from pcarann.scale import limited
from pcarann.scale.engine import Budget, LostCluster, computed, over_blocks, passes_shown

A, U = fields(420)


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


def test_blocks_that_are_done_are_shown():
    seen, blocks = [], [dask.delayed(i) for i in range(3)]
    with passes_shown(lambda *found: seen.append(found)):
        over_blocks(_squared, blocks, [(10,)] * 3, {"shift": 1}, sum, shown="reading X")
        over_blocks(_squared, blocks, [(10,)] * 3, {"shift": 1}, sum)
    assert seen == [("reading X", i, 3) for i in range(4)]


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


def _no_file(block):
    raise FileNotFoundError("/data/x.nc is not there")


def test_a_file_that_a_task_misses_is_no_lost_scheduler(cluster):
    with Client(cluster), pytest.raises(FileNotFoundError, match="is not there"):
        over_blocks(_no_file, [dask.delayed(1)], [()], {}, sum)
