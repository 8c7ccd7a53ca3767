import copy
import pickle
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pcarann.symmetry.group as group_module
from pcarann.backend.arrays import place_of, to_host
from pcarann.problems import burgers, darcy, navier_stokes
from pcarann.symmetry.generators import Symmetry
from pcarann.symmetry.group import Group


def glide(fields):
    """−ω(y + ¼, x + ¼)"""
    quarter = fields.shape[-1] // 4
    return -np.swapaxes(np.roll(fields, (-quarter, -quarter), (-2, -1)), -2, -1)


def half_turn(fields):
    """ω(⅛ − x, ⅛ − y)"""
    eighth = fields.shape[-1] // 8
    return np.roll(np.flip(fields, (-2, -1)), (eighth + 1, eighth + 1), (-2, -1))


def navier_stokes_symmetry():
    return Symmetry.shifts({-2: 1, -1: -1}) * Symmetry.of(glide, glide) * Symmetry.of(half_turn, half_turn)


BURGERS = Symmetry.shifts(-1, closed=True) * Symmetry.reflection(-1, sign=-1)

CASES = {
    "dihedral": (Symmetry.dihedral(), (5, 5), (2, 5, 5), 8),
    "dihedral of another size": (Symmetry.dihedral(), (5, 5), (3, 3), 8),
    "dihedral with components last": (Symmetry.dihedral((-3, -2)), (4, 4, 2), (4, 4, 3), 8),
    "shifts": (Symmetry.shifts(-1), (6,), (3, 6), 6),
    "shifts of both axes": (Symmetry.shifts(-2, -1), (3, 4), (3, 4), 12),
    "every second shift": (Symmetry.shifts(-1, stride=2), (6,), (6,), 3),
    "shifts of a closed grid": (Symmetry.shifts(-1, closed=True), (7,), (2, 7), 6),
    "shifts of two closed axes": (Symmetry.shifts(-2, -1, closed=True), (4, 5), (4, 5), 12),
    "diagonal shifts": (Symmetry.shifts({-2: 1, -1: -1}), (8, 8), (8, 8), 8),
    "reflection": (Symmetry.reflection(-1), (5,), (5,), 2),
    "periodic reflection and shifts": (Symmetry.reflection(-1, periodic=True) * Symmetry.shifts(-1), (5,), (5,), 10),
    "sign": (Symmetry.reflection(sign=-1), (5,), (4,), 2),
    "sign of the output alone": (Symmetry.reflection(-1, sign=(1, -1)), (5,), (4,), 2),
    "dihedral and sign": (Symmetry.dihedral() * Symmetry.reflection(sign=-1), (3, 3), (3, 3), 16),
    "Burgers": (BURGERS, (11,), (4, 11), 20),
    "Navier-Stokes": (navier_stokes_symmetry(), (16, 16), (2, 16, 16), 64),
}
every_case = pytest.mark.parametrize(
    ("symmetry", "input_grid", "output_grid", "order"), list(CASES.values()), ids=list(CASES)
)


def valid_fields(group, seed=0, samples=3):
    """Random pairs whose repeated values agree: those that an element has written."""
    rng = np.random.default_rng(seed)
    sizes = (group.n_inputs, group.generators.shape[1] - group.n_inputs)
    inputs, outputs = (rng.normal(size=(samples, size)) for size in sizes)
    last = group.order - 1
    return group.move_inputs(inputs, last), group.move_outputs(outputs, last)


def applied(function, fields, grid):
    return function(fields.reshape(-1, *grid)).reshape(len(fields), -1)


# The group


@every_case
def test_the_order_is_that_of_the_group(symmetry, input_grid, output_grid, order):
    assert symmetry.bind(input_grid, output_grid).order == order


@every_case
def test_no_two_elements_move_pairs_alike(symmetry, input_grid, output_grid, order):
    group = symmetry.bind(input_grid, output_grid)
    a, u = valid_fields(group)
    moved = {
        (group.move_inputs(a, e) + 0.0).tobytes() + (group.move_outputs(u, e) + 0.0).tobytes() for e in range(order)
    }
    assert len(moved) == order


