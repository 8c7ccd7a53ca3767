"""What a surrogate has met since its calibration: errors, coverage, drift; and what that says of it.

Every sample that is observed is judged by the model as it was before: its relative error, the share of its points
that intervals missed, whether its input was new, and what of its output the output modes cannot hold,
‖u − G(F(u))‖ / ‖u‖. The last is the error below which no adaptation of the readout can go.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of, to_host
from pcarann.latent.pca import PCA
from pcarann.uncertainty.adaptive import LEVELS
from pcarann.uncertainty.alarm import Alarm, DriftTest
from pcarann.uncertainty.outliers import high_error, high_of

__all__ = ["History", "Met", "Monitor", "unheld"]

Values = np.ndarray[Any, Any]

WINDOW = 100
"""Samples that rolling numbers look back on"""
_SETTLED = 50  # samples after which an error says that adapting does not help, or that a drift is over
_TOO_LARGE, _BACK, _AWAY = 2.0, 1.25, 1.1  # times the usual error
_TOLD, _FEW, _FAR = 20, 5, 10.0  # samples by which outputs are judged to leave the modes; so few only if that far
_ROUNDING = 1e-12  # of a field: errors below are none
_RESOLVED = 1e-6  # of a field: differences of squares tell no less of what modes miss
_SEEN = 1024  # samples that are recognised when they come again
_SHOWN = (0.05, 0.1, 0.2)  # levels whose coverage is shown


@dataclass(frozen=True)
class Met:
    """Samples that came, judged before they were learned; NaN where something is not known."""

    errors: Values
    """(samples,)"""
    missed: Values
    """Share of points outside the intervals, (samples, levels)"""
    novel: Values
    """1 where an input lies outside the training data, (samples,)"""
    unheld: Values
    """‖u − G(F(u))‖ / ‖u‖, (samples,)"""
    absolute: Values
    """Root mean square of û − u relative to that of the training outputs, (samples,)"""

    @classmethod
    def of(cls, samples: int, **known: Any) -> Met:
        """So many samples, of which this is known."""
        parts = {name: np.full(samples, np.nan) for name in ("errors", "novel", "unheld", "absolute")}
        parts["missed"] = np.full((samples, len(LEVELS)), np.nan)
        return cls(**parts | {name: part for name, part in known.items() if part is not None})


@dataclass(frozen=True)
class History:
    """The last samples that were met, and what they said."""

    usual: float | None = None
    """Mean relative error of the calibration samples, or of those left out of the fit; None where it is not known"""
    observed: int = 0
    learned: int = 0
    recent: Met = field(default_factory=lambda: Met.of(0))
    test: DriftTest | None = None
    """None without a calibration"""
    alarms: tuple[Alarm, ...] = ()
    left: int | None = None
    """The sample at which outputs were found to leave the span of the output modes"""
    high: float | None = None
    """A high absolute error of the calibration samples"""
    outliers: int = 0
    """Samples that were left out as bad truths"""
    run: tuple[float, ...] = ()
    """Sizes of the last samples, as long as they are suspicious (`pcarann.uncertainty.outliers`)"""
    seen: Values = field(default_factory=lambda: np.zeros((0, 0)))
    """What the samples of the calibration and of the stream are recognised by, the last ones, (samples, n)"""

    @classmethod
    def calibrated(cls, errors: Values, absolute: Values | None = None, marks: Values | None = None) -> History:
        """Begin after a calibration that found these errors, on samples that are recognised by `marks`."""
        finite = errors[np.isfinite(errors)]
        return cls(
            float(finite.mean()) if finite.size else None,
            test=DriftTest.start(errors),
            high=None if absolute is None else high_of(absolute),
            seen=np.zeros((0, 0)) if marks is None else marks[-_SEEN:],
        )

    @property
    def high_error(self) -> float:
        """A high absolute error of good samples, beside which a bad truth stands out"""
        return high_error(self.high, self.usual, self.recent.absolute[-_TOLD:])

    def having_seen(self, marks: Values) -> History:
        """The history that also recognises samples with these marks, (samples, n)."""
        both = np.concatenate([self.seen, marks]) if self.seen.shape[1:] == marks.shape[1:] else marks
        return replace(self, seen=both[-_SEEN:])

    def after(self, met: Met, *, learned: bool) -> History:
        """The history with samples that came after."""
        if not len(met.errors):
            return self
        parts = {name: np.concatenate([old, getattr(met, name)])[-WINDOW:] for name, old in vars(self.recent).items()}
        found, count = replace(self, recent=Met(**parts)), len(met.errors)
        found = replace(found, learned=self.learned + count if learned else self.learned)
        errors, before = np.concatenate([self.recent.errors, met.errors]), len(self.recent.errors)
        for end in range(before + 1, before + count + 1):
            found = replace(found, observed=found.observed + 1).tested(errors[max(0, end - _SETTLED) : end])
        left = (found.left or found.observed) if found.is_left else None
        return replace(found, left=left)

    def said(self, before: History) -> list[str]:
        """What has to be said of what came since an earlier history: of each drift once, and once of the span."""
        words = []
        if len(self.alarms) > len(before.alarms):
            words.append(
                f"Errors are no longer those of the calibration, since sample {self.alarms[-1].began} of the stream: "
                f"{_mean(self.recent.errors[-_SETTLED:]):.3g} on average where they were {self.usual:.3g}. See monitor."
            )
        if self.left is not None and before.left is None:
            words.append(f"{_outside(self.recent.unheld[-_TOLD:])} {_REFIT}")
        return words

    @property
    def alarm(self) -> Alarm | None:
        """The one that has not ended"""
        return self.alarms[-1] if self.alarms and self.alarms[-1].ended is None else None

    @property
    def reason(self) -> str:
        """Why the model should be fitted again; empty where it need not be."""
        if self.left is not None:
            return f"{_outside(self.recent.unheld[-_TOLD:])} {_REFIT}"
        error, alarm = _mean(self.recent.errors[-_SETTLED:]), self.alarm
        if alarm is None or self.usual is None or self.observed - alarm.raised < _SETTLED:
            return ""
        if not error > _TOO_LARGE * max(self.usual, _ROUNDING):
            return ""
        tried = "although it adapts" if self.learned else "and it was not adapted"
        advice = "fit again with recent samples" if self.learned else "adapt it with partial_fit, or fit again"
        return f"The error of the last {_SETTLED} samples is {error:.3g}, usually {self.usual:.3g}, {tried}: {advice}."

    @property
    def is_left(self) -> bool:
        """Whether the last outputs have so much outside the output modes that they cannot be predicted as usual."""
        known = self.recent.unheld[np.isfinite(self.recent.unheld)][-_TOLD:]
        if self.usual is None or known.size < _FEW:
            return False
        # What was said once holds until outputs are back: around the limit it would be said again and again.
        factor = 1.0 if self.left is not None else _TOO_LARGE if known.size >= _TOLD else _FAR
        return float(np.median(known)) > factor * max(self.usual, _RESOLVED)

    def tested(self, errors: Values) -> History:
        """With the error of the sample that has just been counted, the last of these."""
        error = float(errors[-1])
        if self.test is None or np.isnan(error):
            return self
        alarm = self.alarm
        if alarm is None:
            test = self.test.observed(error, self.observed)
            if not test.raised:
                return replace(self, test=test)
            since = errors[-max(1, self.observed - test.low) :]
            if not _mean(since) > _AWAY * max(self.usual or 0.0, _ROUNDING):  # back from errors that were smaller
                return replace(self, test=DriftTest.start(self.test.reference, self.observed))
            return replace(self, test=test, alarms=(*self.alarms, Alarm(test.low + 1, self.observed)))
        # Over where the errors of a while are again about as they were.
        over = self.observed - alarm.raised >= _SETTLED
        over = over and _mean(errors) <= _BACK * max(self.usual or 0.0, _ROUNDING)
        if not over:
            return self
        ended = (*self.alarms[:-1], replace(alarm, ended=self.observed))
        return replace(self, alarms=ended, test=DriftTest.start(self.test.reference, self.observed))


@dataclass(frozen=True)
class Monitor:
    """How a surrogate fares along a stream; rolling numbers are those of the last 100 samples. Print it."""

    observed: int
    """Samples met since the calibration"""
    learned: int
    """Of which it has learned"""
    error: float
    """Rolling mean relative error, each sample predicted before it was learned"""
    usual_error: float | None
    """That of the calibration"""
    coverage: dict[float, float]
    """Rolling share of points inside the intervals, by 1 − α"""
    novelty: float
    """Rolling share of inputs outside the training data; about 0.01 where there is no drift"""
    unheld: float
    """Rolling median of what the output modes cannot hold, relative to the output"""
    remembered: float | None
    """Samples that count, those of the training among them, each by its weight"""
    forgotten: float | None
    """The others, by what they have lost"""
    forgetting: float | None
    """Factor for each new sample"""
    alarm: Alarm | None
    """The drift that goes on"""
    alarms: tuple[Alarm, ...]
    """All of them"""
    needs_refit: bool
    reason: str
    """Why, in one sentence"""
    outliers: int = 0
    """Samples that were left out as bad truths, neither learned nor counted"""

    @classmethod
    def of(
        cls, history: History, weights: tuple[float, float] | None, forgetting: float | None, reason: str = ""
    ) -> Monitor:
        """What a history says, with the samples that count and that were learned in all, and a further reason."""
        recent, reason = history.recent, history.reason or reason
        if not reason and history.outliers >= max(_FEW, history.observed):
            reason = (
                f"{history.outliers} samples were left out, more than the {history.observed} that count: if they are "
                "right, learn them with outliers='learn', or fit again."
            )
        at = [int(np.flatnonzero(level == LEVELS)[0]) for level in _SHOWN]
        return cls(
            history.observed,
            history.learned,
            _mean(recent.errors),
            history.usual,
            {round(1 - level, 6): 1 - _mean(recent.missed[:, i]) for level, i in zip(_SHOWN, at, strict=True)},
            _mean(recent.novel),
            _median(recent.unheld),
            None if weights is None else weights[0],
            None if weights is None else weights[1] - weights[0],
            forgetting,
            history.alarm,
            history.alarms,
            bool(reason),
            reason,
            history.outliers,
        )

    def __str__(self) -> str:
        if not self.observed and not self.outliers:
            return "Nothing was observed yet: observe(X, y) or, once calibrated, partial_fit(X, y)."
        usual = "" if self.usual_error is None else f", usually {self.usual_error:.3g}"
        lines = [f"{self.observed} samples observed, {self.learned} learned"]
        if self.outliers:
            lines.append(f"outliers   {self.outliers} more left out: their outputs are far from all that is known")
        if not np.isnan(self.error):
            lines.append(f"error      {self.error:.3g} over the last {min(self.observed, WINDOW)}{usual}")
        known = {level: share for level, share in self.coverage.items() if not np.isnan(share)}
        if known:
            told = (f"{100 * share:.1f} % at {100 * level:g} %" for level, share in known.items())
            lines.append(f"coverage   {', '.join(told)}")
        if not np.isnan(self.novelty):
            lines.append(f"novelty    {100 * self.novelty:.1f} % of the inputs lie outside the training data")
        if not np.isnan(self.unheld):
            lines.append(f"span       {self.unheld:.2g} of an output lies outside the output modes")
        if self.remembered is not None:
            factor = "" if self.forgetting is None else f", forgetting {self.forgetting:g}"
            lines.append(f"memory     {self.remembered:.0f} samples count, {self.forgotten:.0f} forgotten{factor}")
        lines.append(f"drift      {self._drift}")
        lines.append(f"refit      {self.reason or 'not needed'}")
        return "\n".join(lines)

    @property
    def _drift(self) -> str:
        if self.alarm is not None:
            return f"since sample {self.alarm.began}, reported at {self.alarm.raised}"
        over = [f"{one.began} to {one.ended}" for one in self.alarms]
        return f"none now; earlier from sample {', '.join(over)}" if over else "none"


def unheld(pca: PCA, outputs: Array) -> Values:
    """‖u − G(F(u))‖ / ‖u‖ of (samples, values) outputs, in the norm of the PCA."""
    xp = place_of(outputs).xp
    squares = xp.sum(outputs**2 if pca.weights is None else outputs**2 * pca.weights, axis=1)
    residual = pca.residual(outputs, pca.encode(outputs))
    return to_host(residual / xp.sqrt(xp.where(squares > 0, squares, 1.0)))


_REFIT = "No adaptation of the readout can reach that: fit again with such samples."


def _outside(shares: Values) -> str:
    return f"New outputs leave the span of the output modes: {_median(shares):.2g} of them lies outside."


def _mean(values: Values) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def _median(values: Values) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if known.size else float("nan")
