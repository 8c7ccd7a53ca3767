"""Runs on rough inputs, in quick mode: records, their names, the command."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from pcarann.benchmark.records import read_records, record_name
from pcarann.benchmark.rough import experiments
from pcarann.benchmark.rough.cases import CASES
from pcarann.benchmark.rough.experiments import run_rough
from pcarann.benchmark.rough.models import METHODS, available
from pcarann.cli import main
from pcarann.metrics import relative_l2

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def parts(own_cache):
    return CASES["two_valued"].quick().generate(seed=0)


@pytest.mark.parametrize("method", ["latent", "kernel", "random_features"])
def test_a_run_gives_a_record_of_what_was_run_and_found(parts, method):
    record = run_rough(CASES["two_valued"].quick(), method, parts)
    assert (record["kind"], record["problem"], record["method"]) == ("rough", "two_valued", method)
    assert (record["n_train"], record["sizes"], record["quick"]) == (40, [40, 10], True)
    assert record["seeds"] == {"data": 0, "model": 0}
    assert (record["choice"] is not None) == (method == "latent")
    assert min(record["seconds"], record["predict_seconds"], record["error_std"]) > 0
    mean = np.broadcast_to(parts[0].outputs.mean(axis=0), parts[1].outputs.shape)
    assert 0 < record["error"] < relative_l2(mean, parts[1].outputs)
    json.dumps(record)


def test_seeds_sizes_and_methods_have_records_of_their_own():
    plain = {"kind": "rough", "problem": "two_valued", "place": "cpu"}
    runs = [(m, n, seed) for m in METHODS for n in (50, 200, 1000) for seed in (0, 1)]
    names = {record_name(plain | {"method": m, "n_train": n, "seeds": {"data": seed}}) for m, n, seed in runs}
    assert len(names) == len(runs)
    assert "two_valued-fno-seed1-n200-cpu" in names


def test_the_command_writes_records_of_all_cases_and_a_table(tmp_path, monkeypatch):
    """Without networks and with one seed, for time."""
    monkeypatch.setattr(experiments, "SEEDS", (0,))
    result = CliRunner().invoke(main, ["reproduce", "rough", "--best", "--quick", "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    found = {(r["problem"], r["method"], r["n_train"]) for r in read_records(tmp_path / "records")}
    methods = {method for method in METHODS if available(method) and method != "fno"}
    assert found == {(case, method, n) for case in CASES for method in methods for n in (20, 40)}
    assert "## Rough inputs" in (tmp_path / "report.md").read_text()


def test_networks_are_trained_where_there_is_a_budget(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(experiments, "SEEDS", (0, 1))
    monkeypatch.setattr(experiments, "METHODS", {"fno": "FNO"})
    monkeypatch.setattr(experiments, "CASES", {"rough_burgers": CASES["rough_burgers"]})
    paths = experiments.reproduce_rough(tmp_path, device="cpu", quick=True, budget=5.0, tell=lambda _: None)
    names = [path.stem for path in paths]
    assert names == [f"rough_burgers-fno-seed{seed}-n{n}-cpu" for seed, n in ((0, 20), (0, 40), (1, 20))]


def test_rough_cases_are_not_the_papers(tmp_path):
    result = CliRunner().invoke(main, ["reproduce", "rough", "-o", str(tmp_path)])
    assert result.exit_code == 2
    assert "The rough cases are not the paper's: add --best." in " ".join(result.stderr.replace("│", " ").split())
