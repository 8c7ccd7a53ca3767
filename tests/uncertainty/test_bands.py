import numpy as np
import pytest

from pcarann.backend.arrays import place_of
from pcarann.uncertainty.bands import Spread, band, gathered, scored
from pcarann.uncertainty.conformal import Calibration

RNG = np.random.default_rng(0)
MEAN, STD, TRUTH = RNG.normal(size=(3, 40, 5))
STD = np.abs(STD) + 0.1


def blocks(size, beyond=None):
    for start in range(0, len(MEAN), size):
        rows = slice(start, min(start + size, len(MEAN)))
        yield rows, MEAN[rows], STD[rows], None if beyond is None or start else beyond[rows]


@pytest.mark.parametrize("size", [1, 7, 40])
def test_blocks_of_any_size_gather_to_the_whole(size):
    found = gathered(blocks(size), 40, 5, place_of(MEAN))
    assert np.array_equal(found.mean, MEAN)
    assert np.array_equal(found.std, STD)
    assert found.beyond is None


def test_a_block_outside_the_data_leaves_zeros_elsewhere_and_joins_the_spread():
    found = gathered(blocks(10, beyond=np.ones((40, 5))), 40, 5, place_of(MEAN))
    assert np.array_equal(found.beyond, np.repeat([1.0, 0.0], [10, 30])[:, None] * np.ones(5))
    assert np.allclose(found.std[:10], np.sqrt(STD[:10] ** 2 + 1))
    assert np.array_equal(found.std[10:], STD[10:])


def calibration_of(*given):
    found = scored(*given)
    return Calibration.of(found.scores, found.floor)


def test_errors_are_relative_to_the_true_fields():
    truth = np.array([[3.0, 4.0], [0.0, 0.0]])
    blocks = [(slice(0, 2), truth + np.array([[0.0, 1.0], [0.0, 0.0]]), np.ones((2, 2)), None)]
    assert scored(blocks, truth, 1.0).errors == pytest.approx([0.2, 0.0])


@pytest.mark.parametrize("size", [1, 7, 40])
def test_scores_do_not_depend_on_the_blocks(size):
    found = calibration_of(blocks(size), TRUTH, 1.0)
    assert np.array_equal(found.scores, np.sort((np.abs(TRUTH - MEAN) / STD).ravel()))


def test_the_floor_follows_the_size_of_the_fields():
    assert calibration_of(blocks(40), TRUTH, 1e6).floor == 1e6 * calibration_of(blocks(40), TRUTH, 1.0).floor
    assert calibration_of(blocks(40), TRUTH, 0.0).floor > 0
    assert calibration_of(blocks(40), TRUTH, 1.0).floor == 1e-8  # that of the paper


def test_a_band_holds_the_share_that_was_asked_for_of_what_calibrated_it():
    found = band(calibration_of(blocks(40), TRUTH, 1.0), Spread(MEAN, STD, None), 0.1, "pooled")
    inside = (found.lower <= TRUTH) & (found.upper >= TRUTH)
    assert 0.9 <= inside.mean() <= 0.91
    assert np.allclose(found.upper - found.mean, found.mean - found.lower)


def test_too_few_samples_give_infinite_bands_and_say_how_many_are_needed():
    few = calibration_of([(slice(0, 3), MEAN[:3], STD[:3], None)], TRUTH[:3], 1.0)
    with pytest.warns(UserWarning, match="3 calibration samples are too few for alpha=0.1 .* 9 are needed") as caught:
        found = band(few, Spread(MEAN, STD, None), 0.1, "sample")
    assert np.isinf(found.upper).all()
    assert caught[0].filename == __file__
