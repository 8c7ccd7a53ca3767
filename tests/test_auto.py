import time
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from conftest import periodic_pairs
from pcarann import PCARaNN, Symmetry, load
from pcarann.auto import AutoReport, Choice, _Search, chosen_parameters, judge_symmetry, search
from pcarann.metrics import coverage, relative_l2

UNITS = np.array([1e5, 1e-3, 1.0])
TURN = 2 * np.pi * np.arange(32) / 32


def table(n, seed=0):
    """Three numbers in, a smooth nonlinear response of all of them out."""
    p = np.random.default_rng(seed).uniform(-1, 1, size=(n, 3))
    x = np.linspace(0, 1, 12)
    return p, 1 + np.sin(2 * p[:, :1] * x) + (p[:, 1:2] * x) ** 2 + np.cos(p[:, 2:] + x)


def half_irrelevant(n, seed=0):
    """Two slow waves that the output depends on, under ten fast ones that it does not."""
    rng = np.random.default_rng(seed)
    slow, fast = rng.uniform(-1, 1, size=(n, 2)), rng.uniform(-1, 1, size=(n, 10))
    waves = [f(k * TURN) for k in (1, *range(6, 11)) for f in (np.sin, np.cos)]
    return np.concatenate([slow, fast], axis=1) @ waves, 1 + np.sin(slow[:, :1] + TURN) * np.cos(slow[:, 1:])


def error(model, inputs, outputs):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* inputs lie more than")
        return relative_l2(model.predict(inputs), outputs)


P, U = table(160)
TRAIN, TEST = (P[:60], U[:60]), (P[60:], U[60:])


@pytest.fixture(scope="module")
def model():
    return PCARaNN.auto(*TRAIN)


# What is found


def test_a_table_of_parameters_in_wild_units_is_solved_far_better_than_by_default():
    found = PCARaNN.auto(UNITS * TRAIN[0], TRAIN[1])
    with pytest.warns(UserWarning, match="n_components"):
        default = PCARaNN().fit(UNITS * TRAIN[0], TRAIN[1])
    assert found.auto_report_.choice.unit
    assert error(found, UNITS * TEST[0], TEST[1]) < error(default, UNITS * TEST[0], TEST[1]) / 10


def test_an_irrelevant_part_of_the_input_is_found_and_set_aside():
    inputs, outputs = half_irrelevant(160)
    found = PCARaNN.auto(inputs[:60], outputs[:60])
    chosen = found.auto_report_.choice
    assert chosen.steps or chosen.modes or chosen.smoothing or chosen.power < 0
    kernel = PCARaNN(n_components=(0.999999, 0.999999), regressor="kernel", ridge="gcv").fit(inputs[:60], outputs[:60])
    assert error(found, inputs[60:], outputs[60:]) < error(kernel, inputs[60:], outputs[60:]) / 10


def test_a_noisy_linear_problem_is_solved_about_as_well_as_by_least_squares():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(160, 6)), rng.normal(size=(6, 10))
    noisy = A @ B + 0.3 * rng.normal(size=(160, 10))
    found = PCARaNN.auto(A[:60], noisy[:60])
    oracle = np.linalg.lstsq(A[:60], noisy[:60])[0]
    assert error(found, A[60:], A[60:] @ B) < 1.5 * relative_l2(A[60:] @ oracle, A[60:] @ B)


def test_the_choice_is_better_than_the_first_trial_on_samples_never_seen(model):
    first = PCARaNN(**chosen_parameters(Choice(), *TRAIN, (3,))).fit(*TRAIN)
    assert error(model, *TEST) < 0.7 * error(first, *TEST)


def test_the_unit_of_the_inputs_does_not_matter(model):
    scaled = PCARaNN.auto(1e20 * TRAIN[0], TRAIN[1])
    # The ridge is down to 1e-9 of the features, by which rounding is magnified.
    assert np.allclose(scaled.predict(1e20 * TEST[0]), model.predict(TEST[0]), rtol=1e-6)


@pytest.mark.parametrize("side", [0, 1])
def test_constant_inputs_or_outputs_give_the_mean(side):
    pair = [part[:20].copy() for part in TRAIN]
    pair[side][:] = 3.0
    assert np.allclose(PCARaNN.auto(*pair).predict(pair[0]), pair[1].mean(axis=0), rtol=1e-6)


# The report


