"""Runs of stages on the four problems: what their records hold."""

import json

import pytest
from sklearn.base import clone

from pcarann.benchmark.best import stages
from pcarann.benchmark.best.stages import STAGE_CHANGES, run_stages, stages_model
from pcarann.benchmark.paper.configurations import PROBLEMS
from pcarann.benchmark.records import record_name
from pcarann.marching.estimator import Marching
from pcarann.staged import Staged

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def records(own_cache):
    return {name: run_stages(PROBLEMS[name].quick(), n_train=40) for name in ("burgers", "darcy")}


@pytest.mark.parametrize("name", ["burgers", "darcy"])
def test_a_run_gives_a_record_that_json_holds(records, name):
    record = records[name]
    assert json.loads(json.dumps(record)) is not None
    assert (record["kind"], record["n_train"], record["change"]) == ("stages", 40, None)
    assert 0 < record["error"] < 0.3
    assert len(record["stages"]) in (1, 2)
    assert set(record["intervals"]) == {"pooled", "sample", "simultaneous"}
    assert record_name(record) == f"{name}-stages-seed0-n40-cpu"


def test_the_ends_that_were_found_are_recorded(records):
    assert records["burgers"]["ends"] == ("periodic",)


@pytest.mark.parametrize("name", PROBLEMS)
def test_flows_are_marched_and_maps_are_not(name):
    assert isinstance(stages_model(name), Marching if name in ("burgers", "navier_stokes") else Staged)


@pytest.mark.parametrize(("name", "change"), [(name, c) for name, changes in STAGE_CHANGES.items() for c in changes])
def test_a_change_changes_something_and_leaves_the_model_alone(name, change):
    model = stages_model(name)
    before = repr(clone(model))
    changed = STAGE_CHANGES[name][change](model)
    assert repr(model) == before
    assert repr(changed) != before


def test_all_runs_of_a_problem_are_others(monkeypatch):
    """What is run at full size, without running it."""
    monkeypatch.setattr(stages, "run_stages", lambda problem, **how: how)
    asked = {
        name: [{key: how[key] for key in how if key not in ("device", "tell")} for how in runs]
        for name, runs in ((name, stages.stages_records(PROBLEMS[name], None, print)) for name in PROBLEMS)
    }
    for runs in asked.values():
        assert len({json.dumps(how, sort_keys=True) for how in runs}) == len(runs)
    assert asked["backward_heat"] == [{"seed": 0}, {"noise": 0.01}]
    assert {how["n_train"] for how in asked["darcy"] if "n_train" in how} == {50, 100, 200, 500}
    for name, changes in stages.STAGE_CHANGES.items():
        assert {how.get("change") for how in asked[name]} == {None, *changes}
