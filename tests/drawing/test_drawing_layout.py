"""Layouts: what values lie on decides how they are drawn, and what does not fit is refused in one sentence."""

import numpy as np
import pytest

from pcarann.drawing.layout import Layout

PLANE = np.random.default_rng(0).random((9, 2))
SPACE = np.random.default_rng(0).random((9, 3))
TRIANGLES = np.array([[0, 1, 2], [2, 3, 8]])


@pytest.mark.parametrize(
    ("shape", "place", "kind", "components"),
    [
        ((30,), {}, "curve", 0),
        ((2, 30), {}, "curve", 2),
        ((30, 40), {}, "image", 0),
        ((3, 30, 40), {}, "image", 3),
        ((5, 30, 40), {}, "volume", 0),
        ((2, 12, 30, 40), {}, "volume", 2),
        ((3, 4), {}, "image", 0),
        ((3, 40), {"coords": {"t": range(3), "x": range(40)}}, "image", 0),
        ((5, 40), {"coords": {"x": range(40)}}, "curve", 5),
        ((9,), {"points": PLANE}, "cloud", 0),
        ((9, 2), {"points": PLANE, "triangles": TRIANGLES}, "triangles", 2),
        ((2, 9), {"points": PLANE, "triangles": TRIANGLES}, "triangles", 2),
        ((9,), {"points": np.c_[PLANE, np.ones(9)], "triangles": TRIANGLES}, "triangles", 0),
        ((9,), {"points": SPACE, "triangles": TRIANGLES}, "surface", 0),
        ((9,), {"points": SPACE}, "cloud", 0),
        ((9,), {"points": SPACE, "triangles": np.empty((0, 3), int)}, "cloud", 0),
        ((9,), {"points": PLANE[:, 0]}, "curve", 0),
        ((), {}, "curve", 0),
    ],
)
def test_the_place_decides_how_a_field_is_drawn(shape, place, kind, components):
    layout = Layout.of(shape, **place)
    assert (layout.kind, layout.components) == (kind, components)
    assert len(layout.parts(np.zeros(shape))) == max(components, 1)


def test_components_are_taken_apart_wherever_they_stand():
    values = np.arange(18.0).reshape(9, 2)
    for given in (values, values.T):
        first, second = Layout.of(given.shape, points=PLANE).parts(given)
        assert np.array_equal(first, values[:, 0])
        assert np.array_equal(second, values[:, 1])


def test_of_four_axes_the_middle_of_the_first_is_shown():
    values = np.random.default_rng(0).random((7, 8, 9, 10))
    assert np.array_equal(Layout.of(values.shape).parts(values)[0], values[3])


@pytest.mark.parametrize(
    ("shape", "place", "says"),
    [
        ((8,), {"points": PLANE}, "for 9 nodes, found \\(8,\\)"),
        ((9,), {"points": np.zeros((9, 4))}, "1 to 3 dimensions, found shape \\(9, 4\\)"),
        ((9,), {"points": PLANE, "triangles": [[0, 1, 9]]}, "numbers of 9 nodes, .* from 0 to 9"),
        ((9,), {"triangles": TRIANGLES}, "triangles need points"),
        ((9,), {"coords": {"x": range(8)}}, "coords\\['x'\\] must have 9 points"),
        ((9,), {"coords": {"x": range(9), "y": range(9)}}, "coords name 2 axes"),
        ((2, 3, 9), {"coords": {"x": range(9)}}, "coords name 1 axes"),
    ],
)
def test_a_place_that_does_not_fit_is_refused(shape, place, says):
    with pytest.raises(ValueError, match=says):
        Layout.of(shape, **place)
