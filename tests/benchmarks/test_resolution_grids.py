"""Samples on all grids are restrictions of one solution, and the script measures what it says."""

from __future__ import annotations

import json

import benchmarks_path  # noqa: F401

# isort: split
import numpy as np
import pytest
import resolution


def test_coarser_samples_are_restrictions_of_finer_ones():
    data = resolution.darcy(range(2))
    for coarse, fine in ((29, 57), (29, 85)):
        step = (fine - 1) // (coarse - 1)
        for small, large in zip(data[coarse], data[fine], strict=True):
            assert np.array_equal(small, large[:, ::step, ::step])


@pytest.mark.filterwarnings("ignore:.* outside .* training data", "ignore:n_components=")
def test_every_method_is_measured_on_every_grid_and_kept_beside_the_others(tmp_path):
    pytest.importorskip("torch")
    options = ["--quick", "--device", "cpu", "-o", str(tmp_path)]
    resolution.main([*options, "--methods", "latent"])
    table = resolution.main([*options, "--methods", "stages", "--fno"]).read_text()
    runs = json.loads((tmp_path / "resolution.json").read_text())["runs"]
    assert list(runs) == ["latent 29", "stages 29", "fno 29"]
    assert all(list(run["grids"]) == ["29", "57", "85"] for run in runs.values())
    assert all(0 < one["error"] < 1 for run in runs.values() for one in run["grids"].values())
    assert all(f"| {resolution.TITLES[method]} | 29² |" in table for method in ("latent", "stages", "fno"))
