"""The drift alarm: how often it is false, how soon it is raised, and from where it counts."""

import numpy as np
import pytest

from pcarann.uncertainty.alarm import RUN, DriftTest


def raised_at(errors, calibration):
    """When the alarm is raised, and when it says that the drift began; None where it is not raised."""
    test = DriftTest.start(calibration)
    for count, error in enumerate(errors, start=1):
        test = test.observed(error, count)
        if test.raised:
            return count, test.low + 1
    return None


def test_false_alarms_are_as_rare_as_promised():
    rng, streams, length = np.random.default_rng(0), 150, 600
    raised = sum(raised_at(rng.lognormal(size=length), rng.lognormal(size=40)) is not None for _ in range(streams))
    # At most n / RUN = 6 %, so 9 of 150, with a deviation of 2.9.
    assert raised <= streams * length / RUN + 3 * 2.9


@pytest.mark.parametrize(("larger", "within"), [(10.0, 8), (3.0, 15), (2.0, 40)])
def test_larger_errors_raise_it_soon(larger, within):
    rng, late = np.random.default_rng(1), []
    for _ in range(10):
        errors = rng.lognormal(size=160, sigma=0.5)
        errors[60:] *= larger
        found = raised_at(errors, rng.lognormal(size=100, sigma=0.5))
        late.append((found[0] - 60, abs(found[1] - 61)))
    delay, off = np.median(late, axis=0)
    assert delay <= within
    assert off <= 5


def test_smaller_errors_never_raise_it():
    rng = np.random.default_rng(2)
    assert raised_at(0.2 * rng.lognormal(size=500), rng.lognormal(size=50)) is None


def test_errors_that_are_no_numbers_count_as_the_largest():
    rng = np.random.default_rng(3)
    assert raised_at(np.full(30, np.nan), rng.lognormal(size=100)) == raised_at(
        np.full(30, np.inf), rng.lognormal(size=100)
    )


def test_a_bet_gains_nothing_on_uniform_ranks():
    calibration = np.arange(999.0)
    bets = [DriftTest.start(calibration).observed(rank - 0.5, 1).sums for rank in range(1000)]
    # The mean over all ranks is a sum from above of ∫ ε p^(ε−1) dp = 1.
    assert (np.mean(bets, axis=0) <= 1).all()
    assert (np.mean(bets, axis=0) > 0.8).all()