def test_the_report_lists_every_trial_once_with_its_error(model):
    trials = dict(model.auto_report_.trials)
    assert len(trials) == len(model.auto_report_.trials) >= 10
    assert {"kernel", "kernel, own unit for each input", "kernel, linear term"} < set(trials)
    assert all(np.isfinite(value) and value > 0 for value in trials.values())


def test_the_error_of_the_report_is_the_least_of_its_trials_up_to_chance(model):
    least = min(value for _, value in model.auto_report_.trials)
    assert least <= model.auto_report_.error <= least / 0.99**2


def test_progress_is_told_trial_by_trial():
    told = []
    report = search(*TRAIN, (3,), seed=0, budget=60.0, tick=told.append)
    assert told == [name for name, _ in report.trials]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (Choice(length=8.0, ridge=1e-6), ["kernel of length 8 medians, ridge 1e-06", "all modes, latents as they are"]),
        (Choice(regressor="random", widths=(30, 20)), ["random layers of 30 and 20 neurons"]),
        (Choice(modes=12, power=-0.5), ["12 modes, latents weighted by their spread to the power 0.5"]),
        (Choice(steps=2), ["a metric learned in 2 step(s)"]),
        (Choice(steps=1, diagonal=True), ["weights learned in 1 step(s)"]),
        (Choice(unit=True), ["units      each input value in units of its own spread"]),
        (Choice(smoothing=0.03), ["smoothing  of the inputs by 0.03 of their axes"]),
        (Choice(linear=True), ["linear     with a linear term"]),
    ],
)
def test_the_report_says_in_words_what_was_chosen(choice, words):
    text = str(AutoReport([("kernel", 0.5)], choice, 0.5, 1.25))
    assert text.startswith("1 settings tried in 1.2 s; validation error 0.5 with\n")
    for part in words:
        assert part in text
    assert ("smoothing" in text, "units" in text) == (bool(choice.smoothing), choice.unit)
    assert "symmetry" not in text
    assert "budget" not in text


def test_what_was_chosen_is_what_the_model_was_given(model):
    chosen = model.auto_report_.choice
    expected = chosen_parameters(chosen, *TRAIN, (3,))
    for name, value in expected.items():
        assert np.all(np.asarray(getattr(model, name) == value)), name


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize(
    "metric",
    [{}, {"power": -1.0}, {"steps": 1, "learned_at": (0.5, 1.0)}, {"steps": 2, "diagonal": True}, {"modes": 6}],
)
def test_the_validation_error_is_that_of_the_estimator_with_the_chosen_parameters(metric, linear):
    inputs, outputs = half_irrelevant(50)
    state = _Search(inputs, outputs, (32,), seed=0, deadline=np.inf, tick=lambda name: None)
    choice = Choice(regressor="random", widths=(40, 30), smoothing=0.05, linear=linear, offsets=(-1.0, 0.5), **metric)
    state.try_out("random", choice)
    errors = []
    for inner, held in state._rows():
        made = chosen_parameters(state.best, inputs[inner], outputs[inner], (32,))
        model = PCARaNN(**made, n_members=1).fit(inputs[inner], outputs[inner])
        errors.append(error(model, inputs[held], outputs[held]))
    # The unit of the ridge is that of one fold, and the others' differ by a few percent.
    assert np.mean(errors) == pytest.approx(state.report.error, rel=0.02)


def test_a_metric_is_learned_where_it_was_judged_not_where_the_ridge_ended():
    judged = Choice(steps=1, regressor="kernel", length=4.0, ridge=1e-8, learned_at=(4.0, 1e-8))
    tuned = Choice(steps=1, regressor="kernel", length=64.0, ridge=1e-2, learned_at=(4.0, 1e-8))
    one, two = (chosen_parameters(choice, *TRAIN, (3,))["relevance"] for choice in (judged, tuned))
    assert np.array_equal(one, two)


# The same again


def test_the_same_seed_gives_the_same_search_and_the_same_model(model):
    again = PCARaNN.auto(*TRAIN)
    assert again.auto_report_.trials == model.auto_report_.trials
    assert again.auto_report_.choice == model.auto_report_.choice
    assert np.array_equal(again.predict(TEST[0]), model.predict(TEST[0]))


def test_another_seed_cuts_other_folds(model):
    assert PCARaNN.auto(*TRAIN, random_state=1).auto_report_.trials != model.auto_report_.trials


def test_nothing_handed_in_is_written_to():
    pair = [part[:20].copy() for part in TRAIN]
    PCARaNN.auto(*pair)
    assert all(np.array_equal(part, before[:20]) for part, before in zip(pair, TRAIN, strict=True))


