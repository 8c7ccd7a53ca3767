"""What the script on Monte Carlo measures is what it says."""

from __future__ import annotations

import json

import benchmarks_path  # noqa: F401

# isort: split
import monte_carlo
import numpy as np
import pytest

from pcarann.backend.arrays import place_of


def measured(evaluations, patience):
    sizes = []
    record = monte_carlo.measured(
        lambda X: sizes.append(len(X)),
        lambda n, rng: rng.normal(size=(n, 2)),
        evaluations,
        30,
        place_of(None),
        patience,
    )
    return record, sizes


def test_all_evaluations_are_measured_where_there_is_time():
    record, sizes = measured(100, 60.0)
    assert sizes == [30, 30, 30, 30, 10]  # the first is not counted
    assert (record["measured"], record["extrapolated"]) == (100, False)


def test_the_rest_is_extrapolated_where_there_is_none():
    record, sizes = measured(100, 1e-12)
    assert len(sizes) == 2
    assert (record["measured"], record["extrapolated"]) == (30, True)


def test_combinations_keep_mean_and_variance():
    fields = np.random.default_rng(0).normal(size=(400, 3)) * [1.0, 2.0, 3.0] + [5.0, 0.0, 0.0]
    drawn = monte_carlo.combinations(fields, place_of(fields))(20000, np.random.default_rng(1))
    assert np.allclose(drawn.mean(axis=0), fields.mean(axis=0), atol=0.1)
    assert np.allclose(drawn.std(axis=0), fields.std(axis=0), rtol=0.05)


@pytest.mark.filterwarnings("ignore")
def test_a_quick_run_records_every_case(tmp_path):
    pytest.importorskip("skfem", reason="the plate is solved with scikit-fem")
    monte_carlo.main(["--quick", "-o", str(tmp_path)])
    record = json.loads((tmp_path / "cpu.json").read_text())
    assert list(record["cases"]) == ["plate", "navier_stokes_kernel", "navier_stokes_paper"]
    assert all(set(case) >= {"quantity", "quantity_with_std", "fields"} for case in record["cases"].values())
    assert record["cases"]["plate"]["emcee_call_by_call"]["measured"] == 24 * 3
