"""The comparison on the plate: its norms, its table, and methods of ours and of others run."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from benchmarks_path import benchmark_of

pytest.importorskip("skfem", reason="the plate is solved with scikit-fem")
pytest.importorskip("meshio", reason="the example writes meshes with meshio")


@pytest.fixture(scope="module")
def benchmark():
    return benchmark_of("plate")


@pytest.fixture(scope="module")
def small(benchmark):
    return benchmark.load((60, 20, 20), 0)


def test_lumped_masses_add_up_to_the_area(benchmark, small):
    # The hole of the coarse mesh is a polygon of 24 corners.
    hole = 12 * np.sin(np.pi / 12) * 25.0**2
    assert small.weights.sum() == pytest.approx(200.0**2 - hole, rel=1e-12)


def test_an_exact_answer_has_no_error_and_an_interval_around_it_covers(benchmark, small):
    truth = small.test[1]
    exact = benchmark.judged(small, truth, truth - 1, truth + 1)
    assert (exact["error"], exact["error_by_area"], exact["coverage"]) == (0.0, 0.0, 1.0)
    assert set(benchmark.judged(small, 1.1 * truth, None, None)) == {"error", "error_by_area"}
    assert benchmark.judged(small, 1.1 * truth, None, None)["error_by_area"] == pytest.approx(0.1, rel=1e-9)


def test_quick_mode_writes_record_and_table(benchmark, tmp_path):
    path = benchmark.main(["--quick", "--methods", "channels", "ours", "-o", str(tmp_path)])
    methods = json.loads((tmp_path / "plate.json").read_text())["methods"]
    assert set(methods) == {"channels", "ours"}
    # The mean field has an error of 0.69.
    assert methods["channels"]["error"] < 0.2
    assert 0.7 < methods["channels"]["coverage"] <= 1
    assert "these numbers mean nothing" in path.read_text()


def test_a_rival_answers_from_a_process_of_its_own(benchmark):
    found = benchmark.measure_rival("sklearn_gpr", benchmark.load((22, 1, 8), 0), sys.executable)
    assert found["error"] < 0.6  # that of the mean field is 0.83
    assert 0 < found["coverage"] <= 1
    assert found["modes"] == 20


def test_why_a_rival_failed_is_said_in_the_record(benchmark, small):
    assert benchmark.measure_rival("unheard_of", small, sys.executable) == {"failed": "KeyError: 'unheard_of'"}
