import numpy as np
import pytest

from pcarann import PCARaNN
from pcarann.export.signature import Signature


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def small(X, y):
    return PCARaNN(n_components=2, widths=(6, 4), n_members=2, scales="energy").fit(X, y)


def test_one_array_without_a_name(rng):
    model = small(rng.normal(size=(12, 3, 4)), rng.normal(size=(12, 5)))
    found = Signature.of(model)
    assert [(one.name, one.shape) for one in found.inputs + found.outputs] == [("inputs", (3, 4)), ("outputs", (5,))]
    X = rng.normal(size=(2, 3, 4))
    assert found.opened({"inputs": X}) is X
    assert found.by_name(X, ".std") == {"outputs.std": X}


def test_parts_keep_their_names_and_an_input_gives_way_to_an_output(rng):
    X = {"k": rng.normal(size=(12, 6)), "u": rng.normal(size=12)}
    model = small(X, {"u": rng.normal(size=(12, 5)), "v": rng.normal(size=(12, 4))})
    found = Signature.of(model)
    assert [(one.name, one.shape) for one in found.inputs] == [("k", (6,)), ("u.input", ())]
    assert [one.name for one in found.outputs] == ["u", "v"]
    opened = found.opened({"k": X["k"], "u.input": X["u"]})
    assert set(opened) == {"k", "u"}
    predicted = model.predict(opened)
    assert {name: part.shape for name, part in found.by_name(predicted).items()} == {"u": (12, 5), "v": (12, 4)}


def test_other_inputs_are_refused_by_name(rng):
    found = Signature.of(small(rng.normal(size=(12, 3)), rng.normal(size=(12, 5))))
    with pytest.raises(ValueError, match="inputs missing"):
        found.opened({"a": np.zeros((1, 3))})
    with pytest.raises(ValueError, match=r"inputs has shape \(1, 4\), expected"):
        found.opened({"inputs": np.zeros((1, 4))})


def test_labels_tell_coordinates_and_units(rng):
    xarray = pytest.importorskip("xarray")
    x = np.linspace(0, 1, 5)
    y = xarray.DataArray(rng.normal(size=(12, 5)), dims=("sample", "x"), coords={"x": x}, attrs={"units": "K"})
    model = small(rng.normal(size=(12, 3)), y)
    (found,) = Signature.of(model).outputs
    assert (found.dims, found.attrs) == (("x",), {"units": "K"})
    assert np.array_equal(found.coords["x"], x)
