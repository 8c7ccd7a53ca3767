"""Bad truths, training samples and repeats along a stream, for every surrogate."""

import warnings
from copy import deepcopy

import numpy as np
import pytest

from pcarann import Adapt, Marching, PCARaNN, Staged, load
from pcarann.uncertainty.outliers import sifted

SMALL = dict(n_components=(2, 4), widths=(40, 20), n_members=3, ridge=1e-3)
pytestmark = pytest.mark.filterwarnings("ignore:.*outside the training data", "ignore:.*outside the range")


def samples(count, seed, kind="fields"):
    """Inputs and outputs of sines; trajectories of them for a flow."""
    rng, x = np.random.default_rng(seed), np.linspace(0, 2 * np.pi, 16, endpoint=False)
    phase, size = rng.uniform(0, 6, (count, 1)), rng.uniform(0.5, 1.5, (count, 1))
    a = size * np.sin(x + phase)
    if kind == "flow":
        steps = [a]
        for _ in range(3):
            steps.append(0.9 * np.roll(steps[-1], 1, axis=1) + 0.02 * rng.normal(size=a.shape))
        whole = np.stack(steps, axis=1)
        return whole[:, :1], whole[:, 1:]
    return a, np.tanh(a) + 0.05 * rng.normal(size=a.shape)


MODELS = {
    "fields": lambda: PCARaNN(**SMALL),
    "stages": lambda: Staged(n_features=8, n_members=2, n_stages=1, adaptable=True),
    "flow": lambda: Marching(PCARaNN(**SMALL), choose=False),
}
NEW = {kind: samples(80, 2, kind) for kind in MODELS}
TEST = {kind: samples(60, 3, kind) for kind in MODELS}


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = {kind: make().fit(*samples(60, 0, kind)) for kind, make in MODELS.items()}
        return {
            (kind, known): deepcopy(model).calibrate(*samples(40, 1, kind)) if known else model
            for kind, model in plain.items()
            for known in (True, False)
        }


