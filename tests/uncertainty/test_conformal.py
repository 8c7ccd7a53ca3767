import math
from inspect import signature

import numpy as np
import pytest

from pcarann import PCARaNN
from pcarann.uncertainty.conformal import (
    Calibration,
    PartsCalibration,
    check_level,
    conformal_rank,
    kept_ranks,
    nonconformity_scores,
    samples_needed,
)


# Worked by hand: k = ⌈(NM + 1)(1 − α)⌉, ⌈(N + 1)M(1 − α)⌉, ⌈(N + 1)(1 − α)⌉.
@pytest.mark.parametrize(
    ("method", "alpha", "samples", "points", "k"),
    [
        ("pooled", 0.1, 3, 3, 9),  # 10 · 0.9 = 9
        ("pooled", 0.05, 2, 3, 7),  # 7 · 0.95 = 6.65
        ("sample", 0.25, 3, 2, 6),  # 8 · 0.75 = 6
        ("sample", 0.1, 9, 10, 90),  # 100 · 0.9 = 90
        ("sample", 0.1, 8, 10, 81),  # 90 · 0.9 = 81 > 80: infinite
        ("simultaneous", 0.05, 19, 7, 19),  # 20 · 0.95 = 19
        ("simultaneous", 0.05, 18, 7, 19),  # 19 · 0.95 = 18.05 > 18: infinite
        ("simultaneous", 0.9, 9, 1, 1),  # 10 · 0.1 = 1; in binary arithmetic ⌈10 (1 − 0.9)⌉ is 1, ⌈10 · 0.1⌉ too
        ("simultaneous", 0.29, 99, 1, 71),  # 100 · 0.71 = 71; 100 · (1 − 0.29) is 71.00000000000001 in binary
    ],
)
def test_ranks_worked_by_hand(method, alpha, samples, points, k):
    assert conformal_rank(alpha, samples, points, method) == k


def test_quantiles_of_a_table_worked_by_hand():
    scores = np.array([[1.0, 4.0], [2.0, 8.0], [3.0, 6.0]])
    table = Calibration.of(scores, floor=0.0)
    # pooled, α = 0.3: k = ⌈7 · 0.7⌉ = 5 of 1 2 3 4 6 8; sample: ⌈8 · 0.7⌉ = 6; simultaneous: ⌈4 · 0.7⌉ = 3 of 4 6 8
    assert table.quantile(0.3, "pooled") == 6.0
    assert table.quantile(0.3, "sample") == 8.0
    assert table.quantile(0.3, "simultaneous") == 8.0
    assert table.quantile(0.5, "simultaneous") == 6.0
    assert table.quantile(0.2, "sample") == table.quantile(0.2, "simultaneous") == math.inf


def test_scores_are_residuals_over_floored_spread():
    mean, std, truth = np.array([[1.0, 2.0]]), np.array([[0.5, 0.0]]), np.array([[2.0, 5.0]])
    assert np.array_equal(nonconformity_scores(mean, std, truth, 0.1), [[2.0, 30.0]])


def test_outside_the_data_the_score_is_the_least_factor_that_holds_the_truth():
    calibration = Calibration.of(np.ones((1, 1)), 0.1)
    # √(5² − 3²) / 2, √(1² − 0.8²) / 0.1, and an error that δ alone explains
    truth, std, beyond = (
        np.array([[5.0, 1.0, 3.0, -2.0]]),
        np.array([[2.0, 0.0, 1.0, 1.0]]),
        np.array([[3.0, 0.8, 3, 3]]),
    )
    found = nonconformity_scores(np.zeros((1, 4)), std, truth, 0.1, beyond)
    assert found == pytest.approx(np.array([[2.0, 6.0, 0.0, 0.0]]))
    assert calibration.half_width(std, found, beyond) == pytest.approx(np.array([[5.0, 1.0, 3.0, 3.0]]))


@pytest.mark.parametrize("mean", [np.nan, np.inf])
@pytest.mark.parametrize("beyond", [None, np.ones((1, 1))])
def test_a_prediction_that_is_no_number_is_covered_by_no_interval(mean, beyond):
    assert nonconformity_scores(np.full((1, 1), mean), np.ones((1, 1)), np.zeros((1, 1)), 0.1, beyond) == math.inf


