"""The best models: valid estimators, with symmetries that are those of the equations."""

import numpy as np
import pytest
from sklearn.base import clone

from pcarann import Marching, PCARaNN
from pcarann.backend.arrays import place_of
from pcarann.benchmark.best.models import ABLATIONS, best_model, symmetry_of
from pcarann.benchmark.paper.configurations import PROBLEMS
from pcarann.problems import backward_heat, burgers, darcy, navier_stokes
from pcarann.settings import Settings

CPU = place_of(None)
every_problem = pytest.mark.parametrize("name", list(PROBLEMS))
every_change = pytest.mark.parametrize(
    ("name", "change"), [(name, change) for name, changes in ABLATIONS.items() for change in changes]
)


def step_of(model):
    return model.model if isinstance(model, Marching) else model


# The estimators


@every_problem
@pytest.mark.parametrize("quick", [True, False], ids=["quick", "whole"])
def test_the_best_model_is_an_unfitted_estimator_with_valid_parameters(name, quick):
    model = best_model(name, quick=quick)
    assert isinstance(model, Marching) == (name == "navier_stokes")
    assert not hasattr(model, "model_")
    assert not hasattr(step_of(model), "fitted_")
    assert Settings.of(step_of(model)).symmetry is not None


@every_problem
def test_quick_changes_the_size_alone(name):
    whole, quick = (step_of(best_model(name, quick=quick)).get_params() for quick in (False, True))
    changed = {key for key in whole if key != "symmetry" and whole[key] != quick[key]}
    assert changed <= {"n_components", "widths", "n_members"}
    assert quick["symmetry"].generators == symmetry_of(name).generators


@every_change
def test_every_change_gives_a_valid_estimator_and_leaves_the_best_one_alone(name, change):
    model = best_model(name)
    before = step_of(model).get_params()
    changed = ABLATIONS[name][change](model)
    assert Settings.of(step_of(changed)) != Settings.of(step_of(model)) or type(changed) is not type(model)
    assert step_of(model).get_params() == before
    assert not hasattr(step_of(clone(changed)), "_fitted")


@every_problem
def test_the_symmetry_can_be_dropped_from_fit_or_prediction_alone(name):
    model = best_model(name)
    whole = step_of(model).symmetry
    fit = step_of(ABLATIONS[name]["symmetry in the fit alone"](model)).symmetry
    predict = step_of(ABLATIONS[name]["symmetry at prediction alone"](model)).symmetry
    assert (fit.n_fit, fit.n_predict) == (whole.n_fit, 1)
    assert (predict.n_fit, predict.n_predict) == (1, whole.n_predict)
    assert step_of(ABLATIONS[name]["without symmetry"](model)).symmetry is None


def test_without_marching_one_estimator_predicts_the_window():
    changed = ABLATIONS["navier_stokes"]["last snapshot to all ten, no marching"](best_model("navier_stokes"))
    assert isinstance(changed, PCARaNN)


# The symmetries are those of the equations


def test_solutions_of_burgers_equation_move_as_their_initial_states_do():
    data = burgers.generate(2, grid=100, steps=1, cache=False)
    group = symmetry_of("burgers").bind((101,), (101, 101))
    assert group.order == 200
    for element in group.subset(4, seed=0)[1:]:
        start = group.move_inputs(data.inputs, element)[:, :-1]
        states = burgers.evolve(start, viscosity=0.01, times=100, steps=1)
        solved = np.concatenate([states, states[..., :1]], axis=-1).reshape(2, -1)
        # 100 steps of rounding.
        assert np.allclose(solved, group.move_outputs(data.outputs.reshape(2, -1), element), rtol=0, atol=1e-12)


def test_darcy_pressures_move_as_their_permeabilities_do():
    a = darcy.permeabilities(range(1), CPU, seed=0, fine=29)
    u = darcy.solve(a, np.ones_like(a)).reshape(1, -1)
    group = symmetry_of("darcy").bind((29, 29), (29, 29))
    for element in range(8):
        moved = group.move_inputs(a.reshape(1, -1), element).reshape(a.shape)
        solved = darcy.solve(moved, np.ones_like(a)).reshape(1, -1)
        # Conjugate gradients end at a residual of 1e-12.
        assert np.abs(solved - group.move_outputs(u, element)).max() < 1e-11 * np.abs(u).max()


def test_one_step_of_navier_stokes_moves_as_its_initial_state_does():
    initial = navier_stokes.initial_states(range(1), CPU, seed=0, grid=64)
    group = symmetry_of("navier_stokes").bind((64, 64), (64, 64))
    assert group.order == 256
    options = dict(times=range(1, 2), viscosity=1e-3, forcing=0.1, steps=10)
    solved = navier_stokes.evolve(initial, **options).reshape(1, -1)
    for element in group.subset(6, seed=0)[1:]:
        moved = group.move_inputs(initial.reshape(1, -1), element).reshape(initial.shape)
        found = navier_stokes.evolve(moved, **options).reshape(1, -1)
        # 10 steps of rounding on vorticities of size 1.
        assert np.allclose(found, group.move_outputs(solved, element), rtol=0, atol=1e-12)


def test_heat_flows_backwards_as_its_last_state_is_moved():
    grid = 16
    initial = backward_heat.initial_states(range(2), CPU, seed=0, grid=grid, length=0.2)
    group = symmetry_of("backward_heat").bind((grid, grid), (20, grid, grid))
    alone = symmetry_of("backward_heat").bind((grid, grid), (grid, grid))
    options = dict(diffusivity=0.05, times=20, steps=2)
    states = backward_heat.evolve(initial, **options)
    for element in range(8):
        moved = alone.move_inputs(initial.reshape(2, -1), element).reshape(initial.shape)
        found = backward_heat.evolve(moved, **options)
        last, before = found[:, -1].reshape(2, -1), found[:, :-1].reshape(2, -1)
        assert np.allclose(last, group.move_inputs(states[:, -1].reshape(2, -1), element), rtol=0, atol=1e-13)
        assert np.allclose(before, group.move_outputs(states[:, :-1].reshape(2, -1), element), rtol=0, atol=1e-13)
