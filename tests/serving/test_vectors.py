import numpy as np
import pytest

from pcarann import PCARaNN
from pcarann.serving.vectors import VectorMap


@pytest.fixture(scope="module")
def parts():
    """Two inputs, of which one is a number, and two outputs, of which one has a hole: model and inputs."""
    rng = np.random.default_rng(1)
    X = {"k": rng.normal(size=(60, 2, 3)), "f": rng.normal(size=60)}
    u = np.tanh(X["k"].reshape(60, 6) + X["f"][:, None])
    v = (X["k"][:, 0, :] ** 2).reshape(60, 3, 1) * np.ones(2)
    v[:, 1, 0] = np.nan
    return PCARaNN(n_components=4, widths=(12, 8), n_members=2, scales="energy").fit(X, {"u": u, "v": v}), X


def test_fields_are_vectors_in_c_order_without_the_points_that_have_no_value(parts):
    model, X = parts
    found = VectorMap.of(model)
    assert (found.inputs.sizes, found.outputs.sizes) == ([6, 1], [6, 5])
    inputs = [X["k"][3].reshape(-1), X["f"][3:4]]
    predicted = model.predict({name: part[3:4] for name, part in X.items()})
    u, v = found.mean(inputs)
    assert np.array_equal(u, predicted["u"][0])
    assert np.array_equal(v, predicted["v"][0].reshape(-1)[[0, 1, 3, 4, 5]])


def test_derivatives_are_those_of_the_blocks_and_transposes_of_one_another(parts):
    model, X = parts
    found, rng = VectorMap.of(model), np.random.default_rng(0)
    inputs = [X["k"][5].reshape(-1), X["f"][5:6]]
    for o, i in ((0, 0), (0, 1), (1, 0), (1, 1)):
        v, s = rng.normal(size=found.inputs.sizes[i]), rng.normal(size=found.outputs.sizes[o])
        pushed, pulled = found.pushed(inputs, i, v)[o], found.pulled(inputs, o, s)[i]
        assert s @ pushed == pytest.approx(pulled @ v, rel=1e-10, abs=1e-12)
        moved = [[one + h * v if k == i else one for k, one in enumerate(inputs)] for h in (1e-5, -1e-5)]
        ends = [found.mean(one)[o] for one in moved]
        assert pushed == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-8)


def test_spread_and_ends_of_intervals(parts):
    model, X = parts
    found, inputs = VectorMap.of(model), [X["k"][3].reshape(-1), X["f"][3:4]]
    one = {name: part[3:4] for name, part in X.items()}
    assert np.array_equal(found.std(inputs)[0], model.predict(one, return_std=True)[1]["u"][0])
    with pytest.raises(ValueError, match="calibrate"):
        found.bound(inputs, "lower", 0.1)
