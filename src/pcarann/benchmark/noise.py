"""Noise on the inputs of backward heat: without it every linear method looks better than it is.

White noise is added to the inputs in training, calibration and test, in proportion to their root mean square; the
outputs stay exact. Every method then sees the same noisy fields.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import get_args

import numpy as np

from pcarann.benchmark.runner import (
    DATA_SEED,
    MODEL_SEED,
    Record,
    Tell,
    _generate,
    _header,
    _model,
    _quietly,
    _sample_errors,
    baseline_results,
)
from pcarann.benchmark.settings import BASELINES, Problem, Variant
from pcarann.problems.dataset import OperatorData

__all__ = ["NOISES", "OTHERS", "noisy_split", "run_noisy"]

NOISES = (0.01, 0.05)
"""Standard deviation of the noise, relative to the root mean square of the inputs"""
OTHERS = (*get_args(Variant), *BASELINES)
"""The paper's models and the baselines, which are run beside the best model"""


def noisy_split(problem: Problem, data: OperatorData, level: float) -> list[OperatorData]:
    """Training, calibration and test part, with noise of this level on their inputs."""
    parts = data.split(problem.n_train, problem.n_calibration, problem.n_test)
    return [_noisy(part, level, number) for number, part in enumerate(parts)] if level else list(parts)


def run_noisy(
    problem: Problem,
    method: str,
    noise: float,
    *,
    device: str | None = None,
    budget: float | None = None,
    quick: bool = False,
    tell: Tell = lambda message: None,
) -> Record:
    """Train one of `OTHERS` on noisy inputs and test it on noisy ones; return its record."""
    from pcarann.baselines import baseline

    tell(f"{problem.title}, noise {noise:g}: {method}")
    where = None if method == "kernel" else device  # kernel ridge runs on the CPU whatever the device
    data = _generate(problem, problem.n_samples, DATA_SEED, device, problem.options)
    train, _, test = noisy_split(problem, data, noise)
    header = _header("noisy", problem, where) | {"method": method, "noise": noise}
    if method in BASELINES:
        rival = baseline(problem.name, method, seed=MODEL_SEED, device=where, quick=quick)
        _quietly(partial(rival.fit, budget=budget), train.inputs, train.outputs)
        return header | baseline_results(rival, problem, test, budget)
    model = _model(problem, "refined" if method == "refined" else "energy", problem.n_members, where)
    _quietly(model.fit, train.inputs, train.outputs)
    errors = _sample_errors(problem, model.predict(test.inputs), test.outputs)
    return header | {"error": float(errors.mean()), "error_std": float(errors.std())}


def _noisy(data: OperatorData, level: float, part: int) -> OperatorData:
    size = level * float(np.sqrt(np.mean(data.inputs**2)))
    noise = np.random.default_rng((7, part)).standard_normal(data.inputs.shape)
    return replace(data, inputs=data.inputs + size * noise)
