"""The standard deviation of every surrogate has the size of its error on fresh samples."""

import numpy as np
import pytest

from pcarann import Marching, PCARaNN, Staged, load
from pcarann.ensemble.residual_spread import ResidualSpread
from pcarann.features.posterior import KernelPosterior
from pcarann.latent.weighting import Weighting
from pcarann.storage.container import ModelFileError, write

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
GRID = np.linspace(0, 1, 32)


def table(rng, n, noise=0.0):
    X = rng.uniform(-1, 1, (n, 4))
    y = np.stack([np.sin(2 * X[:, 0] + X[:, 1]), X[:, 2] ** 2 + X[:, 3] * X[:, 0]], axis=1)
    return X, y + noise * rng.normal(size=y.shape)


def parameters_to_field(rng, n):
    X = rng.uniform(0.5, 2, (n, 2))
    return X, np.sin(6 * X[:, :1] * GRID) + X[:, 1:] * GRID**2


def field_to_field(rng, n, noise=0.0):
    z = rng.normal(size=(n, 6)) / np.arange(1, 7)
    a = sum(z[:, [k]] * np.cos(np.pi * k * GRID) for k in range(6))
    return a, np.tanh(2 * a) + noise * rng.normal(size=a.shape)


def kinks(rng, n):
    X = rng.uniform(0, 1, (n, 3))
    return X, np.abs(X[:, :1] - GRID) * X[:, 1:2]


PROBLEMS = {
    "table": (table, 60, {}),
    "noisy table": (table, 60, {"noise": 0.3}),
    "small table": (table, 20, {}),
    "parameters to field": (parameters_to_field, 60, {}),
    "field to field": (field_to_field, 100, {}),
    "noisy field": (field_to_field, 80, {"noise": 0.1}),
    "few fields": (field_to_field, 24, {}),
    "kinks": (kinks, 80, {}),
}
SMALL = {"widths": (100, 50)}
STEADY = {"n_members": 1, "ridge": "gcv"} | SMALL
MODELS = {
    "one member": {"n_members": 1} | SMALL,
    "two members": {"n_members": 2} | SMALL,
    "three members": {"n_members": 3} | SMALL,
    "kernel, one member": {"n_members": 1, "regressor": "kernel"},
    "kernel, five members": {"n_members": 5, "regressor": "kernel"},
}


def sample(name, seed=2):
    make, n, options = PROBLEMS[name]
    X, y = make(np.random.default_rng(seed), n + 150, **options)
    return (X[:n], y[:n]), (X[n:], y[n:])


def ratio(mean, std, truth):
    return float(np.sqrt(np.mean((mean - truth) ** 2) / np.mean(std**2)))


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_spread_has_the_size_of_the_error(name, options):
    train, (X, y) = sample(name)
    found = PCARaNN(**options).fit(*train).predict_parts(X)
    assert 1 / 3 <= ratio(found.mean, found.members, y) <= 3
    assert (found.members > 0).all()


def test_three_members_of_random_layers_have_their_own_deviation_alone():
    train, (X, _) = sample("field to field")
    model = PCARaNN(**MODELS["three members"]).fit(*train)
    (_, (_, *members)), *_ = model.predict_blocks(X, members=True)
    assert model.ensemble_.residual_spread is None
    assert np.allclose(model.predict_parts(X).members, np.std(members, axis=0, ddof=1), rtol=1e-9)


def test_a_kernel_is_less_certain_away_from_its_samples():
    (X, y), _ = sample("table")
    model = PCARaNN(regressor="kernel", n_members=1).fit(X, y)
    ray = np.linspace(0.5, 2.0, 6)[:, None] * np.ones(4)  # from inside to twice the range
    std = model.ensemble_.residual_spread.posterior(model.ensemble_.encode(model.fitted_.inputs(ray)))
    assert np.all(np.diff(std) > 0)
    assert std[-1] > 4 * std[0]


def test_a_posterior_variance_is_that_of_a_gaussian_process():
    gaussian_process = pytest.importorskip("sklearn.gaussian_process")
    rng = np.random.default_rng(0)
    Z, x = rng.normal(size=(30, 3)), rng.normal(size=(10, 3))
    found = KernelPosterior.of(Z, 1.5, Weighting(), 1e-3, [[i] for i in range(30)])
    kernel = gaussian_process.kernels.Matern(1.5, "fixed", nu=2.5)
    process = gaussian_process.GaussianProcessRegressor(kernel, alpha=1e-3).fit(Z, np.zeros(30))
    assert np.allclose(found(x) * found.unit, process.predict(x, return_std=True)[1] ** 2 + 1e-3, rtol=1e-8)
    left = []
    for i in range(30):
        others = np.delete(Z, i, axis=0)
        process = gaussian_process.GaussianProcessRegressor(kernel, alpha=1e-3).fit(others, np.zeros(29))
        left.append(process.predict(Z[i : i + 1], return_std=True)[1][0] ** 2 + 1e-3)
    assert np.isclose(found.unit, np.mean(left), rtol=1e-8)


def test_directions_and_rest_keep_the_variance_of_every_value():
    residuals = np.random.default_rng(0).normal(size=(40, 25))
    spread = ResidualSpread.of(residuals)
    assert np.allclose(spread.variance, (1 + 1 / 40) * (residuals**2).mean(axis=0), rtol=1e-12)
    assert len(spread.directions) == 8


@pytest.mark.parametrize("options", [STEADY, MODELS["kernel, one member"]], ids=["layers", "kernel"])
def test_a_linear_functional_has_a_spread_of_the_size_of_its_error(options):
    train, (X, y) = sample("noisy table")
    mean, std = PCARaNN(**options).fit(*train).quantity(np.array([1.0, -1.0])).predict(X, return_std=True)
    assert 1 / 3 <= ratio(mean, std, y[:, 0] - y[:, 1]) <= 3


