import pickle
import threading
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils.estimator_checks import check_estimator

from pcarann import Grid, PCARaNN, Staged, load
from pcarann.metrics import relative_l2
from pcarann.spatial.channels import Channels
from pcarann.symmetry.generators import Symmetry
from random_fields_in_space import held, local, planes, waves

# Some tens of random fields leave some of the next outside their range: that is reported, and beside the point here.
pytestmark = pytest.mark.filterwarnings("ignore:.*have values outside the range of the training data")

A = waves(160, 32)
U = local(A)
TRAIN, TEST = (A[:80], U[:80]), (A[80:], U[80:])
QUICK = dict(n_stages=2, n_features=24, n_members=2, channels=Channels(reach=1, singles=16), grid=Grid("periodic"))


def quick(**changes):
    return Staged(**{**QUICK, **changes})


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(*TRAIN)


# What it learns


def test_a_local_operator_is_learned_and_the_latent_one_is_far_behind(fitted):
    latent = PCARaNN(n_components=0.999, widths=(60, 40), n_members=2).fit(*TRAIN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        far = relative_l2(latent.predict(TEST[0]), TEST[1])
    assert relative_l2(fitted.predict(TEST[0]), TEST[1]) < min(0.15, far / 4)


def test_a_planted_convolution_is_recovered():
    rng = np.random.default_rng(1)
    a, kernel = rng.normal(size=(100, 24)), rng.normal(size=24)
    u = np.fft.ifft(np.fft.fft(a) * np.fft.fft(kernel)).real
    model = quick(n_stages=3, n_features=2, channels=Channels(products=False, reach=0, singles=24)).fit(a[:80], u[:80])
    assert np.allclose(model.predict(a[80:]), u[80:], rtol=0, atol=1e-8 * np.abs(u).max())


def test_everything_is_settled_where_nothing_is_said():
    a = waves(60, 33)
    u = held(a)
    model = Staged(n_stages=2, n_features=16, n_members=1).fit(a[:40], u[:40])
    report = model.stages_
    assert report.settled.layout.boundaries in (("zero",), ("free",))
    assert {"as usual", "ends free", "smoothed"} <= {trial.name for trial in report.settled.trials}
    assert report.held_out == 8
    assert relative_l2(model.predict(a[40:]), u[40:]) < 0.05
    assert all(step.error < report.begun for step in report.steps)
    assert model.fit_seconds_["total"] > 0
    assert "stage 1: error" in str(report)


def test_members_are_averaged_and_their_spread_is_given(fitted):
    members = np.stack([fitted.fitted_.member_step(m, TEST[0]) for m in (0, 1)])
    mean, std = fitted.predict(TEST[0], return_std=True)
    assert np.allclose(mean, members.mean(axis=0), rtol=0, atol=1e-13)
    variance = members.var(axis=0, ddof=1)
    drawn = (variance + 2 * variance.mean(axis=1, keepdims=True)) / 3  # one degree of freedom beside two
    floor = std**2 - drawn  # residuals of samples held out, the same for every input
    assert np.allclose(floor, floor[0], rtol=0, atol=1e-12)
    assert floor.min() >= 0


def test_the_score_is_r2(fitted):
    missed = ((fitted.predict(TEST[0]) - TEST[1]) ** 2).sum()
    assert fitted.score(*TEST) == pytest.approx(1 - missed / ((TEST[1] - TEST[1].mean(axis=0)) ** 2).sum())


def test_a_batch_is_predicted_as_its_samples_are_one_by_one(fitted):
    alone = np.concatenate([fitted.predict(a[None]) for a in TEST[0][:20]])
    assert np.allclose(alone, fitted.predict(TEST[0])[:20], rtol=0, atol=1e-10)


def test_the_order_of_training_samples_hardly_matters():
    sorting = np.argsort(U[:80].mean(axis=1))
    orders = {"as it is": np.arange(80), "turned": np.arange(80)[::-1], "sorted": sorting}
    errors = {
        name: relative_l2(quick().fit(A[rows], U[rows]).predict(TEST[0]), TEST[1]) for name, rows in orders.items()
    }
    assert max(errors.values()) < 1.5 * min(errors.values())


# Starts


def test_the_input_is_the_start_of_a_flow_and_the_mean_of_anything_else(fitted):
    assert fitted.stages_.start == "mean field"
    flow = quick().fit(A[:80], A[:80] + 0.05 * U[:80])
    assert flow.stages_.start == "input"
    assert relative_l2(flow.predict(TEST[0]), TEST[0] + 0.05 * TEST[1]) < 0.01
    assert quick(model="mean").fit(A[:80], A[:80] + 0.05 * U[:80]).stages_.start == "mean field"
    assert quick(model="input").fit(*TRAIN).stages_.start == "input"


def test_what_acts_on_a_state_stands_behind_it():
    control = np.random.default_rng(0).normal(size=(160, 1, 1)) * np.ones((1, 1, 32))
    inputs = np.concatenate([A[:, None], control], axis=1)
    outputs = A + 0.1 * control[:, 0] * A
    model = quick().fit(inputs[:80], outputs[:80])
    assert model.stages_.start == "input"
    assert relative_l2(model.predict(inputs[80:]), outputs[80:]) < 0.01


BASE = PCARaNN(n_components=6, widths=(20, 10), n_members=1, scales=("gain", 0.5, 0.5))


def test_stages_correct_another_surrogate():
    model = quick(model=BASE).fit(*TRAIN)
    assert model.stages_.start == "PCARaNN"
    assert not hasattr(model.model, "_fitted")
    base = relative_l2(model.model_.predict(TEST[0]), TEST[1])
    assert relative_l2(model.predict(TEST[0]), TEST[1]) < base / 2
    assert quick().fit(*TRAIN).model_ is None


def test_any_estimator_of_tables_can_be_corrected():
    """One nearest neighbour has no residual on its own samples: without folds there would be nothing to learn."""
    model = quick(model=KNeighborsRegressor(1)).fit(*TRAIN)
    base = relative_l2(model.model_.predict(TEST[0]), TEST[1])
    assert relative_l2(model.predict(TEST[0]), TEST[1]) < base / 4


# Shapes


def test_vectors_in_and_out_in_front_and_behind():
    a = np.stack([A, np.roll(A, 3, axis=1), waves(160, 32, seed=5)], axis=1)
    u = np.stack([a[:, 0] + np.tanh(a[:, 2]), np.tanh(a[:, 1])], axis=1)
    first = quick(n_members=1).fit(a[:80], u[:80])
    found = first.predict(a[80:])
    assert found.shape == (80, 2, 32)
    assert relative_l2(found, u[80:]) < 0.25
    behind = [np.moveaxis(part, 1, -1) for part in (a, u)]
    last = quick(n_members=1).fit(behind[0][:80], behind[1][:80])
    assert np.allclose(last.predict(behind[0][80:]), np.moveaxis(found, 1, -1), rtol=0, atol=1e-9)


def test_time_may_be_an_axis():
    time = np.linspace(0, 1, 9)[:, None]
    shifted = np.stack([np.roll(A, t, axis=1) for t in range(9)], axis=1)
    u = shifted * np.exp(-time)
    model = quick(grid=None, n_members=1, n_stages=1, channels=Channels(singles=16)).fit(A[:60], u[:60])
    assert model.stages_.settled.layout.boundaries[-1] == "periodic"
    assert model.predict(A[80:]).shape == (80, 9, 32)
    assert relative_l2(model.predict(A[80:]), u[80:]) < 0.3


@pytest.mark.parametrize("boundary", ["periodic", "free", ("periodic", "free", "periodic")])
def test_three_axes(boundary):
    a = planes(30, (8, 9, 8))
    u = a + 0.3 * a**2
    model = quick(grid=Grid(boundary), n_stages=1, n_members=1, channels=Channels(singles=2)).fit(a[:20], u[:20])
    assert relative_l2(model.predict(a[20:]), u[20:]) < 0.2


def test_a_period_may_repeat_its_first_point():
    closed = [np.concatenate([part, part[:, :1]], axis=1) for part in (A, U)]
    model = quick(grid=None).fit(closed[0][:80], closed[1][:80])
    assert model.stages_.settled.layout.closed == (True,)
    found = model.predict(closed[0][80:])
    assert np.array_equal(found[:, 0], found[:, -1])
    # The repeated point counts in the norms by which samples are weighted.
    assert relative_l2(found[:, :-1], quick().fit(*TRAIN).predict(TEST[0])) < 0.01


def test_axes_that_are_not_space_count_components():
    a = planes(40, (8, 16))
    u = np.cumsum(a, axis=1)
    model = quick(grid=Grid("free", axes=(-1,)), n_members=1).fit(a[:30], u[:30])
    assert model.stages_.settled.layout.n_outputs == 8
    assert model.predict(a[30:]).shape == (10, 8, 16)


def test_single_precision_integers_and_lists_are_fields_too(fitted):
    expected = fitted.predict(TEST[0][:5])
    assert np.allclose(fitted.predict(TEST[0][:5].astype(np.float32)), expected, atol=1e-5)
    assert np.array_equal(fitted.predict(TEST[0][:5].tolist()), expected)
    assert fitted.predict(np.zeros((2, 32), dtype=int)).dtype == np.float64


# Symmetry


@pytest.mark.parametrize("channels", [Channels(singles=3), Channels(singles=3, smoothed=0.1)])
def test_predictions_move_with_their_inputs_under_the_square(channels):
    a = planes(24, (9, 9))
    u = np.tanh(a) * (1 + a.mean(axis=(1, 2), keepdims=True))
    model = quick(symmetry=Symmetry.dihedral(), grid=Grid("free"), channels=channels).fit(a[:12], u[:12])
    found = model.predict(a[12:])
    for move in (lambda f: np.rot90(f, 1, (1, 2)), lambda f: f[:, ::-1], lambda f: np.swapaxes(f, 1, 2)):
        assert np.allclose(model.predict(np.ascontiguousarray(move(a[12:]))), move(found), rtol=0, atol=1e-9)


def test_predictions_move_with_their_inputs_along_a_circle():
    symmetry = Symmetry.shifts(-1, stride=8) * Symmetry.reflection(-1, periodic=True)
    u = U + U[:, ::-1]
    model = quick(symmetry=symmetry, model="mean").fit(A[:40], u[:40])
    found = model.predict(TEST[0])
    assert np.allclose(model.predict(np.roll(TEST[0], 8, axis=1)), np.roll(found, 8, axis=1), rtol=0, atol=1e-9)
    flipped = np.roll(TEST[0][:, ::-1], 1, axis=1)
    assert np.allclose(model.predict(flipped), np.roll(found[:, ::-1], 1, axis=1), rtol=0, atol=1e-9)


def test_copies_help_where_samples_are_few():
    a = planes(60, (9, 9)) + np.linspace(-1, 1, 9)  # not symmetric themselves
    u = np.tanh(a) + 0.2 * (a - a[:, ::-1, ::-1])
    options = dict(grid=Grid("free"), channels=Channels(singles=3), n_members=1)
    errors = [
        relative_l2(quick(symmetry=s, **options).fit(a[:12], u[:12]).predict(a[12:]), u[12:])
        for s in (None, Symmetry.dihedral())
    ]
    assert errors[1] < errors[0]


# Adaptation


@pytest.fixture(scope="module")
def adaptable():
    return quick(adaptable=True).fit(A[:40], U[:40])


def test_new_samples_help_and_their_order_does_not_matter(adaptable):
    models = [pickle.loads(pickle.dumps(adaptable)) for _ in range(2)]
    models[0].partial_fit(A[40:80], U[40:80])
    for rows in (slice(60, 80), slice(45, 60), slice(40, 45)):
        models[1].partial_fit(A[rows], U[rows])
    found = [model.predict(TEST[0]) for model in models]
    assert np.allclose(*found, rtol=0, atol=1e-8)
    assert relative_l2(found[0], TEST[1]) < relative_l2(adaptable.predict(TEST[0]), TEST[1])


def test_an_operator_that_changed_is_followed_by_forgetting(adaptable):
    errors = []
    for forgetting in (1.0, 0.9):
        model = pickle.loads(pickle.dumps(adaptable)).partial_fit(A[:80], 2 * U[:80], forgetting=forgetting)
        errors.append(relative_l2(model.predict(TEST[0]), 2 * TEST[1]))
    assert errors[1] < 0.5 * errors[0]


def test_adapting_a_model_that_is_not_fitted_fits_it(fitted):
    assert np.array_equal(quick().partial_fit(*TRAIN).predict(TEST[0]), fitted.predict(TEST[0]))


def test_intervals_follow_adaptation(adaptable):
    model = pickle.loads(pickle.dumps(adaptable)).calibrate(*TEST)
    width = np.ptp([model.predict_interval(TEST[0], 0.2).lower, model.predict_interval(TEST[0], 0.2).upper], axis=0)
    with pytest.warns(UserWarning, match="^Errors are no longer those of the calibration"):
        model.partial_fit(A[40:60], 1.5 * U[40:60])
    band = model.predict_interval(TEST[0], 0.2)
    assert (band.upper - band.lower).mean() > 2 * width.mean()
    assert model.monitor.learned == 20


def test_a_model_that_kept_no_sums_does_not_adapt(fitted):
    with pytest.raises(ValueError, match=r"^It cannot adapt, its sums were not kept: fit it with adaptable=True\.$"):
        fitted.partial_fit(*TEST)
    constant = quick(adaptable=True).fit(A[:20], np.ones((20, 32)))
    with pytest.raises(ValueError, match="no stage was of use"):
        constant.partial_fit(*TEST)


@pytest.mark.parametrize("forgetting", [0.0, 1.1, -1, "x", True, np.nan])
def test_forgetting_that_is_no_share_is_refused(adaptable, forgetting):
    with pytest.raises(ValueError, match=r"^forgetting must be a number above 0 and at most 1, got"):
        adaptable.partial_fit(*TEST, forgetting=forgetting)


# Intervals


def test_intervals_cover_what_they_promise():
    a = waves(560, 16, seed=7)
    u = local(a)
    model = quick(n_features=12).fit(a[:60], u[:60]).calibrate(a[60:260], u[60:260])
    for method in ("simultaneous", "sample"):
        band = model.predict_interval(a[260:], alpha=0.2, method=method)
        inside = (band.lower <= u[260:]) & (u[260:] <= band.upper)
        if method == "simultaneous":
            # Of 300 new samples, after 200 for calibration: beta-binomial.
            low, high = stats.betabinom(300, 161, 40).ppf([1e-4, 1 - 1e-4])
            assert low <= inside.all(axis=1).sum() <= high
        else:
            assert 0.74 < inside.mean() < 0.88  # 16 correlated values of 200 and 300 samples
        assert np.allclose(band.mean, model.predict(a[260:]), rtol=0, atol=1e-13)


def test_intervals_need_a_calibration(fitted):
    with pytest.raises(NotFittedError, match=r"^This Staged has no calibration: call calibrate\(X, y\)"):
        fitted.predict_interval(TEST[0])


# Units and values at the edge


@pytest.mark.parametrize("sizes", [(1e200, 1e-200), (1e-200, 1e200)])
@pytest.mark.parametrize("start", ["mean", None, BASE])
def test_units_do_not_matter(sizes, start):
    expected = quick(model=start, grid=None).fit(*TRAIN).predict(TEST[0])
    # By powers of two nothing is rounded differently.
    units = 2.0 ** np.round(np.log2(sizes))
    found = quick(model=start, grid=None).fit(TRAIN[0] * units[0], TRAIN[1] * units[1]).predict(TEST[0] * units[0])
    assert np.allclose(found / units[1], expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_units_do_not_matter_for_a_flow(size):
    u = A + 0.05 * U
    expected = quick(grid=None).fit(A[:80], u[:80]).predict(TEST[0])
    unit = 2.0 ** np.round(np.log2(size))
    model = quick(grid=None).fit(A[:80] * unit, u[:80] * unit)
    assert model.stages_.start == "input"
    assert np.allclose(model.predict(TEST[0] * unit) / unit, expected, rtol=0, atol=1e-7)


def test_a_channel_that_never_varies_is_harmless():
    inputs = np.stack([A, np.full_like(A, 7.3)], axis=1)
    found = quick().fit(inputs[:80], TRAIN[1]).predict(inputs[80:])
    assert relative_l2(found, TEST[1]) < 0.15


def test_outputs_of_zero_in_some_samples_are_harmless():
    a, u = TRAIN[0].copy(), TRAIN[1].copy()
    a[:10] = 0
    u[:10] = 0
    model = quick().fit(a, u)
    found = model.predict(np.concatenate([np.zeros((1, 32)), TEST[0]]))
    assert np.abs(found[0]).max() < 0.1
    assert relative_l2(found[1:], TEST[1]) < 0.15


@pytest.mark.parametrize("value", [0.0, 3.7])
def test_outputs_that_never_vary_are_predicted(value):
    model = quick(grid=None, channels=None).fit(A[:20], np.full((20, 32), value))
    assert np.allclose(model.predict(TEST[0]), value, rtol=0, atol=1e-13)
    assert model.stages_.begun < 1e-15
    model.calibrate(TEST[0], np.full((80, 32), value)).predict_interval(TEST[0])


def test_inputs_that_never_vary_leave_the_mean():
    model = quick(model="mean").fit(np.full((20, 32), 2.0), U[:20])
    assert np.isfinite(model.predict(np.full((3, 32), 2.0))).all()


@pytest.mark.filterwarnings("ignore:.*inputs? lies? outside the training data")
def test_as_few_samples_as_folds_are_enough():
    for start in ("mean", clone(BASE).set_params(n_components=2)):
        model = quick(model=start, n_features=4).fit(A[:5], U[:5])
        assert np.isfinite(model.predict(TEST[0][:5])).all()


# Torch


@pytest.mark.parametrize("computes", [False, True])
def test_tensors_in_are_tensors_out_and_equal(computes, request):
    torch = pytest.importorskip("torch")
    if computes:
        request.getfixturevalue("torch_computes")
    expected = quick(adaptable=True).fit(*TRAIN).calibrate(*TEST)
    model = quick(adaptable=True).fit(*map(torch.asarray, TRAIN)).calibrate(*map(torch.asarray, TEST))
    found = model.predict(torch.asarray(TEST[0]))
    assert isinstance(found, torch.Tensor)
    assert np.allclose(found.numpy(), expected.predict(TEST[0]), rtol=0, atol=1e-8)
    assert np.allclose(model.predict(TEST[0]), expected.predict(TEST[0]), rtol=0, atol=1e-8)
    band = model.predict_interval(torch.asarray(TEST[0]), 0.2)
    assert np.allclose(band.upper.numpy(), expected.predict_interval(TEST[0], 0.2).upper, rtol=0, atol=1e-6)
    model.partial_fit(*map(torch.asarray, TEST))
    assert np.allclose(model.predict(TEST[0]), expected.partial_fit(*TEST).predict(TEST[0]), rtol=0, atol=1e-7)


# Options


def test_terms_of_the_equation_help():
    def steep(a, u):
        return np.tanh(6 * (a - np.roll(a, 2, axis=-1)))

    outputs = np.stack([steep(a, None) for a in A])
    errors = []
    for terms in ((), (steep,)):
        model = quick(terms=terms, n_members=1, n_features=8).fit(A[:80], outputs[:80])
        errors.append(relative_l2(model.predict(TEST[0]), outputs[80:]))
    assert errors[1] < 1e-3 * errors[0]


def test_terms_see_the_units_that_were_handed_in():
    seen = []

    def term(a, u):
        seen.append((np.abs(a).max(), np.abs(u).max()))
        return a * 0

    quick(terms=[term], model="mean").fit(TRAIN[0] * 1e3, TRAIN[1] * 1e-3)
    assert seen[0][0] == pytest.approx(1e3 * np.abs(TRAIN[0]).max(), rel=0.5)
    assert seen[0][1] < 1e-3 * np.abs(TRAIN[1]).max()


def test_no_more_samples_than_asked_for_are_fitted():
    model = quick(max_samples=20).fit(*TRAIN)
    assert model.fitted_.samples == 20
    assert quick(max_samples=None).fit(*TRAIN).fitted_.samples == 80


def test_samples_that_belong_together_are_not_split():
    model = quick(model=BASE).fit(*TRAIN, together=20)
    assert model.stages_.held_out == 20
    assert quick().fit(*TRAIN, together=40).stages_.held_out == 40


def test_a_judge_chooses_the_ridges():
    asked = []

    def judge(step):
        asked.append(relative_l2(step(TEST[0]), TEST[1]))
        return asked[-1]

    model = quick(n_members=1).fit(*TRAIN, judge=judge)
    assert relative_l2(model.predict(TEST[0]), TEST[1]) == pytest.approx(min(asked), rel=1e-9)
    assert model.stages_.steps[-1].error == pytest.approx(min(asked))


@pytest.mark.parametrize("state", [0, 7, None, np.random.default_rng(0), np.random.RandomState(0)])
def test_any_random_state_is_taken(state):
    model = quick(random_state=state, n_members=1).fit(*TRAIN)
    assert relative_l2(model.predict(TEST[0]), TEST[1]) < 0.2


def test_another_seed_is_another_model_and_the_same_is_the_same(fitted):
    assert np.array_equal(quick().fit(*TRAIN).predict(TEST[0]), fitted.predict(TEST[0]))
    assert not np.allclose(quick(random_state=1).fit(*TRAIN).predict(TEST[0]), fitted.predict(TEST[0]), atol=1e-6)


# scikit-learn


def test_parameters_come_and_go(fitted):
    model = quick(model=PCARaNN())
    assert model.get_params()["model__n_members"] == PCARaNN().n_members
    model.set_params(model__n_members=3, grid__boundary="free", channels__reach=2, n_stages=4)
    assert (model.model.n_members, model.grid.boundary, model.channels.reach, model.n_stages) == (3, "free", 2, 4)
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(n_layers=3)
    with pytest.raises(ValueError, match="Invalid parameter grid__ends"):
        model.set_params(grid__ends=3)
    assert Staged().set_params(grid__boundary="zero").grid == Grid("zero")


def test_a_clone_is_unfitted_and_fits_alike(fitted):
    other = clone(fitted)
    assert not hasattr(other, "fitted_")
    assert np.array_equal(other.fit(*TRAIN).predict(TEST[0]), fitted.predict(TEST[0]))


def test_pickling_keeps_every_prediction(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(TEST[0]), fitted.predict(TEST[0]))
    assert str(again.stages_) == str(fitted.stages_)


@pytest.mark.filterwarnings("ignore")
def test_checks_of_scikit_learn_fail_by_refusals_of_tables_alone():
    """They fit tables of a few columns to one number a sample, which have no axis of space."""
    results = check_estimator(Staged(n_features=4, n_stages=1), on_fail=None)
    failed = [result for result in results if result["status"] == "failed"]
    for result in failed:
        said = f"{result['exception']} {result['exception'].__cause__}"
        assert "y must have shape (samples, …)" in said or "use PCARaNN" in said, (result["check_name"], said)
    passed = {result["check_name"] for result in results if result["status"] == "passed"}
    assert {"check_estimator_cloneable", "check_get_params_invariance", "check_set_params", "check_estimator_repr",
            "check_parameters_default_constructible", "check_no_attributes_set_in_init"} <= passed  # fmt: skip


@pytest.mark.parametrize("call", ["predict", "predict_interval", "predict_parts"])
def test_a_model_that_is_not_fitted_says_so(call):
    with pytest.raises(NotFittedError, match=r"^This Staged is not fitted yet: call fit\(X, y\) first\.$"):
        getattr(quick(), call)(TEST[0])
    with pytest.raises(AttributeError, match=r"^stages_ exists after fit only"):
        quick().stages_  # noqa: B018


def test_threads_predict_while_another_fits():
    model = quick(n_members=1, n_features=8).fit(*TRAIN)
    first = model.predict(TEST[0][:4])
    second = quick(n_members=1, n_features=8).fit(A[:40], -U[:40]).predict(TEST[0][:4])
    found, stop = [], threading.Event()

    def predicting():
        while not stop.is_set():
            found.append(model.predict(TEST[0][:4]))

    threads = [threading.Thread(target=predicting) for _ in range(2)]
    for thread in threads:
        thread.start()
    model.fit(A[:40], -U[:40])
    while not np.array_equal(found[-1], second):
        pass
    stop.set()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(one, first) or np.array_equal(one, second) for one in found)
    assert np.array_equal(found[0], first)


# What is said, and what is refused in one sentence


@pytest.mark.filterwarnings("default")
def test_inputs_that_leave_the_range_are_reported(fitted):
    with pytest.warns(
        UserWarning, match=r"^1 of 2 inputs have values outside the range of the training data, .* do not"
    ):
        fitted.predict(np.stack([TRAIN[0][0], 9 * TRAIN[0][0]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(TRAIN[0])


NAN = TRAIN[0].copy()
NAN[7, 3] = np.nan


@pytest.mark.parametrize(
    ("options", "X", "y", "message"),
    [
        ({}, A[:, :30], U, "The grids|The inputs are a table of 30 values"),
        ({}, A.reshape(160, 4, 8), U.reshape(160, 8, 4), "The grids of inputs and outputs do not match"),
        ({}, A[:, :3], U, "The inputs are a table of 3 values .* use PCARaNN"),
        ({}, A[:, :1], U, "The inputs are a table of 1 values .* use PCARaNN"),
        ({}, A + np.linspace(0, 30, 32), U + np.linspace(0, 30, 32), "Axis -1 cannot be periodic"),
        ({"grid": Grid("zero")}, A, U, "Axis -1 cannot end in zeros"),
        ({"grid": Grid(axes=(3,))}, A, U, "axes must be numbers of axes of the outputs, which have 1"),
        ({"grid": Grid(axes=-1)}, A, U, "axes must be numbers of axes of the outputs"),
        ({"grid": Grid("dirichlet")}, A, U, "boundary must be one of 'periodic', 'zero', 'free'"),
        ({"grid": Grid(("free", "free"))}, A, U, "boundary must be one of"),
        ({"grid": "periodic"}, A, U, "grid must be None, a Grid or a Mesh, got 'periodic'"),
        ({"channels": "all"}, A, U, "channels must be None or a Channels, got 'all'"),
        ({"symmetry": "square"}, A, U, "symmetry must be None or a Symmetry, got 'square'"),
        ({"symmetry": Symmetry.dihedral()}, A, U, "Symmetry.dihedral"),
        ({"terms": np.tanh}, A, U, "terms must be a list of functions"),
        ({"terms": [3]}, A, U, "terms must be a list of functions"),
        ({"terms": [lambda a, u: a[:, :3]]}, A, U, "The term <lambda> must return fields of shape"),
        ({}, A[:4], U[:4], "X: found 4 sample.s. .* a minimum of 5 is required"),
        ({}, A[:9], U[:8], "X and y must have the same number of samples, found 9 and 8"),
        ({"model": "average"}, A, U, "model must be None, 'mean', 'input' or an estimator, got 'average'"),
        (
            {"model": "input"},
            A,
            np.stack([U, U], 1),
            "model='input' needs inputs that hold a field of the outputs' shape",
        ),
        ({}, NAN, U[:80], "X contains NaN or infinity: 1 value"),
        ({}, A[:80], NAN, "y contains NaN or infinity"),
        ({}, A, None, "requires y to be passed"),
        ({}, A, U[:, 0], "Expected 2D array, got 1D array instead: y"),
        ({"n_stages": 0}, A, U, "n_stages must be a whole number of at least 1, got 0"),
        ({"n_features": 1.5}, A, U, "n_features must be a whole number"),
        ({"n_features": 10**9}, A, U, r"n_features=1000000000 would take 8,000,000,000 GB of memory, but there are"),
        ({"n_members": "two"}, A, U, "n_members must be a whole number"),
        ({"max_samples": 3}, A, U, "max_samples must be a whole number of at least 5, got 3"),
        ({"random_state": "x"}, A, U, "random_state must be None"),
        ({"device": "tpu"}, A, U, "device must be None"),
    ],
)
def test_what_cannot_be_fitted_is_refused_and_the_old_model_stays(fitted, options, X, y, message):
    model = pickle.loads(pickle.dumps(fitted))
    before = model.predict(TEST[0])
    with pytest.raises(ValueError, match=rf"^{message}") as caught:
        model.set_params(**options).fit(X, y)
    assert "\n" not in str(caught.value)
    assert np.array_equal(model.predict(TEST[0]), before)


@pytest.mark.parametrize("together", [7, 80, 0, -1, 1.5, "all"])
def test_groups_that_make_no_sense_are_refused(together):
    with pytest.raises(ValueError, match="together"):
        quick().fit(*TRAIN, together=together)


def test_a_fit_that_is_interrupted_leaves_the_old_model():
    model = quick(n_members=1).fit(*TRAIN)
    before = model.predict(TEST[0])

    def interrupting(a, u):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.set_params(terms=[interrupting]).fit(*TRAIN)
    assert np.array_equal(model.predict(TEST[0]), before)


def test_fields_of_another_shape_are_refused(fitted):
    for wrong in (TEST[0][:, :31], TEST[0][:, :, None]):
        with pytest.raises(ValueError, match=r"^X has"):
            fitted.predict(wrong)
    with pytest.raises(ValueError, match=r"^y has"):
        clone(fitted).fit(*TRAIN).calibrate(TEST[0], TEST[1][:, :31])


def test_nothing_that_was_handed_in_is_changed():
    copies = [part.copy() for part in (*TRAIN, *TEST)]
    for start in ("mean", "input", BASE):
        model = quick(adaptable=True, model=start).fit(*TRAIN).calibrate(*TEST).partial_fit(*TEST)
        model.predict(TEST[0])
    for part, copy in zip((*TRAIN, *TEST), copies, strict=True):
        assert np.array_equal(part, copy)


@pytest.mark.parametrize("part", ["one array", "by name"])
@pytest.mark.parametrize(
    ("inputs", "outputs", "said"),
    [
        (np.linspace(0, 1, 32), np.linspace(5, 6, 32), "different coordinates along 'x'"),
        (np.linspace(0, 1, 32) ** 2, np.linspace(0, 1, 32) ** 2, "along 'x' are not evenly spaced"),
        (np.geomspace(1, 9, 32), None, "along 'x' are not evenly spaced"),
    ],
    ids=["elsewhere", "uneven", "log"],
)
def test_coordinates_that_stages_cannot_see_are_refused(part, inputs, outputs, said):
    xr = pytest.importorskip("xarray")
    rng = np.random.default_rng(0)
    X, y = (
        xr.DataArray(rng.normal(size=(20, 32)), dims=("run", "x"), coords={} if x is None else {"x": x})
        for x in (inputs, outputs)
    )
    X = X if part == "one array" else {"a": X, "p": rng.normal(size=20)}
    with pytest.raises(ValueError, match=said):
        Staged(n_features=5, n_stages=1, n_members=1).fit(X, y)


def test_inputs_on_another_grid_must_span_that_of_the_outputs():
    xr = pytest.importorskip("xarray")
    rng, stages = np.random.default_rng(0), Staged(n_features=5, n_stages=1, n_members=1)
    y = xr.DataArray(rng.normal(size=(20, 32)), dims=("run", "x"), coords={"x": np.linspace(0, 1, 32)})
    coarse = xr.DataArray(rng.normal(size=(20, 16)), dims=("run", "x"), coords={"x": np.linspace(0, 1, 16)})
    p = rng.normal(size=20)
    stages.fit({"a": coarse, "p": p}, y)
    with pytest.raises(ValueError, match="different coordinates along 'x'"):
        stages.fit({"a": coarse.assign_coords(x=np.linspace(0, 2, 16)), "p": p}, y)


def test_axes_that_are_no_space_may_be_uneven():
    xr = pytest.importorskip("xarray")
    values = np.random.default_rng(0).normal(size=(20, 9, 16))
    u = xr.DataArray(values, dims=("run", "level", "x"), coords={"level": np.geomspace(1, 100, 9)})
    Staged(n_features=5, n_stages=1, n_members=1, grid=Grid(axes=(-1,))).fit(u, 2 * u)
    with pytest.raises(ValueError, match="'level' are not evenly spaced"):
        Staged(n_features=5, n_stages=1, n_members=1).fit(u, 2 * u)


# The report


def test_stages_on_noise_warn_and_report_that_they_predict_nothing():
    rng = np.random.default_rng(3)
    with pytest.warns(UserWarning, match="better than the mean field"):
        model = quick().fit(rng.normal(size=(40, 16)), rng.normal(size=(40, 16)))
    assert model.fit_report_.useless
    assert model.fit_report_.warning == str(model.fit_report_)


@pytest.mark.parametrize("repeats", [1, 2, 5])
def test_the_reported_error_is_that_on_new_samples_with_repeats_or_without(repeats):
    order = np.random.default_rng(0).permutation(30 * repeats) % 30
    model = quick().fit(A[:30][order], U[:30][order])
    report = model.fit_report_
    real = relative_l2(model.predict(TEST[0]), TEST[1])
    assert 0.6 * real < report.relative_error < 1.6 * real
    assert (report.samples, report.distinct) == (30 * repeats, 30)


def test_near_repeats_are_not_split():
    rng = np.random.default_rng(0)
    a = np.repeat(A[:10], 4, axis=0) + 1e-4 * rng.normal(size=(40, 32))
    model = quick(n_features=60).fit(a, local(a))
    real = relative_l2(model.predict(TEST[0]), TEST[1])
    assert model.fit_report_.distinct == 10
    assert model.fit_report_.relative_error > 0.5 * real


def test_much_work_reports_the_samples_held_out(monkeypatch, fitted):
    from pcarann.spatial import left_out

    monkeypatch.setattr(left_out, "_LITTLE", 0.0)
    report = quick().fit(*TRAIN).fit_report_
    assert report.samples == 16
    assert fitted.fit_report_.samples == 80
    assert 0.5 < report.relative_error / fitted.fit_report_.relative_error < 2.0


def test_the_report_of_stages_on_a_model_leaves_samples_out_of_both():
    model = quick(model=BASE).fit(*TRAIN)
    real = relative_l2(model.predict(TEST[0]), TEST[1])
    assert 0.5 * real < model.fit_report_.relative_error < 2.0 * real


def test_the_report_is_saved(fitted, tmp_path):
    fitted.save(tmp_path / "model.pcarann")
    assert load(tmp_path / "model.pcarann").fit_report_ == fitted.fit_report_
