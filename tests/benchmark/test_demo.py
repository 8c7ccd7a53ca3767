import json

import numpy as np
import pytest
from click.testing import CliRunner

from pcarann.benchmark import demo
from pcarann.cli import main

# Of twenty training samples here the demonstration leaves the data at once.
pytestmark = pytest.mark.filterwarnings("ignore:.*inputs? lies? outside the training data")


@pytest.fixture
def small(own_cache, monkeypatch, tmp_path):
    """The demonstration at a tenth of its size, its samples made once."""
    monkeypatch.chdir(tmp_path)
    for name, value in (
        ("N_TRAIN", 160),
        ("N_CALIBRATION", 60),
        ("N_TEST", 20),
        ("N_NEW", 40),
        ("ADAPTED", (0, 10, 40)),
    ):
        monkeypatch.setattr(demo, name, value)


def test_the_demonstration_tells_one_consistent_story(small):
    found = demo.run_demo()
    assert found.error < 0.1
    assert found.coverage == pytest.approx(0.95, abs=0.04)
    assert found.new_errors[-1] < found.new_errors[0]
    assert found.truth.shape == found.mean.shape == (101, 101)
    assert np.all(np.diff(found.coverages) > 0)


def test_the_command_draws_its_picture_and_explains_its_numbers(small, tmp_path):
    result = CliRunner().invoke(main, ["demo", "-o", "picture.png"])
    assert result.exit_code == 0, result.output
    assert "what it means" in result.stdout
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_machines_get_json_and_vectors(small, tmp_path):
    result = CliRunner().invoke(main, ["demo", "--json", "-o", "picture.svg"])
    assert json.loads(result.stdout)["picture"] == "picture.svg"
    assert b"<svg" in (tmp_path / "picture.svg").read_bytes()[:1000]


@pytest.mark.parametrize(("output", "says"), [("x.bmp", ".png"), ("none/x.png", "no folder")])
def test_a_picture_that_cannot_be_written_is_refused_at_once(small, output, says):
    result = CliRunner().invoke(main, ["demo", "-o", output])
    assert result.exit_code != 0
    assert says in result.stderr