@every_case
def test_the_product_of_two_elements_is_an_element(symmetry, input_grid, output_grid, order):
    group = symmetry.bind(input_grid, output_grid)
    a, u = valid_fields(group, samples=1)
    moves = [np.concatenate([group.move_inputs(a, e), group.move_outputs(u, e)], axis=1) for e in range(order)]
    for first in range(0, order, max(1, order // 8)):
        split = np.split(moves[first], [group.n_inputs], axis=1)
        for second in range(order):
            product = [group.move_inputs(split[0], second), group.move_outputs(split[1], second)]
            assert sum(np.array_equal(np.concatenate(product, axis=1), moved) for moved in moves) == 1


@every_case
def test_an_inverse_undoes_its_element(symmetry, input_grid, output_grid, order):
    group = symmetry.bind(input_grid, output_grid)
    a, u = valid_fields(group)
    for element in range(order):
        inverse = group.inverse(element)
        assert np.array_equal(group.move_inputs(group.move_inputs(a, element), inverse), a)
        assert np.array_equal(group.move_outputs(group.move_outputs(u, element), inverse), u)
        assert group.inverse(inverse) == element


@every_case
def test_every_generator_is_an_element(symmetry, input_grid, output_grid, order):
    group = symmetry.bind(input_grid, output_grid)
    a, u = valid_fields(group)
    for number, generator in enumerate(symmetry.generators):
        element = int(group.graph[0, number])
        assert np.array_equal(group.move_inputs(a, element), applied(generator.input, a, input_grid))
        assert np.array_equal(group.move_outputs(u, element), applied(generator.output, u, output_grid))


@every_case
def test_the_tables_make_the_same_group_again(symmetry, input_grid, output_grid, order):
    group = symmetry.bind(input_grid, output_grid)
    tables = group.tables()
    again = Group.from_tables(tables)
    a, u = valid_fields(group)
    assert tables["input"].dtype == tables["output"].dtype == np.int32
    assert tables["output"].shape == (len(symmetry.generators), prod(output_grid))
    assert again.order == order
    for element in range(order):
        assert np.array_equal(again.move_inputs(a, element), group.move_inputs(a, element))
        assert np.array_equal(again.move_outputs(u, element), group.move_outputs(u, element))
        assert again.inverse(element) == group.inverse(element)


@every_case
def test_tables_too_large_to_keep_are_made_when_asked_for(symmetry, input_grid, output_grid, order, monkeypatch):
    kept = symmetry.bind(input_grid, output_grid)
    monkeypatch.setattr(group_module, "_MOST_KEPT", 0)
    made = symmetry.bind(input_grid, output_grid)
    a, u = valid_fields(kept)
    assert kept.kept
    assert not made.kept
    for element in range(order):
        assert np.array_equal(made.move_inputs(a, element), kept.move_inputs(a, element))
        assert np.array_equal(made.move_outputs(u, element), kept.move_outputs(u, element))


@settings(max_examples=30, deadline=None)
@given(values=st.integers(1, 6), seed=st.integers(0, 10**6), count=st.integers(1, 3))
def test_random_signed_permutations_generate_the_group_that_matrices_do(values, seed, count):
    rng = np.random.default_rng(seed)
    signs, orders = rng.choice([-1, 1], (count, values)), rng.permuted(np.tile(np.arange(values), (count, 1)), axis=1)
    if 2**values * prod(range(1, values + 1)) > 4096:
        orders = np.sort(orders, axis=1)
    matrices = [np.eye(values)[order] * sign[:, None] for order, sign in zip(orders, signs, strict=True)]
    found, fresh = {np.eye(values).tobytes()}, [np.eye(values)]
    while fresh:
        products = [g @ e + 0.0 for e in fresh for g in matrices]
        fresh = list({p.tobytes(): p for p in products if p.tobytes() not in found}.values())
        found |= {p.tobytes() for p in fresh}
    group = Group.from_tables({"input": signs * (orders + 1), "output": signs * (orders + 1)})
    assert group.order == len(found)


def test_the_navier_stokes_group_has_256_elements_on_the_grid_of_the_data():
    group = navier_stokes_symmetry().bind((64, 64), (64, 64))
    assert group.order == 256
    assert repr(group) == "Group(order=256, input values=4096, output values=4096)"


def test_a_shift_of_a_closed_grid_writes_the_repeated_value():
    group = Symmetry.shifts(-1, closed=True).bind((4,), (4,))
    assert group.move_inputs(np.array([[1.0, 2.0, 3.0, 1.0]]), 1).tolist() == [[2.0, 3.0, 1.0, 2.0]]


def test_steps_and_stride_are_those_of_the_arguments_of_the_field():
    omega = np.arange(36.0).reshape(1, 6, 6)
    group = Symmetry.shifts({-2: 1, -1: -1}, stride=2).bind((6, 6), (6, 6))
    moved = group.move_inputs(omega.reshape(1, -1), int(group.graph[0, 0])).reshape(6, 6)
    assert moved[1, 3] == omega[0, 3, 1]  # ω(x + 2, y − 2) at (1, 3)
    assert group.order == 3


@pytest.mark.parametrize(("periodic", "expected"), [(False, [4, 3, 2, 1]), (True, [1, 4, 3, 2])])
def test_a_reflection_keeps_the_first_point_of_a_periodic_grid_alone(periodic, expected):
    group = Symmetry.reflection(-1, sign=(1, -1), periodic=periodic).bind((4,), (4,))
    fields = np.array([[1.0, 2.0, 3.0, 4.0]])
    assert group.move_inputs(fields, 1).tolist() == [expected]
    assert group.move_outputs(fields, 1).tolist() == [[-value for value in expected]]


def test_fields_are_moved_where_they_are(backend):
    group = (Symmetry.dihedral() * Symmetry.reflection(sign=(1, -1))).bind((3, 3), (3, 3))
    fields = np.random.default_rng(0).normal(size=(2, 9))
    for element in range(group.order):
        for move in (group.move_inputs, group.move_outputs):
            moved = move(backend(fields), element)
            assert type(moved) is type(backend(fields))
            assert np.array_equal(to_host(moved), move(fields, element))


def test_moving_writes_nothing_to_the_fields_and_the_identity_returns_them():
    group = Symmetry.reflection(-1, sign=-1).bind((3,), (3,))
    fields = np.array([[1.0, 2.0, 3.0]])
    group.move_inputs(fields, 1)
    assert fields.tolist() == [[1.0, 2.0, 3.0]]
    assert group.move_inputs(fields, 0) is fields


# Subsets


def test_a_subset_starts_with_the_identity_and_grows_with_its_count():
    group = Symmetry.shifts(-1).bind((20,), (20,))
    subsets = [group.subset(count, seed=3) for count in range(1, 21)]
    for count, subset in enumerate(subsets, start=1):
        assert len(set(subset)) == count
        assert subset[0] == 0
        assert subset[: count - 1] == subsets[count - 2][: count - 1] or count in (1, 20)
        assert set(subset) <= set(range(20))


@pytest.mark.parametrize("count", [None, 5, 99])
def test_a_subset_of_no_fewer_than_all_is_all(count):
    assert Symmetry.shifts(-1).bind((5,), (5,)).subset(count, seed=0) == (0, 1, 2, 3, 4)


def test_another_seed_takes_another_subset():
    group = Symmetry.shifts(-1).bind((50,), (50,))
    assert group.subset(10, seed=0) == group.subset(10, seed=0)
    assert group.subset(10, seed=0) != group.subset(10, seed=1)


# Descriptions


def test_a_symmetry_reads_as_it_was_written():
    for text in (
        "Symmetry.dihedral()",
        "Symmetry.dihedral((-3, -2))",
        "Symmetry.shifts(-1, closed=True) * Symmetry.reflection(-1, sign=-1)",
        "Symmetry.shifts({-2: 1, -1: -1}, stride=4).using(fit=8)",
        "(Symmetry.shifts(-1) * Symmetry.reflection(sign=(1, -1))).using(fit=8, predict=2)",
        "Symmetry.reflection(-2, -1, periodic=True)",
    ):
        symmetry = eval(text, {"Symmetry": Symmetry})
        assert repr(symmetry) == text
        assert copy.deepcopy(symmetry) == symmetry == pickle.loads(pickle.dumps(symmetry))
    assert repr(Symmetry.of(glide, half_turn)) == "Symmetry.of(glide, half_turn)"


def test_using_states_how_many_elements_and_changes_nothing_else():
    plain = Symmetry.dihedral()
    limited = plain.using(fit=4, predict=2)
    assert (plain.n_fit, plain.n_predict) == (None, None)
    assert (limited.n_fit, limited.n_predict) == (4, 2)
    assert limited.using() == plain
    assert limited.bind((3, 3), (3, 3)).order == 8


# Refusals


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Symmetry.dihedral((-1,)), r"two axes of a square, such as \(-2, -1\), got \(-1,\)"),
        (lambda: Symmetry.dihedral((-1, -1)), r"must differ from each other, got \(-1, -1\)"),
        (lambda: Symmetry.shifts(), "at least one axis or direction"),
        (lambda: Symmetry.shifts(1), "counted from the last, -1, and must be below 0, got 1"),
        (lambda: Symmetry.shifts({-1: 0}), "step along axis -1 must be a whole number other than 0, got 0"),
        (lambda: Symmetry.shifts({-1: 0.5}), "whole number other than 0, got 0.5"),
        (lambda: Symmetry.shifts(-1, stride=0), "stride must be a whole number of at least 1, got 0"),
        (lambda: Symmetry.reflection(), "at least one axis or a sign of -1"),
        (lambda: Symmetry.reflection(-1, sign=2), "sign must be 1, -1 or a pair of them for input and output, got 2"),
        (lambda: Symmetry.reflection(-1, sign=(1, 1, 1)), "or a pair"),
        (lambda: Symmetry.of(glide, None), "output_function must be a function"),
        (lambda: Symmetry.dihedral().using(fit=0), "fit must be a whole number of at least 1, got 0"),
        (lambda: Symmetry.dihedral().using(predict=1.5), "predict must be a whole number of at least 1, got 1.5"),
        (lambda: Symmetry.dihedral().using(fit=2) * Symmetry.reflection(sign=-1), "Multiply first"),
    ],
)
def test_what_describes_no_symmetry_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def same(fields):
    return fields


