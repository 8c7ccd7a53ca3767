import copy
import pickle
import sys
import threading

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from pcarann import Adapt, Marching, PCARaNN
from pcarann.backend.locking import WriterLock, writing

# One sample in a hundred is called new, and said to be.
pytestmark = pytest.mark.filterwarnings("ignore:.*lies? outside the training data")

SMALL = {"n_components": 6, "widths": (40, 30), "n_members": 3, "scales": "energy"}


class Interrupted:
    """Fields during whose reading another thread begins to write, and has half a second to finish."""

    def __init__(self, fields, write):
        self.fields, self.thread = fields, threading.Thread(target=write)
        self.shape, self.begun = fields.shape, False

    def __array__(self, dtype=None, copy=None):
        if not self.begun:
            self.begun = True
            self.thread.start()
            self.thread.join(0.5)
        return self.fields


@pytest.fixture
def restless():
    """Threads that change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_two_threads(adapt, count):
    """adapt(i) for i < 2 count, half of them in each thread."""
    threads = [
        threading.Thread(target=lambda part=part: [adapt(i) for i in range(part, 2 * count, 2)]) for part in (0, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.fixture
def adapted_by_two(pairs, restless):
    model = PCARaNN(**SMALL).fit(*pairs[:90])
    in_two_threads(lambda i: model.partial_fit(*pairs[100 + i : 101 + i]), 30)
    return model


def test_every_sample_of_two_threads_is_counted(adapted_by_two):
    assert adapted_by_two._fitted.n_adapted == 60


def test_two_threads_learn_what_one_learns_from_all_samples(adapted_by_two, pairs):
    alone = PCARaNN(**SMALL).fit(*pairs[:90]).partial_fit(*pairs[100:160])
    for one, other in zip(adapted_by_two.ensemble_.members, alone.ensemble_.members, strict=True):
        assert np.abs(one.readout - other.readout).max() <= 1e-8 * np.abs(other.readout).max()  # order of the sums


def test_samples_that_come_during_a_calibration_are_learned(pairs):
    model = PCARaNN(**SMALL).fit(*pairs[:90])
    inputs = Interrupted(pairs.inputs[90:150], lambda: model.partial_fit(*pairs[150:160]))
    model.calibrate(inputs, pairs.outputs[90:150])
    inputs.thread.join()
    assert model._fitted.n_adapted == 10


def test_samples_that_came_during_a_calibration_are_scored_by_it(pairs):
    model = PCARaNN(**SMALL).fit(*pairs[:90])
    inputs = Interrupted(pairs.inputs[90:150], lambda: model.partial_fit(*pairs[150:160]))
    model.calibrate(inputs, pairs.outputs[90:150])
    inputs.thread.join()
    assert (model.fitted_.stale, model.monitor.learned) == (False, 10)


def test_a_calibration_during_an_adaptation_belongs_to_the_adapted_model(pairs):
    model, alone = (PCARaNN(**SMALL).fit(*pairs[:90]) for _ in range(2))
    inputs = Interrupted(pairs.inputs[150:160], lambda: model.calibrate(*pairs[90:150]))
    model.partial_fit(inputs, pairs.outputs[150:160])
    inputs.thread.join()
    alone.partial_fit(*pairs[150:160]).calibrate(*pairs[90:150])
    found, wanted = (one.predict_interval(pairs.inputs[:5], alpha=0.1).upper for one in (model, alone))
    assert np.array_equal(found, wanted)


def flow(n, seed=0):
    angle = np.random.default_rng(seed).uniform(0, 6, (n, 1)) + 0.3 * np.arange(6)
    return np.cos(angle[:, :, None] + np.linspace(0, 6, 16))


@pytest.fixture
def marching():
    whole = flow(40)
    step = PCARaNN(n_components=2, widths=(20, 10), n_members=2, scales="energy", adapt=Adapt(ridge=1e-6))
    return Marching(step).fit(whole[:, :2], whole[:, 2:])


def test_every_trajectory_of_two_threads_is_counted(marching, restless):
    whole = flow(40, seed=1)
    in_two_threads(lambda i: marching.partial_fit(whole[i : i + 1, :2], whole[i : i + 1, 2:]), 20)
    assert marching.model_._fitted.n_adapted == 40 * 5  # pairs of neighbours


def test_trajectories_that_came_during_a_calibration_of_a_flow_are_scored_by_it(marching):
    whole = flow(40, seed=1)
    inputs = Interrupted(whole[:30, :2], lambda: marching.partial_fit(whole[30:, :2], whole[30:, 2:]))
    marching.calibrate(inputs, whole[:30, 2:])
    inputs.thread.join()
    assert (marching.fitted_.stale, marching.monitor.learned) == (False, 10)


def test_a_step_that_is_adapted_behind_the_back_of_its_flow_makes_the_calibration_stale(marching):
    whole = flow(30, seed=1)
    marching.calibrate(whole[:, :2], whole[:, 2:])
    marching.model_.partial_fit(whole[:3, 0], whole[:3, 1])
    with pytest.raises(NotFittedError, match="stale"):
        marching.predict_interval(whole[:3, :2], alpha=0.1)


def test_a_thread_may_take_its_own_lock_again(pairs):
    model = PCARaNN(**SMALL)
    with writing(model):
        thread = threading.Thread(target=lambda: model.fit(*pairs[:40]))
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()  # another thread waits
        model.fit(*pairs[:90])
    thread.join()
    assert model._fitted.samples == 40


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda lock: pickle.loads(pickle.dumps(lock))], ids=["copy", "pickle"]
)
def test_a_copy_of_a_lock_that_is_held_is_free(copied):
    lock, entered = WriterLock(), threading.Event()

    def enter(other):
        with other:
            entered.set()

    with lock:
        thread = threading.Thread(target=enter, args=(copied(lock),))
        thread.start()
        assert entered.wait(5)
    thread.join()
