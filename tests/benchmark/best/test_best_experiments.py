"""Runs of the best models: what their records hold, and what symmetry, samples and noise do to the error."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from pcarann.benchmark.best import experiments
from pcarann.benchmark.best.experiments import SEEDS, SIZES, run_best
from pcarann.benchmark.best.models import ABLATIONS
from pcarann.benchmark.best.noise import NOISES
from pcarann.benchmark.paper.configurations import PROBLEMS
from pcarann.benchmark.records import read_records, record_name, write_record

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def records(own_cache):
    return {name: run_best(PROBLEMS[name].quick()) for name in ("burgers", "darcy")}


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


@pytest.mark.filterwarnings("ignore:.*inputs? lies? outside the training data")  # ten samples are few
@pytest.mark.parametrize("change", [None, *(name for name in ABLATIONS["navier_stokes"] if "to all ten" in name)])
def test_navier_stokes_is_run_by_marching_and_without(change):
    problem = replace(PROBLEMS["navier_stokes"].quick(), n_train=10, n_calibration=20, n_test=4)
    record = run_best(problem, change=change)
    assert np.isfinite([record["error"], *(found["width"] for found in record["intervals"].values())]).all()
    assert record["error"] < 1.0
    assert bool(record["channel_shares"]) == (change is not None and "channels" in change)


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


def test_all_runs_of_a_problem_are_others(monkeypatch):
    """What is run at full size, without running it."""
    asked = []
    monkeypatch.setattr(experiments, "stages_records", lambda *_: [])
    monkeypatch.setattr(experiments, "run_best", lambda problem, **how: asked.append((problem.name, *how.items())))
    monkeypatch.setattr(
        experiments, "run_best_adaptation", lambda problem, way, device: asked.append((problem.name, way))
    )
    for problem in PROBLEMS.values():
        list(experiments._best_records(problem, None, str))
    assert len(set(map(repr, asked))) == len(asked)
    assert {one[1] for one in asked if isinstance(one[1], str)} == set(experiments.ADAPTED)
    noisy = {dict(one[1:])["noise"] for one in asked if len(one) > 3 and "noise" in dict(one[1:])}
    assert noisy == set(NOISES)
