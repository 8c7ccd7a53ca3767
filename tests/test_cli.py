import json

import numpy as np
import pytest
from click.testing import CliRunner

from pcarann import load
from pcarann.cli import main
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
    refused = run("predict", "adapted", "test.npz", "-o", "x.npz", "--alpha", "0.1", code=1)
    assert refused.stderr.startswith("Error: The calibration is stale")


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
    said = json.loads(run("fit", "train.npz", "-o", "model", "--auto", "--budget", "20s", "--json").stdout)
    assert "settings tried" in said["chosen"]
    assert load("model").ridge == said["ridge"]


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
        (["describe", "none"], "no model file none"),
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
