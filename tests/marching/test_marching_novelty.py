import numpy as np
import pytest
from flows import waves

from pcarann import Marching, PCARaNN, load
from pcarann.marching.novelty import RolloutNovelty

FLOW = waves(40)


@pytest.fixture(scope="module")
def model():
    step = PCARaNN(n_components=2, widths=(20, 10), n_members=2, scales="energy", linear=True)
    return Marching(step, choose=False).fit(FLOW[:, :1], FLOW[:, 1:])


def test_every_step_has_the_p_value_of_the_state_from_which_it_departs(model):
    found = model.novelty(FLOW[:5, :1], steps=4)
    assert found.p_value.shape == (5, 4)
    assert np.allclose(found.p_value[:, 0], model.model_.novelty(FLOW[:5, 0]).p_value)
    states = model.predict(FLOW[:5, :1], steps=3)
    for t in range(3):
        assert np.allclose(found.p_value[:, t + 1], model.model_.novelty(states[:, t]).p_value)
    assert found.reasons[2][0] == model.model_.novelty(FLOW[:5, 0]).reasons[2]


def test_what_is_far_out_is_new_from_its_first_step_on(model):
    found = model.novelty(np.concatenate([FLOW[:3, :1], 10 * FLOW[3:4, :1]]), steps=2)
    assert (found.p_value[3] < 1e-3).all()
    assert (found.p_value[:3] > 0.01).all()
    assert str(found).startswith("1 of 4 roll-outs have p ≤ 0.01 from step 1 of 2 on; sample 3 is farthest out")


def test_without_new_roll_outs_the_farthest_is_still_named():
    text = str(RolloutNovelty(np.array([[0.5, 0.2]]), (("a", "b"),)))
    assert text == "0 of 1 roll-outs have p ≤ 0.01; sample 0 is farthest out at step 2, p = 0.2: b."


def test_tensors_come_back_as_tensors(model):
    torch = pytest.importorskip("torch")
    assert isinstance(model.novelty(torch.as_tensor(FLOW[:2, :1])).p_value, torch.Tensor)


@pytest.mark.filterwarnings("ignore:This model is of format 3")
def test_a_file_that_did_not_keep_the_training_inputs_says_so(request):
    path = request.config.rootpath / "tests" / "storage" / "data" / "format3-marching.model"
    model = load(path)
    grid = model.model_.fitted_.output_grid
    with pytest.raises(ValueError, match="saved by an older pcarann"):
        model.novelty(np.zeros((2, model.step, *grid)))
    with pytest.raises(AttributeError, match=r"rollout_report_: there is none"):
        _ = model.rollout_report_
