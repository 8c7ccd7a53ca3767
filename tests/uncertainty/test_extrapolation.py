"""Inside the data intervals are as sharp as ever; outside it is said, by name, and they widen."""

import re
import warnings

import numpy as np
import pytest
from scipy.stats import kstwobign

from conftest import periodic_pairs
from pcarann import Fields, Kernel, Marching, PCARaNN
from pcarann.symmetry.generators import Symmetry

pd = pytest.importorskip("pandas")

X = np.linspace(0, 1, 24)
OPTIONS = {
    "refined": {},
    "energy": {"scales": "energy"},
    "kernel": {"regressor": Kernel(2.0), "ridge": 1e-8},
}
ALL_OPTIONS = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def channels(n, seed, beyond=None):
    """A field and two scalars p, q as channels; the second scalar at `beyond` times its range."""
    rng = np.random.default_rng(seed)
    f = (rng.normal(size=(n, 3)) * [1, 0.5, 0.25]) @ [np.sin(np.pi * X), np.sin(2 * np.pi * X), np.cos(np.pi * X)]
    p, q = rng.uniform(0.5, 1.5, (n, 1)), rng.uniform(-1, 1, (n, 1))
    q = q if beyond is None else beyond * np.sign(q)
    inputs = np.stack([f, p + 0 * f, q + 0 * f], axis=1)
    return inputs, p * np.tanh(f) + np.sin(2 * q) * np.cos(2 * X) + 0.3 * q**2 * f


def table(n, seed, beyond=None):
    """An angle within ±30 and a load of 1000 to 5000; the angle at `beyond` times its range."""
    rng = np.random.default_rng(seed)
    angle, load = rng.uniform(-30, 30, n), rng.uniform(1e3, 5e3, n)
    angle = angle if beyond is None else 30 * beyond * np.sign(angle)
    z = (load[:, None] - 3e3) / 2e3
    return pd.DataFrame({"angle": angle, "load": load}), np.sin(angle[:, None] / 15 + 2 * X) * np.exp(z * X / 2) + z**2


CASES = {
    "channels": (channels, {"fields": Fields(channels=True), "n_components": (3, 0.9999)}),
    "table": (table, {"n_components": (2, 0.9999)}),
}


def quietly(call, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*arguments, **options)


def fitted(case, options, seed=0, samples=300):
    data, own = case
    model = PCARaNN(**own, widths=(80, 40), n_members=6, random_state=seed, **options)
    return quietly(model.fit, *data(samples, 10 * seed))


@pytest.fixture(scope="module", params=[(case, name) for case in CASES for name in OPTIONS], ids=" ".join)
def calibrated(request):
    """Five models with their calibration; the function that makes their data."""
    case, name = request.param
    data = CASES[case][0]
    models = [fitted(CASES[case], OPTIONS[name], seed) for seed in range(5)]
    for seed, model in enumerate(models):
        quietly(model.calibrate, *data(500, 10 * seed + 1))
    return models, data


def test_intervals_inside_the_data_cover_what_they_promise(calibrated):
    models, data = calibrated
    inputs, outputs = data(1000, 99)
    bands = [quietly(model.predict_interval, inputs, alpha=0.1) for model in models]
    covered = np.mean([(band.lower <= outputs) & (outputs <= band.upper) for band in bands])
    assert 0.88 <= covered <= 0.92  # 5 × 500 calibration samples, of several independent values: deviation about 0.004


def test_few_inputs_like_the_training_data_are_called_new(calibrated):
    models, data = calibrated
    inputs = data(1000, 99)[0]
    assert np.mean([model.novelty(inputs).p_value <= 0.01 for model in models]) <= 0.02


def test_inputs_with_one_coordinate_outside_are_called_new(calibrated):
    models, data = calibrated
    inputs = data(100, 98, beyond=1.5)[0]
    assert np.mean([model.novelty(inputs).p_value <= 0.01 for model in models]) >= 0.95


def test_intervals_outside_the_data_are_as_wide_as_the_error(calibrated):
    models, data = calibrated
    inputs, outputs = data(100, 98, beyond=1.5)
    bands = [quietly(model.predict_interval, inputs, alpha=0.1) for model in models]
    assert np.mean([(band.upper - band.lower) / 2 >= np.abs(band.mean - outputs) for band in bands]) >= 0.8


@ALL_OPTIONS
def test_the_warning_names_the_column_its_value_and_its_training_range(options):
    model, frame = fitted(CASES["table"], options), table(20, 98, beyond=1.5)[0]
    angle = table(300, 0)[0]["angle"]
    said = rf"20 of 20 inputs .*angle is -?45, training range {angle.min():.4g} to {angle.max():.4g}"
    with pytest.warns(UserWarning, match=said):
        model.predict(frame)


@ALL_OPTIONS
def test_the_warning_names_the_channel_that_is_outside(options):
    model, inputs = fitted(CASES["channels"], options), channels(20, 98, beyond=1.5)[0]
    with pytest.warns(UserWarning, match=r"20 of 20 inputs .*channel 2 is -?1\.5, training range -0\.99.* to 0\.99"):
        model.predict(inputs)


