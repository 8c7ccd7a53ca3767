import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray
from click.testing import CliRunner
from rich.console import Console

from pcarann import Kernel, PCARaNN, Refine, load
from pcarann.cli import main
from pcarann.cli.output import show
from pcarann.metrics import relative_l2


@pytest.fixture
def folder(pairs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, rows in (("train", slice(0, 150)), ("calibration", slice(150, 250)), ("test", slice(250, 400))):
        a, u = pairs[rows]
        np.savez(f"{name}.npz", inputs=a, outputs=u)
    return tmp_path


def run(*arguments, code=0):
    result = CliRunner().invoke(main, [str(part) for part in arguments])
    assert result.exit_code == code, result.output
    return result


FIT = ("fit", "train.npz", "-o", "model", "--components", "0.9999", "--widths", "40,30", "--members", "3")


def test_the_whole_story_from_files(folder, pairs):
    run(*FIT)
    run("calibrate", "model", "calibration.npz")
    facts = json.loads(run("evaluate", "model", "test.npz", "--alpha", "0.1", "--json").stdout)
    model = load("model")
    assert facts["relative_l2_mean"] == pytest.approx(
        relative_l2(model.predict(pairs.inputs[250:]), pairs.outputs[250:])
    )
    assert facts["interval_coverage"] == pytest.approx(0.9, abs=0.06)
    run("predict", "model", "test.npz", "-o", "found.npz", "--alpha", "0.1")
    with np.load("found.npz") as found:
        band = model.predict_interval(pairs.inputs[250:], alpha=0.1)
        assert np.array_equal(found["upper"], band.upper)
    adapted = json.loads(run("adapt", "model", "calibration.npz", "-o", "adapted", "--json").stdout)
    assert adapted["relative_l2_after_on_the_same_samples"] <= adapted["relative_l2_before"]
    assert load("adapted")._fitted.n_adapted == 100
    assert load("model")._fitted.n_adapted == 0
    assert adapted["calibration"] == "follows the samples"
    run("predict", "adapted", "test.npz", "-o", "x.npz", "--alpha", "0.1")


@pytest.mark.parametrize("regressor", ["kernel", Kernel(2.0)], ids=str)
def test_a_kernel_is_described_and_calibrated_however_it_was_given(folder, pairs, regressor):
    PCARaNN(n_components=4, n_members=2, regressor=regressor).fit(*pairs[:100]).save("model")
    facts = json.loads(run("describe", "model", "--json").stdout)
    assert facts["regressor"] == "kernel"
    assert facts["length"] > 0
    run("calibrate", "model", "calibration.npz")
    assert load("model").fitted_.calibration.n_samples == 100


def test_a_kernel_in_a_file_of_an_older_format_is_described():
    old = Path(__file__).parent / "storage" / "data" / "format4-kernel.model"
    assert json.loads(run("describe", old, "--json").stdout)["regressor"] == "kernel"


def test_options_inside_objects_have_flags(folder):
    run(*FIT, "--refine-ridge", "0.5")
    assert load("model").scales == Refine(0.5)
    refused = run(*FIT, "--force", "--scales", "energy", "--refine-ridge", "0.5", code=2)
    assert "--refine-ridge belongs to the refinement: it needs --scales refined." in refused.stderr
    np.savez("channels.npz", inputs=np.random.default_rng(0).normal(size=(40, 2, 5)), outputs=np.ones((40, 3)))
    run("fit", "channels.npz", "-o", "other", "--channels", "--members", "2", "--scales", "energy")
    assert load("other").fields.channels


def test_a_pair_of_npy_files_is_data_too(folder, pairs):
    np.save("a.npy", pairs.inputs[:100])
    np.save("u.npy", pairs.outputs[:100])
    run(
        "fit",
        "a.npy",
        "--outputs",
        "u.npy",
        "-o",
        "model",
        "--widths",
        "20,10",
        "--members",
        "2",
        "--components",
        "0.99",
    )
    run("predict", "model", "a.npy", "-o", "mean.npy")
    assert np.array_equal(np.load("mean.npy"), load("model").predict(pairs.inputs[:100]))
    assert "--outputs" in run("evaluate", "model", "a.npy", code=1).stderr


def test_other_keys_can_be_named(folder, pairs):
    np.savez("keys.npz", coeff=pairs.inputs[:50], sol=pairs.outputs[:50])
    run("fit", "keys.npz", "--inputs", "coeff", "--outputs", "sol", "-o", "m", "--components", "0.9", "--members", "1")
    missing = run("fit", "keys.npz", "-o", "m2", code=1)
    assert "no array 'inputs'" in missing.stderr
    assert "coeff" in missing.stderr


@pytest.mark.parametrize(
    "option",
    [
        ["--scales", "energy"],
        ["--scales", "0.3,0.2"],
        ["--ridge", "1e-6"],
        ["--ridge", "gcv"],
        ["--regressor", "kernel"],
        ["--relevance", "-0.5"],
        ["--relevance", "learned"],
        ["--seed", "4"],
    ],
)
def test_options_of_fit_reach_the_model(folder, option):
    run(*FIT, *option)
    model = load("model")
    name = {"--seed": "random_state"}.get(option[0], option[0][2:])
    expected = {"0.3,0.2": (0.3, 0.2), "1e-6": 1e-6, "4": 4, "-0.5": -0.5}.get(option[1], option[1])
    assert getattr(model, name) == expected


def test_a_linear_term_is_asked_for_by_a_flag(folder):
    run(*FIT, "--linear")
    assert load("model").linear


def test_auto_chooses_and_says_what(folder):
    said = json.loads(run("fit", "train.npz", "-o", "model", "--auto", "--budget", "2s", "--json").stdout)
    assert "settings tried" in said["chosen"]
    assert load("model").fitted_.samples == said["training_samples"]


@pytest.mark.parametrize("what", ["train.npz", "model"])
def test_describe_says_what_is_in_a_file(folder, what):
    run(*FIT)
    text = run("describe", what).stdout
    assert ("150×40" in text) if what == "train.npz" else ("2, 40" in text)
    json.loads(run("describe", what, "--json").stdout)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["fit", "none.npz", "-o", "m"], "no data file none.npz"),
        (["fit", "train.npz", "-o", "train.npz"], "is being read"),
        (["fit", "train.npz", "-o", "none/m"], "no folder"),
        (["fit", "train.npz", "-o", "m", "--device", "abacus"], "device"),
        (["describe", "none"], "no file none"),
        (["describe", "notes.txt"], "not a pcarann model file"),
        (["predict", "notes.txt", "test.npz", "-o", "x.npz"], "not a pcarann model file"),
        (["fit", "notes.txt", "-o", "m"], "ending"),
    ],
)
def test_mistakes_end_in_one_line(folder, arguments, says):
    (folder / "notes.txt").write_text("some notes, longer than sixteen bytes")
    before = sorted(p.name for p in folder.iterdir())
    result = run(*arguments, code=1)
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert sorted(p.name for p in folder.iterdir()) == before


