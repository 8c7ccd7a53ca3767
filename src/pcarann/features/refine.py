"""Refinement: the two log-offsets η of the scales, chosen on a validation loss.

    r₁ = r̄₁ exp(η₁),   r₂ = r̄₂ exp(η₂),   η* = argmin J(η)        J as in `validation_loss`

BFGS minimises log J. The minimisers are those of J, and the stopping rule does not depend on the unit of the outputs:
Darcy's loss is near 1e-6, so that the gradient of J itself passes any absolute tolerance at the start.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pcarann.features.validation_loss import ValidationLoss, bounded_exp

__all__ = ["Refinement", "refine_scales"]

# Coarse scan of η₁ and η₂. J can have basins behind barriers orders of magnitude high, which no descent crosses.
SCAN = ((0.0, 1.5, -1.5, -3.0, -4.5, -6.0), (0.0, 1.5, -1.5, -3.0))
# |∂ log J/∂η| below which a scale is settled: moving it by a tenth changes the error by less than 0.01 %.
GRADIENT_TOLERANCE = 1e-3
MOST_ITERATIONS = 30
# Digits of η* that are kept. The loss is flat to its rounding beyond them, and backends that round differently would
# otherwise end in slightly different models.
DECIMALS = 4


@dataclass(frozen=True)
class Refinement:
    """What the refinement did."""

    log_offsets: tuple[float, float]
    """η*"""
    start_loss: float
    """J(0), at the energy-matched scales"""
    scan_loss: float
    """The lowest J of the coarse scan; J(0) where no scan was made"""
    loss: float
    """J(η*)"""
    iterations: int
    """Of BFGS"""
    evaluations: int
    """Of J, the scan included"""
    message: str
    ridge: float | None = None
    """λ*, where the ridge was refined too"""


class _Objective:
    """The objective log J for SciPy, which remembers the best point that it was shown."""

    def __init__(self, loss: ValidationLoss, tick: Callable[[str], None]):
        self.loss, self.tick = loss, tick
        self.start_loss, self.value, self.evaluations = math.inf, math.inf, 0
        self.eta: tuple[float, ...] = (0.0, 0.0)

    def see(self, eta: tuple[float, ...], value: float) -> None:
        self.evaluations += 1
        self.tick(f"refining scales, evaluation {self.evaluations}")
        if eta == (0.0, 0.0):
            self.start_loss = value
        if value < self.value:
            self.value, self.eta = value, eta

    def __call__(self, point: Any) -> tuple[float, list[float]]:
        eta = tuple(float(e) for e in point)
        loss = self.loss if len(eta) == 2 else self.loss.at_ridge(bounded_exp(eta[2]))
        value, gradient = loss.with_gradient((eta[0], eta[1]))
        self.see(eta, value)
        if not value > 0:
            return -math.inf, [0.0] * len(eta)
        return math.log(value), [g / value for g in gradient[: len(eta)]]


def refine_scales(
    loss: ValidationLoss,
    *,
    start: Literal["scan", "energy"] = "scan",
    with_ridge: bool = False,
    tick: Callable[[str], None] = lambda message: None,
) -> Refinement:
    """Minimise J by BFGS from the best point of a coarse scan, or from η = 0 as in the paper; over λ too if asked.

    The best point seen is kept, η = 0 among them: the result is never worse than the energy-matched scales.
    """
    from scipy.optimize import minimize

    objective = _Objective(loss, tick)
    first, second = SCAN if start == "scan" else ((0.0,), (0.0,))
    for eta, value in loss.scan(first, second).items():
        objective.see(eta, value)
    start_loss, scan_loss = objective.start_loss, objective.value
    iterations, message = 0, "The loss is zero at the start."
    if scan_loss > 0:
        options = {"gtol": GRADIENT_TOLERANCE, "maxiter": MOST_ITERATIONS}
        begin = (*objective.eta, 0.0) if with_ridge else objective.eta
        result = minimize(objective, begin, jac=True, method="BFGS", options=options)
        iterations, message = int(result.nit), str(result.message)
    best = (round(objective.eta[0], DECIMALS), round(objective.eta[1], DECIMALS))
    # The scan has no third variable: its best point stands at the ridge that was given.
    factor = bounded_exp(round(objective.eta[2], DECIMALS)) if len(objective.eta) == 3 else 1.0
    value = (loss.at_ridge(factor) if with_ridge else loss).scan((best[0],), (best[1],))[best]
    if not value < start_loss:
        best, value, factor = (0.0, 0.0), start_loss, 1.0
    ridge = loss.ridge * factor if with_ridge else None
    return Refinement(best, start_loss, scan_loss, value, iterations, objective.evaluations, message, ridge)
