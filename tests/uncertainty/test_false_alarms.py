"""Inputs like the training samples are seldom called new, whatever they are handed over in."""

import warnings

import numpy as np
import pytest

from pcarann import PCARaNN
from pcarann.uncertainty.novelty import LEVEL

pd = pytest.importorskip("pandas")
xr = pytest.importorskip("xarray")
da = pytest.importorskip("dask.array")

POINTS = np.linspace(0, 1, 40)
GRID = np.linspace(0, 1, 16)
XX, YY = np.meshgrid(GRID, GRID, indexing="ij")


def lines(rng, n, decay=1.0):
    k = np.arange(1, 13)
    return (rng.normal(size=(n, 12)) / k**decay) @ np.sin(np.pi * k[:, None] * POINTS)


def plates(rng, n):
    """Exponentials of random cosines, whose rank grows with their number."""
    waves = [(i, j) for i in range(5) for j in range(5)]
    size = (n, len(waves), 1, 1)
    a, p, q = rng.normal(size=size), rng.uniform(0, 6, size), rng.uniform(0, 6, size)
    i, j = (np.asarray(w, float)[None, :, None, None] for w in zip(*waves, strict=True))
    found = a * np.cos(np.pi * i * XX + p) * np.cos(np.pi * j * YY + q) / (1 + i * i + j * j)
    return np.exp(0.8 * found.sum(axis=1))


def spots(d):
    x0, y0 = (np.asarray(d[name])[:, None, None] for name in ("x0", "y0"))
    found = np.exp(-((XX - x0) ** 2 + (YY - y0) ** 2) / 0.02) / np.asarray(d["k"])
    return found.reshape(len(found), -1)[:, ::4]


def mixed(a):
    return np.tanh(np.asarray(a) @ np.sin(np.arange(1.0, 1 + 8 * np.shape(a)[1])).reshape(np.shape(a)[1], 8))


def table(rng, n):
    return np.c_[rng.uniform(-1, 1, n), rng.normal(size=n), rng.choice([0.0, 1.0, 2.0], n)]


def by_name(rng, n):
    return {"k": plates(rng, n), "x0": rng.uniform(size=n), "y0": rng.uniform(size=n)}


def labelled(rng, n):
    return xr.DataArray(lines(rng, n), dims=("sample", "x"), coords={"x": POINTS})


PROBLEMS = {
    "array": (table, mixed),
    "frame": (lambda rng, n: pd.DataFrame(table(rng, n), columns=["a", "b", "c"]), mixed),
    "mapping of numbers": (
        lambda rng, n: dict(zip("abc", table(rng, n).T, strict=True)),
        lambda d: mixed(np.stack(list(d.values()), axis=1)),
    ),
    "field": (plates, lambda a: a.reshape(len(a), -1)[:, ::8] ** 2),
    "field with numbers": (by_name, spots),
    "two fields with a number": (
        lambda rng, n: {"k": lines(rng, n), "q": lines(rng, n, 0.5), "a": rng.normal(size=n)},
        lambda d: np.cumsum(d["k"], axis=1) + d["q"] * d["a"][:, None],
    ),
    "xarray": (labelled, lambda a: np.cumsum(np.asarray(a), axis=1)),
    "dask with numbers": (
        lambda rng, n: {name: da.from_array(one, chunks=len(one)) for name, one in by_name(rng, n).items()},
        lambda d: spots({name: np.asarray(one) for name, one in d.items()}),
    ),
}


def rates(name, n, fits, options):
    inputs, outputs = PROBLEMS[name]
    found = []
    for seed in range(fits):
        rng = np.random.default_rng(seed)
        X, new = inputs(rng, n), inputs(rng, 300)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PCARaNN(**options).fit(X, outputs(X))
            found.append(float(np.mean(np.asarray(model.novelty(new).p_value) <= LEVEL)))
    return found


@pytest.mark.parametrize("name", PROBLEMS)
def test_few_inputs_like_the_training_samples_are_called_new(name):
    found = rates(name, 150, 4, {"regressor": "kernel", "n_members": 1})
    assert np.mean(found) <= 0.02, found
    assert max(found) <= 0.05, found


@pytest.mark.parametrize(
    "options", [{"n_members": 2}, {"regressor": "kernel", "n_members": 1}], ids=["random", "kernel"]
)
@pytest.mark.parametrize("n", [60, 100])
def test_a_field_with_numbers_is_no_alarm_from_few_samples(n, options):
    assert np.mean(rates("field with numbers", n, 4, options)) <= 0.02


@pytest.mark.parametrize("kind", ["field", "number", "both"])
def test_inputs_of_a_field_with_numbers_that_are_outside_are_found_and_named(kind):
    rng = np.random.default_rng(0)
    X, new = by_name(rng, 150), by_name(rng, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PCARaNN(regressor="kernel", n_members=1).fit(X, spots(X))
        if kind != "number":
            new["k"] = 10 * new["k"]
        if kind != "field":
            new["x0"] = new["x0"] + 1.5
        found = model.novelty(new)
    assert np.mean(np.asarray(found.p_value) <= LEVEL) >= 0.9
    said = found.reasons[0]
    if kind == "field":
        assert " of k " in said
        assert "near point (" in said or "together" in said
    else:
        assert said.startswith("x0 is ")


def test_a_mode_outside_its_range_is_told_by_the_place_where_it_is_largest():
    rng = np.random.default_rng(0)
    a = labelled(rng, 100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PCARaNN(regressor="kernel", n_members=1).fit(
            {"k": a, "b": rng.normal(size=100)}, np.cumsum(a.values, 1)
        )
        bump = 6 * np.exp(-200 * (POINTS - 0.3) ** 2)
        found = model.novelty({"k": a[:3] + bump, "b": np.zeros(3)})
    assert "of k" in found.reasons[0]
    assert "x = " in found.reasons[0]


@pytest.mark.parametrize("samples", [20, 60, 200])
def test_rows_of_factors_that_repeat_training_rows_are_not_new(samples):
    rng = np.random.default_rng(samples)
    X = np.eye(4)[rng.integers(0, 4, samples)]
    model = PCARaNN(n_members=1, widths=(40, 20)).fit(X, X @ np.sin(np.outer(np.arange(4), np.arange(1, 9))))
    assert np.asarray(model.novelty(X).p_value).min() > LEVEL


def test_three_to_five_samples_flag_hardly_any_exchangeable_input():
    shares = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, fresh = (rng.uniform(size=(n, 3)) for n in (3 + seed % 3, 200))
        y = np.sin(X @ np.ones((3, 1)) + np.linspace(0, 1, 10))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PCARaNN(n_members=1, widths=(40, 20)).fit(X, y)
        shares.append(np.mean(np.asarray(model.novelty(fresh).p_value) <= LEVEL))
    assert np.mean(shares) <= 0.02