def many_cycles(fields):
    """Cycles of 3, 5, 7, 11 and 13 values, which come round together after 15 015 moves."""
    parts = np.split(fields, np.cumsum([3, 5, 7, 11]), axis=-1)
    return np.concatenate([np.roll(part, 1, axis=-1) for part in parts], axis=-1)


@pytest.mark.parametrize(
    ("symmetry", "grids", "message"),
    [
        (Symmetry.dihedral(), ((5, 4), (5, 5)), r"dihedral\(\) does not fit the grid \(5, 4\) of the input"),
        (Symmetry.dihedral(), ((5, 5), (5, 4)), r"does not fit the grid \(5, 4\) of the output"),
        (Symmetry.dihedral(), ((5,), (5, 5)), r"grid \(5,\) of the input: it wants an axis -2, found 1 axes"),
        (Symmetry.shifts(-2), ((5,), (5, 5)), r"grid \(5,\) of the input: it wants an axis -2, found 1 axes"),
        (Symmetry.shifts(-1), ((6,), (3,)), "input and output have 6 and 3 points along axis -1"),
        (Symmetry.of(same, glide), ((5,), (5,)), r"does not fit the grid \(5,\) of the output"),
        (Symmetry.of(same, lambda a: np.flip(a, -2)), ((5,), (5,)), "no signed rearrangement .* output's grid"),
        (Symmetry.of(lambda a: np.swapaxes(a, 7, 8), same), ((5,), (5,)), "does not fit the grid .* input: .*axis"),
        (Symmetry.of(lambda a: 2 * a, same), ((5,), (5,)), "no signed rearrangement of the values on the input's grid"),
        (Symmetry.of(same, np.abs), ((5,), (5,)), "no signed rearrangement of the values on the output's grid"),
        (Symmetry.of(np.cumsum, same), ((5,), (5,)), "does not fit"),
        (Symmetry.of(lambda a: a - 1, same), ((5,), (5,)), "no signed rearrangement"),
        (Symmetry.of(lambda a: a * np.nan, same), ((5,), (5,)), "no signed rearrangement"),
        (Symmetry.of(lambda a: a + 0j, same), ((5,), (5,)), "no signed rearrangement"),
        (Symmetry.of(lambda a: a[..., [1, 2, 3, 3]], same), ((4,), (4,)), "8 values after it, and 6 after it again"),
        (
            Symmetry.of(lambda a: a[..., [1, 2, 3, 3]], same) * Symmetry.reflection(-1),
            ((4,), (4,)),
            "Generator 1 of 2 cannot be undone",
        ),
        (Symmetry.of(many_cycles, same), ((39,), (1,)), "more than 4096 elements"),
    ],
)
def test_what_makes_no_group_on_the_grids_is_refused(symmetry, grids, message):
    with pytest.raises(ValueError, match=message):
        symmetry.bind(*grids)


