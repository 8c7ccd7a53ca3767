import json

import numpy as np
import pytest
from click.testing import CliRunner

from pcarann.benchmark import demo
from pcarann.cli import main

# Of twenty training samples here the demonstration leaves the data at once.
pytestmark = pytest.mark.filterwarnings("ignore:.*inputs? lies? outside the training data")


@pytest.fixture(scope="module")
def run(own_cache, tmp_path_factory):
    """The command at a tenth of its size; and what the demonstration found, for the others."""
    folder, found = tmp_path_factory.mktemp("demo"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in (
            ("N_TRAIN", 160),
            ("N_CALIBRATION", 60),
            ("N_TEST", 20),
            ("N_NEW", 40),
            ("ADAPTED", (0, 10, 40)),
        ):
            patch.setattr(demo, name, value)
        once = demo.run_demo
        patch.setattr(demo, "run_demo", lambda *how, **more: found.append(once(*how, **more)) or found[0])
        result = CliRunner().invoke(main, ["demo", "-o", "picture.png"])
    assert result.exit_code == 0, result.output
    return result.stdout, folder / "picture.png", found[0]


@pytest.fixture
def again(run, monkeypatch, tmp_path):
    """The command with the numbers of that run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "run_demo", lambda tell, verbose: run[2])


def test_the_demonstration_tells_one_consistent_story(run):
    found = run[2]
    assert found.error < 0.1
    assert found.coverage == pytest.approx(0.95, abs=0.04)
    assert found.new_errors[-1] < found.new_errors[0]
    assert found.truth.shape == found.mean.shape == (101, 101)
    assert np.all(np.diff(found.coverages) > 0)


def test_the_command_draws_its_picture_and_explains_its_numbers(run):
    said, picture, found = run
    assert "what it means" in said
    assert f"{found.error:.2e}" in said
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_machines_get_json_and_vectors(again, tmp_path):
    result = CliRunner().invoke(main, ["demo", "--json", "-o", "picture.svg"])
    assert json.loads(result.stdout)["picture"] == "picture.svg"
    assert b"<svg" in (tmp_path / "picture.svg").read_bytes()[:1000]


@pytest.mark.parametrize(("output", "says"), [("x.bmp", ".png"), ("none/x.png", "no folder")])
def test_a_picture_that_cannot_be_written_is_refused_at_once(tmp_path, monkeypatch, output, says):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["demo", "-o", output])
    assert result.exit_code != 0
    assert says in result.stderr
