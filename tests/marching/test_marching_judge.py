import math

import numpy as np
import pytest
from flows import LinearState, waves

from pcarann.marching.judge import Judge
from pcarann.marching.trajectories import Trajectories

FLOW = waves(6)
JUDGE = Judge(Trajectories.of(FLOW[:, :2], FLOW[:, 2:], None, step=1, first=0))
TRUTH = FLOW[:, 2:]


def test_the_error_is_the_mean_relative_one_of_whole_windows():
    expected = np.mean(np.linalg.norm(0.1 * TRUTH, axis=(1, 2)) / np.linalg.norm(TRUTH, axis=(1, 2)))
    assert JUDGE.error(1.1 * TRUTH) == pytest.approx(expected)
    assert np.allclose(JUDGE.by_step(1.1 * TRUTH), 0.1)


def test_a_function_is_rolled_out_from_the_last_snapshot_given():
    seen = []

    def persistent(fields):
        seen.append(fields.copy())
        return fields

    found = JUDGE(persistent)
    assert len(seen) == 8
    assert all(np.array_equal(one, FLOW[:, 1]) for one in seen)
    still = np.broadcast_to(FLOW[:, 1:2], TRUTH.shape)
    assert found == pytest.approx(JUDGE.error(still))
    assert np.allclose(JUDGE.persistence(), JUDGE.by_step(still))


def test_a_state_and_its_function_are_judged_alike():
    matrix = np.random.default_rng(0).normal(size=(16, 16)) / 4
    state = LinearState([matrix], (16,))
    assert JUDGE(lambda fields: fields @ matrix) == pytest.approx(JUDGE.error(JUDGE.mean(state)), rel=1e-12)


def test_controls_are_handed_over_as_channels_row_by_row():
    controls = np.arange(6 * 9.0).reshape(6, 9, 1)
    judge = Judge(Trajectories.of(FLOW[:, :2], FLOW[:, 2:], controls, step=1, first=0))
    rows = []

    def step(fields):
        rows.append(fields[0, 1, 0])
        return fields[:, 0]

    judge(step)
    assert rows == list(range(1, 9))


@pytest.mark.parametrize("factor", [1e200, np.nan])
def test_what_runs_away_has_an_infinite_error_and_no_overflow_is_told(factor):
    assert JUDGE(lambda fields: factor * fields) == math.inf


def test_fields_of_any_size_are_judged_alike():
    huge = Judge(Trajectories.of(1e200 * FLOW[:, :2], 1e200 * FLOW[:, 2:], None, step=1, first=0))
    assert huge(lambda fields: fields) == pytest.approx(JUDGE(lambda fields: fields))