GOOD = np.array([[2, 3, 1]])


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"input": GOOD}, r"no output tables, found \['input'\]"),
        (
            {"input": GOOD, "output": GOOD[0]},
            r"output tables must be whole numbers of shape .* found int64 of shape \(3,",
        ),
        ({"input": GOOD * 1.0, "output": GOOD}, "input tables must be whole numbers .* found float64"),
        ({"input": GOOD[:0], "output": GOOD[:0]}, r"found int64 of shape \(0, 3\)"),
        ({"input": GOOD, "output": np.repeat(GOOD, 2, axis=0)}, "has 1 input tables, but 2 output tables"),
        ({"input": GOOD - 1, "output": GOOD}, "found 1 zeros and numbers from 0 to 2"),
        ({"input": GOOD + 1, "output": GOOD}, "must hold numbers ±1, …, ±3, found 0 zeros and numbers from 2 to 4"),
        ({"input": np.array([[-(2**31)]], np.int32), "output": GOOD}, "numbers from -2147483648"),
        ({"input": np.array([[2, 3, 3]]), "output": GOOD}, "cannot be undone"),
    ],
)
def test_tables_that_describe_no_group_are_refused(tables, message):
    with pytest.raises(ValueError, match=message):
        Group.from_tables(tables)


@pytest.mark.parametrize("element", [-1, 6])
def test_an_element_that_the_group_has_not_is_refused(element):
    group = Symmetry.shifts(-1).bind((6,), (6,))
    for call in (group.inverse, lambda e: group.move_inputs(np.ones((1, 6)), e)):
        with pytest.raises(ValueError, match=f"element must be a number from 0 to 5, got {element}"):
            call(element)


