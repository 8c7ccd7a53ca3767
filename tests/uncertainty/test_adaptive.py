"""Intervals that follow a stream: the long-run share missed, jumps, slow drifts, levels in order."""

from dataclasses import replace

import numpy as np
import pytest

from pcarann.uncertainty.adaptive import LEVELS, WINDOW, Followed, Follower, middle_ranks
from pcarann.uncertainty.conformal import Calibration, PartsCalibration

POINTS, STEPS = 16, 320
AT = {0.1: list(LEVELS).index(0.1), 0.05: list(LEVELS).index(0.05)}


def scores(rng, size, points=POINTS):
    """Of samples whose points are alike: their common factor differs from sample to sample."""
    size = np.asarray(size, dtype=float)[:, None]
    return np.sort(np.abs(rng.normal(size=(len(size), points))) * np.exp(0.4 * rng.normal(size=size.shape)) * size)


STREAMS = {
    "none": np.ones(STEPS),
    "jump": np.r_[np.ones(100), np.full(STEPS - 100, 10.0)],
    "back": np.r_[np.ones(80), np.full(120, 10.0), np.ones(120)],
    "healing": np.r_[np.ones(100), 1 + 10 * np.exp(-np.arange(STEPS - 100) / 30)],
    "slow": np.exp(np.linspace(0, 3, STEPS)),
}


def along(calibration, stream, block=1):
    """After a stream by blocks, and what was missed of each sample by what was known before its block."""
    missed = []
    for start in range(0, len(stream), block):
        calibration, found = calibration.observed(stream[start : start + block])
        missed.append(found)
    return calibration, np.concatenate(missed)


def followed(name, seed=0):
    """What each level missed of each sample."""
    rng = np.random.default_rng(seed)
    return along(Calibration.of(scores(rng, np.ones(150)), 1e-8), scores(rng, STREAMS[name]))[1]


def rolling(values, window=100):
    return np.convolve(values, np.ones(window) / window, "valid")


@pytest.mark.parametrize("name", STREAMS)
def test_rolling_coverage_stays_within_three_points_of_its_level(name):
    found = np.mean([np.abs(rolling(followed(name, seed)[:, AT[0.1]]) - 0.1).max() for seed in range(2)])
    assert found < 0.03


@pytest.mark.parametrize("name", ["jump", "slow"])
def test_fixed_intervals_do_not(name):
    rng = np.random.default_rng(0)
    calibration = Calibration.of(scores(rng, np.ones(150)), 1e-8)
    missed = (scores(rng, STREAMS[name]) > calibration.quantile(0.1)).mean(axis=1)
    assert np.abs(rolling(missed) - 0.1).max() > 0.3


def test_the_long_run_share_is_the_level_whatever_comes():
    rng = np.random.default_rng(1)
    follower = Follower.start(scores(rng, np.ones(50), 4))
    hostile = [np.full(4, 3.0 if i % 7 < 3 else 0.02) for i in range(600)]  # against any forecast
    missed = []
    for row in hostile:
        follower, found = follower.observed(row[None, :])
        missed.append(found[0])
    bound = (np.log(3.0 / 0.02) + 1 + 0.2) / (0.2 * len(hostile))
    assert (np.abs(np.mean(missed, axis=0) - LEVELS) < bound).all()


def test_before_anything_is_observed_it_is_the_calibration():
    rng = np.random.default_rng(2)
    calibration = Calibration.of(scores(rng, np.ones(200)), 1e-8)
    start = Followed.start(np.asarray(calibration.scores), calibration.ranks, np.asarray(calibration.largest))
    for alpha in (0.05, 0.1, 0.3):
        assert start.points.factor(alpha) == pytest.approx(calibration.quantile(alpha), rel=0.01)
        assert start.whole.factor(alpha) == pytest.approx(calibration.quantile(alpha, "simultaneous"), rel=0.05)


