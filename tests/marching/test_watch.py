import numpy as np
import pytest
from flows import LinearState, LinearStep, waves

from pcarann import Marching, PCARaNN
from pcarann.marching.flow import Departure, Flow
from pcarann.marching.watch import Reach, finite_rows

FLOW = waves(20)


REACH = Reach(2.0, 3.0)


def flow_of(factor, reach=REACH):
    return Flow(LinearState([factor * np.eye(3)], (3,)), 1, 4, reach=reach)


def test_the_reach_is_the_largest_value_and_the_largest_norm():
    reach = Reach.of(np.array([[3.0, 0.0], [-2.5, 2.5]]), 1)
    assert (reach.largest, reach.norm) == (3.0, pytest.approx(np.sqrt(12.5)))
    assert np.allclose(reach.exceeded(np.array([[6.0, 0.0], [2.5, 2.5]])), [2.0, 1.0])


def test_rows_are_finite_where_all_of_their_values_are():
    assert finite_rows(np.array([[1.0, np.nan], [1.0, 2.0], [np.inf, 0.0]])).tolist() == [False, True, False]


def test_leaving_the_range_is_said_once_with_step_and_samples():
    starts = np.array([[1.0, 0, 0], [0.1, 0, 0], [1.2, 0, 0]])
    with pytest.warns(
        UserWarning, match=r"^At step 2 of 4 of the roll-out, 2 of 3 samples lie outside the range"
    ) as one:
        list(flow_of(2.0).blocks(Departure([starts], None)))
    assert len(one) == 1


def test_inside_the_range_nothing_is_said():
    list(flow_of(1.0).blocks(Departure([np.ones((3, 3))], None)))


def test_lost_samples_are_counted_at_the_step_where_they_are_lost():
    starts = np.array([[1e-9, 0, 0], [1e-300, 0, 0]])
    with pytest.warns(UserWarning, match=r"not finite any more at step 3 of 4 for 1 of 2 samples\.$"):
        list(flow_of(1e120, reach=None).blocks(Departure([starts], None)))


@pytest.mark.filterwarnings("ignore:At step")
def test_no_roll_out_goes_far_beyond_the_training_snapshots_or_its_own_start():
    starts = np.array([[1.0, -1.0, 0], [5.0, 0, 0], [1e-3, 0, 0]])
    ((_, mean, _, _),) = flow_of(10.0).blocks(Departure([starts], None))
    found = mean.reshape(3, 4, 3)
    assert np.allclose(found[0, -1], [6.0, -6.0, 0.0])  # 3 times 2, the largest value of the training snapshots
    assert np.allclose(found[1, :, 0], 15.0)
    assert np.allclose(found[2, :, 0], [0.01, 0.1, 1.0, 6.0])


def test_a_flow_of_another_step_model_watches_the_range():
    model = Marching(LinearStep()).fit(FLOW[:, :1], FLOW[:, 1:])
    model.predict(FLOW[:, :1])
    with pytest.warns(UserWarning, match=r"^At step 1 of 9 of the roll-out, 20 of 20 samples lie outside the range"):
        model.predict(10 * FLOW[:, :1])
    with pytest.raises(ValueError, match="cannot compare inputs"):
        model.novelty(FLOW[:, :1])


def test_a_roll_out_that_would_overflow_is_held_and_said_to_leave_the_data():
    fast = np.stack([FLOW[:, 0], 1e10 * FLOW[:, 0]], axis=1)
    step = PCARaNN(n_components=2, widths=(20, 10), n_members=2, scales="energy", linear=True)
    model = Marching(step, choose=False).fit(fast[:, :1], fast[:, 1:])
    starts = np.array([1.0, 1e6, 1.0])[:, None, None] * FLOW[:3, :1]
    with pytest.warns(UserWarning, match=r"^At step 1 of 33 .* lie outside") as caught:
        mean, std = model.predict(starts, steps=33, return_std=True)
    assert len(caught) == 1
    assert np.abs(mean).max() <= 3.0001 * max(np.abs(fast).max(), np.abs(starts).max())
    assert (std[:, -1] > np.abs(mean[:, -1])).all()


def test_a_lost_sample_leaves_the_others_what_they_had():
    flow = Flow(LinearState([10 * np.eye(3)], (3,)), 1, 4)
    with pytest.warns(UserWarning, match=r"^The roll-out is not finite any more at step 1 of 4 for 1 of 2 samples\.$"):
        blocks = list(flow.blocks(Departure([np.array([[1.0, 2, 3], [1e308, 0, 0]])], None)))
    assert np.array_equal(blocks[0][1][0], np.outer([10, 100, 1e3, 1e4], [1, 2, 3]).ravel())
