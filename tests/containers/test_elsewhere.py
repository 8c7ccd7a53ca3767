import numpy as np
import pytest
import xarray as xr

from pcarann import Fields, Mesh, PCARaNN, Staged, load

RNG = np.random.default_rng(0)
SQUARE = np.stack(np.meshgrid(np.linspace(0, 2, 7), np.linspace(0, 1, 5), indexing="ij"), -1).reshape(-1, 2)
CELLS = np.array([[5 * i + j, 5 * i + j + 5, 5 * i + j + 6, 5 * i + j + 1] for i in range(6) for j in range(4)])
MESH = Mesh(SQUARE, CELLS)
A = RNG.standard_normal((40, 3))
FIELDS = A @ np.stack([np.ones(35), SQUARE[:, 0], SQUARE[:, 1]])  # linear: interpolation is exact
SMALL = {"n_components": 3, "regressor": "kernel", "n_members": 2}
POINTS = RNG.uniform(0, 1, (11, 2)) * [2, 1]


@pytest.mark.parametrize("components", [None, "last", "first"])
def test_modes_on_a_mesh_are_wanted_at_points_or_on_another_mesh(components, tmp_path):
    fields = FIELDS if components is None else np.stack([FIELDS, 2 * FIELDS], -1 if components == "last" else 1)
    model = PCARaNN(**SMALL, fields=Fields(mesh=Mesh(SQUARE, CELLS, components))).fit(A, fields)
    with pytest.warns(UserWarning, match="trained on 40 of the 40"):
        model.calibrate(A, fields)
    axis = 2 if components == "first" else 1
    wanted = np.moveaxis(MESH.interpolation(POINTS)(np.moveaxis(model.predict(A), axis, -1)), -1, axis)
    for target in (POINTS, Mesh(POINTS, components=components)):
        moved = model.on(target)
        assert np.allclose(moved.predict(A), wanted, rtol=0, atol=1e-9)
        assert (moved.mesh_ is None) == (target is POINTS)
        assert moved.predict_interval(A).lower.shape == wanted.shape
    moved.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").predict(A), moved.predict(A))
    assert model.predict(A).shape == fields.shape  # the first one stays as it is


def test_points_outside_are_refused():
    model = PCARaNN(**SMALL, fields=Fields(mesh=MESH)).fit(A, FIELDS)
    assert model.on([[1.0, 0.5]]).predict(A).shape == (40, 1)
    for wrong in ("nowhere", 5, [[1.0]], (5, 5)):
        with pytest.raises((ValueError, FileNotFoundError), match=r"target must be a mesh|no mesh file"):
            model.on(wrong)
    with pytest.raises(ValueError, match="outside"):
        model.on([[3.0, 0.5], [1.0, 0.5]])


def test_labelled_fields_keep_what_is_known_on_another_grid():
    x = np.linspace(0, 1, 16)
    given = xr.DataArray(A[:, :1] * x + A[:, 1:2] * x**2, dims=("run", "x"), coords={"x": x}, attrs={"units": "K"})
    model = PCARaNN(**{**SMALL, "n_components": 2}).fit(given, given.rename("u"))
    moved = model.on((31,)).predict(given)
    assert (moved.name, moved.shape, list(moved.coords)) == ("u", (40, 31), [])
    assert np.allclose(moved[:, ::2], model.predict(given), rtol=0, atol=1e-6)


def test_several_outputs_go_together_and_numbers_stay(tmp_path):
    outputs = {"u": FIELDS, "v": np.stack([FIELDS, 2 * FIELDS], -1), "n": A[:, 0]}
    model = PCARaNN(**SMALL, fields=Fields(mesh=MESH)).fit(A, outputs)
    with pytest.warns(UserWarning, match="trained on 40 of the 40"):
        model.calibrate(A, outputs)
    moved = model.on(POINTS)
    at, before, found = MESH.interpolation(POINTS), model.predict(A), moved.predict(A)
    assert np.allclose(found["u"], at(before["u"]), rtol=0, atol=1e-9)
    assert np.allclose(found["v"][..., 1], at(before["v"][..., 1]), rtol=0, atol=1e-9)
    assert np.allclose(found["n"], before["n"], rtol=0, atol=1e-9)
    assert moved.predict_interval(A).upper["v"].shape == (40, 11, 2)
    moved.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").predict(A)["v"], found["v"])
    lines = PCARaNN(**SMALL).fit(A, {"u": FIELDS, "n": A[:, 0]}).on((69,)).predict(A)
    assert lines["u"].shape == (40, 69)


def test_what_cannot_go_elsewhere_is_refused():
    holed = FIELDS.copy()
    holed[:, 3] = np.nan
    with pytest.raises(ValueError, match="Outputs with points without values stay on their own grids"):
        PCARaNN(**SMALL, fields=Fields(mesh=MESH)).fit(A, holed).on(POINTS)
    several = PCARaNN(**SMALL).fit({"a": A, "b": FIELDS}, FIELDS)
    with pytest.raises(ValueError, match="Inputs of several parts, on a mesh or with points without values stay where"):
        several.on((70,), inputs=(70,))
    stages = Staged(grid=MESH, n_features=5, n_members=1, n_stages=1).fit(FIELDS, FIELDS**2)
    with pytest.raises(ValueError, match="Stages on a mesh stay there"):
        stages.on((70,))
