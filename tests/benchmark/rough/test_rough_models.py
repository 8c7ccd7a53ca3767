"""Methods for rough inputs: the better of two is chosen on held-out samples, each takes the grid of each case."""

import numpy as np
import pytest

from pcarann.baselines.random_features import RandomFeatures
from pcarann.benchmark.rough.cases import CASES
from pcarann.benchmark.rough.models import METHODS, Chosen, available, latent_model, quietly, rival, stages_model
from pcarann.staged import Staged


class Constant:
    """Predicts one value, and remembers how many samples it was fitted to."""

    def __init__(self, value):
        self.value, self.fits = value, []

    def fit(self, inputs, outputs):
        self.fits.append(len(inputs))

    def predict(self, inputs):
        return np.full((len(inputs), 3), self.value)


def test_the_candidate_of_least_error_is_fitted_to_all_samples():
    near, far = Constant(1.1), Constant(3.0)
    model = Chosen({"far": far, "near": near}).fit(np.zeros((20, 3)), np.ones((20, 3)))
    assert model.choice == "near"
    assert model.errors == pytest.approx({"far": 2.0, "near": 0.1})
    assert (near.fits, far.fits) == ([16, 20], [16])
    assert (model.predict(np.zeros((2, 3))) == 1.1).all()


def test_latent_candidates_are_the_default_and_a_kernel_in_a_learned_metric():
    default, kernel = latent_model(CASES["two_valued"]).candidates.values()
    assert default.get_params() == type(default)().get_params()
    assert (kernel.regressor, kernel.relevance, kernel.ridge) == ("kernel", "learned", "gcv")


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("stages", "latent")])
@pytest.mark.parametrize("name", CASES)
def test_every_rival_takes_the_grid_of_every_case(name, method):
    if method == "fno":
        pytest.importorskip("torch")
    case = CASES[name].quick()
    a = 1.0 + np.random.default_rng(0).random((8, *map(len, case.coordinates.values())))
    u = a - a.mean(axis=0)
    model = rival(case, method, 8, "cpu")
    with quietly():
        assert model.fit(a, u).predict(a[:2]).shape == u[:2].shape


def test_networks_see_as_many_samples_whatever_the_size_of_the_training_set():
    pytest.importorskip("torch")
    epochs = [rival(CASES["two_valued"], "fno", n, "cpu").epochs for n in (50, 200, 1000)]
    assert epochs == [2000, 1500, 300]


def test_random_features_know_the_equation_of_the_coefficients_alone():
    found = {name: rival(case, "random_features", 50) for name, case in CASES.items()}
    assert all(isinstance(model, RandomFeatures) for model in found.values())
    assert [model.features for model in found.values()] == ["fourier", "predictor_corrector", "predictor_corrector"]


def test_stages_are_tiny_in_quick_mode_alone():
    case = CASES["two_valued"]
    assert available("stages")
    assert stages_model(case.quick()).n_stages == 1
    assert stages_model(case).get_params() == Staged().get_params()