@pytest.mark.parametrize(
    ("name", "samples"), [("refined", 100), ("energy", 100), ("kernel", 100), ("refined", 600), ("energy", 600)]
)
def test_p_values_of_exchangeable_inputs_are_uniform(name, samples):
    # Of 100 samples all are references in turn; of 600, the 120 of the validation part, or a fold of 128.
    fits, each, reference = 10, 100, 100
    found = []
    for seed in range(fits):
        rng = np.random.default_rng(seed)
        a = rng.normal(size=(samples + each, 6)) @ (rng.normal(size=(6, 12)) * 0.7 ** np.arange(6)[:, None])
        model = PCARaNN(n_components=(5, 2), widths=(8, 4), n_members=1, **OPTIONS[name])
        quietly(model.fit, a[:samples], a[:samples, :3] ** 2)
        found.append(model.novelty(a[samples:]).p_value)
    p = np.sort(np.concatenate(found))
    ranks = np.arange(1, p.size + 1) / p.size
    apart = max(np.max(ranks - p), np.max(p - ranks + 1 / p.size))
    # Kolmogorov–Smirnov at 1 %. Inputs that are judged by the same reference are not independent: it counts too.
    # A p-value is a multiple of 1 / (reference + 1) below its tail.
    size = 1 / (1 / p.size + 1 / (fits * reference))
    assert apart <= kstwobign.isf(0.01) / np.sqrt(size) + 1 / (reference + 1)


def test_a_kernel_far_away_has_a_band_as_wide_as_the_outputs_spread():
    model = fitted(CASES["table"], OPTIONS["kernel"])
    quietly(model.calibrate, *table(300, 1))
    far = table(5, 98)[0] * 50
    band = quietly(model.predict_interval, far, alpha=0.1)
    assert np.all((band.upper - band.lower) / 2 >= table(300, 0)[1].std(axis=0))


@ALL_OPTIONS
def test_the_spread_grows_along_a_ray_that_leaves_the_data(options):
    model = fitted(CASES["table"], options)
    ray = pd.DataFrame({"angle": 30.0 * np.array([1.2, 1.5, 2.0, 3.0, 5.0, 10.0]), "load": 3e3})
    spread = quietly(model.predict, ray, return_std=True)[1].mean(axis=1)
    assert np.all(np.diff(spread) > 0)


@ALL_OPTIONS
def test_the_spread_of_training_inputs_is_that_of_the_members_alone(options):
    model, inputs = fitted(CASES["table"], options), table(300, 0)[0].to_numpy()
    ensemble = model.ensemble_
    if ensemble.residual_spread is not None:
        found = quietly(model.predict_parts, inputs)
        assert found.beyond is None or not found.beyond.any()
        return
    latents = np.stack([member(ensemble.encode(inputs)) for member in ensemble.members])
    wanted = np.std(latents @ ensemble.output_pca.modes, axis=0, ddof=1)
    found = quietly(model.predict, inputs, return_std=True)[1]
    # Outputs of size 3; readouts of size 1e7 amplify the rounding of features, which changes with the rows beside them.
    assert np.abs(found - wanted).max() <= 1e-7


@pytest.mark.parametrize("far", [1.0, 4.0])
@pytest.mark.parametrize("rough", [0.0, 2.0], ids=["smooth", "rough"])
@pytest.mark.parametrize(
    "symmetry", [Symmetry.shifts(-1), Symmetry.reflection(-1, periodic=True)], ids=["shifts", "mirror"]
)
def test_spreads_move_with_a_symmetry_outside_the_data_too(symmetry, far, rough):
    pairs = periodic_pairs(100)
    model = PCARaNN(n_components=5, widths=(30, 20), n_members=3, scales="energy", symmetry=symmetry).fit(*pairs[:80])
    a = far * pairs.inputs[80:] + rough * np.random.default_rng(0).normal(size=(20, 10))
    group = symmetry.bind((10,), (2, 10))
    found = quietly(model.predict, group.move_inputs(a, 1), return_std=True)[1].reshape(20, -1)
    wanted = group.move_outputs(quietly(model.predict, a, return_std=True)[1].reshape(20, -1), 1)
    assert np.abs(found - wanted).max() <= 1e-9 * wanted.max()  # sums over the group, in another order


def growing(amplitude, seed, times=5):
    """Waves that turn, and double from one snapshot to the next."""
    angle = np.random.default_rng(seed).uniform(0, 2 * np.pi, (len(amplitude), 1)) + 0.3 * np.arange(times)
    return (amplitude[:, None] * 2.0 ** np.arange(times))[:, :, None] * np.cos(angle[:, :, None] + 6 * X)


@pytest.fixture(scope="module")
def marching():
    """A flow of four steps, learned at amplitudes of 0.8 to 1, of 1.6 to 2, of 3.2 to 4 and of 6.4 to 8."""
    flow = growing(np.random.default_rng(0).uniform(0.8, 1, 100), 0)
    model = PCARaNN(n_components=2, widths=(40, 20), n_members=3, scales="energy")
    return Marching(model).fit(flow[:, :1], flow[:, 1:])


@pytest.mark.parametrize(("amplitude", "leaves"), [(1.6, 4), (3.2, 3), (6.4, 2), (12.8, 1)])
def test_a_roll_out_is_reported_at_the_step_where_it_leaves_the_data(marching, amplitude, leaves):
    with pytest.warns(UserWarning, match="of the roll-out") as caught:
        marching.predict(growing(np.full(20, amplitude), 1, times=1))
    assert int(re.search(r"At step (\d+) of 4", str(caught[0].message))[1]) == leaves


def test_a_roll_out_that_stays_inside_is_not_reported(marching):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        marching.predict(growing(np.full(20, 0.8), 1, times=1))


def test_the_spread_of_a_roll_out_grows_from_where_it_leaves_the_data(marching):
    start = growing(np.full(8, 12.8), 1, times=1)
    spread = quietly(marching.predict, start, return_std=True)[1].mean(axis=(0, 2))
    assert np.all(np.diff(spread) > 0)