def test_a_smaller_alpha_is_never_narrower():
    rng = np.random.default_rng(3)
    calibration, _ = along(Calibration.of(scores(rng, np.ones(300)), 1e-8), scores(rng, STREAMS["back"][:150]))
    for method in ("sample", "simultaneous"):
        found = [calibration.quantile(alpha, method) for alpha in np.linspace(0.005, 0.9, 60)]
        assert (np.diff(found) <= 0).all()


def test_whole_fields_are_held_too():
    rng, missed = np.random.default_rng(4), []
    calibration = Calibration.of(scores(rng, np.ones(150)), 1e-8)
    for row in scores(rng, STREAMS["healing"]):
        missed.append(row.max() > calibration.quantile(0.1, "simultaneous"))
        calibration, _ = calibration.observed(row[None, :])
    # 320 samples, each missed with probability 0.1: a deviation of 0.017
    assert np.mean(missed) == pytest.approx(0.1, abs=0.035)


def test_levels_beyond_the_stream_come_from_the_tail_of_the_calibration():
    rng = np.random.default_rng(5)
    fixed = Calibration.of(scores(rng, np.ones(2000), 4), 1e-8)
    calibration, _ = fixed.observed(scores(rng, np.ones(3), 4))
    assert np.isfinite(calibration.quantile(0.001))
    assert 0.5 < calibration.quantile(0.001) / fixed.quantile(0.001) < 2
    few, _ = Calibration.of(scores(rng, np.ones(5)), 1e-8).observed(scores(rng, np.ones(1)))
    assert few.quantile(0.05) == np.inf


@pytest.mark.parametrize("drifted", [0, 1])
def test_each_output_follows_by_itself(drifted):
    rng = np.random.default_rng(6)
    both = np.concatenate([scores(rng, np.ones(100)), 50 * scores(rng, np.ones(100), 1)], axis=1)
    calibration = PartsCalibration.of_parts(both, 1e-8, (POINTS, 1))
    assert calibration.factor(0.1, "sample", POINTS + 1)[-1] > 20 * calibration.factor(0.1, "sample", POINTS + 1)[0]
    sizes = np.repeat([5.0, 1.0] if drifted == 0 else [1.0, 5.0], [POINTS, 1])
    after, missed = along(calibration, sizes * np.tile(both, (2, 1)))
    ratio = after.factor(0.1, "sample", POINTS + 1) / calibration.factor(0.1, "sample", POINTS + 1)
    assert ratio == pytest.approx(sizes, rel=0.5)
    assert missed[20:, AT[0.1]].mean() == pytest.approx(0.1, abs=0.04)


def test_scores_that_are_nothing_do_not_make_intervals_vanish():
    rng = np.random.default_rng(11)
    calibration = Calibration.of(scores(rng, np.ones(100)), 1e-8)
    after, _ = along(calibration, np.zeros((10, POINTS)))  # covered by what may go wrong outside the data
    assert after.quantile(0.1) > 0.7 * calibration.quantile(0.1)
    halves = 0.3 * scores(rng, np.ones(10))
    outside, _ = calibration.observed(halves, np.zeros(10))
    assert outside.followed.points.ahead == pytest.approx(calibration.observed(halves)[0].followed.points.ahead[0])


def test_samples_that_come_together_are_judged_by_what_was_known_before():
    rng = np.random.default_rng(12)
    calibration = Calibration.of(scores(rng, np.ones(150)), 1e-8)
    stream = scores(rng, np.tile(np.repeat([1.0, 10.0], 40), 8))
    _, missed = along(calibration, stream, block=50)
    rng = np.random.default_rng(12)
    handed, state = [], calibration
    for start in range(0, len(stream), 50):
        block = stream[start : start + 50]
        handed.append((block > state.quantile(0.1)).mean(axis=1))
        state, _ = state.observed(block)
    assert missed[:, AT[0.1]] == pytest.approx(np.concatenate(handed))
    assert missed[:, AT[0.1]].mean() < 0.25  # fixed ones miss 0.38