def test_a_linear_functional_has_the_second_moment_of_its_residuals():
    rng = np.random.default_rng(0)
    residuals, weights = rng.normal(size=(40, 6)) @ rng.normal(size=(6, 25)), rng.normal(size=(3, 25))
    found = ResidualSpread.of(residuals).projected(weights)
    assert np.allclose(found.variance, (1 + 1 / 40) * ((residuals @ weights.T) ** 2).mean(axis=0), rtol=1e-10)


@pytest.mark.parametrize("options", [STEADY, MODELS["kernel, one member"]], ids=["layers", "kernel"])
def test_a_function_of_fields_has_a_spread_of_the_size_of_its_error(options):
    train, (X, y) = sample("field to field")
    largest = PCARaNN(**options).fit(*train).quantity(lambda fields: fields.max(axis=1))
    mean, std = largest.predict(X, return_std=True)
    assert 1 / 3 <= ratio(mean, std, y.max(axis=1)) <= 3


@pytest.mark.parametrize("options", [MODELS["two members"], MODELS["kernel, one member"]], ids=["layers", "kernel"])
def test_the_spread_survives_files_updates_and_other_grids(options, tmp_path):
    train, (X, y) = sample("field to field")
    model = PCARaNN(**options).fit(*train)
    model.save(tmp_path / "m.pcarann")
    loaded = load(tmp_path / "m.pcarann")
    std = model.predict(X, return_std=True)[1]
    assert np.allclose(loaded.predict(X, return_std=True)[1], std, rtol=1e-9)
    finer = model.on((63,)).predict(X, return_std=True)[1]
    assert np.allclose(finer[:, ::2], std, rtol=1e-6)
    model.partial_fit(X[:20], y[:20])
    updated = model.predict(X[20:], return_std=True)
    assert 1 / 4 <= ratio(*updated, y[20:]) <= 4


@pytest.mark.parametrize("options", [MODELS["one member"], MODELS["kernel, one member"]], ids=["layers", "kernel"])
def test_intervals_keep_their_level(options):
    train, (X, y) = sample("field to field")
    model = PCARaNN(**options).fit(*train).calibrate(X[:75], y[:75])
    band = model.predict_interval(X[75:], alpha=0.2)
    inside = ((band.lower <= y[75:]) & (y[75:] <= band.upper)).mean()
    assert 0.7 <= inside <= 0.95


@pytest.mark.parametrize("members", [1, 2])
def test_stages_have_a_spread_of_the_size_of_their_error(members, tmp_path):
    train, (X, y) = sample("field to field")
    model = Staged(n_features=30, n_stages=2, n_members=members).fit(*train)
    mean, std = model.predict(X, return_std=True)
    assert (std > 0).all()
    assert 1 / 3 <= ratio(mean, std, y) <= 3
    model.save(tmp_path / "m.pcarann")
    assert np.array_equal(load(tmp_path / "m.pcarann").predict(X, return_std=True)[1], std)


def waves(count=120, times=14):
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 6, (count, 1)) + 0.3 * np.arange(times)
    size = rng.uniform(0.5, 1.5, (count, 1)) * np.exp(-0.03 * np.arange(times))
    fields = size[:, :, None] * np.tanh(2 * np.cos(angle[:, :, None] + 6 * GRID))
    return fields + 0.02 * rng.normal(size=fields.shape)


STEPS = {
    "one member": PCARaNN(widths=(60, 30), n_members=1),
    "two members": PCARaNN(widths=(60, 30), n_members=2),
    "kernel": PCARaNN(regressor="kernel", n_members=2),
    "stages": Staged(n_features=20, n_stages=2, n_members=1),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_roll_outs_have_a_spread_of_the_size_of_their_error_beyond_the_window_too(step, tmp_path):
    fields = waves()
    model = Marching(step).fit(fields[:60, :4], fields[:60, 4:9])
    found = model.predict_parts(fields[60:, :4], steps=10)
    for t in range(10):
        assert 1 / 3 <= ratio(found.mean[:, t], found.members[:, t], fields[60:, 4 + t]) <= 3
    model.save(tmp_path / "m.pcarann")
    again = load(tmp_path / "m.pcarann").predict_parts(fields[60:, :4], steps=10)
    assert np.allclose(again.members, found.members, rtol=1e-9)


def test_a_roll_out_that_was_not_judged_adds_up_the_errors_of_its_steps():
    fields = waves()
    model = Marching(STEPS["one member"], choose=False).fit(fields[:60, :4], fields[:60, 4:9])
    found = model.predict_parts(fields[60:, :4])
    sizes = [np.sqrt((found.members[:, t] ** 2).mean()) for t in range(5)]
    assert np.allclose(np.asarray(sizes) / sizes[0], np.arange(1, 6), rtol=1e-6)
    assert 1 / 6 <= ratio(found.mean, found.members, fields[60:, 4:9]) <= 1.5


@pytest.mark.parametrize(
    ("name", "forged"),
    [("rest", lambda a: a - 1e3), ("directions", lambda a: a[:, :-1]), ("points", lambda a: a[:, :-1])],
)
def test_a_file_with_a_spread_that_does_not_fit_is_refused(name, forged, tmp_path):
    train, _ = sample("table")
    document, tensors = PCARaNN(regressor="kernel", n_members=1).fit(*train).description()
    tensors[f"residual_spread.{name}"] = np.ascontiguousarray(forged(tensors[f"residual_spread.{name}"]))
    write(tmp_path / "m.pcarann", document, tensors)
    with pytest.raises(ModelFileError, match="residual_spread"):
        load(tmp_path / "m.pcarann")
