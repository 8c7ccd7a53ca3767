import numpy as np
import pytest

from meshes import triangles
from pcarann.backend.arrays import place_of
from pcarann.containers.packing import packed
from pcarann.containers.parts import Side
from pcarann.containers.scaling import holes_of
from pcarann.containers.stacking import InputStack, OutputStack
from pcarann.mesh import Mesh

RNG = np.random.default_rng(0)
N = 6
FIELDS = RNG.standard_normal((N, 9, 12))
NUMBER, TABLE = RNG.uniform(size=N), RNG.uniform(size=(N, 3))
HOST = place_of(FIELDS)
MESH = Mesh(RNG.uniform(size=(30, 2)))


def stacked(inputs, outputs, mesh=None):
    (given, a), (truth, u) = Side.of(inputs, "X"), Side.of(outputs, "y")
    out = OutputStack.fit(truth.parts, u.arrays, HOST, mesh)
    return InputStack.of(given.parts, a.arrays, out, HOST), a.arrays, out, u.arrays


def test_numbers_and_tables_are_constant_fields():
    stack, arrays, _, _ = stacked({"f": FIELDS, "n": NUMBER, "t": TABLE}, FIELDS)
    found = stack(arrays, HOST)
    assert found.shape == (N, 5, 9, 12) == (N, *stack.grid)
    assert np.array_equal(found[:, 0], FIELDS)
    assert np.array_equal(found[:, 1], np.broadcast_to(NUMBER[:, None, None], (N, 9, 12)))
    assert np.array_equal(found[:, 4, 3, 3], TABLE[:, 2])


def test_a_field_on_another_grid_is_interpolated():
    x, y = np.linspace(0, 1, 11), np.linspace(0, 1, 23)
    plane = np.broadcast_to(x[:, None] + 2 * y, (N, 11, 23))
    stack, arrays, _, _ = stacked({"f": plane}, FIELDS)
    wanted = np.linspace(0, 1, 9)[:, None] + 2 * np.linspace(0, 1, 12)
    assert np.allclose(stack(arrays, HOST)[:, 0], wanted)


def test_a_field_that_lacks_an_axis_is_repeated_along_it():
    stack, arrays, _, _ = stacked({"f": FIELDS[:, 0, :]}, FIELDS)
    assert np.array_equal(stack(arrays, HOST)[:, 0, 5], FIELDS[:, 0, :])


def test_a_field_that_cannot_come_onto_the_grid_is_refused():
    with pytest.raises(
        ValueError, match=r"X\['f'\] has the grid \(2, 3, 4, 5\), which cannot be brought onto the outputs"
    ):
        stacked({"f": np.zeros((N, 2, 3, 4, 5))}, FIELDS)
    with pytest.raises(ValueError, match=r"cannot be brought onto the mesh's 30 nodes"):
        stacked({"f": FIELDS}, RNG.standard_normal((N, 30)), MESH)


def test_outputs_of_one_grid_are_components_of_one_size():
    _, _, out, arrays = stacked({"f": FIELDS}, {"u": FIELDS, "v": 1e5 * FIELDS})
    found = out(arrays, HOST)
    assert found.shape == (N, 2, 9, 12) == (N, *out.grid)
    assert 0.25 < found[:, 0].std() / found[:, 1].std() < 4
    for name, array in out.apart(found.reshape(N, -1)):
        assert np.allclose(array, arrays[name], rtol=1e-15)
    with pytest.raises(ValueError, match=r"Stages need outputs on one grid, found u \(9, 12\), v \(9,\): use PCARaNN"):
        stacked({"f": FIELDS}, {"u": FIELDS, "v": FIELDS[:, :, 0]})


def test_one_output_has_no_axis_of_components():
    _, _, out, arrays = stacked({"f": FIELDS}, FIELDS)
    assert out(arrays, HOST).shape == (N, 9, 12)


