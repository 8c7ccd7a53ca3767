"""Quick mode from end to end, and one measurement in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import benchmarks_path  # noqa: F401
import growth
import growth_stages
import measure
import numpy as np
import pytest
import report
import run
from threadpoolctl import threadpool_limits

from pcarann.backend.arrays import place_of


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The record and the table of one problem with every stage."""
    folder = tmp_path_factory.mktemp("speed")
    # Threads of linear algebra wait for each other longer than they work on matrices this small.
    with pytest.MonkeyPatch.context() as patch, threadpool_limits(1):
        patch.setenv("PCARANN_CACHE", str(folder / "cache"))
        table = run.main(["--quick", "--problems", "burgers", "-o", str(folder)])
    return json.loads((folder / "burgers-cpu.json").read_text()), table.read_text()


def test_every_stage_is_measured_and_compared(finished):
    record, _ = finished
    wanted = {"em", "bfgs", "bfgs_from_zero", "single", "predict", "calibrate", "adapt"}
    assert set(record["stages"]) == wanted
    for stage, found in record["stages"].items():
        assert found["ours"]["seconds"] > 0
        assert report.floor_seconds(record, stage) > 0
        assert "literal" in found


def test_record_says_where_and_how_it_was_made(finished):
    record, _ = finished
    assert record["quick"]
    assert record["machine"]["sources"]
    assert record["stages"]["em"]["literal"]["scaled"] == {"members_timed": 2, "members": 3}
    assert record["stages"]["single"]["literal"]["seconds"] < record["stages"]["em"]["literal"]["seconds"]


def test_adaptation_equals_the_batch_refit(finished):
    record, _ = finished
    # Cholesky of H Hᵀ + 1e-2 I: about ten digits are left.
    assert record["stages"]["adapt"]["ours"]["difference"] < 1e-7


def test_peers_have_errors_or_a_reason(finished):
    record, _ = finished
    assert {"ezyrb_rbf", "ezyrb_gpr", "ezyrb_ann", "sklearn_mlp", "sklearn_kernel_ridge", "kernel"} == set(
        record["peers"]
    )
    for name, peer in record["peers"].items():
        assert ("error" in peer) != ("failed" in peer)
        if name.startswith("sklearn"):
            assert np.isfinite(peer["error"])


def test_table_names_every_stage_and_warns_of_quick_mode(finished):
    record, table = finished
    assert "these numbers mean nothing" in table
    assert all(report.TITLES[stage] in table for stage in record["stages"])
    assert "Peers that are both faster and more accurate" in table


def test_verdict_names_a_peer_that_wins_on_both_counts():
    ours = {"seconds": 2.0, "error": 0.2}
    peers = {"better": {"seconds": 1.0, "error": 0.1}, "faster": {"seconds": 1.0, "error": 0.3}}
    record = {"problem": "darcy", "stages": {"em": {"ours": ours}}, "peers": peers}
    assert report._verdict([record]).endswith(": better beats our EM ensemble fit on Darcy.")
    assert report._verdict([{**record, "peers": {}}]).endswith(": none.")


def test_a_slow_call_is_not_repeated():
    calls: list[int] = []
    _, record = measure.measured(lambda: calls.append(1), place=place_of(None), repeats=3, slow=-1.0)
    assert len(calls) == len(record["runs"]) == 1


def test_a_process_of_its_own_answers_or_says_why_not():
    script = Path(run.__file__).with_name("task.py")
    request = {"task": "ours.em", "problem": "darcy", "quick": True, "device": None, "repeats": 1}
    assert measure.in_fresh_process(script, request, limit=120)["flops_per_second"] > 0
    assert "limit of 0.01 s" in measure.in_fresh_process(script, request, limit=0.01)["failed"]
    broken = measure.in_fresh_process(script, {**request, "task": "none"}, limit=120)
    assert "KeyError" in broken["failed"]


def test_slope_of_a_power_law_is_its_exponent():
    sizes = [1, 2, 4, 8]
    assert growth.slope(sizes, [9.0, *(n**1.5 for n in sizes[1:])]) == pytest.approx(1.5)


def test_growth_writes_record_table_and_figures(tmp_path):
    with threadpool_limits(1):
        path = growth.main(["--quick", "--repeats", "1", "--axes", "samples", "width", "-o", str(tmp_path)])
    axes = json.loads(path.read_text())["axes"]
    assert axes["samples"]["sizes"] == [60, 120]
    assert axes["width"]["counted_slopes"]["PCA"] == pytest.approx(0.0, abs=1e-9)
    assert {file.suffix for file in tmp_path.iterdir()} == {".json", ".md", ".png", ".svg"}


def test_growth_of_stages_is_measured_in_processes_of_their_own(tmp_path):
    path = growth_stages.main(["--quick", "--repeats", "1", "--axes", "points", "-o", str(tmp_path)])
    axis = json.loads(path.read_text())["axes"]["points"]
    assert axis["sizes"] == [81, 144]
    assert all(row["process_bytes"] > row["peak_bytes"] >= 0 for row in axis["rows"])
    assert all(row["seconds"]["fit"] > 0 for row in axis["rows"])
    assert {file.suffix for file in tmp_path.iterdir()} == {".json", ".md", ".png", ".svg"}