def test_fields_of_another_size_are_refused():
    group = Symmetry.shifts(-1).bind((6,), (2, 6))
    with pytest.raises(ValueError, match="moves fields of 6 values, found 12"):
        group.move_inputs(np.ones((1, 12)), 1)


# The equations


def test_darcy_flow_commutes_with_the_square():
    a = darcy.permeabilities(range(2), place_of(None), seed=0, fine=29)
    u = darcy.solve(a, np.ones_like(a)).reshape(2, -1)
    group = Symmetry.dihedral().bind((29, 29), (29, 29))
    for element in range(8):
        moved = group.move_inputs(a.reshape(2, -1), element).reshape(a.shape)
        solved = darcy.solve(moved, np.ones_like(a)).reshape(2, -1)
        # Conjugate gradients end at a residual of 1e-12.
        assert np.abs(solved - group.move_outputs(u, element)).max() < 1e-11 * np.abs(u).max()


def test_burgers_equation_commutes_with_shifts_and_with_the_odd_reflection():
    data = burgers.generate(2, grid=100, cache=False)
    group = BURGERS.bind((101,), (101, 101))
    assert group.order == 200
    for element in group.subset(6, seed=0):
        start = group.move_inputs(data.inputs, element)[:, :-1]
        states = burgers.evolve(start, viscosity=0.01, times=100, steps=4)
        solved = np.concatenate([states, states[..., :1]], axis=-1).reshape(2, -1)
        # 400 steps of rounding.
        assert np.allclose(solved, group.move_outputs(data.outputs.reshape(2, -1), element), rtol=0, atol=1e-12)


def test_navier_stokes_flow_commutes_with_its_group():
    data = navier_stokes.generate(2, steps=10, cache=False)
    initial = navier_stokes.initial_states(range(2), place_of(None), seed=0, grid=64).reshape(2, -1)
    states = navier_stokes_symmetry().bind((64, 64), (64, 64))
    windows = navier_stokes_symmetry().bind((10, 64, 64), (10, 64, 64))
    elements = windows.subset(4, seed=1)[1:]
    starts = np.concatenate([states.move_inputs(initial, e) for e in elements]).reshape(-1, 64, 64)
    solved = navier_stokes.evolve(starts, range(1, 21), viscosity=1e-3, forcing=0.1, steps=10).reshape(6, 2, -1)
    inputs = np.concatenate([windows.move_inputs(data.inputs.reshape(2, -1), e) for e in elements])
    outputs = np.concatenate([windows.move_outputs(data.outputs.reshape(2, -1), e) for e in elements])
    # 200 steps of rounding on vorticities of size 1.
    assert np.allclose(solved[:, 0], inputs, rtol=0, atol=1e-12)
    assert np.allclose(solved[:, 1], outputs, rtol=0, atol=1e-12)
