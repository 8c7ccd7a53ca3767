import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from pcarann.benchmark.machine import machine_facts
from pcarann.benchmark.paper.experiments import reproduce
from pcarann.benchmark.records import read_records
from pcarann.benchmark.report.report import headline_table
from pcarann.cli import main

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(own_cache, tmp_path_factory):
    """Darcy in quick mode, with baselines, in a folder of its own; then everything beside it, with a report of all."""
    out = tmp_path_factory.mktemp("results")
    how = {"device": None, "quick": True, "repeats": 1, "budget": 1.0, "tell": lambda message: None}
    assert len(list(reproduce(["darcy"], out / "first", **how))) == 2 + 5
    shutil.copytree(out / "first", out / "records")
    result = CliRunner().invoke(main, ["reproduce", "all", "--quick", "--repeats", "1", "-o", str(out)])
    assert result.exit_code == 0, result.output
    return out


def test_quick_mode_rebuilds_every_table_and_figure(folder):
    kinds = [(r["problem"], r["kind"], r.get("variant") or r.get("method")) for r in read_records(folder / "records")]
    assert len(kinds) == 4 * 2 + 1 + 5
    text = (folder / "report.md").read_text()
    for heading in ("Performance comparison", "Scale refinement", "Single member", "Intervals", "Online adaptation"):
        assert heading in text
    assert len(list((folder / "figures").glob("*.svg"))) >= 8
    assert (folder / "report.html").stat().st_size > 100_000


def test_the_same_seed_gives_the_same_table(folder):
    for variant in ("energy", "refined"):
        one, two = (
            json.loads((folder / where / f"darcy-{variant}-cpu.json").read_text()) for where in ("first", "records")
        )
        assert one["seconds"] != two["seconds"]  # there were two runs
        for part in ("errors", "scales", "intervals", "solver"):
            assert one[part] == two[part]


def test_records_say_where_and_with_what_they_were_made(folder):
    for record in read_records(folder / "records"):
        assert record["quick"] is True
        assert record["machine"]["versions"]["numpy"]
        assert len(record["machine"]["sources"]) == 16


@pytest.mark.parametrize("budget", ["ten", "5x", ""])
def test_a_budget_that_is_no_time_is_refused(budget):
    result = CliRunner().invoke(main, ["reproduce", "darcy", "--quick", "--budget", budget])
    assert result.exit_code == 2
    assert "90s, 10m or 1h" in result.stderr


def test_the_readme_shows_the_table_of_the_records():
    assert headline_table(read_records(ROOT / "results" / "records")).strip() in (ROOT / "README.md").read_text()


def test_where_there_is_no_git_the_commit_is_unknown(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert machine_facts(None)["commit"] == "unknown"
