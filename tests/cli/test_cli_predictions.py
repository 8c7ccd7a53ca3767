"""Mesh files and named parts on the command line: read, predicted, written, and never written over."""

import json
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from pcarann import load
from pcarann.cli import main
from pcarann.cli.options import Source, count, data_options
from pcarann.cli.predictions import write_prediction
from pcarann.problems import read
from pcarann.problems.meshes import MeshOfFiles, read_mesh, write_mesh_samples

N, NODES = 60, 24
GRID = np.stack(np.meshgrid(np.linspace(0, 1, 6), np.linspace(0, 1, 4), indexing="ij"), -1).reshape(-1, 2)
CORNER = np.array([4 * i + j for i in range(5) for j in range(3)])
CELLS = {"quad": np.stack([CORNER, CORNER + 4, CORNER + 5, CORNER + 1], axis=1)}
FIT = ("--inputs", "k", "--outputs", "T", "--components", "0.999", "--widths", "20,10", "--members", "2")


def fields():
    weights = np.random.default_rng(0).normal(size=(N, 3))
    k = weights @ np.stack([np.ones(NODES), *np.sin(np.pi * GRID.T)])
    return {"k": k, "T": np.tanh(k) + 0.1 * k**2, "v": np.stack([k, -k], axis=2)}


def run(*arguments, code=0, command=main):
    result = CliRunner().invoke(command, [str(part) for part in arguments])
    assert result.exit_code == code, result.output + result.stderr
    return result


@pytest.fixture
def runs(tmp_path, monkeypatch):
    pytest.importorskip("meshio", reason="meshes are read and written by meshio")
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    write_mesh_samples("runs/run.vtu", GRID, CELLS, fields())
    return tmp_path


# Meshes


def test_mesh_files_are_fitted_calibrated_and_predicted_onto_a_mesh(runs):
    run("fit", "runs/*.vtu", *FIT, "--samples", "0:30", "-o", "model")
    run("calibrate", "model", "runs", "--inputs", "k", "--outputs", "T", "--samples", "30:60")
    said = json.loads(
        run("predict", "model", "runs", "--inputs", "k", "-o", "out.vtu", "--alpha", "0.1", "--json").stdout
    )
    assert said["files"] == "out_0001.vtu … out_0060.vtu"
    band = load("model").predict_interval(fields()["k"], 0.1)
    for name, values in vars(band).items():
        assert np.array_equal(read("out_*.vtu", name, None)[0], values)
    assert np.array_equal(read_mesh("out_0001.vtu").points, GRID)


def test_a_series_holds_all_samples_and_is_replaced_by_another(runs):
    run("fit", "runs", *FIT, "-o", "model")
    for _ in range(2):
        run("predict", "model", "runs", "--inputs", "k", "-o", "out.xdmf", "--std")
    assert np.array_equal(read("out.xdmf", "mean", None)[0], load("model").predict(fields()["k"]))


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["", "force"])
@pytest.mark.parametrize("output", ["runs/new.vtu", "runs/run_0003.vtu"])
def test_nothing_is_written_into_a_folder_that_is_read(runs, output, force):
    run("fit", "runs", *FIT, "-o", "model")
    before = {path: path.read_bytes() for path in Path("runs").iterdir()}
    refused = run("predict", "model", "runs", "--inputs", "k", "-o", output, *force, code=1)
    assert "is being read" in refused.stderr
    assert {path: path.read_bytes() for path in Path("runs").iterdir()} == before


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["", "force"])
def test_no_number_of_a_prediction_falls_on_a_file_that_is_read(runs, force):
    run("fit", "runs", *FIT, "-o", "model")
    before = Path("runs/run_0001.vtu").read_bytes()
    refused = run("predict", "model", "runs/run_*.vtu", "--inputs", "k", "-o", "runs/run.vtu", *force, code=1)
    assert "runs/run_0001.vtu is being read" in refused.stderr
    assert Path("runs/run_0001.vtu").read_bytes() == before


def test_a_mesh_file_that_is_no_prediction_is_replaced_by_force_alone(runs):
    run("fit", "runs", *FIT, "-o", "model")
    Path("other.vtu").write_bytes(Path("runs/run_0001.vtu").read_bytes())
    one = ("predict", "model", "runs/run_0002.vtu", "--inputs", "k", "-o", "other.vtu")
    assert "not evidently a file of a prediction" in run(*one, code=1).stderr
    run(*one, "--force")
    run(*one)


def test_a_mesh_is_needed_to_write_one(runs):
    run("fit", "runs", *FIT, "-o", "model")
    np.savez("plain.npz", inputs=fields()["k"], outputs=fields()["T"])
    run("predict", "model", "plain.npz", "-o", "out.vtu")  # the model knows the mesh that it was fitted on
    run("fit", "plain.npz", "--members", "1", "-o", "elsewhere")
    said = run("predict", "elsewhere", "plain.npz", "-o", "again.vtu", code=2).stderr
    assert "-o can end in .vtu only where DATA, or those of the fit, are on a mesh." in said
    run("fit", "plain.npz", "--members", "1", "--mesh", "runs/run_0001.vtu", "-o", "elsewhere")
    run("predict", "elsewhere", "plain.npz", "-o", "again.vtu")


