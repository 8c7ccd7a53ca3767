"""Fields of any size in single precision: files agree with models, or are refused."""

import numpy as np
import pytest
from files_beside import from_file, predicted
from runtime import assert_same, by_file, by_model, calibrated, moved, pairs, rounded

from pcarann import Marching, PCARaNN
from pcarann.export.onnx_file import onnx_bytes
from pcarann.export.sizes import square_unit

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* lie outside the training data"),
    pytest.mark.filterwarnings("ignore:At step"),
]
SIZES = (1e-22, 1e-9, 1e9, 1e20, 1e28)


@pytest.fixture(scope="module")
def data():
    return pairs()


@pytest.mark.parametrize("size", SIZES)
def test_spread_and_intervals_of_small_and_large_outputs(data, size):
    X, y = data
    model, asked = calibrated({}, X, y * size), rounded(moved(X))
    found, wanted = by_file(model, asked, single=True), by_model(model, asked)
    assert np.all(wanted["outputs.std"] > 0)
    assert found["outputs.std"] == pytest.approx(wanted["outputs.std"], rel=1e-4)
    assert_same(found, wanted, 1e-5)


@pytest.mark.parametrize("size", [1e-22, 1e20])
def test_spread_and_intervals_of_small_and_large_flows(size):
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 6, (40, 1, 1)) + 0.2 * np.arange(4)[:, None]
    waves = size * (np.cos(angles + np.linspace(0, 5, 10)) + 0.01 * rng.normal(size=(40, 4, 10)))
    step = PCARaNN(n_components=4, widths=(16, 8), n_members=2, scales="energy")
    model = Marching(step, step=1, choose=False).fit(waves[:20, :2], waves[:20, 2:])
    model.calibrate(waves[20:, :2], waves[20:, 2:])
    given = {"inputs": rounded(waves[20:25, 1:2] * np.array([1, 1, 1, 1, 4])[:, None, None])}
    found, wanted = from_file(model, given, single=True), predicted(model, given)
    found.pop("novelty")
    assert found["outputs.std"] == pytest.approx(wanted["outputs.std"], rel=1e-4)
    assert_same(found, wanted, 1e-5)


@pytest.mark.filterwarnings("ignore:n_components=6 is more than there are")
def test_outputs_that_are_all_zero_or_all_the_same(data):
    X, y = data
    for value in (0.0, 3.0):
        model = calibrated({}, X, 0.0 * y + value)
        found = by_file(model, X[:3], single=True)
        assert all(np.all(np.isfinite(one)) for one in found.values())
        for name in ("outputs", "outputs.lower", "outputs.upper"):
            assert found[name] == pytest.approx(np.full((3, 18), value), abs=1e-6)


def test_sizes_that_single_precision_does_not_hold_are_refused_by_side(data):
    X, y = data
    for size in (1e-60, 1e-28, 1e35, 1e200):
        with pytest.raises(ValueError, match=r"Outputs of size .* do not fit into single precision"):
            onnx_bytes(PCARaNN(n_components=3, n_members=1, widths=(8, 4)).fit(X, y * size), single=True)
    for size in (1e-50, 1e40, 1e200):
        with pytest.raises(ValueError, match=r"Inputs of size .* do not fit into single precision"):
            onnx_bytes(PCARaNN(n_components=3, n_members=1, widths=(8, 4)).fit(X * size, y), single=True)


def test_each_of_several_parts_has_a_size_of_its_own(data):
    X, y = data
    parts = {"a": X[:, :12], "b": X[:, 12:] * 1e20}, {"u": y[:, :9] * 1e-20, "v": y[:, 9:] * 1e20}
    model = calibrated({}, *parts)
    asked = rounded({name: one[:4] for name, one in parts[0].items()})
    assert_same(by_file(model, asked, single=True), by_model(model, asked), 1e-5)
    for name, where in (("b", 0), ("v", 1)):
        sides = [dict(part) for part in parts]
        sides[where][name] = sides[where][name] * 1e20
        with pytest.raises(ValueError, match="do not fit into single precision"):
            onnx_bytes(calibrated({}, *sides), single=True)


def test_units_are_powers_of_two_and_1_for_ordinary_fields():
    assert square_unit(0.01) == square_unit(1000.0) == square_unit(0.0) == 1.0
    for size in (3e-22, 7e19):
        assert np.frexp(square_unit(size))[0] == 0.5
        assert 1 <= size / square_unit(size) < 2
