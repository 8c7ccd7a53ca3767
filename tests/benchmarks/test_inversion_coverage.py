"""Posteriors of many problems side by side are those of each alone, and the script counts what it says."""

from __future__ import annotations

import json

import benchmarks_path  # noqa: F401

# isort: split
import inversion
import numpy as np
import pytest


def test_draws_have_the_mean_and_the_covariance_of_a_gaussian():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0, 0.0], [5.0, -2.0, 1.0]])
    root = np.array([[1.0, 0.0, 0.0], [0.9, 0.3, 0.0], [0.0, 0.0, 10.0]])
    inverse = np.linalg.inv(root @ root.T)

    def density(parameters):
        missed = parameters - centres[:, None]
        return -0.5 * np.einsum("pwi,ij,pwj->pw", missed, inverse, missed)

    begun = centres[:, None] + rng.normal(size=(2, 24, 3))
    draws = inversion.evolved(density, begun, 3000, rng)[500:]
    for problem, centre in enumerate(centres):
        flat = draws[:, problem].reshape(-1, 3)
        assert np.allclose((flat.mean(axis=0) - centre) / np.diag(root @ root.T) ** 0.5, 0, atol=0.1)
        assert np.allclose(np.cov(flat.T).diagonal() / (root @ root.T).diagonal(), 1, atol=0.15)
    assert inversion.shrinkage(draws).max() < 1.05


def test_walkers_that_stay_apart_are_told():
    draws = np.random.default_rng(0).normal(size=(100, 1, 4, 1)) + np.array([0.0, 0.0, 3.0, 3.0])[:, None]
    assert inversion.shrinkage(draws).min() > 1.5


@pytest.mark.filterwarnings("ignore")
def test_a_quick_run_records_both_posteriors(tmp_path):
    pytest.importorskip("emcee", reason="the example draws with emcee")
    inversion.main(["--quick", "-o", str(tmp_path)])
    found = json.loads((tmp_path / "inversion.json").read_text())["found"]
    assert set(found) == {"with_model_error", "without"}
    assert all(len(one["of_each"]) == 12 for one in found.values())
