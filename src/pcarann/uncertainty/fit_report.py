"""What a fit is worth, judged on samples that were left out of it.

The first member predicts some samples without having seen them, which costs no second fit
(`pcarann.readout.leave_out`); of a kernel several members do, each those that are no landmarks of it. What they say
is compared with the true fields:

    relative error   mean ‖û − u‖ / ‖u‖
    R²               1 − Σ ‖û − u‖² / Σ ‖u − ū‖²: 1 is perfect, 0 no better than the mean field, below 0 worse

Scales, metrics and, without refinement, PCAs have seen these samples, so that a test set may say a little worse; an
ensemble is better than its members.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pcarann.backend.arrays import Array, place_of
from pcarann.latent.pca import PCA
from pcarann.readout.direct import ReadoutReport

__all__ = ["FitReport"]

_NOTHING = 0.05  # of the variance: what choices made on the same samples and chance may seem to predict
_ROUNDING = 1e-24  # of the energy of fields, below which they are constant


@dataclass(frozen=True)
class FitReport:
    """What a fit is worth."""

    relative_error: float
    """Mean relative L² error of samples that were left out"""
    r2: float
    """Share of their variance that is predicted"""
    samples: int
    """Samples that were left out"""
    solver: str
    rank: int | None
    """Of the features; None where it was not computed"""
    ridge: float
    """λ in use"""
    parts: dict[str, list[float]] | None = None
    """Relative error and R² of each output by name, where there are several"""

    @classmethod
    def of(
        cls,
        residuals: Array,
        outputs: Array,
        y: Array,
        pca: PCA,
        readout: ReadoutReport,
        parts: Mapping[str, slice] | None = None,
    ) -> FitReport:
        """Judge residuals of latents, (samples, latent), of outputs (samples, values) with true latents y."""
        squares = outputs**2 if pca.weights is None else outputs**2 * pca.weights
        sizes = place_of(y).xp.sum(squares, axis=1)
        found = cls.of_sizes(residuals, pca.residual(outputs, y) ** 2, sizes, y, readout)
        named = None if not parts else {name: _judged(residuals, outputs, y, pca, at) for name, at in parts.items()}
        return replace(found, parts=named)

    @classmethod
    def of_sizes(cls, residuals: Array, outside: Array, sizes: Array, y: Array, readout: ReadoutReport) -> FitReport:
        """The same where what modes miss of the outputs and their sizes are known, squared, (samples,) each."""
        xp = place_of(y).xp
        missed = xp.sum(residuals**2, axis=1) + outside
        centred = float(xp.sum(y**2) + xp.sum(outside))
        errors = xp.sqrt(missed / xp.where(sizes > 0, sizes, 1.0))
        varies = centred > _ROUNDING * float(xp.sum(sizes))
        r2 = 1 - float(xp.sum(missed)) / centred if varies else 1.0
        return cls(float(xp.mean(errors)), r2, int(y.shape[0]), readout.solver, readout.rank, readout.ridge)

    @property
    def useless(self) -> bool:
        """Whether the mean field would predict about as well."""
        return not self.r2 > _NOTHING

    @property
    def poor(self) -> list[str]:
        """Outputs for which the mean field would do about as well, although the whole is predicted"""
        return [name for name, (_, r2) in (self.parts or {}).items() if not r2 > _NOTHING and not self.useless]

    def __str__(self) -> str:
        found = f"relative error {self.relative_error:.3g}, R² {_decimals(self.r2)} on {self.samples} samples left out"
        if self.parts:
            told = (f"{name} {error:.3g}, R² {_decimals(r2)}" for name, (error, r2) in self.parts.items())
            found += f" ({'; '.join(told)})"
        if not self.useless:
            return f"{found}: {math.floor(1e4 * self.r2) / 100:.4g} % of the variance is predicted."
        better = "hardly" if self.r2 > 0 else "no"
        return (
            f"{found}: the model is {better} better than the mean field. Do the inputs hold all that the outputs need? "
            "More samples, ridge='gcv' or PCARaNN.auto may help."
        )


def _judged(residuals: Array, outputs: Array, y: Array, pca: PCA, at: slice) -> list[float]:
    """Relative error and R² of some of the values; what modes miss and what latents miss are taken as unrelated."""
    xp = place_of(y).xp
    held = y @ pca.modes[:, at]
    outside = outputs[:, at] - pca.mean[at] - held
    missed = xp.sum((residuals @ pca.modes[:, at]) ** 2 + outside**2, axis=1)
    sizes = xp.sum(outputs[:, at] ** 2, axis=1)
    centred = float(xp.sum((outputs[:, at] - pca.mean[at]) ** 2))
    error = float(xp.mean(xp.sqrt(missed / xp.where(sizes > 0, sizes, 1.0))))
    varies = centred > _ROUNDING * float(xp.sum(sizes))
    return [error, 1 - float(xp.sum(missed)) / centred if varies else 1.0]


def _decimals(r2: float) -> str:
    """R² with as many nines as it has."""
    if not math.isfinite(r2) or r2 <= 0.99:
        return f"{r2:.3g}"
    if 1 - r2 < 1e-12:
        return "above 0.999999999999"
    return f"{r2:.{min(15, 2 - math.floor(math.log10(max(1 - r2, 1e-14))))}f}"
