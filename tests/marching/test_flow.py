import numpy as np
import pytest
from flows import LinearState, waves

from pcarann import Marching, PCARaNN
from pcarann.marching import flow as module
from pcarann.marching.flow import Departure, Flow

RNG = np.random.default_rng(0)
MATRICES = [0.9 * np.linalg.qr(RNG.normal(size=(4, 4)))[0] for _ in range(3)]
STARTS = RNG.normal(size=(10, 4))


def test_members_roll_out_by_themselves_and_mean_and_spread_are_theirs():
    flow = Flow(LinearState(MATRICES, (4,)), 1, 5)
    mean, std = flow.mean_and_std(Departure([STARTS], None))
    each = [[STARTS @ np.linalg.matrix_power(m, t) for t in range(1, 6)] for m in MATRICES]
    expected = np.stack([np.stack(one, axis=1) for one in each])
    assert np.allclose(mean, expected.mean(axis=0), rtol=0, atol=1e-14)
    assert np.allclose(std, expected.std(axis=0, ddof=1), rtol=0, atol=1e-14)


def test_a_step_over_two_snapshots_departs_from_the_one_before_the_last():
    flow = Flow(LinearState(MATRICES[:1], (4,)), 2, 3)
    before, last = STARTS, 2 * STARTS
    mean, _ = flow.mean_and_std(Departure([before, last], None))
    step = MATRICES[0]
    assert np.allclose(mean, np.stack([before @ step, last @ step, before @ step @ step], axis=1))


def test_samples_travel_in_blocks_that_change_nothing(monkeypatch):
    model = Marching(PCARaNN(n_components=2, widths=(20, 10), n_members=2, scales="energy"), choose=False)
    flow = waves(40)
    model.fit(flow[:, :1], flow[:, 1:])
    expected = model.predict(flow[:, :1], return_std=True)
    seen = []
    monkeypatch.setattr(module, "_BLOCK_BYTES", 1)
    whole = Flow.mean_and_std
    monkeypatch.setattr(Flow, "mean_and_std", lambda self, part: (seen.append(len(part)), whole(self, part))[1])
    assert np.allclose(model.predict(flow[:, :1], return_std=True), expected, rtol=0, atol=1e-12)
    assert seen == [8] * 5


@pytest.mark.parametrize("steps", [1, 6, 25])
def test_the_horizon_is_free(steps):
    model = Marching(PCARaNN(n_components=2, widths=(40, 20), n_members=1), choose=False)
    flow = waves(60, times=30)
    model.fit(flow[:40, :4], flow[:40, 4:10])
    found = model.predict(flow[40:, :4], steps=steps)
    assert found.shape == (20, steps, 16)
    assert np.abs(found - flow[40:, 4 : 4 + steps]).max() < 0.05


@pytest.mark.parametrize("steps", [0, 1.5, True])
def test_steps_that_are_no_count_are_refused(steps):
    model = Marching(PCARaNN(n_components=2, widths=(10, 8), n_members=1, scales="energy"), choose=False)
    flow = waves(20)
    with pytest.raises(ValueError, match=r"^steps must be a whole number of at least 1"):
        model.fit(flow[:, :4], flow[:, 4:]).predict(flow[:, :4], steps=steps)
