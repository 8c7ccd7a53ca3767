"""Holes in the training data are found and named, bands widen there, and exchangeable inputs are left alone."""

import warnings

import numpy as np
import pytest

from pcarann import PCARaNN, Staged, load
from pcarann.uncertainty.holes import Gaps
from pcarann.uncertainty.novelty import LEVEL

pd = pytest.importorskip("pandas")
X_AXIS = np.linspace(0, 1, 20)


def ring(rng, n):
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.c_[np.cos(angle), np.sin(angle)] * (1 + 0.05 * rng.normal(size=(n, 1)))


HOLES = {
    "two levels": (
        lambda rng, n: np.c_[rng.choice([1.0, 2.0], n), rng.uniform(-1, 1, n)],
        lambda rng, n: np.c_[np.full(n, 1.5), rng.uniform(-1, 1, n)],
    ),
    "three levels": (
        lambda rng, n: np.c_[rng.choice([0.0, 1.0, 2.0], n), rng.uniform(-1, 1, n)],
        lambda rng, n: np.c_[rng.choice([0.5, 1.5], n), rng.uniform(-1, 1, n)],
    ),
    "two clusters": (
        lambda rng, n: 0.2 * rng.normal(size=(n, 2)) + 2 * rng.choice([-1, 1], (n, 1)),
        lambda rng, n: 0.2 * rng.normal(size=(n, 2)),
    ),
    "a ring": (ring, lambda rng, n: 0.1 * rng.normal(size=(n, 2))),
}
CONTAINERS = {
    "array": lambda a: a,
    "frame": lambda a: pd.DataFrame(a, columns=["a", "b"]),
    "mapping": lambda a: {"a": a[:, 0], "b": a[:, 1]},
}


def truth(a):
    return np.sin(2 * a[:, :1] + 3 * X_AXIS) + np.tanh(a @ np.outer([1.0, -0.7], 1 + X_AXIS))


def quiet(call, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **options)


def model_of(name, n, container="array", seed=0, calibrated=True):
    rng = np.random.default_rng(seed)
    train, asked = HOLES[name]
    wrap = CONTAINERS[container]
    a, held, new = train(rng, n), train(rng, 60), asked(rng, 40)
    model = quiet(PCARaNN(n_members=3).fit, wrap(a), truth(a))
    if calibrated:
        quiet(model.calibrate, wrap(held), truth(held))
    return model, wrap(new), truth(new)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("n", [20, 60, 300])
@pytest.mark.parametrize("name", HOLES)
def test_inputs_in_a_hole_are_new(name, n, container):
    if (name, n) == ("a ring", 20):
        pytest.skip("20 samples leave gaps as wide as the ring")
    model, new, _ = model_of(name, n, container, calibrated=False)
    assert np.mean(np.asarray(model.novelty(new).p_value) <= LEVEL) >= 0.9


@pytest.mark.parametrize("name", HOLES)
def test_bands_in_a_hole_cover_the_truth(name):
    model, new, y = model_of(name, 60)
    band = quiet(model.predict_interval, new, alpha=0.1)
    assert np.mean((band.lower <= y) & (y <= band.upper)) >= 0.9


def test_a_band_between_levels_that_agree_by_chance_covers_the_truth():
    rng = np.random.default_rng(0)
    levels = np.c_[rng.choice([0.0, 1.0], 300), rng.uniform(-1, 1, 300)]

    def periodic(a):
        return np.sin(2 * np.pi * a[:, :1] + X_AXIS) + a[:, 1:] * X_AXIS

    model = quiet(PCARaNN(n_members=5).fit, levels[:200], periodic(levels[:200]))
    quiet(model.calibrate, levels[200:], periodic(levels[200:]))
    between = np.c_[np.full(50, 0.5), rng.uniform(-1, 1, 50)]
    band = quiet(model.predict_interval, between, alpha=0.1)
    assert np.mean((band.lower <= periodic(between)) & (periodic(between) <= band.upper)) >= 0.9


def test_a_value_between_levels_is_named_with_the_levels_around_it():
    model, new, _ = model_of("two levels", 60, "frame", calibrated=False)
    assert model.novelty(new).reasons[0] == "a = 1.5 lies between the levels 1 and 2 of the training data"


def test_the_centre_of_a_ring_is_said_to_be_far_from_every_sample():
    model, new, _ = model_of("a ring", 300, calibrated=False)
    assert "no training sample is near: the closest is" in model.novelty(new).reasons[0]


def test_values_off_a_fine_grid_are_not_new():
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 12), np.linspace(0, 1, 12)), axis=-1).reshape(-1, 2)
    model = quiet(PCARaNN(n_members=2).fit, grid, truth(grid))
    assert np.mean(np.asarray(model.novelty(rng.uniform(0, 1, (200, 2))).p_value) <= LEVEL) <= 0.02


@pytest.mark.parametrize("times", [2, 5])
def test_repeated_samples_do_not_make_others_new(times):
    rng = np.random.default_rng(1)
    a = np.repeat(rng.normal(size=(60, 3)), times, axis=0)
    y = np.tanh(a @ rng.normal(size=(3, 8)))
    model = quiet(PCARaNN(n_members=2).fit, a, y)
    assert np.mean(np.asarray(model.novelty(rng.normal(size=(300, 3))).p_value) <= LEVEL) <= 0.05


def test_a_file_keeps_what_tells_holes(tmp_path):
    model, new, _ = model_of("two levels", 60, "mapping")
    model.save(tmp_path / "m.model")
    other = load(tmp_path / "m.model")
    assert np.array_equal(model.novelty(new).p_value, other.novelty(new).p_value)
    one, two = (quiet(m.predict_interval, new, alpha=0.1) for m in (model, other))
    assert np.array_equal(one.lower, two.lower)


def test_gaps_by_hand():
    gaps, own = Gaps.of(np.array([0.0] * 4 + [1.0] * 4 + [3.0])[:, None], range(9))
    spread = np.std([0.0] * 4 + [1.0] * 4 + [3.0])
    assert not own.any()  # levels: a value that is there twice lies in no gap, and ends have none outside
    assert gaps(np.array([[0.5], [2.0], [1.0], [5.0]]))[:, 0] * spread == pytest.approx([0.5, 1.0, 0.0, 0.0])
    assert gaps.around(0, 2.2) == (1.0, 3.0)


def test_stages_warn_between_the_levels_of_a_number(tmp_path):
    rng = np.random.default_rng(0)
    field, level = rng.normal(size=(40, 16)), rng.choice([1.0, 2.0], 40)
    y = field * level[:, None]
    model = quiet(Staged(n_stages=1, n_features=40).fit, {"a": field, "m": level}, {"u": y})
    model.save(tmp_path / "m.model")
    for one in (model, load(tmp_path / "m.model")):
        with pytest.warns(UserWarning, match="between the levels"):
            one.predict({"a": field[:3], "m": np.full(3, 1.5)})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            one.predict({"a": field[:3], "m": level[:3]})
