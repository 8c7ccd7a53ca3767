import numpy as np
import pytest

from pcarann import Marching, PCARaNN, Staged, load
from pcarann.marching.intervals import WindowCalibration
from pcarann.uncertainty.conformal import Calibration, PartsCalibration
from pcarann.uncertainty.local import Local, kept_locally


def scores(samples, points=7, seed=0):
    sizes = np.geomspace(0.01, 100, points)  # of errors, which the spread does not tell
    return np.abs(np.random.default_rng(seed).normal(size=(samples, points))) * sizes


def test_every_point_is_covered_where_one_factor_covers_them_on_average_alone():
    missed = {"local": np.zeros(7), "sample": np.zeros(7)}
    for seed in range(200):
        known, new = scores(39, seed=2 * seed), scores(20, seed=2 * seed + 1)
        calibration = Calibration.of(known, 1.0)
        for method, total in missed.items():
            total += (new > calibration.factor(0.1, method, 7)).mean(axis=0) / 200
    assert missed["local"].max() < 0.115  # 0.1, its standard error 0.005
    assert missed["local"].min() > 0.08
    assert missed["sample"].max() > 0.5


def test_the_factor_is_an_order_statistic_of_the_point_alone():
    known = scores(19)
    found = Calibration.of(known, 1.0).factor(0.1, "local", 7)
    exact = np.sort(known, axis=0)[17]
    assert (found >= exact).all()
    assert np.allclose(found, exact, rtol=1e-7)


def test_of_many_samples_few_ranks_are_kept_and_the_higher_one_is_taken():
    known = scores(1000)
    local = Local.of(known)
    assert local.scores.shape == (len(kept_locally(1000)), 7) == (48, 7)
    for rank in (1, 500, 901, 985, 999, 1000):
        assert (local.quantile(rank) >= np.sort(known, axis=0)[rank - 1]).all()
    assert np.allclose(local.quantile(986), np.sort(known, axis=0)[985], rtol=1e-7)
    assert np.isinf(local.quantile(1001)).all()


def test_scores_beyond_single_precision_stay_covered():
    found = Local.of(np.asarray([[1e300], [1e-300], [np.inf]])).quantile(2)
    assert np.isinf(found).all()


def test_scores_of_single_precision_are_kept_as_they_are_and_others_rounded_up():
    kept = Local.of(np.asarray([[0.5, 0.1]])).quantile(1)
    assert kept[0] == 0.5
    assert 0.1 < kept[1] < 0.1 * (1 + 1e-6)


def test_one_sample_is_a_calibration_of_no_level_beyond_it():
    assert Local.of(np.ones((1, 2))).quantile(2).tolist() == [np.inf, np.inf]


def test_a_stream_that_grows_widens_local_factors_too():
    calibration = Calibration.of(scores(60), 1.0)
    before = calibration.factor(0.1, "local", 7)
    after = calibration
    for seed in range(30):
        after = after.observed(10 * scores(10, seed=seed + 1))[0]
    assert (after.factor(0.1, "local", 7) > 4 * before).all()
    parts = PartsCalibration.of_parts(scores(60), 1.0, (3, 4))
    assert np.array_equal(parts.factor(0.1, "local", 7), before)
    for seed in range(30):
        grown = scores(10, seed=seed + 1) * np.repeat([1, 10], [3, 4])
        parts = parts.observed(grown)[0]
    change = parts.factor(0.1, "local", 7) / before
    assert change[:3].max() < 2
    assert change[3:].min() > 4


def test_another_grid_and_older_files_are_refused():
    calibration = Calibration.of(scores(20), 1.0)
    with pytest.raises(ValueError, match="calibrated for 7 values, but 9"):
        calibration.factor(0.1, "local", 9)
    with pytest.raises(ValueError, match="calibrate"):
        Calibration.of(scores(20), 1.0, local=False).factor(0.1, "local", 7)


def fields(rng, n=60):
    a = rng.normal(size=(n, 3))
    x = np.linspace(0, 1, 12)
    return a, np.sin(a[:, :1] + x) + a[:, 1:2] * x**2 + 0.1 * a[:, 2:] * rng.normal(size=(n, 12))


