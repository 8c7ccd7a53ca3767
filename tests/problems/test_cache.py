"""The cache: the same data, computed once, whatever happens in between."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from pcarann.problems.cache import BLOCK, cache_folder
from pcarann.problems.dataset import Simulation

SCRIPT = """
import os, pathlib, sys, time
import numpy as np
from pcarann.problems.dataset import Simulation

scratch, stop_at = pathlib.Path(sys.argv[1]), int(sys.argv[2])

def simulate(samples, place, *, seed, k):
    if samples.start >= stop_at:
        (scratch / "reached").touch()
        time.sleep(60)
    with open(scratch / "log", "a") as log:
        print(samples.start, samples.stop, file=log)
    rows = np.sin(np.arange(samples.start, samples.stop)[:, None] * np.arange(1.0, 9.0))
    return rows, rows**2

EXTRA
data = Simulation("waves", simulate, {"k": 2}, {}, (10, 10)).generate(120, seed=5)
print(float(data.outputs.sum()))
"""
NEVER = 10**9


class Waves:
    """A simulation that remembers what it was asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, samples, place, **_):
        self.asked += samples
        rows = np.sin(np.arange(samples.start, samples.stop)[:, None] * np.arange(1.0, 9.0))
        return rows, rows**2


def run(n=120, simulate=None, *, name="waves", parameters=None, block=10, **changes):
    simulate = simulate or Waves()
    simulation = Simulation(name, simulate, parameters or {"k": 2}, {}, (block, block))
    data = simulation.generate(n, **{"seed": 5, **changes})
    return data, getattr(simulate, "asked", None)


def truth(n=120):
    rows = np.sin(np.arange(n)[:, None] * np.arange(1.0, 9.0))
    return rows, rows**2


def assert_right(data, n=120):
    assert np.array_equal(data.inputs, truth(n)[0])
    assert np.array_equal(data.outputs, truth(n)[1])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PCARANN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def blocks(folder):
    return sorted(folder.glob("*/*.block"))


