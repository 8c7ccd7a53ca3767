"""What a surrogate predicts, written on a sheet: mean, spread, and the interval that a calibration makes of them.

    std = √(σ² + δ²),   μ ± √(q² max{σ, ε}² + δ²)

as in `pcarann.uncertainty.conformal`; δ is what leaving the training data adds, where a surrogate knows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.export.graph import Value
from pcarann.uncertainty.conformal import Calibration, Method, samples_needed

__all__ = ["Written", "factor_of"]

_LEAST = float(np.finfo(np.float32).tiny)  # that single precision has with all its digits


@dataclass(frozen=True, eq=False)
class Written:
    """A prediction, (samples, values) each, in the units inside."""

    mean: Value
    """μ"""
    members: Value
    """σ, the deviation of the members"""
    beyond: Value | None = None
    """δ; None where a surrogate has none"""
    novelty: Value | None = None
    """The p-value of each input, (samples,); None where a surrogate has none"""
    unit: float = 1.0
    """By which numbers are divided where they are squared"""

    @property
    def std(self) -> Value:
        """√(σ² + δ²), where there is a δ"""
        return self.members if self.beyond is None else self._hypot(self.members, self.beyond)

    def half_width(self, factor: Any, floor: float) -> Value:
        """√(q² max{σ, ε}² + δ²) for the factor q of each value and the floor ε"""
        sheet = self.mean.sheet
        with sheet.loosely(floor >= _LEAST):  # that of outputs which are all 0 is not
            inside = sheet.maximum(self.members, floor) * factor
        return inside if self.beyond is None else self._hypot(inside, self.beyond)

    def _hypot(self, x: Value, y: Value) -> Value:
        sheet, unit = x.sheet, self.unit
        with sheet.loosely():
            if unit == 1.0:
                return sheet.sqrt(x * x + y * y)
            x, y = x * (1 / unit), y * (1 / unit)
            return sheet.sqrt(x * x + y * y) * unit


def factor_of(calibration: Calibration, alpha: float, method: Method, values: int) -> Any:
    """q of so many values of a sample, on the host; a refusal where calibration samples are too few for α."""
    factor = to_host(calibration.factor(alpha, method, values))
    if np.isinf(factor).any():
        raise ValueError(
            f"{calibration.n_samples} calibration samples are too few for alpha={alpha} with method={method!r}: "
            f"{samples_needed(alpha, calibration.points, method)} are needed."
        )
    return factor
