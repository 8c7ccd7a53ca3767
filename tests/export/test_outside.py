"""Inputs outside the training data: p-values and widened bands of the file are those of the model."""

import warnings

import numpy as np
import pytest
from runtime import assert_same, by_file, by_model, calibrated, pairs

from pcarann import Fields, PCARaNN

pytestmark = pytest.mark.filterwarnings("ignore:.* lies? outside the training data")
FAR = np.geomspace(0.1, 1e3, 25)

CASES = {
    "fields": ((24,), {}, 1e-11),
    "a table": ((4,), {"n_components": (4, 6)}, 1e-6),
    "channels": ((3, 12), {"fields": Fields(channels=True), "n_components": (4, 6)}, 1e-11),
    "a channel of one value": ((2, 9), {}, 1e-11),
}
"""With what rounding may change: the residual is a root of a difference, and of a table that of nothing but rounding"""


@pytest.mark.parametrize(("grid", "options", "tolerance"), CASES.values(), ids=CASES)
def test_bands_widen_as_those_of_the_model_along_a_ray(grid, options, tolerance):
    X, y = pairs(inputs=grid)
    if grid == (2, 9):
        X[:, 1] = X[:, 1, :1]
    model = calibrated(options, X, y)
    along = X[4] * FAR.reshape(-1, *(1 for _ in grid))
    found, wanted = by_file(model, along), by_model(model, along)
    assert_same(found, wanted, tolerance)
    small = wanted["novelty"] > 1e-250
    assert found["novelty"][small] == pytest.approx(wanted["novelty"][small], rel=1e-8)
    spread = np.linalg.norm(found["outputs.std"], axis=1)
    assert spread[-1] > 20 * spread[0]


def test_inputs_whose_squares_are_no_numbers_are_new_and_their_bands_infinite():
    X, y = pairs()
    model = calibrated({}, X, y)
    with np.errstate(all="ignore"):
        found = by_file(model, X[:1] * 1e200)
    assert found["novelty"] <= 1e-290
    assert np.isinf(found["outputs.upper"]).all()


def test_a_file_widens_and_tells_in_holes_as_the_model_does():
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 12)

    def drawn(n):
        field = (rng.normal(size=(n, 6)) / np.arange(1, 7)) @ np.sin(np.pi * np.outer(np.arange(1, 7), x))
        return {"k": field, "m": rng.choice([1.0, 2.0], n), "b": rng.uniform(-1, 1, n)}

    def solved(d):
        return np.cumsum(d["k"], axis=1) * d["b"][:, None] + np.sin(d["m"])[:, None]

    train, held, asked = drawn(90), drawn(40), drawn(20)
    asked["m"][:8] = 1.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PCARaNN(n_members=3).fit(train, solved(train)).calibrate(held, solved(held))
        found, wanted = by_file(model, asked), by_model(model, asked)
    assert (wanted["novelty"][:8] <= 0.01).all()
    assert_same(found, wanted, 1e-9)
