import math
import time
from types import SimpleNamespace

import numpy as np
import pytest

from pcarann import PCARaNN, Staged, Symmetry
from pcarann.containers.packing import packed
from pcarann.contest import Contest

RNG = np.random.default_rng(0)
x = np.linspace(0, 2 * np.pi, 32, endpoint=False)
FIELDS = sum(np.cos(k * x + RNG.uniform(0, 6, (60, 1))) / k for k in range(1, 9))
OUTPUTS = np.tanh(FIELDS) + 0.1 * np.roll(FIELDS, 1, axis=1)


def contest(X=FIELDS, y=OUTPUTS, budget=8.0, symmetry=None):
    return Contest(
        packed(X, y),
        begun=time.perf_counter(),
        budget=budget,
        symmetry=symmetry,
        fixed={"random_state": 0, "device": None},
        tick=lambda name: None,
    )


def test_the_winner_is_one_of_both_sides_and_the_verdict_says_why():
    held = contest()
    found = held.run()
    assert isinstance(found, PCARaNN | Staged)
    assert held.verdict.reason
    assert math.isfinite(held.verdict.error)


def test_stages_are_left_out_where_parts_have_no_common_grid():
    outputs = {"u": OUTPUTS, "v": OUTPUTS[:, :7]}
    held = contest({"a": FIELDS, "n": FIELDS[:, 0]}, outputs, budget=3.0)
    held.stack(lambda: packed({"a": FIELDS, "n": FIELDS[:, 0]}, outputs, in_space=True))
    assert isinstance(held.run(), PCARaNN)
    assert held.verdict.left_out[0][1].startswith("Stages need outputs on one grid")


def test_a_kernel_at_the_first_look_sees_parts_as_the_latent_models_do():
    held = contest({"a": FIELDS, "n": RNG.uniform(size=60)}, OUTPUTS)
    assert held.known[0].shape[1] == held.latent.X.shape[1]
    assert 0 < held._kernel(list(range(40)), list(range(40, 60))) < 1


@pytest.fixture(scope="module")
def settled():
    """Stages that a contest has fitted, and a symmetry that they lack."""
    flip, fields = Symmetry.reflection(-1, periodic=True), FIELDS[:40, ::2]
    held = contest(fields, np.tanh(fields), budget=30.0, symmetry=flip)
    return held, flip, *held._stages()


def test_where_both_sides_are_close_they_are_compared_on_the_same_samples(settled):
    held, _, choice, model = settled
    own = model.stages_.steps[-1].error
    near = SimpleNamespace(error=1.01 * own, by_fold=[np.full(40, 10.0)])
    assert held._wins(choice, own, near)
    assert held.verdict.reason.endswith("against 10 of a latent model, both on the same 8 samples held out")


def test_a_symmetry_is_taken_where_it_helps_and_left_where_it_is_there_or_time_is_not(settled, monkeypatch):
    held, flip, choice, model = settled
    better, fitted = held._offer_symmetry(flip, choice, model)
    assert (choice.copies, better.copies) == (1, 2)
    assert "the symmetry lowers it from" in held.verdict.reason
    assert held._offer_symmetry(flip, better, fitted) == (better, fitted)
    assert held.verdict.left_out.pop() == ("symmetry", "stages have it by themselves here")
    monkeypatch.setattr(held, "end", time.perf_counter())
    assert held._offer_symmetry(flip, choice, model) == (choice, model)
    assert held.verdict.left_out.pop()[1].endswith("s left")
