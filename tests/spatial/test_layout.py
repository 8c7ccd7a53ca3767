"""Fields to (samples, *space, components) and back, whatever the order of axes; grids without space are refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcarann.backend.arrays import to_host
from pcarann.spatial.layout import Layout
from random_fields_in_space import numpy_and_torch


def numbered(grid, samples=2):
    return np.arange(float(samples * math.prod(grid))).reshape(samples, -1)


@pytest.mark.parametrize(
    ("input_grid", "output_grid", "space", "components"),
    [
        ((16,), (16,), (-1,), (1, 1)),
        ((16, 12), (16, 12), (-2, -1), (1, 1)),
        ((3, 16, 12), (16, 12), (-2, -1), (3, 1)),
        ((3, 16, 12), (2, 16, 12), (-2, -1), (3, 2)),
        ((16, 12, 3), (16, 12, 2), (-3, -2), (3, 2)),
        ((2, 3, 16), (5, 16), (-1,), (6, 5)),
        ((2, 16, 3), (4, 16, 5), (-2,), (6, 20)),
        ((32,), (10, 32), (-2, -1), (1, 1)),
        ((1, 32), (10, 32), (-2, -1), (1, 1)),
        ((4, 1, 32), (10, 32), (-2, -1), (4, 1)),
        ((32,), (3, 32), (-1,), (1, 3)),
        ((8, 8, 8), (8, 8, 8), (-3, -2, -1), (1, 1)),
    ],
)
def test_axes_of_space_are_found(input_grid, output_grid, space, components):
    layout = Layout.of(input_grid, output_grid)
    assert layout.space == space
    assert (layout.n_inputs, layout.n_outputs) == components
    assert layout.boundaries == ("free",) * len(space)
    assert layout.domain.shape == tuple(output_grid[i] for i in space)
    assert layout.inputs(numbered(input_grid)).shape == (2, *layout.domain.shape, components[0])
    assert layout.outputs(numbered(output_grid)).shape == (2, *layout.domain.shape, components[1])


grids = st.lists(st.sampled_from([2, 3, 8, 9, 11]), min_size=1, max_size=4).filter(lambda grid: max(grid) >= 8)


@given(grids.map(tuple))
@settings(max_examples=60, deadline=None)
def test_flat_undoes_outputs(grid):
    layout = Layout.of(grid, grid)
    assert np.array_equal(layout.flat(layout.outputs(numbered(grid))), numbered(grid))


@given(grids.map(tuple), st.data())
@settings(max_examples=60, deadline=None)
def test_repeated_points_are_left_out_and_come_back(grid, data):
    layout = Layout.of(grid, grid)
    closed = data.draw(st.tuples(*(st.booleans() for _ in layout.space)))
    layout = layout.ending(["periodic" if one else "free" for one in closed], closed)
    fields = numbered(grid).reshape(2, *grid)
    for axis, one in zip(layout.space, closed, strict=True):
        if one:
            np.moveaxis(fields, axis, 0)[-1] = np.moveaxis(fields, axis, 0)[0]
    flat = fields.reshape(2, -1)
    assert layout.domain.shape == tuple(grid[i] - one for i, one in zip(layout.space, closed, strict=True))
    assert layout.outputs(flat).shape[1:-1] == layout.domain.shape
    assert layout.inputs(flat).shape[1:-1] == layout.domain.shape
    assert np.array_equal(layout.flat(layout.outputs(flat)), flat)


def test_components_stand_last_in_the_order_in_which_they_came():
    first, last = Layout.of((3, 8, 9), (3, 8, 9)), Layout.of((8, 9, 3), (8, 9, 3))
    fields = numbered((3, 8, 9)).reshape(2, 3, 8, 9)
    moved = np.moveaxis(fields, 1, -1)
    assert np.array_equal(first.outputs(fields.reshape(2, -1)), moved)
    assert np.array_equal(last.outputs(moved.reshape(2, -1)), moved)


@pytest.mark.parametrize("input_grid", [(9,), (1, 9)])
def test_inputs_are_repeated_along_axes_that_they_lack(input_grid):
    layout = Layout.of(input_grid, (10, 9))
    found = layout.inputs(numbered((9,)))
    assert np.array_equal(found, np.repeat(numbered((9,))[:, None, :, None], 10, axis=1))
    closed = layout.ending(("free", "periodic"), (False, True))
    assert np.array_equal(closed.inputs(numbered((9,))), found[:, :, :-1])


def test_a_constant_component_is_a_field():
    layout = Layout.of((2, 1, 9), (10, 9))
    assert np.array_equal(layout.inputs(numbered((2, 1, 9)))[0, 3], numbered((2, 9)).reshape(2, 2, 9)[0].T)


@pytest.mark.parametrize("axes", [(-1,), (1,), [1, -1], (np.int64(-1),)])
def test_axes_may_be_given(axes):
    layout = Layout.of((16, 12), (16, 12), axes)
    assert (layout.space, layout.n_inputs, layout.n_outputs) == ((-1,), 16, 16)


@pytest.mark.parametrize("grids", [((16, 12), (16, 12)), ((3, 16, 12), (2, 16, 12))])
def test_given_axes_need_only_4_points(grids):
    small = tuple(tuple(4 if n == 12 else n for n in grid) for grid in grids)
    assert Layout.of(*small).space == (-2,)
    assert Layout.of(*small, (-2, -1)).space == (-2, -1)


@pytest.mark.parametrize("axes", [(), (2,), (-3,), ("x",), (0.5,), -1, "x", (True,)])
def test_axes_that_are_none_are_refused(axes):
    with pytest.raises(ValueError, match=r"^axes must be numbers of axes of the outputs, which have 2, got .*\.$"):
        Layout.of((16, 12), (16, 12), axes)


def test_axes_that_inputs_and_outputs_do_not_share_are_refused():
    with pytest.raises(ValueError, match=r"^Axis -1 is to be space, but the inputs have 12 points on it .* 10: .*\.$"):
        Layout.of((16, 12), (16, 10), (-2, -1))
    with pytest.raises(ValueError, match=r"^Axis -1 is to be space, but the outputs have only 3 points on it\.$"):
        Layout.of((16, 3), (16, 3), (-1,))


@pytest.mark.parametrize(("table", "output_grid"), [((5,), (16, 16)), ((1,), (16,)), ((7,), (40,)), ((2,), (2,))])
def test_a_table_of_parameters_is_referred_to_the_latent_model(table, output_grid):
    with pytest.raises(ValueError, match=rf"^The inputs are a table of {table[0]} values .* use PCARaNN\.$"):
        Layout.of(table, output_grid)


@pytest.mark.parametrize("grids", [((16, 16), (15, 15)), ((4, 4), (4, 4)), ((16, 3), (16,))])
def test_grids_that_do_not_match_are_refused(grids):
    with pytest.raises(ValueError, match=r"^The grids of inputs and outputs do not match, found .* 8 points or more"):
        Layout.of(*grids)


@pytest.mark.parametrize(
    ("input_grid", "output_grid", "evolves"),
    [((9,), (9,), True), ((2, 9), (9,), True), ((2, 9), (3, 9), False), ((9,), (9, 9), False)],
)
def test_states_of_one_kind_are_known_by_their_shape(input_grid, output_grid, evolves):
    assert Layout.of(input_grid, output_grid).is_evolution is evolves


@numpy_and_torch()
def test_libraries_agree(library):
    layout = Layout.of((9, 2), (8, 9, 2)).ending(("free", "periodic"), (False, True))
    flat = numbered((8, 9, 2))
    assert np.array_equal(to_host(layout.inputs(library(numbered((9, 2))))), layout.inputs(numbered((9, 2))))
    assert np.array_equal(to_host(layout.flat(layout.outputs(library(flat)))), layout.flat(layout.outputs(flat)))


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize(
    ("input_grid", "output_grid"),
    [((16,), (16,)), ((3, 9, 12), (9, 12)), ((9, 12, 3), (9, 12, 2)), ((12,), (9, 12)), ((4, 1, 12), (2, 9, 12))],
)
def test_the_ways_to_space_and_back_have_their_adjoints(input_grid, output_grid, closed):
    layout = Layout.of(input_grid, output_grid)
    layout = layout.ending(("periodic",) * len(layout.space), (closed,) * len(layout.space))
    rng = np.random.default_rng(0)

    def same(ahead, back, *shapes):
        f, c = (rng.normal(size=(2, *shape)) for shape in shapes)
        assert np.sum(ahead(f) * c) == pytest.approx(np.sum(f * back(c)), abs=1e-10)

    inputs, outputs = ((*layout.domain.shape, n) for n in (layout.n_inputs, layout.n_outputs))
    same(layout.inputs, layout.inputs_adjoint, (math.prod(input_grid),), inputs)
    same(layout.outputs, layout.outputs_adjoint, (math.prod(output_grid),), outputs)
    same(layout.flat, layout.flat_adjoint, outputs, (math.prod(output_grid),))
