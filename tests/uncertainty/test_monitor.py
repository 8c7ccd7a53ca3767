"""What a surrogate has met: rolling numbers, drifts that begin and end, and when it should be fitted again."""

import numpy as np
import pytest

from pcarann import PCARaNN
from pcarann.latent.pca import fit_pca
from pcarann.uncertainty.monitor import History, Met, Monitor, unheld

USUAL = np.random.default_rng(0).lognormal(size=100, sigma=0.3)


def errors(size, count, seed=1):
    return size * np.random.default_rng(seed).lognormal(size=count, sigma=0.3)


def met(values, learned=True, history=None):
    history = History.calibrated(USUAL) if history is None else history
    for value in values:
        history = history.after(Met.of(1, errors=np.array([value])), learned=learned)
    return history


def test_a_calm_stream_needs_nothing():
    found = Monitor.of(met(errors(1, 120)), None, None)
    assert (found.observed, found.learned, found.alarm, found.needs_refit, found.reason) == (120, 120, None, False, "")
    assert found.error == pytest.approx(found.usual_error, rel=0.1)
    assert "drift      none" in str(found)
    assert "refit      not needed" in str(found)


def test_a_drift_that_stays_asks_for_a_fit_and_says_why():
    history = met(np.r_[errors(1, 40), errors(5, 70)])
    assert history.alarm.began == pytest.approx(41, abs=12)
    found = Monitor.of(history, (50.0, 170.0), 0.9)
    assert found.needs_refit
    assert "although it adapts: fit again" in found.reason
    assert "memory     50 samples count, 120 forgotten, forgetting 0.9" in str(found)
    frozen = Monitor.of(met(np.r_[errors(1, 40), errors(5, 70)], learned=False), None, None)
    assert "it was not adapted: adapt it with partial_fit" in frozen.reason


def test_a_drift_that_was_learned_ends_and_another_one_begins():
    history = met(np.r_[errors(1, 20), errors(6, 20), errors(1, 120)])
    assert history.alarm is None
    assert history.alarms[0].ended is not None
    assert "earlier from sample 2" in str(Monitor.of(history, None, None))
    again = met(errors(6, 20, seed=2), history=history)
    assert len(again.alarms) == 2
    assert again.alarm is again.alarms[1]


def test_each_drift_is_said_once():
    history, said = History.calibrated(USUAL), []
    for value in np.r_[errors(1, 20), errors(6, 40)]:
        after = history.after(Met.of(1, errors=np.array([value])), learned=True)
        said += after.said(history)
        history = after
    assert len(said) == 1
    assert said[0].startswith("Errors are no longer those of the calibration, since sample 2")


def test_outputs_outside_the_modes_are_said_once_and_ask_for_a_fit():
    history, said = History(0.01), []
    for _ in range(3):
        after = history.after(Met.of(4, unheld=np.array([0.2, 0.3, 0.2, 0.3])), learned=True)
        said += after.said(history)
        history = after
    assert len(said) == 1
    assert "leave the span of the output modes: 0.25 of them lies outside" in said[0]
    assert history.reason == said[0]
    calm = history.after(Met.of(100, unheld=np.full(100, 0.001)), learned=True)
    assert not calm.reason
    assert calm.after(Met.of(30, unheld=np.full(30, 0.3)), learned=True).said(calm)  # it left again


def test_a_few_outputs_that_are_a_little_outside_the_modes_say_nothing():
    history = History(0.01)
    for share in (0.03, 0.001, 0.002, 0.03, 0.03, *[0.001] * 30):
        after = history.after(Met.of(1, unheld=np.array([share])), learned=False)
        assert not after.said(history)
        history = after


def test_outputs_around_the_limit_are_said_once():
    history, said = History(0.01), []
    for share in np.tile(np.repeat([0.03, 0.015], 30), 3):
        after = history.after(Met.of(1, unheld=np.array([share])), learned=True)
        said += after.said(history)
        history = after
    assert len(said) == 1


def test_errors_that_come_back_from_smaller_ones_are_no_drift():
    rng = np.random.default_rng(1)
    history = History.calibrated(rng.uniform(0.5, 1.5, 100))
    calm = np.concatenate([0.05 * rng.uniform(0.5, 1.5, 300), rng.uniform(0.5, 1.5, 100)])
    assert not history.after(Met.of(len(calm), errors=calm), learned=False).alarms


def test_an_alarm_ends_as_it_would_one_by_one():
    rng = np.random.default_rng(0)
    errors = np.concatenate([size * rng.uniform(0.5, 1.5, count) for size, count in ((1, 100), (20, 200), (1, 150))])
    whole = slow = History.calibrated(rng.uniform(0.5, 1.5, 100))
    whole = whole.after(Met.of(len(errors), errors=errors), learned=False)
    for error in errors:
        slow = slow.after(Met.of(1, errors=np.array([error])), learned=False)
    assert whole.alarms == slow.alarms
    assert whole.alarms[0].ended > 300


