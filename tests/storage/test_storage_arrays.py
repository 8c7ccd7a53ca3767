"""Every array of a file is of its shape, its type, and finite, or the file is refused."""

import numpy as np
import pytest

from pcarann import ModelFileError, load
from pcarann.backend.arrays import place_of
from pcarann.storage.arrays import Arrays, are_numbers, count_of, numbers
from pcarann.storage.container import read
from pcarann.storage.limits import Allowance
from small_models import MAKERS, attacked, saved

every_kind = pytest.mark.parametrize("name", MAKERS)
UNTOLD = ("history.",)
"""Of what was met along a stream nothing predicts, and some of it is not known"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def refused(source, target, name, change):
    """Whether a file is refused in which one array is another."""
    attacked(source, target, lambda document, tensors: tensors.update({name: change(tensors[name])}))
    try:
        load(target)
    except ModelFileError:
        return True
    return False


def with_nan(array):
    found = array.copy()
    found.reshape(-1)[-1] = np.nan
    return found


def numbers_of(path):
    return [name for name, array in read(path)[1].items() if array.dtype == np.float64 and array.size]


@every_kind
def test_an_array_with_nan_in_it_is_refused(files, tmp_path, name):
    path = saved(files, name)
    wanted = [one for one in numbers_of(path) if not one.removeprefix("marching.").startswith(UNTOLD)]
    assert wanted
    assert not [one for one in wanted if not refused(path, tmp_path / "m", one, with_nan)]


@every_kind
def test_an_array_of_single_precision_is_refused(files, tmp_path, name):
    path = saved(files, name)
    single = [one for one in numbers_of(path) if not refused(path, tmp_path / "m", one, lambda a: a.astype(np.float32))]
    assert not single


@every_kind
def test_an_array_of_more_axes_is_refused(files, tmp_path, name):
    path = saved(files, name)
    assert not [one for one in numbers_of(path) if not refused(path, tmp_path / "m", one, lambda a: a[None])]


@every_kind
def test_an_array_that_is_missing_is_refused(files, tmp_path, name):
    path = saved(files, name)
    optional = (
        "latent.",
        "input.weights",
        "output.weights",
        "weights",
        "edge.columns",
        "marching.steps.ranks",
        "calibration.local",
        "marching.local",
        "known.",
    )
    loaded = []
    for one in read(path)[1]:
        attacked(path, tmp_path / "m", lambda document, tensors, one=one: tensors.pop(one))
        try:
            load(tmp_path / "m")
        except ModelFileError:
            continue
        loaded.append(one)
    assert not [
        one for one in loaded if not one.removeprefix("model/").startswith(optional) and ".followed." not in one
    ]


def test_arrays_are_handed_out_as_they_are_asked_for():
    arrays = Arrays({"a": np.ones((2, 3)), "n": np.arange(3)}, place_of(None), Allowance(0))
    assert "a" in arrays
    assert "b" not in arrays
    assert arrays("a", 2, 3).shape == arrays("a").shape == (2, 3)
    with pytest.raises(ValueError, match=r"a has shape \(2, 3\) instead of \(3, 2\)"):
        arrays("a", 3, 2)
    with pytest.raises(ValueError, match="n has dtype int64"):
        arrays("n")
    with pytest.raises(ValueError, match="a has numbers that are not finite"):
        numbers({"a": np.array([np.inf])}, "a")


@pytest.mark.parametrize("number", [1e151, -1e151, np.inf, np.nan])
def test_numbers_that_cannot_be_squared_are_refused(number):
    assert not are_numbers(np.array([0.0, number]))
    assert are_numbers(np.array([1e149, -1e149]))
    assert are_numbers(np.empty((0, 3)))


def test_the_largest_number_is_the_one_that_the_format_says():
    assert are_numbers(np.array([1e150, -1e150]))
    assert not are_numbers(np.array([np.nextafter(1e150, np.inf)]))
    assert not are_numbers(np.array([np.nextafter(-1e150, -np.inf)]))


def test_counts_are_whole_and_no_larger_than_can_be_counted():
    assert count_of(3) == 3
    assert count_of(2**53) == 2**53
    for said in (-1, 10**400, 2**53 + 1):
        with pytest.raises(ValueError, match="is no count"):
            count_of(said)
