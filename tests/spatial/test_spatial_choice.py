"""What is settled on samples held out, one change at a time."""

import math

import pytest

from pcarann.spatial.channels import Channels
from pcarann.spatial.choice import settle
from pcarann.spatial.layout import Layout

LINE, PLANE = Layout.of((16,), (16,)), Layout.of((16, 16), (16, 16))
PERIODIC = LINE.ending(("periodic",), (False,))


def never(*_):
    raise AssertionError("there is nothing to try")


def test_nothing_to_choose_costs_nothing():
    found = settle([LINE], Channels(reach=0), never)
    assert (found.layout, found.channels, found.trials) == (LINE, Channels(reach=0), ())


def test_a_line_and_a_plane_begin_differently():
    assert settle([LINE], None, lambda *_: 1.0).channels == Channels(reach=2, singles=16, single=True)
    assert settle([PLANE], None, lambda *_: 1.0).channels == Channels(single=True)


@pytest.mark.parametrize(("error", "single"), [(1.005, True), (1.02, False)])
def test_single_precision_is_taken_where_the_error_stays(error, single):
    found = settle([PLANE], None, lambda _, seen: error if seen.single else 1.0)
    assert found.channels.single is single
    assert settle([PLANE], Channels(), lambda *_: 1.0).channels.single is False


@pytest.mark.parametrize(("error", "kept"), [(0.96, PERIODIC), (0.98, LINE)])
def test_other_ends_are_taken_where_the_error_falls_by_more_than_noise(error, kept):
    found = settle([LINE, PERIODIC], Channels(), lambda layout, _: error if layout is PERIODIC else 1.0)
    assert found.layout is kept
    assert [trial.name for trial in found.trials] == ["as usual", "ends periodic"]
    assert [trial.error for trial in found.trials] == [1.0, error]


def test_every_family_that_helps_is_kept():
    def tried(layout, seen):
        return (0.5 if seen.smoothed == math.inf else 1.0) * (0.5 if seen.singles >= 8 else 1.0)

    found = settle([PLANE], None, tried)
    assert found.channels == Channels(smoothed=math.inf, singles=8, single=True)


def test_further_wavenumbers_are_tried_only_as_long_as_they_help():
    asked = []

    def tried(layout, seen):
        asked.append(seen.singles)
        return 1.0 / min(seen.singles, 16)

    assert settle([PLANE], None, tried).channels.singles == 16
    assert max(asked) == 32


@pytest.mark.parametrize(("error", "reach"), [(0.9, 1), (0.8, 2)])
def test_a_longer_reach_must_bring_more(error, reach):
    assert settle([PLANE], None, lambda _, seen: error if seen.reach == 2 else 1.0).channels.reach == reach


@pytest.mark.parametrize(("error", "reach"), [(0.999, 1), (1.0, 2)])
def test_a_shorter_reach_must_only_be_no_worse(error, reach):
    def tried(_, seen):
        return error if seen.reach == 1 else 1.0

    assert settle([LINE], None, tried).channels.reach == reach


def test_what_was_of_use_only_while_others_were_missing_is_left_out_again():
    def tried(_, seen):
        if seen.singles == 4:
            return 0.5 if seen.smoothed else 1.0
        return 0.3 if seen.smoothed else 0.2

    found = settle([PLANE], None, tried)
    assert (found.channels.smoothed, found.channels.singles) == (None, 8)
    assert found.trials[-1].name == "nothing smoothed"


def test_a_larger_gain_is_tried():
    assert settle([PLANE], None, lambda _, seen: 1 / seen.gain).channels.gain == 1.0


def test_a_trial_that_fails_is_not_taken():
    found = settle(
        [LINE, PERIODIC], None, lambda layout, seen: 1.0 if layout is LINE and not seen.smoothed else math.inf
    )
    assert found.layout is LINE
    assert found.channels.smoothed is None


@pytest.mark.parametrize(("error", "reach"), [(0.55, 1), (0.65, 2)])
def test_a_longer_reach_is_given_up_where_it_was_of_use_only_without_smoothed_fields(error, reach):
    def tried(_, seen):
        if seen.smoothed == math.inf:
            return 0.5 if seen.reach == 2 else error
        return 0.8 if seen.reach == 2 else 1.0

    found = settle([PLANE], None, tried)
    assert (found.channels.smoothed, found.channels.reach) == (math.inf, reach)


def test_single_precision_is_not_tried_where_trials_are_too_fine_to_see_what_it_costs():
    found = settle([PLANE], None, lambda *_: 1e-4)
    assert found.channels.single is False
    assert "single precision" not in [trial.name for trial in found.trials]