def test_outputs_are_named_as_in_the_fit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    a, p = rng.standard_normal((40, 1)) * np.linspace(0, 1, 12), rng.uniform(size=40)
    np.savez("data.npz", a=a, p=p, u=a * p[:, None], v=p)
    named = ("--inputs", "a=a", "--inputs", "p=p")
    run("fit", "data.npz", *named, "--outputs", "u=u", "--outputs", "v=v", "--regressor", "kernel", "-o", "model")
    run("adapt", "model", "data.npz", *named, "--outputs", "u=u", "--outputs", "v=v")
    said = run("evaluate", "model", "data.npz", *named, "--outputs", "u", code=2).stderr
    assert "The outputs of the model are u, v, those given are one without a name" in said
    said = run("predict", "model", "data.npz", *named, "-o", "mean.npy", code=2).stderr
    assert "A .npy file holds one array, and this model gives u, v: give a .npz file." in " ".join(said.split())
    run("predict", "model", "data.npz", *named, "-o", "all.npz")
    assert set(np.load("all.npz")) == {"u.mean", "v.mean"}


def test_describe_lists_point_data_of_a_folder_a_pattern_and_a_file(runs):
    for what, samples in (("runs", N), ("runs/*.vtu", N), ("runs/run_0001.vtu", 1)):
        facts = json.loads(run("describe", what, "--json").stdout)
        assert facts["T"].startswith(f"{samples}×24 float64")
        assert facts["v"].startswith(f"{samples}×24×2")


@pytest.mark.parametrize("ending", [".npz", ".vtu"])
def test_a_prediction_of_named_outputs_has_their_names(tmp_path, ending):
    if ending == ".vtu":
        pytest.importorskip("meshio", reason="meshes are read and written by meshio")
    mean = {"u": fields()["k"], "p": fields()["T"]}
    files = write_prediction(tmp_path / f"out{ending}", {"mean": mean}, MeshOfFiles(GRID, CELLS))
    assert len(files) == (1 if ending == ".npz" else N)
    found = read(tmp_path / ("out.npz" if ending == ".npz" else "out_*.vtu"), "u.mean", "p.mean")
    assert np.array_equal(found[0], mean["u"])
    assert np.array_equal(found[1], mean["p"])


# Named parts


@click.command()
@data_options
def seen(data):
    """Say what a command is given."""
    a, u = data.pair()
    shapes = [
        {name: part.shape for name, part in side.items()} if isinstance(side, dict) else side.shape for side in (a, u)
    ]
    click.echo(json.dumps([*shapes, count(a), sorted(map(str, data.files()))]))


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", k=np.ones((5, 4)), f=np.ones((5, 2, 3)), inputs=np.ones((5, 1)), outputs=np.ones((5, 7)))
    np.savez("more.npz", g=np.ones((5, 8)))
    np.save("h.npy", np.ones((5, 9)))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], [[5, 1], [5, 7], 5, ["data.npz"]]),
        (["--inputs", "k"], [[5, 4], [5, 7], 5, ["data.npz"]]),
        (["--inputs", "a=k"], [{"a": [5, 4]}, [5, 7], 5, ["data.npz"] * 2]),
        (["--inputs", "a=k", "--inputs", "b=f[:, 0]"], [{"a": [5, 4], "b": [5, 3]}, [5, 7], 5, ["data.npz"] * 3]),
        (["--inputs", "a=more.npz:g[0:5]"], [{"a": [5, 8]}, [5, 7], 5, ["data.npz", "more.npz"]]),
        (
            ["--outputs", "u=h.npy", "--outputs", "v=f"],
            [[5, 1], {"u": [5, 9], "v": [5, 2, 3]}, 5, ["data.npz"] * 2 + ["h.npy"]],
        ),
        (
            ["--inputs", "k", "--samples", "1:3", "--inputs", "b=k"],
            [{"k": [2, 4], "b": [2, 4]}, [2, 7], 2, ["data.npz"] * 3],
        ),
        (["--inputs", "a=k", "--samples", "1:3"], [{"a": [2, 4]}, [2, 7], 2, ["data.npz"] * 2]),
    ],
)
def test_named_keys_become_a_mapping(files, arguments, expected):
    assert json.loads(run("data.npz", *arguments, command=seen).stdout) == expected


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--inputs", "k", "--inputs", "f[0]"], "--inputs was given 2 times: give each a name, as in NAME=f[0]."),
        (["--inputs", "a=k", "--inputs", "a=f"], "--inputs was given the name a twice"),
        (["--inputs", "a=q"], "no array 'q'"),
        (["--inputs", "a=none.npz:q"], "no data file none.npz"),
    ],
)
def test_names_that_make_no_sense_are_refused_in_one_line(files, arguments, says):
    said = run("fit", "data.npz", *arguments, "-o", "m", code=1).stderr
    assert says in said
    assert said.count("\n") == 1


def test_a_file_of_a_named_part_is_never_written_over(files):
    said = run("fit", "data.npz", "--inputs", "a=more.npz:g", "-o", "more.npz", "--force", code=1).stderr
    assert said == "Error: more.npz is being read: name another file to write.\n"
    source = Source(Path("data.npz"), {"a": "more.npz:g"}, "outputs", None, None)
    assert Path("more.npz") in source.files()


def test_an_evaluation_of_training_samples_warns_and_one_of_others_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = fields()
    np.savez("data.npz", k=found["k"], T=found["T"])
    run("fit", "data.npz", *FIT, "--samples", "0:40", "-o", "model.pcarann")
    named = ("--inputs", "k", "--outputs", "T")
    known = run("evaluate", "model.pcarann", "data.npz", *named, "--samples", "20:60").stderr
    assert "trained on 20 of these 40 samples: errors and coverage of new ones are worse" in known
    assert "trained on" not in run("evaluate", "model.pcarann", "data.npz", *named, "--samples", "40:60").stderr
