import numpy as np
import pytest

from pcarann.marching.trajectories import Trajectories

FIELDS = np.arange(6 * 5 * 3, dtype=float).reshape(6, 5, 3)


def trajectories(count=6, controls=None, **options):
    fields = np.random.default_rng(0).normal(size=(count, 5, 3)) if count > 6 else FIELDS[:count]
    return Trajectories.of(fields[:, :2], fields[:, 2:], controls, **{"step": 1, "first": 0} | options)


@pytest.mark.parametrize(("step", "first"), [(1, 0), (2, 0), (1, 2), (2, 1)])
def test_pairs_are_all_snapshots_a_step_apart_from_the_first_on(step, first):
    found = trajectories(step=step, first=first)
    starts, ends = found.pairs()
    wanted = [(FIELDS[i, t], FIELDS[i, t + step]) for i in range(6) for t in range(first, 5 - step)]
    assert np.array_equal(starts, [pair[0] for pair in wanted])
    assert np.array_equal(ends, [pair[1] for pair in wanted])
    assert found.pairs_each == len(wanted) // 6


def test_controls_stand_behind_the_state_as_constant_channels():
    controls = np.arange(6 * 4 * 2).reshape(6, 4, 2)
    starts, _ = trajectories(controls=controls, first=1).pairs()
    assert starts.shape == (6 * 3, 3, 3)
    assert np.array_equal(starts[:, 0], FIELDS[:, 1:4].reshape(-1, 3))
    assert np.array_equal(starts[:, 1:], np.broadcast_to(controls[:, 1:].reshape(-1, 2, 1), (18, 2, 3)))


@pytest.mark.parametrize(("count", "held"), [(4, 0), (5, 1), (7, 1), (50, 10), (300, 40)])
def test_a_fifth_is_held_out_but_never_more_than_40_nor_of_fewer_than_five(count, held):
    learning, judging = trajectories(count).split(seed=0)
    assert len(learning) == count - held
    assert (judging is None) if held == 0 else len(judging) == held


def test_a_split_loses_no_trajectory_and_depends_on_the_seed_alone():
    whole = trajectories(50, controls=np.arange(50.0)[:, None])
    first, again, other = (whole.split(seed) for seed in (0, 0, 1))
    assert np.array_equal(first[1].fields, again[1].fields)
    assert not np.array_equal(first[1].fields, other[1].fields)
    together = np.concatenate([first[0].controls[:, 0, 0], first[1].controls[:, 0, 0]])
    assert np.array_equal(np.sort(together), np.arange(50))
    for part in first:
        assert np.array_equal(part.fields, whole.fields[part.controls[:, 0, 0].astype(int)])
