"""The comparison on meshes: it runs, and Darcy's equation is solved in the disc."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from benchmarks_path import benchmark_of

pytest.importorskip("skfem", reason="the disc is solved with scikit-fem")


@pytest.fixture(scope="module")
def benchmark():
    return benchmark_of("mesh")


def test_flow_through_one_phase_is_a_parabola(benchmark):
    mesh = benchmark.disc(quick=True).mesh
    u = benchmark._flow(mesh, np.full(mesh.nodes, 3.0))
    radius = np.linalg.norm(mesh.points, axis=1)
    exact = (radius.max() ** 2 - radius**2) / (4 * 3.0)
    assert np.linalg.norm(u - exact) < 0.05 * np.linalg.norm(exact)


def test_quick_mode_writes_record_and_table(benchmark, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mesh_benchmark", benchmark)
    path = benchmark.main(["--quick", "--cases", "disc", "norms", "-o", str(tmp_path)])
    cases = json.loads((tmp_path / "mesh.json").read_text())["cases"]
    assert set(cases["disc"]["methods"]) == {"latent", "stages"}
    assert set(cases["norms"]["methods"]) == {"uniform", "graded"}
    assert 0 < cases["disc"]["methods"]["stages"]["runs"][0]["error_by_area"] < 1
    assert "these numbers mean nothing" in path.read_text()
