import math
import warnings

import numpy as np
import pytest
from flows import LinearStep, bistable, waves

from pcarann import Marching, PCARaNN, Staged, load
from pcarann.marching.step import looks, takes_judge
from pcarann.marching.trajectories import Trajectories

FLOW = waves(20)
SMALL = PCARaNN(n_components=2, widths=(20, 10), n_members=1, scales="energy")


class Unjudged(LinearStep):
    def fit(self, X, y, *, together=1):
        return super().fit(X, y, together=together)


def test_a_step_model_that_takes_a_judge_is_fitted_once_to_the_others_and_chooses_by_it():
    model = Marching(LinearStep(factors=(5.0, 1.0, 0.7, 1e300))).fit(FLOW[:, :2], FLOW[:, 2:])
    step = model.model_
    assert (step.seen_, step.together_) == (16 * 9, 9)
    assert step.judged_[1] < 1e-6 < step.judged_[2] < step.judged_[0]
    assert step.judged_[3] == math.inf
    assert np.abs(model.predict(FLOW[:, :2]) - FLOW[:, 2:]).max() < 1e-6
    assert (model.rollout_report_.trajectories, model.rollout_report_.chosen) == (4, "as fitted")
    assert model.rollout_report_.error == pytest.approx(step.judged_[1], rel=1e-6)


@pytest.mark.parametrize(("count", "choose"), [(20, False), (4, True)], ids=["not asked for", "too few"])
def test_without_trajectories_to_hold_out_no_judge_is_handed_over(count, choose):
    model = Marching(LinearStep(factors=(1.0, 5.0)), choose=choose).fit(FLOW[:count, :2], FLOW[:count, 2:])
    assert (model.model_.seen_, model.model_.judged_) == (count * 9, [])
    assert model.rollout_report_.trajectories == 0
    assert ("too few" if choose else "choose=False") in str(model.rollout_report_)


def test_a_step_model_of_any_kind_is_judged_and_fitted_to_all():
    model = Marching(Unjudged()).fit(FLOW[:, :2], FLOW[:, 2:])
    assert model.model_.seen_ == 20 * 9
    assert model.rollout_report_.trajectories == 4
    assert model.rollout_report_.error < 1e-6


def test_a_step_model_that_cannot_adapt_says_so():
    model = Marching(LinearStep()).fit(FLOW[:, :2], FLOW[:, 2:])
    with pytest.raises(ValueError, match=r"^LinearStep has no partial_fit: a flow of it cannot adapt\.$"):
        model.partial_fit(FLOW[:, :2], FLOW[:, 2:])


def test_a_fit_whose_roll_out_runs_away_warns():
    with pytest.warns(UserWarning, match=r"^The roll-out is not to be trusted .* on 4 trajectories held out is") as one:
        Marching(LinearStep(factors=(2.0,))).fit(FLOW[:, :2], FLOW[:, 2:])
    assert {warning.filename for warning in one} == {__file__}


def test_a_flow_is_judged_on_trajectories_that_the_step_has_not_seen():
    noise = np.random.default_rng(0).normal(size=(20, 3, 16))  # nothing to learn: seen, it could be remembered
    model = PCARaNN(n_components=16, widths=(200, 100), n_members=1)
    with pytest.warns(UserWarning, match="not to be trusted"):
        report = Marching(model).fit(noise[:, :1], noise[:, 1:]).rollout_report_
    assert min(report.median) > 0.5


def test_a_choice_that_is_no_flag_is_refused():
    with pytest.raises(ValueError, match=r"^choose must be True or False, got 'yes'\.$"):
        Marching(SMALL, choose="yes").fit(FLOW[:, :2], FLOW[:, 2:])


def test_the_seconds_are_those_of_all_of_it():
    model = Marching(SMALL).fit(FLOW[:, :2], FLOW[:, 2:])
    assert model.fit_seconds_["total"] >= model.model_.fit_seconds_["total"] > 0


def test_step_models_are_told_by_what_they_offer():
    fitted = Marching(SMALL, choose=False).fit(FLOW[:, :2], FLOW[:, 2:]).model_
    assert (takes_judge(LinearStep()), takes_judge(SMALL)) == (True, False)
    assert looks(fitted.fitted_)
    assert not looks(LinearStep().fit(FLOW[:, 0], FLOW[:, 1]).fitted_)


def test_a_flow_whose_step_has_no_file_format_says_so(tmp_path):
    with pytest.raises(ValueError, match=r"^A flow of LinearStep cannot be saved: its step has no file format\.$"):
        Marching(LinearStep()).fit(FLOW[:, :2], FLOW[:, 2:]).save(tmp_path / "m")


def test_stages_are_marched_judged_on_roll_outs_and_come_back_from_a_file(tmp_path):
    flow = waves(24, times=5)
    model = Marching(Staged(n_stages=2, n_features=30, n_members=2)).fit(flow[:20, :1], flow[:20, 1:])
    assert (model.rollout_report_.trajectories, model.rollout_report_.chosen) == (4, "as fitted")
    assert model.rollout_report_.error < 0.5
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert np.array_equal(again.predict(flow[20:, :1], steps=6), model.predict(flow[20:, :1], steps=6))
    assert again.rollout_report_ == model.rollout_report_


@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("step", [PCARaNN(n_members=2), Staged(n_stages=2, n_features=24, n_members=1)])
def test_the_fit_report_is_the_error_of_roll_outs_of_new_trajectories(step, repeats):
    flow = bistable(60, times=6, points=16)
    order = np.random.default_rng(0).permutation(12 * repeats) % 12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Marching(step).fit(flow[order, :2], flow[order, 2:])
        found = model.predict(flow[12:, :2])
    missed = np.linalg.norm((found - flow[12:, 2:]).reshape(48, -1), axis=1)
    real = np.mean(missed / np.linalg.norm(flow[12:, 2:].reshape(48, -1), axis=1))
    assert 0.5 * real < model.fit_report_.relative_error < 2.0 * real
    assert (model.fit_report_.samples, model.fit_report_.distinct) == (12 * repeats, 12)


def test_repeated_trajectories_are_on_one_side_of_the_split():
    flow = bistable(10, times=4, points=8)
    twice = Trajectories.of(*(np.repeat(part, 2, axis=0) for part in (flow[:, :2], flow[:, 2:])), None, step=1, first=0)
    learning, held = twice.split(0)
    assert len(held) == 4
    assert not set(learning.groups) & set(held.groups)


def test_the_fit_report_of_a_flow_is_saved(tmp_path):
    model = Marching(PCARaNN(n_components=4, widths=(20, 10), n_members=2)).fit(FLOW[:, :2], FLOW[:, 2:])
    model.save(tmp_path / "flow.pcarann")
    assert load(tmp_path / "flow.pcarann").fit_report_ == model.fit_report_


def test_a_flow_of_noise_warns():
    noise = np.random.default_rng(0).normal(size=(20, 5, 12))
    with pytest.warns(UserWarning, match="not to be trusted|better than the mean field"):
        model = Marching(PCARaNN(n_components=4, widths=(20, 10), n_members=2)).fit(noise[:, :2], noise[:, 2:])
    assert model.fit_report_.useless
