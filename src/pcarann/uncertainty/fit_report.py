"""The error of a surrogate, estimated on samples that were left out of its fit.

    relative error   mean ‖û − u‖ / ‖u‖
    R²               1 − Σ ‖û − u‖² / Σ ‖u − ū‖²: 1 is perfect, 0 no better than the mean field, below 0 worse

Both are means over samples, of which repeats and near-repeats count as one. With zᵢ the deviation of sample i from the
mean (or ‖ûᵢ − uᵢ‖² − (1 − R²) ‖uᵢ − ū‖² for R², over the mean of the latter), n samples and G groups of repeats,

    standard error² = G / (G − 1) · Σ_groups (Σ z)² / n².
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of, to_host
from pcarann.latent.pca import PCA
from pcarann.readout.direct import ReadoutReport

__all__ = ["FitReport"]

_NOTHING = 0.05  # of the variance: what choices made on the same samples and chance may seem to predict
_ROUNDING = 1e-24  # of the energy of fields, below which they are constant
_FEW = 20  # distinct samples: fewer call for caution
_TOO_FEW = 2  # distinct samples: fewer say next to nothing


@dataclass(frozen=True)
class FitReport:
    """The error of a fit on samples that were left out of it, with its uncertainty."""

    relative_error: float
    """Mean relative L² error of samples that were left out"""
    r2: float
    """Share of their variance that is predicted"""
    samples: int
    """Number of samples that were left out"""
    solver: str | None = None
    """Of the readout; None for surrogates that have several"""
    rank: int | None = None
    """Of the features; None where it was not computed"""
    ridge: float | None = None
    """λ in use"""
    parts: dict[str, list[float]] | None = None
    """Relative error and R² of each output by name, where there are several"""
    standard_error: float | None = None
    """Standard error of `relative_error`; None for fewer than two distinct samples"""
    r2_standard_error: float | None = None
    """Standard error of `r2`; None for fewer than two distinct samples"""
    distinct: int | None = None
    """Number of distinct samples among those left out: repeats and near-repeats count once"""

    @classmethod
    def of_errors(
        cls,
        missed: Any,
        sizes: Any,
        centred: Any,
        *,
        groups: Sequence[int] | None = None,
        readout: ReadoutReport | None = None,
        parts: dict[str, list[float]] | None = None,
    ) -> FitReport:
        """Report squared errors of samples, (samples,).

        `sizes` are squared norms of the true fields, `centred` their squared distances from the mean field of the
        training; `groups` has a label per sample (`pcarann.latent.repeats`), None for distinct samples.

        >>> print(FitReport.of_errors([1.0, 4.0], [100.0, 100.0], [50.0, 50.0]).standard_error)
        0.05
        """
        missed, sizes, centred = (np.asarray(to_host(part), dtype=float) for part in (missed, sizes, centred))
        owners = np.unique(np.arange(len(missed)) if groups is None else np.asarray(groups), return_inverse=True)[1]
        distinct, samples = int(owners.max()) + 1, len(missed)
        # Every distinct sample counts once: the mean over its repeats stands for it.
        counts = np.bincount(owners)
        errors = np.bincount(owners, np.sqrt(missed / np.where(sizes > 0, sizes, 1.0))) / counts
        missed, sizes, centred = (np.bincount(owners, part) / counts for part in (missed, sizes, centred))
        owners = np.arange(distinct)
        error, total = float(np.mean(errors)), float(np.sum(centred))
        varies = total > _ROUNDING * float(np.sum(sizes))
        unexplained = float(np.sum(missed)) / total if varies else 0.0
        found = cls(error, 1 - unexplained, samples, parts=parts, distinct=distinct)
        if readout is not None:
            found = replace(found, solver=readout.solver, rank=readout.rank, ridge=readout.ridge)
        if distinct < 2 or not math.isfinite(error):
            return found
        deviation = _standard_error(errors - error, owners)
        of_r2 = _standard_error((missed - unexplained * centred) * (len(missed) / total), owners) if varies else 0.0
        return replace(found, standard_error=deviation, r2_standard_error=of_r2)

    @classmethod
    def of(
        cls,
        residuals: Array,
        outputs: Array,
        y: Array,
        pca: PCA,
        readout: ReadoutReport,
        parts: Mapping[str, slice] | None = None,
        groups: Sequence[int] | None = None,
    ) -> FitReport:
        """Report residuals of latents, (samples, latent), of outputs (samples, values) with true latents y."""
        squares = outputs**2 if pca.weights is None else outputs**2 * pca.weights
        sizes = place_of(y).xp.sum(squares, axis=1)
        found = cls.of_sizes(residuals, pca.residual(outputs, y) ** 2, sizes, y, readout, groups)
        named = None if not parts else {name: _judged(residuals, outputs, y, pca, at) for name, at in parts.items()}
        return replace(found, parts=named)

    @classmethod
    def of_sizes(
        cls,
        residuals: Array,
        outside: Array,
        sizes: Array,
        y: Array,
        readout: ReadoutReport,
        groups: Sequence[int] | None = None,
    ) -> FitReport:
        """The same where what modes miss of the outputs and their sizes are known, squared, (samples,) each."""
        xp = place_of(y).xp
        missed, centred = xp.sum(residuals**2, axis=1) + outside, xp.sum(y**2, axis=1) + outside
        return cls.of_errors(missed, sizes, centred, groups=groups, readout=readout)

    @property
    def useless(self) -> bool:
        """Whether the mean field would predict about as well."""
        return not self.r2 > _NOTHING

    @property
    def poor(self) -> list[str]:
        """Outputs for which the mean field would do about as well, although the whole is predicted"""
        return [name for name, (_, r2) in (self.parts or {}).items() if not r2 > _NOTHING and not self.useless]

    @property
    def warning(self) -> str | None:
        """What a user must be warned of after a fit; None where all is well.

        A model no better than the mean field, outputs for which it is not, an error from too few distinct samples.
        """
        if self.useless or (self.distinct is not None and self.distinct < _TOO_FEW):
            return str(self)
        if poor := self.poor:
            return f"{', '.join(poor)}: no better than the mean field, although other outputs are. {self}"
        return None

    def __str__(self) -> str:
        error = f"{self.relative_error:.3g}{_plus_minus(self.standard_error, self.relative_error)}"
        found = f"relative error {error}, R² {_decimals(self.r2)} on {self._left_out}"
        if self.parts:
            told = (f"{name} {error:.3g}, R² {_decimals(r2)}" for name, (error, r2) in self.parts.items())
            found += f" ({'; '.join(told)})"
        if not self.useless:
            found += f": {math.floor(1e4 * self.r2) / 100:.4g} % of the variance is predicted."
        else:
            better = "hardly" if self.r2 > 0 else "no"
            found += (
                f": the model is {better} better than the mean field. Do the inputs hold all that the outputs need? "
                "More samples, ridge='gcv' or PCARaNN.auto may help."
            )
        return found + self._caution

    @property
    def _left_out(self) -> str:
        if self.distinct is None or self.distinct == self.samples:
            return f"{self.samples} samples left out"
        return f"{self.samples} samples left out, {self.distinct} of them distinct"

    @property
    def _caution(self) -> str:
        if self.relative_error == 0 and self.r2 == 1:
            return " Caution: all outputs are equal, so nothing is known of samples with other outputs."
        distinct = self.samples if self.distinct is None else self.distinct
        if distinct >= _FEW:
            return ""
        return f" Caution: the figures rest on {distinct} distinct sample{'s' if distinct != 1 else ''} only."


def _standard_error(deviations: Any, owners: Any) -> float:
    """Standard error of a mean over samples, from deviations of each and the group that it belongs to."""
    sums = np.bincount(owners, deviations)
    return math.sqrt(len(sums) / (len(sums) - 1) * float(np.sum(sums**2))) / len(deviations)


def _plus_minus(deviation: float | None, error: float) -> str:
    """The standard error in as many digits as the figure has."""
    return "" if deviation is None or not math.isfinite(deviation) or error == 0 else f" ± {deviation:.2g}"


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