# Budget


def test_a_tiny_budget_stops_after_one_trial_and_says_so():
    found = PCARaNN.auto(*TRAIN, budget=1e-9)
    assert [name for name, _ in found.auto_report_.trials] == ["kernel"]
    assert found.auto_report_.stopped
    assert "The budget ended the search: a larger one may find better." in str(found.auto_report_)
    assert np.isfinite(found.predict(TEST[0])).all()


def test_a_budget_stops_between_trials(monkeypatch):
    now = iter(range(10_000))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(now)))
    report = search(*TRAIN, (3,), seed=0, budget=4.5, tick=lambda name: None)
    assert len(report.trials) == 4
    assert report.stopped


def test_a_search_that_ends_by_itself_says_nothing_of_the_budget(model):
    assert not model.auto_report_.stopped
    assert "budget" not in str(model.auto_report_)


# Symmetry


CIRCLE = periodic_pairs(80)


def test_a_true_symmetry_is_used_and_helps():
    found = PCARaNN.auto(*CIRCLE[:20], symmetry=Symmetry.shifts(-1))
    without = PCARaNN.auto(*CIRCLE[:20])
    assert found.symmetry is not None
    assert found.auto_report_.choice.symmetry
    assert "symmetry   used" in str(found.auto_report_)
    assert error(found, *CIRCLE[20:]) < error(without, *CIRCLE[20:]) / 2


def test_a_wrong_symmetry_is_not_used_and_does_no_harm():
    found = PCARaNN.auto(*CIRCLE[:20], symmetry=Symmetry.reflection(-1, sign=-1))
    assert found.symmetry is None
    assert "symmetry   not used: it raised the error" in str(found.auto_report_)
    names = [name for name, _ in found.auto_report_.trials]
    assert names[-2:] == ["without symmetry, one member", "symmetry, one member"]
    assert np.array_equal(found.predict(CIRCLE.inputs), PCARaNN.auto(*CIRCLE[:20]).predict(CIRCLE.inputs))


def test_a_symmetry_that_does_not_fit_the_grids_is_refused():
    with pytest.raises(ValueError, match=r"does not fit the grid \(3,\) of the input"):
        PCARaNN.auto(*TRAIN, symmetry=Symmetry.dihedral())


def judged(choice, inputs, outputs, symmetry):
    """The parameters that are left, and the report, when a symmetry is offered to a setting."""
    report = AutoReport(choice=choice)
    flat = np.reshape(inputs, (len(inputs), -1)), np.reshape(outputs, (len(outputs), -1))
    parameters = chosen_parameters(choice, *flat, np.shape(inputs)[1:]) | {"random_state": 0, "device": None}
    return judge_symmetry(PCARaNN, parameters, inputs, outputs, symmetry, report), report


def test_a_true_symmetry_is_used_with_a_learned_metric_too():
    shifts = Symmetry.shifts(-1)
    made, report = judged(Choice(steps=3, diagonal=True, power=0.5, ridge=1e-8), *CIRCLE[:24], shifts)
    assert (made["relevance"], made["symmetry"], report.choice.symmetry) == ("learned", shifts, True)
    assert "a metric learned in 1 step(s)" in str(report)


def test_a_symmetry_is_judged_where_the_inner_samples_span_fewer_modes_than_all():
    inputs = np.random.default_rng(0).uniform(-1, 1, size=(12, 10))
    made, report = judged(Choice(steps=1), inputs, inputs**3, Symmetry.reflection(sign=-1))
    assert made["n_components"][0] == 10
    assert len(report.trials) == 2


def test_a_symmetry_is_judged_on_lists_too():
    pair = [part.tolist() for part in CIRCLE[:12]]
    assert judged(Choice(), *pair, Symmetry.reflection(sign=-1))[1].trials == (
        judged(Choice(), *CIRCLE[:12], Symmetry.reflection(sign=-1))[1].trials
    )


def test_a_symmetry_takes_the_place_of_smoothing():
    made, report = judged(Choice(smoothing=0.1, ridge=1e-8), *CIRCLE[:24], Symmetry.shifts(-1))
    assert (made["smoothing"], report.choice.smoothing, report.choice.symmetry) == (0.0, 0.0, True)


# The result is an ordinary model


