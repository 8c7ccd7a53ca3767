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


@pytest.mark.parametrize("fields", [{}, {"fields": Fields(mesh=Mesh(RNG.uniform(size=(20, 2))))}])
def test_a_number_is_a_point_with_its_interval_and_the_title_names_the_output(fields):
    outputs = {"u": A**2, "loss": A.mean(axis=1)}
    model = PCARaNN(**SMALL, **fields).fit({"a": A[:30]}, {name: part[:30] for name, part in outputs.items()})
    kept = {"a": A[30:]}, {name: part[30:] for name, part in outputs.items()}
    (axis,) = model.calibrate(*kept).draw(*kept, sample=2, part="loss").axes
    band, mean, truth = (line.get_xdata() for line in axis.lines)
    found = model.predict_interval(kept[0], 0.1)
    assert [*band, *mean, *truth] == pytest.approx(
        [found.lower["loss"][2], found.upper["loss"][2], found.mean["loss"][2], outputs["loss"][32]]
    )
    assert axis.get_title(loc="left").startswith("loss, relative L² error")
    shown = model.draw(kept[0])
    assert "u" in (shown.get_suptitle(), *titles(shown))


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
