"""Pictures on the command line: of data, of meshes, of the best and the worst prediction."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pcarann import Marching, PCARaNN, Staged
from pcarann.cli import main
from pcarann.cli.pictures import place_of
from pcarann.problems.dataset import OperatorData

pytest.importorskip("matplotlib")


def run(*arguments, code=0):
    result = CliRunner().invoke(main, [str(part) for part in arguments])
    assert result.exit_code == code, result.output + result.stderr
    return result


@pytest.fixture
def folder(pairs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a, u = pairs[:60]
    PCARaNN(n_components=4, widths=(20, 10), n_members=2).fit(a, u).save("model")
    np.savez("data.npz", inputs=a, outputs=u)
    return tmp_path


def test_the_best_the_median_and_the_worst_sample_are_drawn_and_drawn_again(folder):
    for _ in range(2):
        said = run("evaluate", "model", "data.npz", "--plots", "new/plots").stdout
        assert "worst.png" in said
    drawn = sorted(path.stem for path in Path("new/plots").iterdir())
    assert drawn == ["best", "median", "trust", "worst"]


@pytest.mark.parametrize("kind", ["stages", "flow", "flow of stages"])
def test_every_surrogate_has_a_picture_of_what_counts(pairs, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a, u = pairs[:40]
    stages = Staged(n_stages=2, n_features=6, n_members=1)
    if kind == "stages":
        model = stages.fit(a, u)
    else:
        step = stages if "stages" in kind else PCARaNN(n_components=3, widths=(10, 6), n_members=2)
        model = Marching(step, choose=False).fit(a[:, None], np.stack([0.9 * a, 0.81 * a], axis=1))
    model.save("model")
    run("describe", "model", "--picture", "counts.png")
    assert Path("counts.png").stat().st_size > 1000


def test_pictures_of_an_evaluation_replace_nothing_else(folder):
    Path("plots").mkdir()
    Path("plots/worst.png").write_text("notes")
    assert (
        "worst.png exists and is not evidently a picture"
        in run("evaluate", "model", "data.npz", "--plots", "plots", code=1).stderr
    )
    assert [path.name for path in Path("plots").iterdir()] == ["worst.png"]
    assert "is a file" in run("evaluate", "model", "data.npz", "--plots", "data.npz", code=1).stderr


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_samples_of_data_are_drawn(folder, ending):
    said = run("describe", "data.npz", "--picture", f"data.{ending}")
    assert "inputs" in said.stdout
    assert f"Picture: data.{ending}" in said.stderr
    assert Path(f"data.{ending}").stat().st_size > 1000


def test_a_file_without_fields_has_no_picture(folder):
    np.savez("numbers.npz", a=np.ones(4), words=np.array(["a", "b"]))
    assert "holds no fields to draw" in run("describe", "numbers.npz", "--picture", "a.png", code=1).stderr


def test_coordinates_that_were_stored_are_taken_where_they_fit(folder):
    t, x = np.arange(3.0), np.linspace(0, 1, 9)
    OperatorData(np.ones((4, 9)), np.ones((4, 3, 9)), {"t": t, "x": x}).save("own.npz")
    assert list(place_of(Path("own.npz"), (3, 9))["coords"]) == ["t", "x"]
    assert list(place_of(Path("own.npz"), (9,))["coords"]) == ["x"]
    assert place_of(Path("own.npz"), (5,)) == {}
    OperatorData(np.ones((4, 9)), np.ones((4, 9, 9)), {"x": x, "t": x}).save("doubtful.npz")
    assert place_of(Path("doubtful.npz"), (9,)) == place_of(Path("doubtful.npz"), (9, 9)) == {}


def test_samples_on_a_mesh_are_drawn_on_it(folder):
    pytest.importorskip("meshio", reason="meshes are read and written by meshio")
    from pcarann.problems.meshes import write_mesh_samples

    points = np.random.default_rng(0).random((5, 2))
    fields = {"T": points.T, "v": np.ones((2, 5, 2))}
    write_mesh_samples("a.vtu", points, {"triangle": np.array([[0, 1, 2], [2, 3, 4]])}, fields)
    place = place_of(Path("a_0001.vtu"), (5,))
    assert np.array_equal(place["points"], points)
    assert place["triangles"].tolist() == [[0, 1, 2], [2, 3, 4]]
    assert place_of(Path("a_0001.vtu"), (4,)) == {}
    run("describe", "a_*.vtu", "--picture", "a.png")
    run("describe", "a_0001.vtu", "--picture", "a_0001.png")