def test_nan_in_a_file_names_the_sample(folder, pairs):
    a = pairs.inputs[:50].copy()
    a[3] = np.nan
    np.savez("bad.npz", inputs=a, outputs=pairs.outputs[:50])
    assert "sample 3" in run("fit", "bad.npz", "-o", "m", code=1).stderr


@pytest.mark.parametrize("command", [[], ["fit"], ["predict"], ["evaluate"], ["calibrate"], ["adapt"], ["describe"]])
def test_every_command_has_help(command):
    assert "Usage" in run(*command, "--help").stdout


def test_generate_writes_data_that_fit_reads(folder, monkeypatch):
    monkeypatch.setenv("PCARANN_CACHE", str(folder / "cache"))
    facts = json.loads(run("generate", "backward_heat", "-n", "12", "-o", "heat.npz", "--json").stdout)
    assert facts["outputs"] == [12, 20, 64, 64]
    run("fit", "heat.npz", "-o", "m", "--samples", "0:10", "--stride", "4", "--components", "0.99", "--members", "1")
    model = load("m")
    assert model.output_pca_.grid == (5, 16, 16)
    assert model._fitted.x.shape[0] == 10


@pytest.mark.parametrize("bad", [["--samples", "5"], ["--samples", "a:b"], ["--stride", "x"]])
def test_ranges_and_strides_that_are_none_are_refused(folder, bad):
    assert run(*FIT, *bad, code=2 if bad[1] != "a:b" else 1).stderr