@pytest.mark.parametrize("kind", ["latent", "stages", "flow", "parts"])
def test_every_surrogate_has_local_intervals_and_its_file_keeps_them(kind, tmp_path):
    rng = np.random.default_rng(0)
    a, u = fields(rng)
    small = PCARaNN(n_components=3, widths=(10, 6), n_members=3, scales="energy")
    if kind == "latent":
        model, X, y = small, a, u
    elif kind == "stages":
        model, X, y = Staged(n_stages=1, n_features=6, n_members=2), np.cumsum(u, axis=1), u
    elif kind == "parts":
        model, X, y = small, {"a": a}, {"u": u, "t": u[:, :1]}
    else:
        wave = np.cos(rng.uniform(0, 6, (60, 1, 1)) + 0.3 * np.arange(6)[:, None] + np.linspace(1, 2, 12))
        small = PCARaNN(n_components=2, widths=(10, 6), n_members=3, scales="energy")
        model, X, y = Marching(small, choose=False), wave[:, :2], wave[:, 2:]

    def some(value, rows):
        return {name: part[rows] for name, part in value.items()} if isinstance(value, dict) else value[rows]

    model.fit(some(X, slice(0, 30)), some(y, slice(0, 30)))
    model.calibrate(some(X, slice(30, 55)), some(y, slice(30, 55)))
    new = some(X, slice(55, 60))
    band = model.predict_interval(new, 0.2, "local")
    model.save(tmp_path / "model.pcarann")
    again = load(tmp_path / "model.pcarann").predict_interval(new, 0.2, "local")
    upper, kept = ((one.upper["u"] if kind == "parts" else one.upper) for one in (band, again))
    assert np.isfinite(upper).all()
    assert np.array_equal(upper, kept)
    if kind == "flow":
        fewer = model.predict_interval(new, 0.2, "local", steps=2)
        assert np.allclose(fewer.upper, band.upper[:, :2])


def test_the_smallest_and_the_largest_score_of_a_point_are_kept():
    assert kept_locally(300)[[0, -1]].tolist() == [1, 300]


def test_as_many_samples_as_ranks_are_kept_whole():
    assert kept_locally(49).tolist() == list(range(1, 50))
    assert len(kept_locally(50)) < 50


# Along a stream whose samples are like those of the calibration


def heavy(rng, samples, points=12):
    """Scores with heavy tails, of samples and points of different sizes."""
    sizes = np.exp(0.4 * rng.normal(size=(samples, 1))) * np.linspace(0.5, 2, points)
    return np.abs(rng.standard_t(3, size=(samples, points))) * sizes


def covered(start, method, samples, observed, parts=slice(None), runs=60):
    """Mean share of points of new samples inside, at α = 0.05, 0.1 and 0.2, after so many were observed."""
    found = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        calibration = start(heavy(rng, samples))
        for _ in range(observed):
            calibration, _ = calibration.observed(heavy(rng, 1))
        new = heavy(rng, 100)
        inside = [new <= calibration.factor(alpha, method, 12) for alpha in (0.05, 0.1, 0.2)]
        found.append([one.all(axis=1).mean() if method == "simultaneous" else one[:, parts].mean() for one in inside])
    return np.mean(found, axis=0)


STARTS = {
    "one": lambda known: Calibration.of(known, 1.0),
    "named": lambda known: PartsCalibration.of_parts(known, 1.0, (11, 1)),
    "steps": lambda known: WindowCalibration.by_steps(known, 1.0, 3),
}


@pytest.mark.parametrize("kind", STARTS)
@pytest.mark.parametrize(("samples", "observed"), [(19, 1), (19, 20), (50, 20), (100, 1), (19, 100)])
def test_local_intervals_keep_their_level_on_a_stream_without_drift(kind, samples, observed):
    found = covered(STARTS[kind], "local", samples, observed, runs={1: 60, 20: 30, 100: 10}[observed])
    assert (found > np.array([0.95, 0.9, 0.8]) - 0.02).all()  # three standard errors of these means
    assert (found < np.array([0.95, 0.9, 0.8]) + 0.025).all()  # a rank of 50 samples covers up to 0.961


@pytest.mark.parametrize("observed", [1, 20])
def test_a_number_beside_a_field_keeps_its_own_level(observed):
    found = covered(STARTS["named"], "local", 19, observed, parts=slice(11, None))
    assert (found > np.array([0.95, 0.9, 0.8]) - 0.03).all()  # one value a sample: a standard error of 0.01


@pytest.mark.parametrize("method", ["sample", "pooled", "simultaneous"])
@pytest.mark.parametrize(("samples", "observed"), [(19, 1), (50, 1), (100, 1), (19, 20)])
def test_other_intervals_keep_their_level_on_a_stream_without_drift(method, samples, observed):
    found = covered(STARTS["one"], method, samples, observed)
    # Three standard errors of 60 runs; whole fields are covered or not, each run with its own factor.
    assert (found > np.array([0.95, 0.9, 0.8]) - np.array([0.02, 0.03, 0.035])).all()


def test_right_after_the_first_observation_the_change_is_about_one():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        calibration = Calibration.of(heavy(rng, 19), 1.0)
        after, _ = calibration.observed(heavy(rng, 1))
        ratio = after.factor(0.05, "local", 12) / calibration.factor(0.05, "local", 12)
        assert ratio == pytest.approx(np.ones(12), rel=0.25)


def test_local_intervals_follow_a_jump():
    rng = np.random.default_rng(0)
    calibration, missed = Calibration.of(heavy(rng, 100), 1.0), []
    for i in range(120):
        new = 8 * heavy(rng, 1)
        missed += [(new > calibration.factor(0.1, "local", 12)).mean()] if i >= 10 else []
        calibration, _ = calibration.observed(new)
    assert np.mean(missed) == pytest.approx(0.1, abs=0.03)
