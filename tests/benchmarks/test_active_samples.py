"""The comparison of chosen and random samples counts what it says."""

from __future__ import annotations

import json

import benchmarks_path  # noqa: F401

# isort: split
import active
import numpy as np
import pytest


def test_a_share_is_that_of_the_samples_after_which_chance_is_reached():
    chance = np.array([1.0, 0.5, 0.4, 0.3, 0.2])  # after 20, 30, 40, 50, 60 samples
    assert active.share(np.array([1.0, 0.3, 0.2, 0.1, 0.1]), chance) == pytest.approx(40 / 60)
    assert active.share(chance, chance) == 1.0
    assert active.share(chance + 1, chance) == 1.5


def test_solutions_solve_their_equations():
    rng = np.random.default_rng(0)
    (k, h, q), fin = (part[0] for part in active.fin(rng, 1))
    root = np.sqrt(5 * h / k)
    exact = q / (5 * h) * (1 - np.cosh(root * (1 - active.X)) / np.cosh(root))
    assert np.allclose(fin, exact, rtol=0, atol=0.01 * exact.max())
    f, v = (part[0] for part in active.smooth(rng, 1))
    step = active.X[1]
    left = -(v[2:] - 2 * v[1:-1] + v[:-2]) / step**2 + v[1:-1] ** 3
    assert np.allclose(left, f[1:-1], rtol=0, atol=1e-6 * np.abs(f).max())
    (logarithm, b), layer = (part[0] for part in active.PROBLEMS["layer"](rng, 1))
    exact = active.X / b - np.expm1(b * active.X / np.exp(logarithm)) / np.expm1(b / np.exp(logarithm)) / b
    assert np.allclose(layer, exact, rtol=0, atol=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_a_quick_run_records_every_problem(tmp_path):
    active.main(["--quick", "-o", str(tmp_path / "active.json")])
    record = json.loads((tmp_path / "active.json").read_text())
    assert list(record["shares"]) == list(active.PROBLEMS)
