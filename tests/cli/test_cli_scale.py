"""Commands on data that are read by blocks."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from pcarann import PCARaNN
from pcarann.cli import main
from pcarann.cli import scale as cli_scale

dask = pytest.importorskip("dask")
LAZY = ("--memory", "17MB")


def run(*arguments, code=0):
    found = CliRunner().invoke(main, list(arguments))
    assert found.exit_code == code, found.output
    return found


def facts(*arguments):
    return json.loads(run(*arguments, "--json").stdout)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    t = np.linspace(0, 1, 360)
    a = (rng.normal(size=(400, 6)) / np.arange(1, 7)) @ np.cos(np.pi * np.arange(6)[:, None] * t)
    return a.reshape(400, 18, 20), np.tanh(a)[:, ::2].reshape(400, 9, 20)


@pytest.fixture(autouse=True)
def two_tasks():
    with dask.config.set(num_workers=2):
        yield


@pytest.fixture
def folder(tmp_path, monkeypatch, data):
    """A model, and data that it does not know."""
    monkeypatch.chdir(tmp_path)
    a, u = data
    np.save("a.npy", a[100:])
    np.save("u.npy", u[100:])
    PCARaNN(n_components=(5, 8), widths=(40, 30), n_members=2, ridge=1e-8, scales="energy").fit(a[:100], u[:100]).save(
        "m"
    )


NEW = ("a.npy", "--outputs", "u.npy")


def test_evaluation_by_blocks_warns_of_training_data_as_in_memory(folder, data):
    for name, part in zip(("x.npy", "y.npy"), data, strict=True):
        np.save(name, part[60:200])
    known, found = (run("evaluate", "m", "x.npy", "--outputs", "y.npy", *how).stderr for how in ((), LAZY))
    assert "trained on 40 of these 140 samples: errors and coverage of new ones are worse" in known
    assert found == known
    assert "trained on" not in run("evaluate", "m", *NEW, *LAZY).stderr


def test_memory_may_be_a_number_of_bytes(folder):
    same(facts("evaluate", "m", *NEW, "--memory", "17000000"), facts("evaluate", "m", *NEW, *LAZY))
    assert "number of bytes, or text such as '1GB'" in run("evaluate", "m", *NEW, "--memory", "much", code=1).stderr


def test_what_absent_chunks_are_read_as_belongs_to_a_store_of_predictions(folder):
    pytest.importorskip("zarr")
    run("predict", "m", "a.npy", "-o", "out.zarr")
    said = run("predict", "m", "a.npy", "-o", "out.zarr", "--fill", code=1).stderr
    assert "out.zarr holds predictions with other data: remove it" in " ".join(said.split())


def same(found, known):
    assert found.keys() == known.keys()
    for name, value in known.items():
        if isinstance(value, float) and "seconds" not in name:
            assert found[name] == pytest.approx(value, rel=1e-6), name


def test_errors_by_blocks_are_those_in_memory(folder):
    same(facts("evaluate", "m", *NEW, *LAZY), facts("evaluate", "m", *NEW))
    run("calibrate", "m", *NEW, "--samples", "0:150", *LAZY)
    found = facts("evaluate", "m", *NEW, "--samples", "150:300", "--alpha", "0.1", *LAZY)
    same(found, facts("evaluate", "m", *NEW, "--samples", "150:300", "--alpha", "0.1"))
    assert found["samples"] == 150
    assert 0.8 < found["interval_coverage"] < 1


@pytest.mark.parametrize("command", ["calibrate", "adapt"])
def test_models_that_are_changed_by_blocks_are_those_in_memory(folder, command):
    some, others = ("--samples", "0:200"), ("--samples", "200:300")
    same(facts(command, "m", *NEW, *some, "-o", "lazy", *LAZY), facts(command, "m", *NEW, *some, "-o", "known"))
    same(facts("evaluate", "lazy", *NEW, *others), facts("evaluate", "known", *NEW, *others))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("evaluate", "m", *NEW, "--plots", "p", *LAZY), "--plots needs DATA in memory: it does not go with --memory"),
        (("fit", *NEW, "--auto", "-o", "x", *LAZY), "--auto needs DATA in memory: it does not go with --memory"),
        (
            ("fit", *NEW, "-o", "x", "--memory", "1MB"),
            "1 MB are too little to read DATA by blocks, 2 at a time: give --memory 16",
        ),
        (("adapt", "m", "data.npz", *LAZY), "data.npz cannot be read by blocks"),
    ],
)
def test_what_blocks_do_not_do_is_said_in_words_of_the_command_line(folder, arguments, said, data):
    np.savez("data.npz", inputs=data[0], outputs=data[1])
    found = run(*arguments, code=1 if "data.npz" in arguments else 2)
    assert said in " ".join(found.stderr.split())


def test_a_scheduler_that_is_not_there_is_said(folder, monkeypatch):
    monkeypatch.setattr(cli_scale, "_PATIENCE", 0.2)
    for command in (("fit", *NEW, "-o", "x"), ("calibrate", "m", *NEW)):
        said = run(*command, "--scheduler", "tcp://127.0.0.1:1", code=1).stderr
        assert "no Dask scheduler at tcp://127.0.0.1:1" in said
