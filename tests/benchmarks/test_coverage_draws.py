import json

import numpy as np
from benchmarks_path import benchmark_of

coverage = benchmark_of("coverage")


def test_draws_of_exchangeable_scores_cover_what_is_promised():
    scores = np.abs(np.random.default_rng(0).standard_t(3, size=(400, 5)))
    rows = {(row["calibration"], row["level"], row["method"]): row for row in coverage.drawn(scores, 60)}
    whole = rows[150, 0.9, "simultaneous"]
    assert abs(whole["mean"] - whole["expected"]) < 4 * whole["error"] + 0.01
    assert 0.7 < whole["std"] / whole["expected_std"] < 1.3
    assert rows[30, 0.5, "pooled"]["mean"] < rows[30, 0.95, "sample"]["mean"] <= 1


def test_the_worst_point_is_seen(tmp_path):
    scores = np.abs(np.random.default_rng(0).normal(size=(400, 20)))
    scores[:, 3] *= 100
    found = coverage.per_point(scores)["quantiles"]
    assert found["sample"][0] < 0.1
    assert found["local"][0] > 0.8


def test_a_run_is_recorded(tmp_path):
    (path,) = coverage.main(["--quick", "--repeats", "3", "--problems", "burgers", "-o", str(tmp_path)])
    rows = json.loads(path.read_text())["rows"]
    assert [row["surrogate"] for row in rows] == ["random", "one member", "kernel"]
    assert all(0 <= draw["mean"] <= 1 for row in rows for draw in row["draws"])
