import json

import numpy as np
import pytest
from benchmarks_path import benchmark_of

honesty = benchmark_of("honesty")
problems = benchmark_of("honesty_problems")


@pytest.mark.parametrize("name", problems.PROBLEMS)
def test_problems_are_finite_and_depend_on_the_seed_alone(name):
    (X, y), again, other = (problems.problem(name, 12, seed) for seed in (0, 0, 1))
    assert np.isfinite(X).all()
    assert np.isfinite(y).all()
    np.testing.assert_array_equal(again[1], y)
    assert np.abs(other[1] - y).max() > 0


def test_a_summary_counts_reports_that_promise_too_much():
    row = {"surrogate": "PCARaNN", "repeats": 1, "samples": 20}
    rows = [row | {"ratio": ratio} for ratio in (0.1, 0.9, 1.0, 3.0)] + [row | {"failed": "ValueError"}]
    (found,) = honesty.summary_of_reports(rows)
    assert (found["fits"], found["failed"], found["median"]) == (5, 1, 0.95)
    assert (found["below_half"], found["above_double"]) == (0.25, 0.25)


def test_a_run_is_recorded(tmp_path):
    arguments = ["--quick", "--workers", "1", "--parts", "report", "--surrogates", "PCARaNN", "-o", str(tmp_path)]
    (path,) = honesty.main(arguments)
    record = json.loads(path.read_text())
    assert {row["problem"] for row in record["rows"]}.isdisjoint(problems.ASIDE)
    assert all(row["ratio"] > 0 for row in record["rows"])
    assert {line["samples"] for line in record["summary"]} == {20}
