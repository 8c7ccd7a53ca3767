"""What an interrupted command says of the file that it was to write."""

import os
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from pcarann import PCARaNN
from pcarann.cli import main
from pcarann.cli.targets import target_option


def interrupted(target, *writes):
    """What is said where Ctrl-C comes after these were written."""

    @click.command()
    @target_option(about="")
    def command(target):
        for name in writes:
            Path(name).write_text("new")
        raise KeyboardInterrupt

    result = CliRunner().invoke(command, ["-o", target])
    assert result.exit_code == 1
    assert result.stderr.endswith("Aborted!\n")
    return result.stderr.splitlines()[0]


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(
    ("writes", "says"),
    [
        ((), "Nothing was written."),
        (("p.vtu",), "1 file(s) had been written: p.vtu."),
        (("p_1.vtu", "p_2.vtu", "q_1.vtu"), "2 file(s) had been written: p_1.vtu … p_2.vtu."),
    ],
    ids=["nothing", "one", "several"],
)
def test_an_interrupted_command_says_what_it_has_written(tmp_path, monkeypatch, old, writes, says):
    monkeypatch.chdir(tmp_path)
    for name in ("p.vtu", "p_1.vtu", "p_2.vtu", "p_3.vtu") if old else ():
        Path(name).write_text("old")
        os.utime(name, (1, 1))
    assert interrupted("p.vtu", *writes) == says


def test_a_store_that_was_begun_is_gone_on_with(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert interrupted("p.zarr") == "Nothing was written."
    Path("p.zarr").mkdir()
    assert "p.zarr holds the blocks that were finished: the same command goes on" in interrupted("p.zarr")


def test_an_interrupted_prediction_says_that_nothing_was_written(tmp_path, monkeypatch, pairs):
    monkeypatch.chdir(tmp_path)
    a, u = pairs[:30]
    PCARaNN(n_components=2, widths=(4, 3), n_members=1, scales=(0.3, 0.3)).fit(a, u).save("model")
    np.save("a.npy", a)

    def savez(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", savez)
    result = CliRunner().invoke(main, ["predict", "model", "a.npy", "-o", "p.npz"])
    assert result.stderr.splitlines() == ["Nothing was written.", "", "Aborted!"]
    assert not Path("p.npz").exists()
