"""Other methods on noisy inputs, the same noise for all."""

from dataclasses import replace

import numpy as np
import pytest

from pcarann.benchmark.best.noise import OTHERS, noisy_split, run_noisy
from pcarann.benchmark.paper.configurations import PROBLEMS
from pcarann.benchmark.records import record_name
from pcarann.problems.dataset import OperatorData

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize("method", OTHERS)
def test_every_other_method_is_run_on_noisy_inputs(method):
    if method in ("pca_nn", "deeponet", "fno"):
        pytest.importorskip("torch")
    problem = replace(PROBLEMS["backward_heat"].quick(), options={"grid": 16, "steps": 2})
    record = run_noisy(problem, method, 0.05)
    assert (record["kind"], record["method"], record["noise"]) == ("noisy", method, 0.05)
    assert 0 < record["error"] < 10
    assert record_name(record) == f"backward_heat-{method}-noise0_05-cpu"


def test_noise_is_the_same_for_every_method_and_of_the_level_asked_for():
    problem = PROBLEMS["backward_heat"].quick()
    fields = np.random.default_rng(0).normal(size=(sum(problem.sizes), 6))
    data = OperatorData(fields, fields)
    clean, noisy, again = (noisy_split(problem, data, level) for level in (0.0, 0.05, 0.05))
    for one, other, same in zip(clean, noisy, again, strict=True):
        assert np.array_equal(other.inputs, same.inputs)
        assert np.array_equal(one.outputs, other.outputs)
        assert (other.inputs - one.inputs).std() == pytest.approx(0.05, rel=0.2)
    assert not np.array_equal(noisy[0].inputs[:10] - clean[0].inputs[:10], noisy[2].inputs - clean[2].inputs)