def test_without_an_error_to_compare_with_nothing_is_said():
    history = History().after(Met.of(2, errors=np.ones(2), unheld=np.ones(2)), learned=False)
    assert (history.said(History()), history.reason, history.alarm) == ([], "", None)
    assert str(Monitor.of(History(), None, None)).startswith("Nothing was observed yet")


def test_what_modes_cannot_hold_is_the_distance_from_their_span():
    rng = np.random.default_rng(3)
    fields = rng.normal(size=(30, 2)) @ np.eye(5)[:2]
    pca = fit_pca(fields, 2)[0]
    assert np.abs(unheld(pca, fields)).max() < 1e-7
    other = np.array([[3.0, 0, 4.0, 0, 0], [0, 0, 0, 0, 0]])
    assert unheld(pca, other) == pytest.approx([0.8, 0.0], abs=1e-7)


# On a model


def pairs(count, seed, gain=1.0, extra=0.0):
    rng, x = np.random.default_rng(seed), np.linspace(0, 1, 20)
    a = rng.uniform(-1, 1, (count, 2))
    u = 2 + gain * np.tanh(a @ np.sin(np.pi * np.outer([1, 2], x))) + 0.01 * rng.normal(size=(count, 1)) * x
    return a, u + extra * np.cos(9 * np.pi * x)


@pytest.fixture
def model():
    return (
        PCARaNN((2, 6), (40, 25), n_members=3, scales=(1.0, 0.5), ridge=1e-4)
        .fit(*pairs(80, 0))
        .calibrate(*pairs(60, 1))
    )


def test_watching_changes_no_prediction_and_learning_does(model):
    a, u = pairs(3, 2, gain=1.5)
    before = model.predict(a)
    model.observe(a, u)
    assert np.array_equal(model.predict(a), before)
    assert (model.monitor.observed, model.monitor.learned) == (3, 0)
    model.partial_fit(a, u)
    assert np.abs(model.predict(a) - u).mean() < np.abs(before - u).mean()
    assert (model.monitor.observed, model.monitor.learned) == (6, 3)


@pytest.mark.parametrize("way", ["observe", "partial_fit"])
def test_intervals_widen_where_the_world_has_changed_and_stay_available(model, way):
    a, u = pairs(40, 2, gain=3.0)
    before = model.predict_interval(a[30:], alpha=0.1)
    with pytest.warns(UserWarning, match="^Errors are no longer those of the calibration"):
        getattr(model, way)(a[:30], u[:30])
    after = model.predict_interval(a[30:], alpha=0.1)
    covered = [((band.lower <= u[30:]) & (u[30:] <= band.upper)).mean() for band in (before, after)]
    assert covered[0] < 0.3
    assert covered[1] > 0.75


def test_samples_are_judged_before_they_are_learned(model):
    watched = PCARaNN(**model.get_params()).fit(*pairs(80, 0)).calibrate(*pairs(60, 1))
    a, u = pairs(3, 2, gain=1.2)
    assert model.partial_fit(a, u).monitor.error == watched.observe(a, u).monitor.error
    assert model.monitor.coverage == watched.monitor.coverage


def test_outputs_that_leave_the_modes_are_reported_without_a_calibration():
    model = PCARaNN((2, 4), (40, 25), n_members=2, scales=(1.0, 0.5), ridge=1e-4).fit(*pairs(80, 0))
    with pytest.warns(UserWarning, match="^New outputs leave the span of the output modes"):
        model.partial_fit(*pairs(5, 2, extra=1.0))
    model.partial_fit(*pairs(5, 3, extra=1.0))  # a second warning would be an error
    assert model.monitor.needs_refit
    assert np.isnan(model.monitor.error)


def test_a_model_that_is_not_calibrated_can_be_watched():
    model = PCARaNN((2, 6), (40, 25), n_members=2, scales=(1.0, 0.5), ridge=1e-4).fit(*pairs(80, 0))
    found = model.observe(*pairs(20, 2)).monitor
    assert found.error == pytest.approx(found.usual_error, rel=0.5)
    assert (found.alarm, np.isnan(found.coverage[0.9])) == (None, True)


def test_novelty_is_a_matter_of_inputs_alone(model):
    a, u = pairs(20, 2)
    with pytest.warns(UserWarning, match="outside the training data"):
        model.observe(3 * a[:2], u[:2])
    assert model.monitor.novelty > 0.5