@pytest.mark.parametrize("method", ["pooled", "sample", "simultaneous"])
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_the_number_of_samples_needed_is_the_fewest_with_a_finite_quantile(method, alpha):
    needed = samples_needed(alpha, 4, method)
    ranks = [conformal_rank(alpha, n, 4, method) for n in (needed - 1, needed)]
    slots = [(n if method == "simultaneous" else 4 * n) for n in (needed - 1, needed)]
    assert ranks[1] <= slots[1]
    assert needed == 1 or ranks[0] > slots[0]


def correlated_errors(rng, samples, points):
    """Errors of one sample share a random size: fields whose grid points err together."""
    return np.abs(rng.normal(size=(samples, points))) * np.exp(rng.normal(size=(samples, 1)))


def coverages(method, n_cal, alpha, trials, seed, points=5):
    """Share of the points (or of whole fields) of one fresh sample that is covered, over many calibrations."""
    rng = np.random.default_rng(seed)
    covered = np.empty(trials)
    for t in range(trials):
        q = Calibration.of(correlated_errors(rng, n_cal, points), 0.0, local=False).quantile(alpha, method)
        fresh = correlated_errors(rng, 1, points)[0]
        covered[t] = np.all(fresh <= q) if method == "simultaneous" else np.mean(fresh <= q)
    return covered


@pytest.mark.parametrize("n_cal", [10, 30, 100, 300])
@pytest.mark.parametrize("method", ["sample", "simultaneous"])
def test_coverage_is_at_least_nominal_within_binomial_bounds(method, n_cal):
    alpha, trials = 0.1, 4000
    covered = coverages(method, n_cal, alpha, trials, seed=n_cal)
    slack = 4 * covered.std() / math.sqrt(trials)
    assert covered.mean() >= 1 - alpha - slack
    # And not much more: the excess is at most one part in n_cal + 1 (plus ties, of which there are none).
    assert covered.mean() <= 1 - alpha + 1 / (n_cal + 1) + slack


@pytest.mark.parametrize(("n_cal", "short"), [(10, True), (100, False)])
def test_pooled_coverage_falls_short_for_few_correlated_samples(n_cal, short):
    alpha, trials = 0.1, 4000
    covered = coverages("pooled", n_cal, alpha, trials, seed=1, points=20)
    slack = 4 * covered.std() / math.sqrt(trials)
    assert (covered.mean() < 1 - alpha - slack) == short


@pytest.mark.parametrize("alpha", ["a", None, [0.1], 0.0, 1, True, math.nan])
def test_levels_that_are_no_share_are_refused(alpha):
    with pytest.raises(ValueError, match="alpha must be a number strictly between 0 and 1, got"):
        check_level(alpha, "sample")


def test_methods_that_do_not_exist_are_refused():
    check_level(0.1, "local")
    with pytest.raises(ValueError, match="method must be one of sample, pooled, simultaneous, local, got 'points'"):
        check_level(0.1, "points")


def test_intervals_hold_nineteen_of_twenty_unless_another_level_is_asked_for():
    assert signature(PCARaNN.predict_interval).parameters["alpha"].default == 0.05


# Few scores for many


@pytest.fixture(scope="module")
def scores():
    return np.random.default_rng(0).exponential(size=(300, 300))


@pytest.mark.parametrize("method", ["sample", "pooled"])
def test_quantiles_at_thousandths_are_those_of_all_scores(scores, method):
    kept, ordered = Calibration.of(scores, 1e-8), np.sort(scores, axis=None)
    assert len(kept.scores) < ordered.size / 4
    ranks = [conformal_rank(k / 1000, *scores.shape, method) for k in range(1, 1000)]
    wanted = [ordered[rank - 1] if rank <= ordered.size else np.inf for rank in ranks]
    assert [kept.quantile(k / 1000, method) for k in range(1, 1000)] == wanted


