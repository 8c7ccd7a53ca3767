import numpy as np
import pytest
from flows import LinearStep, waves
from sklearn.linear_model import Ridge

from pcarann import PCARaNN
from pcarann.marching.step import check_step

FLOW = waves(30)


def test_the_record_of_a_pcarann_is_a_state_of_a_step():
    model = PCARaNN(n_components=2, widths=(20, 10), n_members=3, scales="energy").fit(FLOW[:, 0], FLOW[:, 1])
    state = model.fitted_
    assert state.members == 3
    each = [state.member_step(k, FLOW[:, 0]) for k in range(3)]
    assert np.allclose(np.mean(each, axis=0), model.predict(FLOW[:, 0]), rtol=0, atol=1e-12)


def test_a_step_is_in_the_units_of_the_user():
    model = PCARaNN(n_components=2, widths=(20, 10), n_members=1, scales="energy")
    huge = model.fit(2.0**800 * FLOW[:, 0], 2.0**800 * FLOW[:, 1])
    assert np.array_equal(huge.fitted_.member_step(0, 2.0**800 * FLOW[:, 0]), huge.predict(2.0**800 * FLOW[:, 0]))


@pytest.mark.parametrize("model", [Ridge(), 3])
def test_an_estimator_that_knows_no_trajectories_is_refused(model):
    with pytest.raises(ValueError, match=rf"such as PCARaNN\(\) or Staged\(\), got {type(model).__name__}: its fit"):
        check_step(model)
    step = LinearStep()
    assert check_step(step) is step


def test_a_class_in_the_place_of_an_estimator_is_refused():
    with pytest.raises(ValueError, match=r"got the class PCARaNN: write PCARaNN\(\)\."):
        check_step(PCARaNN)
