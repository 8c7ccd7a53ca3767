import json
import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from pcarann import Marching, PCARaNN
from pcarann.backend.arrays import place_of
from pcarann.benchmark.best.experiments import SEEDS, SIZES, run_best
from pcarann.benchmark.best.models import ABLATIONS, best_model, symmetry_of
from pcarann.benchmark.best.noise import NOISES, OTHERS, noisy_split, run_noisy
from pcarann.benchmark.paper.configurations import PROBLEMS
from pcarann.benchmark.records import read_records, record_name, write_record
from pcarann.problems import backward_heat, burgers, darcy, navier_stokes
from pcarann.problems.dataset import OperatorData
from pcarann.settings import Settings

CPU = place_of(None)
every_problem = pytest.mark.parametrize("name", list(PROBLEMS))
every_change = pytest.mark.parametrize(
    ("name", "change"), [(name, change) for name, changes in ABLATIONS.items() for change in changes]
)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PCARANN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def records(cache):
    return {name: run_best(PROBLEMS[name].quick()) for name in ("burgers", "darcy")}


def step_of(model):
    return model.model if isinstance(model, Marching) else model


# The estimators


@every_problem
@pytest.mark.parametrize("quick", [True, False], ids=["quick", "whole"])
def test_the_best_model_is_an_unfitted_estimator_with_valid_parameters(name, quick):
    model = best_model(name, quick=quick)
    assert isinstance(model, Marching) == (name == "navier_stokes")
    assert not hasattr(model, "model_")
    assert not hasattr(step_of(model), "_fitted")
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


# Runs


@pytest.mark.parametrize("name", ["burgers", "darcy"])
def test_a_run_gives_a_record_of_what_was_run_and_found(records, name):
    record = records[name]
    assert (record["kind"], record["problem"], record["change"], record["noise"]) == ("best", name, None, 0.0)
    assert record["seeds"] == {"data": 0, "model": 0}
    assert (record["n_train"], record["sizes"]) == (60, [60, 40, 10])
    assert record["quick"] is True
    assert 0 < record["error"] < 0.3
    assert min(record["error_std"], record["seconds"], record["predict_seconds"]) > 0
    assert set(record["intervals"]) == {"pooled", "sample", "simultaneous"}
    for found in record["intervals"].values():
        assert 0.7 < found["coverage"] <= 1
        assert 0 < found["width"] < np.inf


@pytest.mark.parametrize("name", ["burgers", "darcy"])
def test_the_record_holds_the_size_of_the_model_that_was_fitted(records, name):
    assert (records[name]["members"], tuple(records[name]["widths"])) == (2, (40, 30))


@pytest.mark.parametrize("name", ["burgers", "darcy"])
def test_the_same_run_gives_the_same_numbers(records, name):
    again = run_best(PROBLEMS[name].quick())
    for part in ("error", "error_std", "intervals"):
        assert again[part] == records[name][part]


@pytest.mark.parametrize("name", ["burgers", "darcy"])
def test_the_symmetry_lowers_the_error(records, name):
    without = run_best(PROBLEMS[name].quick(), change="without symmetry", intervals=False)
    assert without["change"] == "without symmetry"
    assert "intervals" not in without
    assert records[name]["error"] < without["error"]


def test_fewer_samples_and_other_data_are_told_and_change_the_error(records):
    fewer = run_best(PROBLEMS["burgers"].quick(), n_train=20, seed=1, intervals=False)
    assert (fewer["n_train"], fewer["seeds"]["data"]) == (20, 1)
    assert fewer["error"] > records["burgers"]["error"]


def test_noise_on_the_inputs_raises_the_error():
    problem = replace(PROBLEMS["backward_heat"].quick(), options={"grid": 16, "steps": 2})
    clean, noisy = (run_best(problem, noise=noise, intervals=False) for noise in (0.0, 0.05))
    assert noisy["noise"] == 0.05
    assert noisy["error"] > 1.5 * clean["error"]


@pytest.mark.filterwarnings("ignore:.*inputs lie outside the training data")  # ten samples are few
@pytest.mark.parametrize("change", [None, *(name for name in ABLATIONS["navier_stokes"] if "to all ten" in name)])
def test_navier_stokes_is_run_by_marching_and_without(change):
    problem = replace(PROBLEMS["navier_stokes"].quick(), n_train=10, n_calibration=20, n_test=4)
    record = run_best(problem, change=change)
    assert np.isfinite([record["error"], *(found["width"] for found in record["intervals"].values())]).all()
    assert record["error"] < 1.0
    assert bool(record["channel_shares"]) == (change is not None and "channels" in change)


# Names of records


def test_all_that_is_run_gets_a_name_of_its_own_that_any_file_system_takes():
    names = []
    for name, changes in ABLATIONS.items():
        plain = {"kind": "best", "problem": name, "place": "cpu", "sizes": [1000, 300, 100], "n_train": 1000}
        runs = [{"change": change} for change in (None, *changes)]
        runs += [{"seeds": {"data": seed}} for seed in SEEDS[1:]]
        runs += [{"n_train": n, "change": change} for n in SIZES[:-1] for change in (None, "without symmetry")]
        runs += [{"noise": noise, "change": change} for noise in NOISES for change in (None, *changes)]
        names += [record_name(plain | {"change": None, "noise": 0.0, "seeds": {"data": 0}} | run) for run in runs]
    assert len(set(names)) == len(names)
    assert len({name.lower() for name in names}) == len(names)
    for name in names:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,120}", name), name


def test_a_record_is_written_and_read_back(records, tmp_path):
    path = write_record(tmp_path, records["darcy"])
    assert path.name == "darcy-best-seed0-cpu.json"
    assert read_records(tmp_path) == [json.loads(json.dumps(records["darcy"]))]


# Other methods with noise


@pytest.mark.parametrize("method", OTHERS)
def test_every_other_method_is_run_on_noisy_inputs(method):
    if method in ("pca_nn", "deeponet", "fno"):
        pytest.importorskip("torch")
    problem = replace(PROBLEMS["backward_heat"].quick(), options={"grid": 16, "steps": 2})
    record = run_noisy(problem, method, 0.05)
    assert (record["kind"], record["method"], record["noise"]) == ("noisy", method, 0.05)
    assert 0 < record["error"] < 10
    assert record_name(record) == f"backward_heat-{method}-noise0_05-cpu"


def test_noise_is_the_same_for_every_method_and_of_the_level_asked_for():
    problem = PROBLEMS["backward_heat"].quick()
    fields = np.random.default_rng(0).normal(size=(sum(problem.sizes), 6))
    data = OperatorData(fields, fields)
    clean, noisy, again = (noisy_split(problem, data, level) for level in (0.0, 0.05, 0.05))
    for one, other, same in zip(clean, noisy, again, strict=True):
        assert np.array_equal(other.inputs, same.inputs)
        assert np.array_equal(one.outputs, other.outputs)
        assert (other.inputs - one.inputs).std() == pytest.approx(0.05, rel=0.2)
    assert not np.array_equal(noisy[0].inputs[:10] - clean[0].inputs[:10], noisy[2].inputs - clean[2].inputs)