@pytest.mark.parametrize("method", ["sample", "pooled"])
def test_quantiles_at_other_levels_are_never_smaller_than_those_of_all_scores(scores, method):
    kept, ordered = Calibration.of(scores, 1e-8), np.sort(scores, axis=None)
    assert len(kept.scores) < ordered.size / 4
    alphas = np.random.default_rng(1).uniform(0.004, 0.999, 2000)
    wanted = np.array([ordered[conformal_rank(alpha, *scores.shape, method) - 1] for alpha in alphas])
    assert np.all([kept.quantile(alpha, method) for alpha in alphas] >= wanted)


def test_whole_fields_are_held_on_the_grid_of_the_calibration_and_on_no_finer_one():
    calibration = Calibration.of(np.arange(1.0, 58.0).reshape(19, 3), 1.0)
    assert calibration.factor(0.1, "simultaneous", 3) == calibration.quantile(0.1, "simultaneous") == 54.0
    with pytest.raises(ValueError, match="were calibrated for 3 values, but 4 are predicted"):
        calibration.factor(0.1, "simultaneous", 4)


def test_few_scores_are_kept_whole_and_of_more_both_ends_and_every_thousandth():
    assert np.array_equal(kept_ranks(2, 2**14), np.arange(1, 2**15 + 1))
    assert len(kept_ranks(1, 2**15 + 1)) < 2**15
    found, total = kept_ranks(3000, 1000), 3_000_000
    exact = {conformal_rank(k / 1000, 3000, 1000, how) for k in range(1, 1000) for how in ("sample", "pooled")}
    assert exact <= set(found.tolist())
    assert found[:100].tolist() == list(range(1, 101))
    assert found[-100:].tolist() == list(range(total - 99, total + 1))


def test_the_level_that_a_stream_just_has_samples_for_is_finite():
    few = Calibration.of(np.arange(1.0, 6.0)[:, None], 1.0)
    after, _ = few.observed(np.arange(1.0, 5.0)[:, None])
    assert few.quantile(0.1) == math.inf
    assert math.isfinite(after.quantile(0.1))  # of nine samples


# Factors of points along a stream: those of the calibration, times now / then


def test_local_factors_change_together_with_the_size_of_scores():
    scores = 0.1 * np.random.default_rng(2).exponential(size=(40, 3))
    calibration = Calibration.of(scores, 1.0)
    after = calibration.observed(3 * scores[:20])[0]
    change = after.factor(0.1, "local", 3) / calibration.factor(0.1, "local", 3)
    assert change == pytest.approx(np.full(3, change[0]))
    assert 1.2 < change[0] < 5


def test_local_factors_stay_infinite_where_the_calibration_was_too_small():
    few = Calibration.of(np.ones((5, 2)), 1.0)
    after = few.observed(np.ones((5, 2)))[0]
    assert math.isfinite(after.quantile(0.1))
    assert (after.factor(0.1, "local", 2) == math.inf).all()


def test_local_factors_stay_where_most_scores_were_nothing():
    scores = np.tile([0.0, 0.0, 0.0, 1.0], (9, 1))
    calibration = Calibration.of(scores, 1.0)
    assert calibration.quantile(0.5) == 0
    assert calibration.observed(scores)[0].factor(0.5, "local", 4).tolist() == [0, 0, 0, 1]


# Outputs side by side


def test_each_output_has_the_factor_of_all_times_its_own_high_quantile():
    scores = np.random.default_rng(3).exponential(size=(40, 3)) * [1.0, 1.0, 100.0]
    parts = PartsCalibration.of_parts(scores, 1.0, (2, 1))
    gains = np.array([np.quantile(scores[:, :2], 0.9), np.quantile(scores[:, 2], 0.9)])
    assert parts.gains == pytest.approx(gains)
    whole = Calibration.of(scores / gains[[0, 0, 1]], 1.0)
    for method in ("sample", "pooled", "simultaneous"):
        assert parts.factor(0.1, method, 3) == pytest.approx(whole.quantile(0.1, method) * gains[[0, 0, 1]])


def test_the_share_missed_of_each_sample_is_a_mean_over_outputs():
    parts = PartsCalibration.of_parts(np.random.default_rng(4).uniform(1, 2, (200, 3)), 1.0, (2, 1))
    _, missed = parts.observed(np.array([[9.0, 0, 0], [0, 0, 9.0], [9.0, 9.0, 9.0], [0, 0, 0]]))
    assert (missed.T == [0.25, 0.5, 1, 0]).all()
