"""Counts of the floor on numbers worked out by hand."""

from __future__ import annotations

import benchmarks_path  # noqa: F401
import floor
import pytest

from pcarann.backend.arrays import place_of

SIZES = floor.Sizes(samples=10, input_values=20, output_values=40, inputs=2, outputs=3, widths=(6, 8), members=5)


def test_wide_pca_counts_gram_and_modes():
    # 10² · 20 = 2000; 2 · 10 · 20 · 2 = 800
    assert floor.pca(10, 20, 2) == {"gram": 2000, "modes": 800}


def test_tall_pca_takes_the_smaller_gram_matrix_whose_vectors_are_the_modes():
    # 30 · 20² = 12 000; 2 · 30 · 20 · 2 = 2400
    assert floor.pca(30, 20, 2) == {"gram": 12_000, "projection": 2400}


def test_dual_member_by_hand():
    # p = 14 > N = 10: Gram 10² · 14, Cholesky 1000/3, solves 2 · 100 · 3, HᵀB 2 · 10 · 14 · 3
    assert floor.member(SIZES) == {
        "W1x": 2 * 10 * 6 * 2,
        "W2h": 2 * 10 * 6 * 8,
        "gram": 1400,
        "cholesky": pytest.approx(1000 / 3),
        "solves": 600,
        "HB": 840,
    }


def test_primal_member_solves_with_the_features():
    # N = 20, p = 4
    assert floor.solve(20, 4, 3) == {"gram": 320, "cholesky": pytest.approx(64 / 3), "solves": 96, "HB": 480}


def test_fit_is_two_pcas_and_all_members():
    terms = floor.em_fit(SIZES)
    assert terms["input PCA"] == 2800
    assert terms["output PCA"] == 4000 + 2400
    assert floor.total(terms) == pytest.approx(2800 + 6400 + 5 * floor.total(floor.member(SIZES)))


def test_refined_fit_counts_every_value_of_the_loss_once():
    none = floor.total(floor.refined_fit(SIZES, scanned=0, descended=0))
    value = floor.loss(SIZES, 8)
    one = floor.total(floor.refined_fit(SIZES, scanned=1, descended=0))
    assert one - none == pytest.approx(floor.total(value))
    four = floor.total(floor.refined_fit(SIZES, scanned=4, descended=0))
    assert four - none == pytest.approx(4 * floor.total(value) - 3 * value["W2h"])
    descent = floor.total(floor.refined_fit(SIZES, scanned=0, descended=2))
    assert descent - none == pytest.approx(2 * (floor.total(value) + floor.total(floor.gradient(SIZES, 8))))


def test_spread_costs_as_many_decodings_as_members():
    mean = floor.prediction(7, SIZES)
    assert mean["decode"] == 2 * 7 * 40 * 3
    assert floor.total(floor.calibration(7, SIZES)) - floor.total(mean) == 5 * mean["decode"]


def test_adaptation_changes_form_when_rows_outgrow_features():
    assert "cross" in floor.adaptation(4, SIZES)  # 10 + 4 = 14 rows, 14 features
    # 15 rows: sums of 14² · 5, Cholesky 14³/3
    primal = floor.adaptation(5, SIZES)
    assert primal["gram"] == 980
    assert primal["cholesky"] == pytest.approx(14**3 / 3)


def test_rate_is_positive():
    assert floor.Products(place_of(None), size=50).rate(1) > 0