@pytest.mark.parametrize("arguments", [["-o", "x.csv"], ["-o", "none/x.npz"]])
def test_generate_refuses_a_file_it_cannot_write(folder, arguments):
    result = CliRunner().invoke(main, ["generate", "burgers", "-n", "2", *arguments])
    assert result.exit_code in (1, 2)
    assert "x." in result.stderr or ".npz" in result.stderr


# What -o may replace

SMALL = ("--components", "0.99", "--widths", "20,10", "--members", "1", "--scales", "energy")


def contents(folder):
    """Every file below a folder, by its path, with its bytes."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def arrays(folder, pairs):
    """A .npy file of inputs, one of outputs, and other ways to spell the latter."""
    np.save("a.npy", pairs.inputs[:80])
    np.save("u.npy", pairs.outputs[:80])
    (folder / "sub").mkdir()
    os.symlink("u.npy", "symbolic.npy")
    os.symlink(folder, "sub/up")
    os.link("u.npy", "hard.npy")
    return folder


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["", "force"])
@pytest.mark.parametrize("output", ["u.npy", "./sub/../u.npy", "sub/up/u.npy", "symbolic.npy", "hard.npy", "a.npy"])
@pytest.mark.parametrize("outputs", ["u.npy", "u.npy[0:80]", "symbolic.npy", "hard.npy[:]"])
def test_fit_never_replaces_a_file_it_reads(arrays, output, outputs, force):
    before = contents(arrays)
    refused = run("fit", "a.npy", "--outputs", outputs, "-o", output, *SMALL, *force, code=1)
    assert "is being read" in refused.stderr
    assert contents(arrays) == before


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["", "force"])
@pytest.mark.parametrize("output", ["data.zarr/model", "data.zarr/inputs/zarr.json", "link.zarr/model", "in/model"])
def test_fit_never_writes_into_a_zarr_store_it_reads(folder, pairs, output, force):
    fields = {"inputs": (("s", "x"), pairs.inputs[:50]), "outputs": (("s", "c", "x"), pairs.outputs[:50])}
    xarray.Dataset(fields).to_zarr("data.zarr", consolidated=False)
    os.symlink("data.zarr", "link.zarr")
    os.symlink("data.zarr/inputs", "in")
    before = contents(folder)
    assert "is being read" in run("fit", "data.zarr", "-o", output, *force, *SMALL, code=1).stderr
    assert contents(folder) == before


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["", "force"])
@pytest.mark.parametrize("output", ["model.npz", "test.npz", "hard.npz", "link.npz"])
def test_predict_never_replaces_its_model_or_its_data(folder, output, force):
    run("fit", "train.npz", "-o", "model.npz", *SMALL)
    os.link("model.npz", "hard.npz")
    os.symlink("model.npz", "link.npz")
    before = contents(folder)
    assert "is being read" in run("predict", "model.npz", "test.npz", "-o", output, *force, code=1).stderr
    assert contents(folder) == before


def test_predict_never_replaces_outputs_that_it_was_told_of(arrays):
    run("fit", "a.npy", "--outputs", "u.npy", "-o", "model", *SMALL)
    before = contents(arrays)
    refused = run("predict", "model", "a.npy", "--outputs", "u.npy[:5]", "-o", "u.npy", code=1)
    assert "is being read" in refused.stderr
    assert contents(arrays) == before


def test_a_key_that_is_also_the_name_of_a_file_is_not_taken_for_it(folder, pairs):
    np.savez("keys.npz", inputs=pairs.inputs[:50], sol=pairs.outputs[:50])
    run("fit", "keys.npz", "--outputs", "sol", "-o", "sol", *SMALL)
    run("fit", "keys.npz", "--outputs", "sol", "-o", "sol", *SMALL)
    assert load("sol").n_members == 1


@pytest.mark.parametrize("command", [["fit"], ["calibrate", "model"], ["adapt", "model"]])
def test_a_file_that_is_no_model_is_replaced_by_force_alone(folder, command):
    run(*FIT)
    before = contents(folder)
    options = SMALL if command == ["fit"] else ()
    refused = run(*command, "calibration.npz", "-o", "test.npz", *options, code=1)
    assert refused.stderr == (
        "Error: test.npz exists and is not evidently a pcarann model file: name another file, or add --force.\n"
    )
    assert contents(folder) == before
    run(*command, "calibration.npz", "-o", "test.npz", "--force", *options)
    assert load("test.npz").input_pca_.grid == (40,)


def test_a_model_file_is_replaced_without_force(folder):
    run(*FIT)
    run(*FIT, "--seed", "7")
    assert load("model").random_state == 7


def test_a_model_file_that_is_damaged_is_replaced_too(folder):
    run(*FIT)
    (folder / "model").write_bytes((folder / "model").read_bytes()[:3000])
    run(*FIT)
    assert load("model").n_members == 3


def test_a_foreign_safetensors_file_is_not_replaced(folder, pairs):
    from safetensors.numpy import save_file

    save_file({"x": np.ones(3)}, "weights", {"format": "pt"})
    assert "not evidently a pcarann model" in run("fit", "train.npz", "-o", "weights", *SMALL, code=1).stderr


def test_what_would_be_lost_is_seen_before_any_data_are_read(folder, pairs):
    np.savez("bad.npz", inputs=pairs.inputs[:50] * np.nan, outputs=pairs.outputs[:50])
    assert "add --force" in run("fit", "bad.npz", "-o", "test.npz", code=1).stderr


def test_a_prediction_is_replaced_by_a_prediction(folder):
    run(*FIT)
    run("predict", "model", "test.npz", "-o", "found.npz")
    run("predict", "model", "test.npz", "-o", "found.npz", "--std")
    with np.load("found.npz") as found:
        assert set(found) == {"mean", "std"}


@pytest.mark.parametrize("output", ["data.npz", "mean.npy", "broken.npz", "wider.npz"])
def test_other_arrays_are_replaced_by_a_prediction_by_force_alone(folder, pairs, output):
    run(*FIT)
    np.savez("data.npz", inputs=pairs.inputs)
    np.save("mean.npy", pairs.inputs)
    np.savez("wider.npz", mean=pairs.inputs, notes=np.ones(3))
    (folder / "broken.npz").write_text("notes")
    before = contents(folder)
    assert "add --force" in run("predict", "model", "test.npz", "-o", output, code=1).stderr
    assert contents(folder) == before
    run("predict", "model", "test.npz", "-o", output, "--force")
    with open(output, "rb") as file:
        found = np.load(file)
        mean = found if output.endswith(".npy") else found["mean"]
    assert np.array_equal(mean, load("model").predict(pairs.inputs[250:]))


@pytest.fixture
def heat(folder, monkeypatch):
    monkeypatch.setenv("PCARANN_CACHE", str(folder / "cache"))
    return "generate", "backward_heat", "-n", "2", "-o"


def test_generated_data_are_replaced_by_generated_data(heat):
    run(*heat, "heat.npz")
    run(*heat, "heat.npz", "--seed", "3")
    with np.load("heat.npz") as found:
        assert json.loads(str(found["about"]))["parameters"]["seed"] == 3


def test_other_data_are_replaced_by_generated_data_by_force_alone(folder, heat):
    before = contents(folder)
    assert "not evidently data that generate wrote" in run(*heat, "test.npz", code=1).stderr
    assert contents(folder) == before
    run(*heat, "test.npz", "--force")
    with np.load("test.npz") as found:
        assert found["inputs"].shape[0] == 2


def test_data_of_the_users_own_problem_are_not_taken_for_generated_data(heat, pairs):
    from pcarann.problems import OperatorData

    OperatorData(*pairs[:5], name="mine").save("mine.npz")
    assert "add --force" in run(*heat, "mine.npz", code=1).stderr


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_picture_is_replaced_by_a_picture(folder, ending):
    run(*FIT, "--linear")
    for _ in range(2):
        assert f"Picture: picture.{ending}" in run("describe", "model", "--picture", f"picture.{ending}").stderr
    assert (folder / f"picture.{ending}").stat().st_size > 1000


@pytest.mark.parametrize("command", [["demo", "-o"], ["describe", "model", "--picture"]])
def test_what_is_no_picture_is_not_replaced_by_one(folder, command):
    run(*FIT)
    (folder / "notes.png").write_text("notes")
    assert "not evidently a picture" in run(*command, "notes.png", code=1).stderr
    assert (folder / "notes.png").read_text() == "notes"


def test_a_picture_takes_the_place_of_anything_by_force(folder):
    run(*FIT)
    (folder / "notes.png").write_text("notes")
    run("describe", "model", "--picture", "notes.png", "--force")
    assert (folder / "notes.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_never_takes_the_place_of_its_model(folder):
    run("fit", "train.npz", "-o", "model.png", *SMALL)
    before = contents(folder)
    assert "is being read" in run("describe", "model.png", "--picture", "model.png", "--force", code=1).stderr
    assert contents(folder) == before


@pytest.mark.parametrize("output", ["notes", "notes/deeper"])
def test_reproduce_refuses_a_file_for_a_folder_at_once(folder, output):
    (folder / "notes").write_text("notes")
    refused = run("reproduce", "darcy", "--quick", "-o", output, code=1)
    assert refused.stderr == "Error: notes is a file: name a folder to write into.\n"
    assert (folder / "notes").read_text() == "notes"


def test_a_named_pipe_is_no_place_for_a_model(folder):
    os.mkfifo("pipe")
    refused = run("fit", "train.npz", "-o", "pipe", "--force", *SMALL, code=1)
    assert refused.stderr == "Error: pipe is a named pipe: only a regular file can be replaced.\n"


# What describe says


def test_keys_of_data_are_printed_verbatim(folder):
    names = ["hole_T", "u[bold]", ":smile:", "température", "a_key_" + 20 * "that_is_long_"]
    with h5py.File("data.h5", "w") as file:
        for name in names:
            file[name] = np.ones(3)
    said = run("describe", "data.h5").stdout
    rows = [line.split("│")[1].strip() for line in said.splitlines() if "│" in line]
    assert all(name in "".join(rows) for name in names)


def test_a_key_of_netcdf_keeps_its_underscore(folder):
    xarray.Dataset({"hole_T": ("s", np.ones(3))}).to_netcdf("data.nc", engine="h5netcdf")
    assert "hole_T" in run("describe", "data.nc").stdout


def test_a_key_cannot_steer_the_terminal(folder):
    with h5py.File("data.h5", "w") as file:
        file["\x1b[2Jgone"] = np.ones(3)
    assert "\\x1b[2Jgone" in run("describe", "data.h5").stdout


@pytest.mark.parametrize("command", [["describe", "flow.vtu"], ["fit", "flow.vtu", "-o", "m"]])
def test_a_mesh_is_not_called_a_broken_model(folder, command):
    (folder / "flow.vtu").write_text('<VTKFile type="UnstructuredGrid">')
    said = run(*command, code=1).stderr
    assert said.startswith("Error: flow.vtu cannot be read as .vtu: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", ["notes.txt", "notes", "case"])
def test_describe_says_which_files_it_knows(folder, name):
    (folder / "case").mkdir()
    (folder / "notes").write_text("notes")
    (folder / "notes.txt").write_text("notes")
    refused = run("describe", name, code=1)
    assert f"{name} is not a pcarann model file, nor data with an ending that is known: .npz, .npy" in refused.stderr


@pytest.mark.parametrize("name", ["model.npz", "model.vtu", "модель"])
def test_a_model_is_known_by_its_content_whatever_its_name(folder, name):
    run("fit", "train.npz", "-o", name, *SMALL)
    assert json.loads(run("describe", name, "--json").stdout)["members"] == 1


def test_describe_gives_the_size_of_a_model_in_words_and_its_largest_parts(folder):
    run(*FIT)
    facts = json.loads(run("describe", "model", "--json").stdout)
    assert facts["bytes"] == os.path.getsize("model")
    assert facts["size"] == f"{facts['bytes'] / 1000:.0f} kB"
    coefficients = [member.coefficients for member in load("model")._fitted.ensemble.members]
    assert facts["largest_parts"][0] == f"coefficients {np.stack(coefficients).nbytes / 1000:.0f} kB"


@pytest.mark.parametrize("option", ["inputs", "outputs"])
def test_a_key_that_is_given_twice_is_refused(folder, option):
    refused = run("fit", "train.npz", f"--{option}", "coeff", f"--{option}", "coeff", "-o", "m", code=1)
    assert refused.stderr == f"Error: --{option} was given the name coeff twice: give each a name of its own.\n"


# What fit says


@dataclass
class Report:
    useless: bool
    relative_error: float = 0.031
    r2: float = 0.9987

    def __str__(self):
        return "The error on held-out samples is 3.1 % [of their size]."


@pytest.mark.parametrize("useless", [False, True])
def test_fit_says_how_good_the_model_is(folder, monkeypatch, useless):
    always = property(lambda model: Report(useless), lambda model, other: None)  # whatever fit found itself
    monkeypatch.setattr(PCARaNN, "fit_report_", always, raising=False)
    monkeypatch.setattr("pcarann.cli.output.errors", Console(stderr=True, force_terminal=True))
    result = run(*FIT, "--json")
    facts = json.loads(result.stdout)
    assert (facts["validation_error"], facts["validation_r2"]) == (0.031, 0.9987)
    assert "is 3.1 % [of their size]." in result.stderr.replace("\x1b[0m", "")
    assert ("\x1b[1;31mThe error" in result.stderr) is useless


def test_fit_prints_no_raw_losses(folder):
    said = run(*FIT).stdout
    assert "validation loss" not in said
    assert "terminated successfully" not in said


def test_a_refinement_that_failed_is_told(folder):
    run(*FIT)
    model = load("model")
    failed = replace(model._fitted.refinement, message="Maximum number of iterations has been exceeded.")
    model._fitted = replace(model._fitted, refinement=failed)
    model.save("model")
    assert json.loads(run("describe", "model", "--json").stdout)["refinement"] == failed.message


def test_a_rank_that_was_not_computed_is_said_to_be_so(capsys):
    show({"rank": None}, False, "model")
    assert "not computed" in capsys.readouterr().out
    show({"rank": None}, True, "model")
    assert json.loads(capsys.readouterr().out) == {"rank": None}


# Flows


@pytest.fixture
def marching(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    angle = np.random.default_rng(0).uniform(0, 6, (90, 1)) + 0.3 * np.arange(9)
    flow = np.cos(angle[:, :, None] + np.linspace(0, 6, 16))
    for name, rows in (("train", slice(0, 40)), ("rest", slice(40, 90))):
        np.savez(f"{name}.npz", inputs=flow[rows, :3], outputs=flow[rows, 3:])
    return flow


MARCH = ("fit", "train.npz", "-o", "flow", "--components", "2", "--widths", "30,20", "--members", "2", "--march")


def test_a_flow_goes_through_all_commands(marching):
    fitted = run(*MARCH, "--step", "2", "--first", "1", "--json")
    facts = json.loads(fitted.stdout)
    assert (facts["window"], facts["rollout_trajectories"], len(facts["rollout_errors"])) == (6, 9, 6)
    assert "Roll-out judged on 9 trajectories held out" in fitted.stderr
    model = load("flow")
    assert (model.step, model.first, model.model_.widths) == (2, 1, (30, 20))
    run("predict", "flow", "rest.npz", "-o", "p.npz", "--steps", "11")
    with np.load("p.npz") as found:
        assert np.array_equal(found["mean"], model.predict(marching[40:, :3], steps=11))
    run("calibrate", "flow", "rest.npz")
    evaluated = json.loads(run("evaluate", "flow", "rest.npz", "--alpha", "0.1", "--json").stdout)
    assert evaluated["relative_l2_mean"] < 0.05
    assert evaluated["interval_coverage"] >= 0.9
    refused = run("predict", "flow", "rest.npz", "-o", "p.npz", "--steps", "11", "--alpha", "0.1", code=1)
    assert refused.stderr.startswith("Error: Intervals were calibrated for 6 steps, but 11 are asked for")
    adapted = json.loads(run("adapt", "flow", "rest.npz", "-o", "adapted", "--json").stdout)
    assert adapted["calibration"] == "follows the samples"


def test_a_flow_is_described_with_its_report(marching):
    run(*MARCH)
    facts = json.loads(run("describe", "flow", "--json").stdout)
    assert facts["marching"] == "1 snapshot(s) a step"
    assert facts["rollout_report"] == str(load("flow").rollout_report_)
    assert "persistence" in run("describe", "flow").stdout


def test_a_flow_in_a_file_of_an_older_format_is_described_without_one():
    path = Path(__file__).parent / "storage" / "data" / "format4-marching.model"
    assert "rollout_report" not in json.loads(run("describe", path, "--json").stdout)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("fit", "train.npz", "-o", "m", "--step", "2"), "--step belongs to a flow: it needs --march."),
        (("fit", "train.npz", "-o", "m", "--first", "0"), "--first belongs to a flow: it needs --march."),
        ((*MARCH, "--auto"), "--auto does not march"),
        ((*MARCH, "--step", "4"), "step=4 needs as many input snapshots to start from, found 3."),
    ],
)
def test_flags_of_flows_that_make_no_sense_are_refused(marching, arguments, says):
    assert says in run(*arguments, code=1 if "step=" in says else 2).stderr


def test_steps_of_a_model_that_does_not_march_are_refused(folder):
    run(*FIT)
    refused = run("predict", "model", "test.npz", "-o", "p.npz", "--steps", "3", code=2)
    assert "--steps belongs to a model that marches" in refused.stderr


STAGES = ("fit", "train.npz", "-o", "stages", "--stages", "2", "--features", "12", "--members", "1")


def test_stages_from_files(folder, pairs):
    told = run(*STAGES)
    assert (told.stdout + told.stderr).count("stage 1: error") == 1
    facts = json.loads(run("describe", "stages", "--json").stdout)
    assert facts["stages"] in (1, 2)
    assert facts["members"] == 1
    run("calibrate", "stages", "calibration.npz")
    found = json.loads(run("evaluate", "stages", "test.npz", "--alpha", "0.1", "--json").stdout)
    assert found["relative_l2_mean"] == pytest.approx(
        relative_l2(load("stages").predict(pairs.inputs[250:]), pairs.outputs[250:])
    )
    refused = run("adapt", "stages", "calibration.npz", code=1)
    assert "adaptable=True" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--widths", "3,3"), "--widths belongs to a latent model"),
        (("--auto",), "--auto tries stages by itself"),
        (("--axes", "x"), "is not a list of axes"),
        (("--boundary", "round"), "boundary must be one of"),
    ],
)
def test_what_does_not_go_with_stages_is_said(folder, arguments, said):
    result = CliRunner().invoke(main, [*STAGES, *arguments])
    assert result.exit_code != 0
    assert said in result.stderr
    assert not (folder / "stages").exists()


@pytest.mark.parametrize("arguments", [("--features", "3"), ("--boundary", "free"), ("--axes", "-1")])
def test_options_of_stages_need_them(folder, arguments):
    assert "it needs --stages" in run(*FIT, *arguments, code=2).stderr


@pytest.mark.parametrize("alpha", ["7", "0", "-1", "nan"])
def test_an_alpha_that_is_no_level_is_refused_even_without_a_calibration(folder, alpha):
    run(*FIT)
    for command in (("evaluate", "model", "test.npz"), ("predict", "model", "test.npz", "-o", "x.npz")):
        assert "is not strictly between 0 and 1" in run(*command, "--alpha", alpha, code=2).stderr
    assert not Path("x.npz").exists()


def test_a_terminal_that_knows_ascii_alone_is_no_reason_to_fail(folder):
    plain = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code = "from pcarann.cli import main; main(prog_name='pcarann')"
    done = subprocess.run(
        [sys.executable, "-c", code, "describe", "train.npz"], env=os.environ | plain, capture_output=True, check=True
    )
    assert rb"150\xd740" in done.stdout


def test_an_interruption_during_the_imports_leaves_no_traceback():
    code = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from pcarann.cli import main\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def test_a_large_model_and_lost_chunks_are_taken_where_that_is_asked_for(folder):
    run(*FIT)
    with h5py.File("data.h5", "w") as file:
        file.create_dataset("u", shape=(8, 6), dtype="f8", chunks=(4, 6))[:4] = 1.0
    assert "--fill" in run("fit", "data.h5", "-o", "m", "--inputs", "u", "--outputs", "u", code=1).stderr
    assert run("fit", "data.h5", "-o", "m", "--inputs", "u", "--outputs", "u", "--fill", "--members", "1")
    assert "must be a number of bytes" in run("evaluate", "model", "test.npz", "--limit", "much", code=1).stderr
