import numpy as np
import pandas as pd
import pytest
import xarray as xr

from pcarann.containers.parts import Side

K, A = np.arange(12.0).reshape(3, 4), np.arange(3.0)
TABLE = pd.DataFrame({"p": A, "q": A})


def test_a_mapping_has_parts_by_name_with_grids_of_their_own():
    side, found = Side.of({"k": K, "a": A, "t": TABLE}, "X")
    assert [(part.name, part.grid, part.columns) for part in side.parts] == [
        ("k", (4,), ()),
        ("a", (), ()),
        ("t", (2,), ("p", "q")),
    ]
    assert not side.single
    assert not found.labelled


def test_one_array_is_one_part_without_a_name():
    side, found = Side.of(K, "X")
    assert side.single
    assert side.names == ("",)
    assert found.first is K
    assert Side.of(TABLE, "X")[0].parts[0].columns == ("p", "q")


def test_a_dataset_has_its_variables_as_parts():
    given = xr.Dataset({"k": (("x", "run"), K.T), "a": (("run",), A)}, coords={"run": [5, 6, 7]})
    side, found = Side.of(given, "X")
    assert side.names == ("k", "a")
    assert (side.samples, found.labelled, list(found.sample_coords)) == ("run", True, ["run"])
    assert np.array_equal(found.arrays["k"], K)


def test_labelled_and_plain_parts_stand_beside_each_other():
    side, found = Side.of({"k": xr.DataArray(K, dims=("run", "x")), "a": A}, "X")
    assert side.names == ("k", "a")
    assert side.parts[0].label is not None
    assert side.parts[1].label is None
    assert found.labelled


def test_the_same_kind_of_thing_is_opened_again_in_any_order():
    side, _ = Side.of({"k": K, "a": A}, "X")
    assert list(side.opened({"a": A, "k": K}, "X").arrays) == ["k", "a"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"k": K}, r"X must have the parts k, a, t, found a, t missing\."),
        ({"k": K, "a": A, "t": TABLE, "b": A}, r"X must have the parts k, a, t, found b unknown\."),
        ({"k": K, "A": A, "t": TABLE}, r"found a missing; A unknown\."),
        (K, r"X must be the parts k, a, t, as in fit, found ndarray\."),
        ({"k": K[:, :3], "a": A, "t": TABLE}, r"X\['k'\] has samples of shape \(3,\), expected \(4,\)\."),
        (
            {"k": K, "a": A[:2], "t": TABLE},
            r"The parts of X must have the same number of samples, found k 3, a 2, t 3\.",
        ),
        ({"k": K, "a": A, "t": TABLE[["q", "p"]]}, r"The columns of X\['t'\] should be .* expected p, q, found q, p\."),
        ({"k": K, "a": 1.0, "t": TABLE}, r"X\['a'\] is one number: it needs one for each sample\."),
        ({}, r"X is a mapping without parts\."),
        ({1: K}, r"The parts of X must have names, found 1\."),
        ((K, A), r"X is a tuple of arrays: hand them over by name"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(given, said):
    side, _ = Side.of({"k": K, "a": A, "t": TABLE}, "X")
    with pytest.raises(ValueError, match=said):
        side.opened(given, "X")


def test_parts_are_refused_where_one_array_was_fitted():
    side, _ = Side.of(K, "X")
    with pytest.raises(ValueError, match=r"X must be one array, as in fit, found dict\."):
        side.opened({"k": K}, "X")


def test_a_dataset_without_variables_is_refused():
    with pytest.raises(ValueError, match="X is a Dataset without variables"):
        Side.of(xr.Dataset(), "X")


def test_predictions_come_back_as_what_inputs_were():
    given = xr.DataArray(K, dims=("run", "x"), coords={"run": [5, 6, 7]}, name="k")
    inputs, found = Side.of(given, "X")
    outputs, _ = Side.of(xr.DataArray(2 * K, dims=("run", "x"), name="u", attrs={"units": "m"}), "y")
    handed = outputs.container({"": 3 * K}, found)
    assert (handed.name, handed.attrs, handed.dims) == ("u", {"units": "m"}, ("run", "x"))
    assert handed.run.values.tolist() == [5, 6, 7]
    assert outputs.container({"": K}, inputs.opened(K, "X")) is K  # plain in, plain out
    several, _ = Side.of({"u": K, "v": A}, "y")
    assert set(several.container({"u": K, "v": A}, found)) == {"u", "v"}
    labelled, _ = Side.of(xr.Dataset({"u": given, "v": (("run",), A)}), "y")
    assert set(labelled.container({"u": K, "v": A}, found).data_vars) == {"u", "v"}