def test_a_prediction_that_blew_up_is_missed_and_forgotten():
    rng = np.random.default_rng(7)
    calibration = Calibration.of(scores(rng, np.ones(100)), 1e-8)
    after, missed = calibration.observed(np.full((1, POINTS), np.inf))
    assert (missed == 1).all()
    assert after.quantile(0.1) < 2 * calibration.quantile(0.1)
    for _ in range(2):
        after, _ = after.observed(np.zeros((1, POINTS)))  # and a perfect one has no logarithm
    assert np.isfinite(after.quantile(0.1))


def test_no_more_samples_are_kept_than_the_window_holds():
    rng = np.random.default_rng(8)
    calibration, _ = Calibration.of(scores(rng, np.ones(300)), 1e-8).observed(scores(rng, np.ones(20)))
    assert calibration.followed.points.rows.shape == (WINDOW, 18)
    assert calibration.followed.whole.rows.shape == (WINDOW, 1)


def test_the_order_of_samples_matters_and_blocks_take_one_step():
    rng = np.random.default_rng(9)
    calibration, stream = Calibration.of(scores(rng, np.ones(60)), 1e-8), scores(rng, np.linspace(1, 5, 30))
    one, at_once = along(calibration, stream)[0], calibration.observed(stream)[0]
    assert at_once.followed.points.rows == pytest.approx(one.followed.points.rows)
    assert at_once.quantile(0.1) == pytest.approx(one.quantile(0.1), rel=0.5)
    assert along(calibration, stream[::-1, :])[0].quantile(0.1) < one.quantile(0.1)


def test_middle_ranks_stand_for_equal_shares():
    assert middle_ranks(10, 5) == [0, 2, 4, 6, 8]
    assert middle_ranks(3, 3) == [0, 1, 2]
    assert middle_ranks(2, 4) == [0, 0, 1, 1]


def test_many_scores_of_which_few_are_kept_begin_at_their_own_quantiles():
    rng = np.random.default_rng(5)
    calibration = Calibration.of(np.abs(rng.normal(size=(120, 400))), 1e-9)  # more than are kept whole
    after, _ = calibration.observed(np.abs(rng.normal(size=(1, 400))))
    assert after.followed.points.rows.shape[1] < 400 / 8
    for alpha in (0.05, 0.1, 0.2):
        assert after.quantile(alpha) == pytest.approx(calibration.quantile(alpha), rel=0.05)


def test_levels_that_the_samples_are_too_few_for_do_not_move():
    scores = np.ones((3, 4))
    after, _ = Follower.start(scores).observed(5 * scores[:1])
    few = np.asarray(LEVELS) < 1 / 4  # which a fourth sample would be needed for
    assert few.any()
    assert (after.shifts[few] == 0).all()
    assert (after.shifts[~few] > 0).all()


# Worked by hand


def test_the_smallest_level_is_one_of_the_samples_and_one_more_and_its_factor_the_largest_score():
    follower = Follower.start(np.arange(1.0, 10.0)[:, None])
    assert follower.least == pytest.approx(0.1)
    assert follower.factor(0.1) == pytest.approx(9.0)
    assert follower.factor(0.2) == pytest.approx(8.0)
    assert follower.factor(0.7) == pytest.approx(3.0)  # in binary arithmetic 10 (1 − 0.7) is more than 3
    assert follower.factor(0.09) == np.inf


def test_where_no_level_is_known_intervals_are_infinite_and_no_memory_loses():
    follower = Follower.start(np.array([[1.0, np.inf]]))
    assert follower.factor(0.9) == np.inf
    assert (follower.observed(np.ones((1, 2)))[0].losses <= follower.losses).all()


def test_at_the_start_memories_that_move_count_less():
    losses = Follower.start(np.ones((9, 1))).losses
    assert losses[0] == 0
    assert (np.diff(losses) > 0).all()


def test_a_calibration_that_blew_up_throughout_can_be_followed():
    follower, missed = Follower.start(np.full((20, 2), np.inf)).observed(np.ones((3, 2)))
    assert (missed == 0).all()
    assert follower.factor(0.1) == np.inf
    assert np.isfinite(follower.ahead).all()


