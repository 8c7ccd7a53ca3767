"""Fields in a panel: the right marks, at the right places, in the right colours."""

import numpy as np
import pytest

from pcarann.drawing import blank, draw_field, save, style
from pcarann.drawing.fields import limits_of

pytest.importorskip("matplotlib")
X, Y = np.linspace(0, 2, 9), np.linspace(0, 1, 8)
POINTS = np.stack(np.meshgrid(X, Y, indexing="ij"), -1).reshape(-1, 2)
VALUES = POINTS[:, 0] + 2 * POINTS[:, 1]
SQUARE = np.array([[0, 8, 9], [0, 1, 9]])


@pytest.fixture
def axis():
    with style():
        yield blank(4, 3).subplots()


def test_a_curve_is_drawn_along_its_points_in_their_order(axis):
    line = draw_field(axis, [3.0, 1.0, 2.0], points=[2.0, 0.0, 1.0], label="u")
    assert line.get_xydata().tolist() == [[0, 1], [1, 2], [2, 3]]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("x", "u")


@pytest.mark.parametrize(
    ("count", "place", "marks"),
    [
        (6, {}, ("o", "None", "column")),
        (40, {}, ("None", "-", "grid point")),
        (9, {"coords": {"x": X}}, ("None", "-", "x")),
        (9, {"points": X}, ("None", "-", "x")),
    ],
    ids=["table", "long", "coordinates", "nodes"],
)
def test_a_few_values_without_coordinates_are_dots_of_a_table(axis, count, place, marks):
    line = draw_field(axis, np.arange(count), **place)
    assert (line.get_marker(), line.get_linestyle(), axis.get_xlabel()) == marks


def test_components_of_a_curve_are_drawn_together_or_one_alone(axis):
    draw_field(axis, np.ones((2, 9)), coords={"x": X})
    assert [line.get_label() for line in axis.lines] == ["component 0", "component 1"]
    other = blank(1, 1).subplots()
    draw_field(other, np.stack([X, 2 * X]), coords={"x": X}, component=1)
    assert np.array_equal(other.lines[0].get_ydata(), 2 * X)


@pytest.mark.parametrize(("names", "labels"), [("xy", ("x", "y")), ("yx", ("x", "y")), ("ts", ("s", "t"))])
def test_an_axis_that_is_called_x_runs_to_the_right(axis, names, labels):
    drawn = draw_field(axis, VALUES.reshape(9, 8), coords=dict(zip(names, (X, Y), strict=True)))
    assert (axis.get_xlabel(), axis.get_ylabel()) == labels
    across = 9 if names == "xy" else 8
    assert drawn.get_array().shape[-1] == across
    assert axis.get_aspect() == 1.0


def test_cells_lie_around_their_points_however_these_are_spaced(axis):
    drawn = draw_field(axis, np.ones((2, 3)), coords={"y": [0.0, 1.0], "x": [0.0, 1.0, 3.0]})
    assert drawn.get_coordinates()[0, :, 0].tolist() == [-0.5, 0.5, 2.0, 4.0]


def test_a_thin_stripe_fills_its_panel(axis):
    draw_field(axis, np.ones((9, 8)), coords={"t": 100 * X, "x": Y})
    assert axis.get_aspect() == "auto"


def test_errors_are_white_at_zero_and_values_span_the_colours(axis):
    drawn = draw_field(axis, [[-1.0, 0.0], [0.5, 3.0]], error=True)
    assert drawn.get_clim() == (-3.0, 3.0)
    assert np.allclose(drawn.cmap(drawn.norm(0.0))[:3], 0.97, atol=0.02)
    assert draw_field(blank(1, 1).subplots(), [[-1.0, 0.0], [0.5, 3.0]]).get_clim() == (-1.0, 3.0)
    assert draw_field(blank(1, 1).subplots(), np.ones((2, 2)), limits=(0, 5)).get_clim() == (0, 5)


def test_where_nothing_is_known_the_panel_is_white(axis):
    values = VALUES.reshape(9, 8).copy()
    values[2, 3] = np.nan
    drawn = draw_field(axis, values)
    assert drawn.get_array().mask.sum() == 1
    assert drawn.cmap.get_bad().tolist() == [1, 1, 1, 1]
    nodal = VALUES.copy()
    nodal[8] = np.inf
    drawn = draw_field(blank(1, 1).subplots(), nodal, points=POINTS, triangles=SQUARE, flat=True)
    assert len(drawn.get_array()) == 1
    assert limits_of([np.nan]) == (0.0, 1.0)


def test_a_vector_shows_its_magnitude(axis):
    drawn = draw_field(axis, np.stack([3 * VALUES, 4 * VALUES], 1), points=POINTS)
    assert np.allclose(drawn.get_array(), 5 * VALUES)


def test_slices_go_through_the_middle_and_say_where(axis):
    values = np.random.default_rng(0).random((5, 9, 8))
    drawn = draw_field(axis, values, coords={"t": np.arange(5.0), "y": X, "x": Y})
    assert np.array_equal(drawn.get_array(), values[2])
    shown = [mesh.get_array() for mesh in axis.collections]
    assert np.array_equal(shown[0], values[:, 4])
    assert np.array_equal(shown[1], values[:, :, 4].T)
    assert {"t = 2", "y = 1", "x = 0.571"} <= {text.get_text() for text in axis.texts}


def test_slices_of_x_y_z_have_x_to_the_right_and_y_upwards(axis):
    values = np.random.default_rng(0).random((9, 8, 5))
    drawn = draw_field(axis, values, coords={"x": X, "y": Y, "z": np.arange(5.0)})
    assert np.array_equal(drawn.get_array(), values[:, :, 2].T)


def test_of_nodes_in_space_those_near_the_middle_plane_are_shown(axis):
    points = np.stack(np.meshgrid(np.arange(9.0), np.arange(9.0), np.arange(5.0)), -1).reshape(-1, 3)
    drawn = draw_field(axis, points[:, 2], points=points)
    assert set(drawn.get_array()) == {2.0}
    assert len(drawn.get_array()) == 81
    assert "z ≈ 2" in axis.get_xlabel()


def test_triangles_in_front_hide_those_behind(axis):
    points = np.array([[0, 1, 0], [1, 1, 0], [0, 1, 1], [0, 0, 0], [1, 0, 0], [0, 0, 1.0]])
    drawn = draw_field(axis, [9.0] * 3 + [1.0] * 3, points=points, triangles=[[3, 4, 5], [0, 1, 2]], flat=True)
    assert drawn.get_array().tolist() == [9.0, 1.0]  # y runs away from the reader


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
@pytest.mark.parametrize("flat", [False, True])
def test_triangulations_can_be_saved_in_every_format(tmp_path, ending, flat):
    with style():
        figure = blank(2, 2)
        draw_field(figure.subplots(), VALUES, points=POINTS, triangles=SQUARE, flat=flat)
        save(figure, tmp_path / f"a.{ending}")
    assert (tmp_path / f"a.{ending}").stat().st_size > 1000
