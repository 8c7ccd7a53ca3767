"""Inputs follow their sliders."""

import numpy as np
import pytest

from pcarann.explorer.sliders import Movable, Slider
from pcarann.export.signature import Tensor


def test_numbers_are_what_their_sliders_say_and_fields_a_sum_of_modes():
    table = Movable(Tensor("p", (2,)), np.array([1.0, 2.0]), (Slider("a", 0, 2, 1.0), Slider("b", 0, 4, 2.0)))
    np.testing.assert_array_equal(table.at({"b": 3.5}), [1.0, 3.5])
    modes = np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]])
    field = Movable(Tensor("f", (3,)), np.ones(3), (Slider("m", -1, 1, 0.0), Slider("n", -1, 1, 0.0)), modes)
    np.testing.assert_array_equal(field.at({"m": 0.5, "n": -1.0}), [1.5, -1.0, 1.5])


def test_a_number_stands_for_the_place_of_a_single_slider():
    number = Movable(Tensor("k", ()), np.array(1.0), (Slider("k", 0, 2, 1.0),))
    assert number.at(1.75) == 1.75
    table = Movable(Tensor("p", (2,)), np.array([1.0, 2.0]), (Slider("a", 0, 2, 1.0), Slider("b", 0, 4, 2.0)))
    with pytest.raises(ValueError, match=r"p is set by places of its sliders by label, \{'a': …\}, .* found float"):
        table.at(3.0)


def test_an_unknown_slider_is_refused_by_name():
    table = Movable(Tensor("p", (1,)), np.array([1.0]), (Slider("a", 0, 2, 1.0),))
    with pytest.raises(ValueError, match="p has the sliders a: 'z' is none of them"):
        table.at({"z": 1.0})
