import math

import numpy as np
import pytest

from pcarann.backend.arrays import to_host
from pcarann.metrics import coverage, mean_width, relative_l2, variance_weighted_r2


def test_relative_l2_is_the_mean_of_ratios_of_norms(backend):
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(2, 5, 3, 4))
    ratios = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(v, u, strict=True)]
    assert relative_l2(backend(v), backend(u)) == pytest.approx(np.mean(ratios))
    assert np.allclose(to_host(relative_l2(backend(v), backend(u), per_sample=True)), ratios)


@pytest.mark.parametrize("unit", [1e-170, 1e-300, 1e160, 1e300])
def test_errors_of_fields_whose_squares_are_no_numbers_are_those_of_ordinary_ones(backend, unit):
    u, v = np.random.default_rng(0).normal(size=(2, 5, 12))
    assert relative_l2(backend(unit * v), backend(unit * u)) == pytest.approx(relative_l2(v, u), rel=1e-12)
    both = np.stack([v[0], unit * v[1]]), np.stack([u[0], unit * u[1]])
    assert relative_l2(*map(backend, both)) == pytest.approx(relative_l2(v[:2], u[:2]), rel=1e-12)
    weights = np.arange(1.0, 6.0)
    for w in (None, weights):
        ordinary = variance_weighted_r2(v, u, w)
        assert variance_weighted_r2(backend(unit * v), backend(unit * u), w) == pytest.approx(ordinary, rel=1e-12)
    assert relative_l2([[unit, 0.0]], [[0.0, 0.0]]) == math.inf


def test_a_zero_truth_counts_as_zero_or_infinite():
    assert relative_l2([[0.0, 0.0]], [[0.0, 0.0]]) == 0.0
    assert relative_l2([[1e-9, 0.0]], [[0.0, 0.0]]) == math.inf


def test_coverage_counts_the_ends_of_an_interval(backend):
    low, high, truth = np.zeros((1, 4)), np.ones((1, 4)), np.array([[0.0, 1.0, 1.5, -0.1]])
    assert coverage(backend(low), backend(high), backend(truth)) == 0.5


def test_mean_width_averages_samples_and_points(backend):
    assert mean_width(backend(np.zeros((2, 2))), backend(np.array([[1.0, 2.0], [3.0, 6.0]]))) == 3.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: relative_l2(np.ones((2, 3)), np.ones((2, 4))),
        lambda: coverage(np.ones((2, 3)), np.ones((2, 3)), np.ones((3, 3))),
        lambda: mean_width(np.ones((2, 3)), np.ones((1, 3))),
    ],
)
def test_shapes_that_differ_are_refused_with_both(call):
    with pytest.raises(ValueError, match=r"got \(2, 3\) and"):
        call()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda T: relative_l2({"T": T}, {"T": T}), r"prediction has outputs by name.*prediction\['T'\]"),
        (lambda T: relative_l2(T, {"T": T}), "truth has outputs by name"),
        (lambda T: coverage({"T": T}, {"T": T}, {"T": T}), "lower has outputs by name"),
        (lambda T: mean_width(T, {"T": T}), "upper has outputs by name"),
    ],
)
def test_outputs_by_name_are_to_be_compared_one_by_one(call, says):
    with pytest.raises(ValueError, match=says):
        call(np.ones((2, 3)))


def test_empty_arrays_are_refused():
    with pytest.raises(ValueError, match="empty"):
        relative_l2(np.ones((0, 3)), np.ones((0, 3)))


def test_points_that_are_nan_in_every_sample_do_not_count(backend):
    truth, found = np.array([[3.0, np.nan, 4.0], [6.0, np.nan, 8.0]]), np.array([[3.0, 7.0, 0.0], [6.0, 7.0, 8.0]])
    assert to_host(relative_l2(backend(found), backend(truth), per_sample=True)).tolist() == [0.8, 0.0]
    assert coverage(backend(found - 1), backend(found + 1), backend(truth)) == 0.75
    low = np.where(np.isnan(truth), np.nan, 0.0)
    assert mean_width(backend(low), backend(low + 2)) == 2.0


def test_a_value_that_is_nan_in_some_samples_alone_or_everywhere_is_an_error():
    some, all_of_them = np.array([[np.nan, 1.0], [1.0, 1.0]]), np.full((2, 2), np.nan)
    for truth in (some, all_of_them):
        assert math.isnan(relative_l2(np.ones((2, 2)), truth))
