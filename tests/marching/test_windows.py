"""Windows of trajectories: which steps a roll-out is judged by."""

import numpy as np
import pytest

from pcarann import Marching, PCARaNN
from pcarann.marching.windows import judged_window, later_times

ANGLES = np.random.default_rng(0).uniform(0, 6, (30, 1)) + 0.3 * np.arange(8)
WAVES = np.cos(ANGLES[:, :, None] + np.linspace(0, 6, 16))
STEP = PCARaNN(n_components=2, widths=(20, 10), n_members=2, scales="energy")


def test_y_without_times_has_none():
    assert [later_times(np.zeros(shape)) for shape in ((3,), (3, 0, 2), (3, 4, 2))] == [None, None, 4]


def test_steps_are_those_of_the_calibration_and_controls_are_cut_with_them():
    flow = Marching(STEP, choose=False).fit(WAVES[:, :2], WAVES[:, 2:6]).fitted_
    acting = np.zeros((5, 8, 1))
    steps, cut = judged_window(flow, np.zeros((5, 6, 16)), acting)
    assert (steps, cut.shape) == (4, (5, 6, 1))
    assert judged_window(flow, np.zeros((5, 4, 16)), np.zeros((5, 1)))[1].shape == (5, 1)
    with pytest.raises(ValueError, match=r"^y has 3 later snapshots, but 4 are needed to judge a roll-out\.$"):
        judged_window(flow, np.zeros((5, 3, 16)), None)


def test_longer_trajectories_are_judged_over_the_calibrated_steps():
    model = Marching(STEP, choose=False).fit(WAVES[:15, :2], WAVES[:15, 2:6])
    model.calibrate(WAVES[15:20, :2], WAVES[15:20, 2:7]).observe(WAVES[20:, :2], WAVES[20:, 2:])
    assert model.monitor.observed == 10
    assert model.fitted_.calibration.by_step[4].followed is not None
