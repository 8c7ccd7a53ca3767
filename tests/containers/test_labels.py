import numpy as np
import pytest
import xarray as xr

from pcarann.containers.labels import Label, is_labelled, is_labelled_set, opened, sample_dim

X = np.linspace(0.0, 1.0, 5)


def array(dims=("run", "x"), coords=None, **more):
    sizes = {"run": 3, "x": 5, "y": 2}
    values = np.arange(float(np.prod([sizes[dim] for dim in dims]))).reshape([sizes[dim] for dim in dims])
    return xr.DataArray(values, dims=dims, coords={"x": X} if coords is None else coords, **more)


def test_labelled_arrays_and_sets_are_told_apart():
    assert is_labelled(array())
    assert not is_labelled(X)
    assert not is_labelled_set(array())
    assert is_labelled_set(xr.Dataset({"a": array()}))
    assert not is_labelled(xr.Dataset({"a": array()}))


def test_samples_are_a_dimension_that_is_called_so_or_the_first():
    assert sample_dim([array(("x", "run"))]) == "run"
    assert sample_dim([array(("y", "x"))]) == "y"
    assert sample_dim([array(("x", "y"))], known="y") == "y"
    with pytest.raises(ValueError, match=r"without 'run', which counts samples"):
        sample_dim([array(("x", "run")), array(("x",))])
    with pytest.raises(ValueError, match="share no dimension"):
        sample_dim([array(("x",)), array(("y",), coords={})])


def test_numbers_label_and_sample_coordinates_come_apart():
    given = array(("x", "run"), name="u", attrs={"units": "m"}).assign_coords(run=[7, 8, 9], wide=("x", X > 0.5))
    values, label, own = opened(given, "run")
    assert values.shape == (3, 5)
    assert (label.name, label.dims, label.attrs) == ("u", ("x",), {"units": "m"})
    assert set(label.coords) == {"x", "wide"}
    assert list(own) == ["run"]
    again = label.applied(values, "run", own)
    xr.testing.assert_identical(again, given.transpose("run", "x"))


def test_coordinates_along_axes_are_those_that_are_numbers():
    label = opened(array(("run", "x", "y")).assign_coords(y=["a", "b"]), "run")[1]
    assert np.array_equal(label.axes[0], X)
    assert label.axes[1] is None


@pytest.mark.parametrize(
    ("coords", "said"),
    [
        ([0, 1, 1, 2, 3], "repeat or are not finite"),
        ([0, np.nan, 1, 2, 3], "repeat or are not finite"),
        ([0, 2, 1, 3, 4], "are not sorted"),
    ],
)
def test_coordinates_in_disorder_are_refused(coords, said):
    label = Label("u", ("x",), {"x": (("x",), np.asarray(coords, dtype=float))})
    with pytest.raises(ValueError, match=f"The coordinates of y along 'x' {said}"):
        label.refuse_disorder("y")


def test_falling_coordinates_are_in_order():
    Label("u", ("x",), {"x": (("x",), X[::-1])}).refuse_disorder("y")


def test_other_dimensions_and_coordinates_are_refused():
    label = opened(array(), "run")[1]
    label.refuse_other(opened(array(coords={"x": X + 1e-9}), "run")[1], "X")
    with pytest.raises(ValueError, match="X has other coordinates along 'x'"):
        label.refuse_other(opened(array(coords={"x": X + 1}), "run")[1], "X")
    with pytest.raises(ValueError, match=r"X has the dimensions \('y',\), the model was fitted with \('x',\)"):
        label.refuse_other(opened(array(("run", "y"), coords={}), "run")[1], "X")
