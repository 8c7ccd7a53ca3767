import math
from dataclasses import asdict, replace

import pytest

from pcarann.marching.report import RolloutReport

GOOD = RolloutReport(
    7, "", (0.01, 0.02, 0.04), (0.02, 0.03, 0.05), (0.2, 0.4, 0.6), (1.0, 1.0, 0.9), (("as given", 0.03),), "as given"
)


def test_a_report_prints_every_step_what_was_tried_and_on_how_many_it_was_judged():
    text = str(replace(GOOD, tried=(("as given", 4.0), ("ridge=0.01", 0.03)), chosen="ridge=0.01"))
    assert "judged on 7 trajectories" in text
    assert [line.split() for line in text.splitlines()[2:5]] == [
        ["1", "0.01", "0.02", "0.2", "1"],
        ["2", "0.02", "0.03", "0.4", "1"],
        ["3", "0.04", "0.05", "0.6", "0.9"],
    ]
    assert "Each step multiplies the error by 2." in text
    assert "as given 4; ridge=0.01 0.03" in text


def test_a_good_roll_out_is_no_reason_to_warn():
    assert GOOD.warning is None
    assert GOOD.error == 0.03


@pytest.mark.parametrize(
    ("median", "upper", "words"),
    [
        ((0.04, 0.3, 6.4), (0.1, 1.0, 9.0), "4 % at step 1, 640 % at step 3, above 10 % from step 2 on, worse than "),
        ((0.04, 0.5, 0.7), (0.1, 1.0, 9.0), "worse than persistence from step 2 on"),
        ((0.04, 0.3, 6.4), (0.1, 1.0, 9.0), "worse than the mean field from step 3 on"),
        ((0.01, 0.02, 0.03), (0.1, 1.0, math.inf), "1 % at step 1, 3 % at step 3"),
        ((0.01, 0.1, 0.3), (0.1, 0.2, 0.3), "30 % at step 3, above 10 % from step 3 on"),
    ],
    ids=["large", "persistence", "mean field", "not finite", "runs away"],
)
def test_a_roll_out_that_runs_away_is_told_in_one_sentence(median, upper, words):
    said = replace(GOOD, median=median, upper=upper).warning
    assert words in said
    assert said.count(". ") == 0
    assert "7 trajectories held out" in said


def test_a_model_fitted_again_that_is_much_worse_than_the_one_judged_is_told():
    assert replace(GOOD, seen_error=0.05).warning is None
    assert "rolls out with an error of 400 %" in replace(GOOD, seen_error=4.0).warning


def test_growth_of_one_step_is_unknown():
    assert math.isnan(replace(GOOD, median=(0.1,)).growth)


def test_what_was_not_judged_says_why():
    report = RolloutReport(0, "four trajectories are too few")
    assert str(report) == "The roll-out was not judged: four trajectories are too few."
    assert report.warning is None


def test_a_report_comes_back_from_its_document():
    assert RolloutReport.rebuilt(asdict(GOOD)) == GOOD
    with pytest.raises(ValueError):
        RolloutReport.rebuilt(asdict(GOOD) | {"upper": (0.1,)})