def test_prediction_with_spread_and_intervals_work(model):
    other = clone(model).fit(*TRAIN).calibrate(P[60:110], U[60:110])
    mean, std = other.predict(P[110:], return_std=True)
    band = other.predict_interval(P[110:], alpha=0.1)
    assert mean.shape == std.shape == band.lower.shape == (50, 12)
    assert (std > 0).any()
    # 90 % on average; fifty samples of correlated values stray by a few percent.
    assert coverage(band.lower, band.upper, U[110:]) > 0.75


def test_it_adapts(model):
    shifted = U + 0.3 * np.sin(3 * P[:, :1])
    other = clone(model).fit(*TRAIN)
    before = error(other, P[110:], shifted[110:])
    assert error(other.partial_fit(P[60:110], shifted[60:110]), P[110:], shifted[110:]) < before


def test_it_survives_save_and_load(model, tmp_path):
    model.save(tmp_path / "auto.pcarann")
    assert np.array_equal(load(tmp_path / "auto.pcarann").predict(TEST[0]), model.predict(TEST[0]))


def test_a_smoothed_model_survives_save_and_load(tmp_path):
    inputs, outputs = half_irrelevant(60)
    found = PCARaNN.auto(inputs, outputs)
    assert found.smoothing
    found.save(tmp_path / "auto.pcarann")
    assert np.array_equal(load(tmp_path / "auto.pcarann").predict(inputs), found.predict(inputs))


def test_a_clone_fits_to_the_same_model_without_a_search(model):
    other = clone(model)
    assert not hasattr(other, "auto_report_")
    assert np.array_equal(other.fit(*TRAIN).predict(TEST[0]), model.predict(TEST[0]))


def test_single_precision_tensors_are_searched_and_come_back_as_tensors():
    torch = pytest.importorskip("torch")
    single = [torch.asarray(part[:20], dtype=torch.float32) for part in TRAIN]
    found = PCARaNN.auto(*single)
    predicted = found.predict(torch.asarray(TEST[0], dtype=torch.float32))
    double = PCARaNN.auto(*(part.numpy().astype(np.float64) for part in single))
    assert isinstance(predicted, torch.Tensor)
    assert found.auto_report_.choice.regressor == double.auto_report_.choice.regressor
    assert relative_l2(predicted.numpy(), TEST[1]) < 1.2 * error(double, *TEST)


def test_the_search_goes_by_the_array_api_alone():
    strict = pytest.importorskip("array_api_strict")
    pair = [part[:12] for part in TRAIN]
    with np.errstate(all="ignore"):
        found = search(*map(strict.asarray, pair), (3,), seed=0, budget=60.0, tick=lambda name: None)
    same = search(*pair, (3,), seed=0, budget=60.0, tick=lambda name: None)
    assert [name for name, _ in found.trials][:3] == [name for name, _ in same.trials][:3]
    assert found.error == pytest.approx(same.error, rel=0.1)


def test_one_number_out_is_enough():
    found = PCARaNN.auto(TRAIN[0][:30], TRAIN[1][:30, 3])
    assert found.predict(TEST[0]).shape == (100,)


# What is refused, in one sentence


def test_fewer_than_ten_samples_are_refused():
    with pytest.raises(ValueError, match=r"^X: found 9 sample\(s\) .* while a minimum of 10 is required\.$"):
        PCARaNN.auto(TRAIN[0][:9], TRAIN[1][:9])


def test_ten_samples_are_enough():
    assert np.isfinite(PCARaNN.auto(TRAIN[0][:10], TRAIN[1][:10]).predict(TRAIN[0])).all()


@pytest.mark.parametrize("side", [0, 1])
def test_nan_is_refused(side):
    pair = [part.copy() for part in TRAIN]
    pair[side][4, 2] = np.nan
    with pytest.raises(ValueError, match=rf"^{'Xy'[side]} contains NaN or infinity: 1 value.*sample 4\.$"):
        PCARaNN.auto(*pair)


@pytest.mark.parametrize("budget", [0, -1.0, np.nan, np.inf, "fast", None, True])
def test_a_budget_that_is_no_time_is_refused(budget):
    with pytest.raises(ValueError, match=r"^budget must be a number above 0, got .*\.$"):
        PCARaNN.auto(*TRAIN, budget=budget)


def test_pairs_of_different_length_are_refused():
    with pytest.raises(ValueError, match=r"^X and y must have the same number of samples, found 60 and 59\.$"):
        PCARaNN.auto(TRAIN[0], TRAIN[1][:59])
