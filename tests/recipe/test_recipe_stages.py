import numpy as np
import pytest

from pcarann.options import Grid
from pcarann.recipe.stages import Stages, StagesJudge, relative_errors
from pcarann.spatial.channels import Channels
from pcarann.staged import Staged
from pcarann.symmetry.generators import Symmetry

KNOWN = {"n_stages": 1, "n_features": 8, "n_members": 1, "channels": Channels()}


def judge(points=16, symmetry=None):
    x = 2 * np.pi * np.arange(points) / points
    a = np.random.default_rng(0).normal(size=(5, 4)) @ np.cos(np.outer(range(1, 5), x))
    a = np.concatenate([np.roll(a, k, axis=1) for k in range(points)])  # so that their mean moves with none of them
    pair = a, np.tanh(a - np.roll(a, 1, axis=1))
    fixed = {"random_state": 0, "device": None}
    return StagesJudge(Staged, pair, ((points,), (points,)), symmetry=symmetry, fixed=fixed)


def test_errors_are_those_of_samples():
    truth = np.array([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]])
    assert relative_errors(truth + np.array([[0.0, 5.0], [0.0, 0.0], [0.0, 7.0]]), truth).tolist() == [1.0, 0.0, 7.0]


@pytest.mark.parametrize("samples", [10, 40, 1000])
def test_cheaper_settings_are_foreseen_to_be_cheaper(samples):
    seconds = judge()
    seconds.pace = 1.0
    ladder = Stages().fewer(samples)
    assert ladder[0] == Stages()
    costs = [seconds.foreseen(one, samples) for one in ladder]
    assert costs == sorted(costs, reverse=True)
    assert all(one.fitted_rows(samples) >= min(samples, 32) for one in ladder)


def test_every_dimension_costs():
    seconds = judge()
    seconds.pace = 1.0
    base = Stages(**KNOWN)
    before = seconds.foreseen(base, 100)
    dearer = [{"n_stages": 2}, {"n_features": 16}, {"n_members": 2}, {"copies": 2}, {"channels": None}]
    for change in dearer:
        assert seconds.foreseen(Stages(**(KNOWN | change)), 100) > before
    assert seconds.foreseen(base, 200) > before
    assert seconds.foreseen(base, 100, held=10) > before
    assert seconds.foreseen(Stages(**KNOWN, samples=50), 200) < before
    seconds.start_seconds = 2.0
    assert seconds.foreseen(Stages(**KNOWN, model=object()), 100) == before + 12.0


def test_the_pace_is_that_of_the_last_fit():
    found = judge()
    choice = Stages(**KNOWN)
    _, seconds = found.errors(choice, range(60), range(60, 80))
    assert found.foreseen(choice, 60, 20) == pytest.approx(seconds)
    model = found.fitted(choice, found.pair)
    assert found.foreseen(choice, 80) == pytest.approx(model.fit_seconds_["total"], rel=0.5)


def test_by_default_stages_are_as_they_come():
    parameters = Staged().get_params(deep=False)
    assert judge().unfitted(Stages()).get_params(deep=False) == parameters


def test_a_choice_becomes_an_estimator():
    found = judge(symmetry=Symmetry.reflection(-1))
    model = found.unfitted(Stages(samples=30, copies=2, grid=Grid("periodic"), **KNOWN))
    assert (model.n_stages, model.n_features, model.n_members, model.max_samples) == (1, 8, 1, 30)
    assert (model.symmetry.n_fit, model.grid) == (2, Grid("periodic"))
    plain = found.unfitted(Stages(**KNOWN))
    assert (plain.max_samples, plain.symmetry) == (Staged().max_samples, None)


class Downwind:
    """A model that does the same at every point of a circle, and looks in one direction."""

    def predict(self, a):
        return np.tanh(a - np.roll(a, 1, axis=1))


@pytest.mark.parametrize(("symmetry", "has"), [(Symmetry.shifts(-1), True), (Symmetry.reflection(-1), False)])
def test_a_symmetry_that_a_model_has_is_recognised(symmetry, has):
    assert judge(symmetry=symmetry).is_symmetric(Downwind(), 1e-6) is has
    assert judge(symmetry=symmetry).is_symmetric(Downwind(), 1e6)
    assert not judge().is_symmetric(Downwind(), 1e6)


def test_names_say_what_is_unusual():
    assert Stages().name == "at most 8 stages of 120 features, 2 member(s)"
    unusual = Stages(samples=30, copies=4, model=object()).name
    assert unusual.endswith("2 member(s), 30 samples, symmetry by 4 elements, on the latent model")
