"""Between what users hold and the rows of a surrogate: codes on both sides, shapes and holes."""

import numpy as np
import pytest

from pcarann.backend.arrays import place_of
from pcarann.backend.linearized import Linearized
from pcarann.containers.packing import packed
from pcarann.derivatives.fields import FieldDerivative

RNG = np.random.default_rng(0)
A, NUMBER = RNG.normal(size=(30, 5)), RNG.normal(size=30)
U = np.where(np.arange(4) == 1, np.nan, RNG.normal(size=(30, 4)))
MATRIX = RNG.normal(size=(9, 9))


def linear(rows):
    """The values of (samples, …) rows times a matrix that is large enough for all of them."""
    flat = rows.reshape(len(rows), -1)
    part = MATRIX[: flat.shape[1], :4]
    return Linearized(flat @ part, lambda t: t @ part, lambda c: c @ part.T)


def of_parts():
    pair = packed({"a": A, "n": NUMBER}, {"u": U, "top": NUMBER})
    plain, like = pair.packing.opened({"a": A[:3], "n": NUMBER[:3]}, place_of(A))
    return FieldDerivative.at(linear, plain, like=like, packing=pair.packing, grid=(4,))


def test_one_array_goes_by_untouched():
    at = FieldDerivative.at(linear, A[:3], like=None, packing=None, grid=(2, 2))
    assert (at.samples, at.sizes) == (3, (5, 4))
    np.testing.assert_allclose(at.push(A[:3]), (A[:3] @ MATRIX[:5, :4]).reshape(3, 2, 2))
    np.testing.assert_allclose(at.pull(np.ones((3, 2, 2))), np.ones((3, 4)) @ MATRIX[:5, :4].T)
    np.testing.assert_allclose(at.value(), at.push(A[:3]))


def test_parts_are_side_by_side_in_rows_and_apart_for_users():
    at = of_parts()
    assert at.sizes == (6, 5)
    value = at.value()
    assert {name: part.shape for name, part in value.items()} == {"u": (3, 4), "top": (3,)}
    assert np.isnan(value["u"][:, 1]).all()
    pulled = at.pull({"u": U[:3], "top": NUMBER[:3]})
    assert {name: part.shape for name, part in pulled.items()} == {"a": (3, 5), "n": (3,)}
    other = at.pull({"u": np.where(np.arange(4) == 1, 7.0, U[:3]), "top": NUMBER[:3]})
    np.testing.assert_array_equal(pulled["a"], other["a"])


def test_samples_are_repeated_one_time_after_another():
    at = of_parts()
    record = at.repeated(2)
    np.testing.assert_allclose(record.value[:, [0, 2]], np.tile(at.rows.value, (2, 1))[:, [0, 2]])


def test_parts_of_another_shape_are_refused_by_name():
    with pytest.raises(ValueError, match=r"dY\['u'\] must have the shape of a prediction, \(3, 4\), found \(2, 4\)"):
        of_parts().cotangents({"u": U[:2], "top": NUMBER[:2]})