def test_points_without_values_take_that_of_the_nearest():
    holed = FIELDS.copy()
    holed[:, 0, 0] = np.nan
    side, found = Side.of(holed, "y")
    side = side.with_holes({"": holes_of(holed, HOST)})
    out = OutputStack.fit(side.parts, found.arrays, HOST, None)
    filled = out(found.arrays, HOST)
    assert np.isfinite(filled).all()
    assert np.isin(filled[0, 0, 0], filled[0, :2, :2].ravel()[1:])
    assert np.array_equal(dict(out.apart(filled.reshape(N, -1)))[""], holed, equal_nan=True)


@pytest.mark.parametrize("shape", [(30,), (30, 2), (2, 30), (30, 1, 2)])
def test_on_a_mesh_nodes_are_the_last_axis_and_go_back(shape):
    u = RNG.standard_normal((N, *shape))
    stack, arrays, out, truth = stacked({"f": RNG.standard_normal((N, 30)), "n": NUMBER}, u, MESH)
    found = out(truth, HOST)
    assert found.shape == ((N, 30) if len(shape) == 1 else (N, 2, 30))
    assert np.allclose(dict(out.apart(found.reshape(N, -1)))[""], u, rtol=1e-15)
    assert stack(arrays, HOST).shape == (N, 2, 30)


def test_nodes_without_values_take_that_of_the_nearest_node():
    u = RNG.standard_normal((N, 30, 2))
    u[:, 4, 1] = np.nan
    side, found = Side.of(u, "y")
    side = side.with_holes({"": holes_of(u, HOST)})
    out = OutputStack.fit(side.parts, found.arrays, HOST, MESH)
    filled = out(found.arrays, HOST)
    apart = np.linalg.norm(MESH.points - MESH.points[4], axis=1)
    apart[4] = np.inf
    assert np.allclose(filled[:, 1, 4], filled[:, 1, apart.argmin()])
    assert np.allclose(dict(out.apart(filled.reshape(N, -1)))[""], u, rtol=1e-15, equal_nan=True)


@pytest.mark.parametrize("on_mesh", [False, True], ids=["grid", "mesh"])
def test_stacks_know_their_derivatives(on_mesh):
    rng, mesh = np.random.default_rng(0), triangles(5) if on_mesh else None
    space = (25,) if on_mesh else (8, 12)
    holes = rng.uniform(size=(3, *space)) < 0.2
    shapes = {"field": (3, *space), "number": (), "table": (2,)}
    shapes |= {} if on_mesh else {"row": (12,), "coarse": (2, 9, 8)}
    X = {name: rng.normal(size=(20, *shape)) for name, shape in shapes.items()}
    X["field"] = np.where(holes, np.nan, X["field"])
    y = {"u": np.where(holes, np.nan, rng.normal(size=(20, 3, *space))), "v": 1e3 * rng.normal(size=(20, *space))}
    packing = packed(X, y, mesh=mesh, in_space=True).packing
    for code, side in ((packing.input_code, X), (packing.output_code, y)):
        users = sum(np.prod(part.shape[1:], dtype=int) for part in side.values())
        model = int(np.prod(code.grid))
        sizes = (users, model) if code is packing.input_code else (model, users)
        change, back = (rng.normal(size=(4, n)) for n in sizes)
        pushed, pulled = np.nan_to_num(code.push(change)), code.pull(back)
        back = np.where(np.isnan(code.push(change)), 0.0, back)
        assert (pushed.shape[1], pulled.shape[1]) == sizes[::-1]
        np.testing.assert_allclose(np.sum(pushed * back), np.sum(change * pulled), rtol=1e-11)
    rows = np.concatenate([np.nan_to_num(part[:4]).reshape(4, -1) for part in X.values()], axis=1)
    stacked = packing.input_code({name: part[:4] for name, part in X.items()}, place_of(rows))
    np.testing.assert_allclose(packing.input_code.push(rows), stacked.reshape(4, -1))
