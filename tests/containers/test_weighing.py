"""Labelled weights on labelled outputs: transposed, refused elsewhere, by the output's own name."""

import numpy as np
import pytest
import xarray as xr

from pcarann import PCARaNN

RNG = np.random.default_rng(0)
A = RNG.normal(size=(50, 3))
COORDS = {"y": np.linspace(0, 1, 4), "x": np.linspace(0, 2, 5)}
PLAIN = np.tanh(A @ RNG.normal(size=(3, 20))).reshape(50, 4, 5)
U = xr.DataArray(PLAIN, dims=("sample", "y", "x"), coords=COORDS, name="u")
W = xr.DataArray(RNG.normal(size=(4, 5)), dims=("y", "x"), coords=COORDS)
STACK = xr.concat([W, 2 * W, W**2], dim="k")
OPTIONS = {"n_components": (3, 4), "widths": (20, 10), "n_members": 2, "scales": ("gain", 1.0, 1.0), "ridge": 1e-6}


@pytest.fixture(scope="module")
def model():
    return PCARaNN(**OPTIONS).fit(A, U)


@pytest.fixture(scope="module")
def pair():
    return PCARaNN(**OPTIONS).fit(A, xr.Dataset({"u": U, "v": U**2}))


def values_and_gradients(model, weights):
    return model.quantity(weights)(A[:3]), model.jacobian(A[:3], of=weights)


WAYS = {
    "transposed": (W.transpose("x", "y"), W.values),
    "without coordinates": (W.drop_vars(["x", "y"]).transpose("x", "y"), W.values),
    "a stack, last": (STACK.transpose("x", "y", "k"), STACK.values),
    "by the name that it had": (xr.Dataset({"u": W.T}), W.values),
    "in a mapping": ({"u": STACK.T}, STACK.values),
}


@pytest.mark.parametrize("way", WAYS)
def test_weights_are_laid_out_as_the_output_is(model, way):
    given, plain = WAYS[way]
    for found, wanted in zip(values_and_gradients(model, given), values_and_gradients(model, plain), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_weights_of_several_outputs_are_laid_out_too(pair):
    given, plain = xr.Dataset({"u": W.T, "v": 2 * W}), {"u": W.values, "v": 2 * W.values}
    for found, wanted in zip(values_and_gradients(pair, given), values_and_gradients(pair, plain), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    with pytest.raises(ValueError, match=r"weights\['u'\] has other coordinates along 'y'"):
        pair.quantity({"u": W.assign_coords(y=COORDS["y"] + 5)})


REFUSED = {
    "shifted": (W.assign_coords(x=COORDS["x"] + 5), "has other coordinates along 'x'"),
    "reversed": (W[:, ::-1], "has other coordinates along 'x'"),
    "a stack, shifted": (STACK.assign_coords(x=COORDS["x"] + 5), "has other coordinates along 'x'"),
    "other dimensions": (W.rename(x="z"), r"has the dimensions \('y', 'z'\)"),
    "two more": (STACK.expand_dims("l"), r"has the dimensions \('l', 'k', 'y', 'x'\)"),
    "another name": (xr.Dataset({"w": W}), "must be one array on the one output, which is called u, found the names w"),
    "none": ({}, r"must be one array .* found the names \(none\)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_weights_elsewhere_are_refused(model, case):
    given, said = REFUSED[case]
    with pytest.raises(ValueError, match=f"^weights {said}"):
        model.quantity(given)
    with pytest.raises(ValueError, match=f"^of {said}"):
        model.jacobian(A[:2], of=given)


def test_an_output_without_a_name_says_so():
    model = PCARaNN(**OPTIONS).fit(A, PLAIN)
    np.testing.assert_array_equal(model.quantity(W)(A[:3]), model.quantity(W.values)(A[:3]))
    with pytest.raises(ValueError, match="weights must be one array on the one output, which has no name, found the"):
        model.quantity(xr.Dataset({"u": W}))
