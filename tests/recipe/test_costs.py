import pytest

from pcarann.recipe.choice import ENERGY, Choice
from pcarann.recipe.costs import Size, Timing


def test_the_cost_of_a_fit_grows_with_members_copies_and_rows():
    seconds = {"choice": 0.0, "pca": 0.0, "members": 1.0, "rest": 0.0, "prediction": 0.0}
    timing = Timing(Choice(), Size(1000, 100, 2, 1, (64, 64)), seconds)
    assert timing.at(timing.size) == 1.0
    assert timing.at(Size(1000, 100, 4, 1, (64, 64))) == pytest.approx(2.0, rel=0.01)
    # 900 features become 1800, and the rows twice as many: 2³.
    assert timing.at(Size(2000, 100, 2, 1, (64, 64))) == pytest.approx(8.0, rel=0.1)
    assert timing.at(Size(1000, 100, 2, 2, (64, 64))) == pytest.approx(8.0, rel=0.1)


def test_no_more_is_foreseen_than_a_slow_machine_needs():
    seconds = dict.fromkeys(("choice", "pca", "members", "rest", "prediction"), 1e3)
    small, large = (Size(rows, 10, 2, 1, (8, 8)) for rows in (50, 100))
    # Seven overheads of 5e7 operations and little more, at 5e9 in a second.
    assert Timing(ENERGY, small, seconds).at(large) < 1.0