def test_all_scores_are_kept_where_they_are_few():
    start = Followed.start(np.array([1.0, 2.0, 3.0, 4.0]), np.arange(1, 5), np.array([3.0, 4.0]))
    assert start.points.rows.tolist() == [[1, 3], [2, 4]]
    assert start.whole.rows.tolist() == [[3], [4]]


def test_memories_are_running_means_of_nothing_twenty_five_and_two_samples():
    after, _ = Follower.start(np.ones((9, 1))).observed(np.full((1, 1), np.e))
    assert after.ahead == pytest.approx([0, 1 / 20, 1 / 5, 1 / 2])


def test_memories_are_weighed_by_their_losses():
    ahead, weights = np.log([1.0, 2.0, 3.0, 5.0]), np.array([4, 2, 1, 1]) / 8
    follower = replace(Follower.start(np.ones((9, 2))), ahead=ahead)
    for common in (0.0, 1000.0):  # what all have lost decides nothing
        lost = replace(follower, losses=common - np.log(weights) / 4)
        assert np.log(lost.factor(0.1)) == pytest.approx(weights @ ahead)


@pytest.mark.parametrize("samples", [3, 199])
@pytest.mark.parametrize("moved", [1.0, -1.0])
def test_losses_are_those_of_quantiles_in_units_of_their_levels(samples, moved):
    start = replace(Follower.start(np.ones((samples, 1))), losses=np.zeros(4))
    after, _ = start.observed(np.exp([[moved]]))
    alphas = LEVELS[start.least <= LEVELS][-6:]  # 0.3 and 0.5 of three samples; the smallest level decides nothing
    odds = (1 - alphas) / alphas
    assert after.losses == pytest.approx(np.sqrt(odds**moved).mean())
    again, _ = replace(start, losses=np.full(4, 10.0)).observed(np.exp([[moved]]))
    assert again.losses - after.losses == pytest.approx(9.5)


def test_a_block_moves_shifts_by_no_more_than_what_it_missed():
    for points, samples, gain in ((2, 1, 0.2), (2, 3, 0.6), (2, 50, 1.0), (1, 1, 0.05), (1, 50, 1.0)):
        start = Follower.start(np.ones((199, points)))
        after, missed = start.observed(np.full((samples, points), 5.0))
        assert (missed == 1).all()
        assert after.shifts == pytest.approx(gain * (1 - LEVELS))


def test_beyond_the_levels_the_shift_of_the_last_one_goes_on():
    known = np.geomspace(1, 1000, 256)
    shifted = replace(Follower.start(known[:, None]), shifts=np.linspace(0.9, 0.2, len(LEVELS)))
    # k = ⌈257 (1 − α)⌉
    for alpha, k, shift in ((0.9, 26, 0.2), (0.5, 129, 0.2), (0.01, 255, 0.9), (0.005, 256, 0.9)):
        assert shifted.factor(alpha) == pytest.approx(known[k - 1] * np.exp(shift))


def test_units_of_scores_do_not_matter():
    rng = np.random.default_rng(13)
    known, stream = scores(rng, np.ones(60)), scores(rng, STREAMS["jump"][80:120])
    one = along(Calibration.of(known, 1.0), stream)[0]
    other = along(Calibration.of(1e5 * known, 1.0), 1e5 * stream)[0]
    assert other.quantile(0.1) == pytest.approx(1e5 * one.quantile(0.1))


def test_after_a_long_excursion_scores_of_the_old_size_count_again():
    follower = Follower.start(np.ones((50, 1)))
    follower, _ = follower.observed(np.full((100, 1), 1000.0))
    follower, _ = follower.observed(np.ones((20, 1)))
    assert np.exp(follower.ahead[-1]) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(("size", "counts"), [(0.1, True), (0.001, False)])
def test_scores_of_a_thousandth_are_nothing_and_of_a_tenth_something(size, counts):
    start = Follower.start(np.ones((50, 1)))
    assert (start.observed(np.full((1, 1), size))[0].ahead[-1] < 0) == counts


def test_levels_are_those_of_which_files_hold_shifts():
    assert LEVELS.tolist() == [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5]
