import math
import time

import numpy as np

from pcarann import PCARaNN, Staged
from pcarann.containers.packing import packed
from pcarann.contest import Contest

RNG = np.random.default_rng(0)
x = np.linspace(0, 2 * np.pi, 32, endpoint=False)
FIELDS = sum(np.cos(k * x + RNG.uniform(0, 6, (60, 1))) / k for k in range(1, 9))
OUTPUTS = np.tanh(FIELDS) + 0.1 * np.roll(FIELDS, 1, axis=1)


def contest(X=FIELDS, y=OUTPUTS, budget=8.0):
    return Contest(
        packed(X, y),
        begun=time.perf_counter(),
        budget=budget,
        symmetry=None,
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
