import numpy as np
import pytest
import xarray as xr

from pcarann import Fields, Mesh, PCARaNN

pytest.importorskip("matplotlib")
RNG = np.random.default_rng(0)
x = np.linspace(0, 1, 20)
A = RNG.standard_normal((40, 1)) * x + RNG.standard_normal((40, 1)) * x**2
SMALL = {"n_components": 2, "regressor": "kernel", "n_members": 2}


def titles(figure):
    return [axis.get_title(loc="left") for axis in figure.axes if axis.get_title(loc="left")]


def test_a_sample_is_drawn_with_truth_and_band(tmp_path):
    model = PCARaNN(**SMALL).fit(A[:30], A[:30] ** 2)
    assert len(model.draw(A[30:]).axes) == 1
    assert "relative L² error" in titles(model.draw(A[30:], A[30:] ** 2, sample=3))[0]
    model.calibrate(A[30:], A[30:] ** 2)
    figure = model.draw(A[30:], path=tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 1000
    assert figure.axes[0].collections  # the band


def test_parts_labels_and_meshes_are_drawn_where_they_lie():
    given = {"a": A, "n": RNG.uniform(size=40)}
    several = PCARaNN(**SMALL).fit(given, {"u": A**2, "v": A})
    assert several.draw(given, {"u": A**2, "v": A}, part="v").axes
    with pytest.raises(ValueError, match="part must be one of 'u', 'v', got 'w'"):
        several.draw(given, part="w")
    with pytest.raises(ValueError, match="sample must be one of the 40 of X, counted from 0, got 40"):
        several.draw(given, sample=40)
    labelled = xr.DataArray(A, dims=("run", "x"), coords={"x": x})
    assert PCARaNN(**SMALL).fit(labelled, labelled).draw(labelled).axes[0].get_xlabel() == "x"
    points = RNG.uniform(size=(20, 2))
    mesh = Mesh(points)
    on_mesh = PCARaNN(**SMALL, fields=Fields(mesh=mesh)).fit(A, A**2)
    assert on_mesh.draw(A).axes[0].collections
    assert on_mesh.mesh_ is mesh
    assert several.mesh_ is None
