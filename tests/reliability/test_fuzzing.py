"""A short run of what `make fuzz` does in full: every case ends as it should, and what should not be is noticed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from house import ROOT

sys.path.insert(0, str(ROOT / "tests" / "reliability"))

from model_files import ModelFiles
from workers import memory_beyond, ran_out_of_memory, tallied

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
RUN = ROOT / "tests" / "reliability" / "full_run.py"


def ran(*words):
    """Run the script in a process of its own, which may fork."""
    done = subprocess.run(
        [sys.executable, str(RUN), *map(str, words)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("what", "cases"), [("models", 400), ("data", 200), ("stores", 40)])
def test_changed_files_are_refused_or_read_as_they_are(tmp_path, what, cases):
    ran(what, "--cases", cases, "--workers", 1, "--seed", 1, "-o", tmp_path)
    record = json.loads((tmp_path / f"{what}.json").read_text())
    assert record["cases"] == sum(record["outcomes"].values()) == cases
    assert record["faults"] == 0
    assert record["outcomes"]["refused"] > cases / 2


@pytest.mark.parametrize(("what", "times"), [("kills", 10), ("threads", 60), ("soak", 150)])
def test_kills_threads_and_long_streams_leave_a_sound_model(tmp_path, what, times):
    ran(what, "--cases", times, "-o", tmp_path)
    assert json.loads((tmp_path / f"{what}.json").read_text())["faults"] == 0


# What should not be is noticed


WRONG = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from workers import tallied, tried
class Wrong:
    def plan(self, index):
        return "file", "way"
    def run(self, index, folder):
        if index == 2:
            os.abort()
        if index == 3:
            time.sleep(60)
        return ("refused", "") if index != 4 else ("prediction not finite", "nan")
print(tallied(tried(Wrong(), 7, Path(sys.argv[2]), workers=2, seconds=0.5))["outcomes"])
"""


def test_a_crash_and_a_hang_are_recorded_and_the_others_go_on(tmp_path):
    began = time.monotonic()
    words = [sys.executable, "-c", WRONG, str(RUN.parent), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert time.monotonic() - began < 30
    expected = {"refused": 4, f"crash ({signal.Signals.SIGABRT.name})": 1, "hang": 1, "prediction not finite": 1}
    assert eval(done.stdout) == expected


def test_memory_beyond_the_bound_is_noticed_whoever_caught_it():
    def caught():
        try:
            np.ones(40_000_000)
        except MemoryError as error:
            raise ValueError("it cannot be read") from error

    with memory_beyond(1 << 26), pytest.raises(ValueError, match="cannot be read") as found:
        caught()
    assert ran_out_of_memory(found.value)
    assert not ran_out_of_memory(ValueError("another"))
    assert np.ones(40_000_000).size  # the bound is lifted


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return ModelFiles.made(tmp_path_factory.mktemp("sources"))


def test_a_case_can_be_made_again_from_its_number(files):
    assert [files.content(i) for i in range(30)] == [files.content(i) for i in range(30)]


def test_a_reader_that_lets_damage_pass_is_found_out(files, tmp_path, monkeypatch):
    sound = tmp_path / "sound"
    sound.write_bytes(files.sources["latent"].content)
    monkeypatch.setattr("model_files.load", lambda path, loaded=files.__class__.__module__: _load(sound))
    damaged = next(i for i in range(1000) if files.plan(i) == ("latent", "bits flipped"))
    assert files.run(damaged, tmp_path)[0] == "damage not noticed"


def _load(path):
    from pcarann import load

    return load(path)


def test_faults_are_told_apart_from_what_may_happen():
    from workers import Case

    cases = [Case(0, "a", "w", "refused"), Case(1, "a", "w", "hang"), Case(2, "b", "v", "read")]
    found = tallied(cases)
    assert (found["cases"], found["faults"]) == (3, 1)
    assert found["first_faults"] == [cases[1]._asdict()]
    assert found["subjects"] == {"a": {"hang": 1, "refused": 1}, "b": {"read": 1}}