def everything(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def start(tmp_path, stop_at=NEVER, extra=""):
    # Behind an & of a shell, interrupts are ignored, and processes inherit that.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + SCRIPT.replace("EXTRA", extra)
    command = [sys.executable, "-c", code, str(tmp_path), str(stop_at)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(path, process):
    deadline = time.monotonic() + 20
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_second_run_simulates_nothing(folder):
    run()
    data, asked = run()
    assert asked == []
    assert_right(data)


def test_a_longer_run_begins_with_the_shorter_one(folder):
    run(10)
    data, asked = run(120)
    assert asked == list(range(10, 120))
    assert_right(data)


def test_a_shorter_run_is_cut_from_the_longer_one(folder):
    run(120)
    data, asked = run(73)
    assert asked == []
    assert_right(data, 73)


def test_another_batch_size_shares_the_cache(folder):
    run(120, block=7)
    assert run(120, block=1000)[1] == []


def test_the_device_is_no_part_of_the_key(folder):
    run(device=None)
    assert run(device="cpu")[1] == []


@pytest.mark.parametrize("change", [{"seed": 6}, {"parameters": {"k": 3}}, {"name": "other"}])
def test_seed_parameters_and_name_are_parts_of_the_key(folder, change):
    run(10)
    assert run(10, **change)[1] == list(range(10))


def test_the_order_of_the_parameters_is_no_part_of_the_key(folder):
    run(10, parameters={"a": 1, "b": (2, 3)})
    assert run(10, parameters={"b": [2, 3], "a": np.int64(1)})[1] == []


def test_without_the_cache_nothing_is_read_or_written(folder):
    run(10, cache=False)
    assert everything(folder) == []
    run(10)
    assert run(10, cache=False)[1] == list(range(10))


def test_the_folder_is_that_of_the_platform_unless_chosen(monkeypatch, tmp_path):
    import platformdirs

    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("PCARANN_CACHE")
    assert cache_folder() == platformdirs.user_cache_path("pcarann", appauthor=False)


@pytest.mark.parametrize("position", [0, 40, 200, -1])
def test_a_flipped_byte_is_found_and_made_good_with_one_warning(folder, position):
    run()
    damaged = blocks(folder)[1]
    content = bytearray(damaged.read_bytes())
    content[position] ^= 0x10
    damaged.write_bytes(content)
    with pytest.warns(UserWarning, match="damaged and made anew") as caught:
        data, asked = run()
    assert len(caught) == 1
    assert asked == list(range(BLOCK, 2 * BLOCK))
    assert_right(data)
    assert run()[1] == []


def test_many_damaged_blocks_are_one_warning_at_the_caller_of_the_problem(folder):
    run()
    for path in blocks(folder):
        path.write_bytes(b"")
    with pytest.warns(UserWarning, match=r"000000\.block and 2 more") as caught:
        data, _ = run()
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert_right(data)


def test_a_truncated_block_is_made_anew(folder):
    run()
    path = blocks(folder)[0]
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.warns(UserWarning, match="damaged"):
        assert_right(run()[0])


def test_a_block_in_the_place_of_another_is_not_believed(folder):
    run()
    first, second = blocks(folder)[:2]
    second.write_bytes(first.read_bytes())
    with pytest.warns(UserWarning, match="damaged"):
        assert_right(run()[0])


def test_a_folder_that_cannot_be_written_costs_one_warning_and_no_data(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PCARANN_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(UserWarning, match="Data are not cached") as caught:
        data, _ = run()
    assert len(caught) == 1
    assert_right(data)


def test_a_full_disk_costs_one_warning_and_no_data(folder, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(UserWarning, match="No space left") as caught:
        data, _ = run()
    assert len(caught) == 1
    assert_right(data)
    assert everything(folder) == []


def test_a_failed_simulation_leaves_no_bad_block(folder):
    def failing(samples, place, **_):
        rows, squares = Waves()(samples, place)
        return rows, squares * (np.nan if samples.start >= BLOCK else 1)

    with pytest.raises(ValueError, match="first in sample 50"):
        run(simulate=failing)
    assert len(blocks(folder)) == 1
    assert_right(run()[0])


def test_ctrl_c_while_writing_leaves_no_half_written_block(folder, monkeypatch):
    def interrupted(descriptor):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run()
    assert everything(folder) == []
    assert_right(run()[0])


def test_ctrl_c_while_simulating_keeps_the_blocks_that_were_done(folder, tmp_path):
    process = start(tmp_path, stop_at=70)
    wait_for(tmp_path / "reached", process)
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=20)[1]
    assert everything(folder) == blocks(folder)
    data, asked = run()
    assert asked == list(range(50, 120))
    assert_right(data)


def test_kill_in_the_middle_of_a_block_is_resumed_from_the_last_whole_one(folder, tmp_path):
    process = start(tmp_path, stop_at=70)
    wait_for(tmp_path / "reached", process)
    process.kill()
    process.communicate(timeout=20)
    assert everything(folder) == blocks(folder)
    data, asked = run()
    assert asked == list(range(50, 120))
    assert_right(data)


def test_kill_in_the_middle_of_writing_leaves_no_block(folder, tmp_path):
    hang = 'os.fsync = lambda descriptor: ((scratch / "reached").touch(), time.sleep(60))'
    process = start(tmp_path, extra=hang)
    wait_for(tmp_path / "reached", process)
    process.kill()
    process.communicate(timeout=20)
    assert blocks(folder) == []
    data, asked = run()
    assert asked == list(range(120))
    assert_right(data)


def test_two_processes_at_once_end_with_one_result(folder, tmp_path):
    gate = (
        'ready = scratch / f"ready{os.getpid()}"; ready.touch()\nwhile not (scratch / "go").exists(): time.sleep(0.001)'
    )
    processes = [start(tmp_path, extra=gate) for _ in range(2)]
    for process in processes:
        wait_for(tmp_path / f"ready{process.pid}", process)
    (tmp_path / "go").touch()
    answers = [process.communicate(timeout=30) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], answers
    assert answers[0][0] == answers[1][0]
    assert everything(folder) == blocks(folder)
    data, asked = run()
    assert asked == []
    assert_right(data)
