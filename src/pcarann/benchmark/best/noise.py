"""Noise on the inputs of backward heat: without it every linear method looks better than it is.

White noise is added to the inputs in training, calibration and test, in proportion to their root mean square; the
outputs stay exact. Every method then sees the same noisy fields.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pcarann.benchmark.paper.configurations import BASELINES, VARIANTS, Problem
from pcarann.benchmark.paper.runs import generate, run_rival
from pcarann.benchmark.records import Record
from pcarann.problems.dataset import OperatorData

__all__ = ["NOISES", "OTHERS", "noisy_split", "run_noisy"]

NOISES = (0.01, 0.05)
"""Standard deviation of the noise, relative to the root mean square of the inputs"""
OTHERS = (*VARIANTS, *BASELINES)
"""The paper's models and the baselines, which are run beside the best model"""


def noisy_split(problem: Problem, data: OperatorData, level: float) -> list[OperatorData]:
    """Training, calibration and test part, with noise of this level on their inputs."""
    parts = data.split(*problem.sizes)
    return [_noisy(part, level, number) for number, part in enumerate(parts)] if level else list(parts)


def run_noisy(
    problem: Problem, method: str, noise: float, device: str | None = None, budget: float | None = None
) -> Record:
    """Train one of `OTHERS` on noisy inputs and test it on noisy ones; return its record."""
    parts = noisy_split(problem, generate(problem, device=device), noise)
    about = {"kind": "noisy", "method": method, "noise": noise}
    return run_rival(problem, method, parts, about, device=device, budget=budget)


def _noisy(data: OperatorData, level: float, part: int) -> OperatorData:
    size = level * float(np.sqrt(np.mean(data.inputs**2)))
    noise = np.random.default_rng((7, part)).standard_normal(data.inputs.shape)
    return replace(data, inputs=data.inputs + size * noise)
