import numpy as np
import pytest
from flows import bistable, waves

from pcarann import Kernel, Marching, PCARaNN
from pcarann.marching.choice import AS_GIVEN, choose
from pcarann.marching.judge import Judge
from pcarann.marching.trajectories import Trajectories
from pcarann.metrics import relative_l2

FLOW = bistable(120)


def trained(model, flow=FLOW, **options):
    return Marching(model, **options).fit(flow[:80, :1], flow[:80, 1:])


@pytest.mark.filterwarnings("ignore:At step", "ignore:The roll-out")
@pytest.mark.parametrize("linear", [False, True])
def test_a_roll_out_that_would_run_away_is_held_by_a_ridge(linear):
    model = PCARaNN(n_components=20, widths=(300, 100), n_members=2, linear=linear, scales=("gain", 0.2, 0.2))
    test = FLOW[80:]
    before, after = (relative_l2(trained(model, choose=c).predict(test[:, :1]), test[:, 1:]) for c in (False, True))
    assert after < 0.6
    assert before > 2.0  # and would be 1e7 with a linear term, were it not held


def test_the_model_as_given_stays_where_it_is_the_best():
    flow = waves(60)
    model = PCARaNN(n_components=2, widths=(40, 20), n_members=2, linear=True)
    chosen, plain = trained(model, flow), trained(model, flow, choose=False)
    assert chosen.rollout_report_.chosen == AS_GIVEN
    assert np.array_equal(chosen.predict(flow[:, :1]), plain.predict(flow[:, :1]))


def split(flow):
    whole = Trajectories.of(flow[:, :1], flow[:, 1:], None, step=1, first=0)
    learning, held = whole.split(0)
    return learning, Judge(held)


def test_what_wins_has_the_least_error_and_its_scales_stay():
    learning, judge = split(FLOW[:40])
    model = PCARaNN(n_components=10, widths=(100, 50), n_members=9)
    found = choose(model, learning, judge)
    errors = dict(found.tried)
    assert found.chosen != AS_GIVEN
    assert errors[found.chosen] == min(errors.values()) < 0.99 * errors[AS_GIVEN]
    assert set(found.parameters) == {"ridge", "scales"}
    assert judge.error(found.found) == errors[found.chosen]
    again = model.set_params(**found.parameters, n_members=4).fit(*learning.pairs(), together=learning.pairs_each)
    assert judge.error(judge.mean(again.fitted_)) == pytest.approx(errors[found.chosen], rel=0.3)


def test_of_a_kernel_the_length_stays():
    learning, judge = split(FLOW[:20])
    found = choose(PCARaNN(n_components=6, regressor="kernel", ridge=1e-12, n_members=1), learning, judge)
    assert found.chosen != AS_GIVEN
    assert isinstance(found.parameters["regressor"], Kernel)


def test_a_number_of_members_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"^n_members must be a whole number"):
        trained(PCARaNN(n_members="many"))