def quietly(function, *arguments, **how):
    """What was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*arguments, **how)
    return [str(one.message) for one in caught if "outside" not in str(one.message)]


def error(model, kind):
    X, y = TEST[kind]
    found = model.predict(X)
    return float(np.mean(np.linalg.norm((found - y).reshape(60, -1), axis=1)))


def width(model, kind, method="sample"):
    band = model.predict_interval(TEST[kind][0], alpha=0.1, method=method)
    return float(np.median(band.upper - band.lower))


def rows(kind, which):
    X, y = NEW[kind]
    return X[which].copy(), y[which].copy()


# Bad truths


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("known", [True, False], ids=["calibrated", "uncalibrated"])
@pytest.mark.parametrize("size", [10.0, 1e6, 1e30, -1e200])
def test_one_bad_truth_is_named_and_changes_nothing(fitted, kind, known, size):
    model = deepcopy(fitted[kind, known])
    before = error(model, kind), width(model, kind) if known else 0.0
    X, y = rows(kind, slice(0, 1))
    said = quietly(model.partial_fit, X, size * y)
    assert len(said) == 1
    assert said[0].startswith("Sample 0")
    assert (error(model, kind), width(model, kind) if known else 0.0) == before
    assert model.monitor.outliers == 1
    for i in range(1, 4):
        assert quietly(model.partial_fit, *rows(kind, slice(i, i + 1))) == []
    clean = deepcopy(fitted[kind, known])
    for i in range(1, 4):
        clean.partial_fit(*rows(kind, slice(i, i + 1)))
    assert error(model, kind) == pytest.approx(error(clean, kind), rel=1e-9)
    assert model.monitor.error == pytest.approx(clean.monitor.error, nan_ok=True)
    if known:
        assert width(model, kind) == pytest.approx(width(clean, kind), rel=1e-9)


@pytest.mark.parametrize("kind", MODELS)
def test_good_samples_of_the_same_block_are_learned(fitted, kind):
    model, clean = deepcopy(fitted[kind, True]), deepcopy(fitted[kind, True])
    X, y = rows(kind, slice(0, 50))
    bad = y.copy()
    bad[[7, 31]] *= 10
    assert quietly(model.partial_fit, X, bad)[0].startswith("Samples 7, 31,")
    kept = np.delete(np.arange(50), [7, 31])
    clean.partial_fit(X[kept], y[kept])
    assert error(model, kind) == pytest.approx(error(clean, kind), rel=1e-6)
    assert model.monitor.learned == 48


@pytest.mark.parametrize("kind", MODELS)
def test_bad_truths_are_learned_if_asked_for(fitted, kind):
    model = deepcopy(fitted[kind, True])
    before, (X, y) = error(model, kind), rows(kind, slice(0, 1))
    assert quietly(model.partial_fit, X, 10 * y, outliers="learn") == []
    assert error(model, kind) != before
    assert model.monitor.outliers == 0


def test_adapt_says_what_happens_to_outliers():
    X, y = samples(60, 0)
    model = PCARaNN(**SMALL, adapt=Adapt(outliers="learn")).fit(X, y)
    before = error(model, "fields")
    model.partial_fit(X[:1] + 0.01, 10 * y[:1])
    assert error(model, "fields") > before
    with pytest.raises(ValueError, match=r"adapt\.outliers"):
        model.set_params(adapt__outliers="drop").partial_fit(X, y)


@pytest.mark.parametrize("kind", MODELS)
def test_a_bad_truth_that_is_observed_moves_no_interval(fitted, kind):
    model = deepcopy(fitted[kind, True])
    before = [width(model, kind, method) for method in ("sample", "local", "simultaneous")]
    X, y = rows(kind, slice(0, 1))
    assert quietly(model.observe, X, 10 * y)[0].startswith("Sample 0")
    assert [width(model, kind, method) for method in ("sample", "local", "simultaneous")] == before
    assert (model.monitor.observed, model.monitor.outliers) == (0, 1)


@pytest.mark.parametrize("kind", ["fields", "stages"])
@pytest.mark.parametrize("block", [1, 4, 40])
def test_a_stream_that_grows_for_good_is_learned(fitted, kind, block):
    model = deepcopy(fitted[kind, True])
    X, y = rows(kind, slice(0, 40))
    clean = deepcopy(model)
    for start in range(0, 40, block):
        quietly(model.partial_fit, X[start : start + block], 8 * y[start : start + block])
        quietly(clean.partial_fit, X[start : start + block], 8 * y[start : start + block], outliers="learn")
    assert error(model, kind) == pytest.approx(error(clean, kind), rel=1e-3)
    assert model.monitor.learned >= 36


def test_samples_held_back_are_learned_with_the_fifth():
    X, y = samples(60, 0)
    one = PCARaNN(**SMALL).fit(X, y)
    other, (a, u) = deepcopy(one), rows("fields", slice(0, 5))
    for i in range(5):
        quietly(one.partial_fit, a[i : i + 1], 8 * u[i : i + 1])
    other.partial_fit(a, 8 * u, outliers="learn")
    assert np.allclose(one.predict(X), other.predict(X), rtol=1e-6, atol=1e-9)


def test_a_loaded_model_still_knows_what_is_usual(fitted, tmp_path):
    model = deepcopy(fitted["fields", True])
    X, y = rows("fields", slice(0, 12))
    model.partial_fit(X[:10], y[:10])
    quietly(model.partial_fit, X[10:11], 10 * y[10:11])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert str(again.monitor) == str(model.monitor)
    assert len(quietly(again.partial_fit, X[11:12], 10 * y[11:12])) == 1
    assert quietly(again.observe, X[:10], y[:10])[0].startswith("The model was trained on 10 of these 10")


def test_lazy_samples_are_named_by_their_number_among_all(fitted, monkeypatch):
    da = pytest.importorskip("dask.array")
    monkeypatch.setattr("pcarann.scale.calibration._STREAM_ROWS", 10)
    model, (X, y) = deepcopy(fitted["fields", True]), rows("fields", slice(0, 30))
    y[23] *= 10
    said = quietly(model.partial_fit, da.from_array(X, chunks=7), da.from_array(y, chunks=9))
    assert said[0].startswith("Sample 23")
    assert model.monitor.learned == 29


# Worked by hand


@pytest.mark.parametrize(
    ("sizes", "run", "accepted", "held", "earlier"),
    [
        ([1, 10, 1], (), [0, 2], [], "dropped"),
        ([1, 10, 10], (), [0], [1, 2], "dropped"),
        ([10], (10, 10, 10), [], [0], "held"),
        ([10], (10, 10, 10, 10), [0], [], "accepted"),
        ([10, 1, 10], (10, 10, 10, 10), [0, 1], [2], "accepted"),
        ([10] * 7, (), list(range(7)), [], "accepted"),
        ([10, 5000, 10, 10, 10], (), [], [1, 2, 3, 4], "held"),
        ([1e3] * 7, (), [], [3, 4, 5, 6], "held"),
    ],
)
def test_suspicious_samples_are_held_until_five_agree(sizes, run, accepted, held, earlier):
    sizes = np.array(sizes, dtype=float)
    found = sifted(sizes > 3, sizes, tuple(map(float, run)))
    assert (found.accepted, found.held, found.earlier) == (accepted, held, earlier)


# Samples that were learned before, and repeats


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("how", ["observe", "partial_fit"])
def test_training_samples_do_not_narrow_intervals(fitted, kind, how):
    model = deepcopy(fitted[kind, True])
    factor = model.fitted_.calibration.quantile(0.1)
    said = quietly(getattr(model, how), *samples(60, 0, kind))
    assert any("trained on" in one for one in said)
    assert model.fitted_.calibration.quantile(0.1) == factor
    assert np.isnan(model.monitor.error)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("how", ["observe", "partial_fit"])
def test_a_sample_that_comes_sixty_times_counts_once(fitted, kind, how):
    once, often = deepcopy(fitted[kind, True]), deepcopy(fitted[kind, True])
    sample = rows(kind, slice(0, 1))
    getattr(once, how)(*sample)
    for _ in range(60):
        quietly(getattr(often, how), *sample)
    for method in ("sample", "simultaneous"):
        assert often.fitted_.calibration.quantile(0.1, method) == once.fitted_.calibration.quantile(0.1, method)


def test_calibration_samples_that_are_observed_again_say_nothing_new(fitted):
    model = deepcopy(fitted["fields", True])
    before = width(model, "fields")
    for _ in range(5):
        model.observe(*samples(40, 1))
    assert width(model, "fields") == before


def test_samples_of_a_block_that_repeat_each_other_count_once(fitted):
    one, other = deepcopy(fitted["stages", True]), deepcopy(fitted["stages", True])
    X, y = rows("stages", slice(0, 3))
    one.observe(X, y)
    other.observe(np.repeat(X, 4, axis=0), np.repeat(y, 4, axis=0))
    assert one.fitted_.calibration.quantile(0.1) == other.fitted_.calibration.quantile(0.1)
