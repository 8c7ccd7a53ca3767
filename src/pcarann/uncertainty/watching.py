"""Samples that a surrogate meets, judged by it as it is, before it learns them.

Not every sample says something about the size of errors. Bad truths are left out (`pcarann.uncertainty.outliers`).
Samples that the model has learned before, and repeats of samples that it has met since its calibration, may be learned
again, but neither move the intervals nor count in the errors of `monitor`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from pcarann.backend.arrays import Array, taken
from pcarann.backend.locking import writing
from pcarann.uncertainty.bands import Block, Scored, scored
from pcarann.uncertainty.fingerprints import Recognised, by_sample, repeated
from pcarann.uncertainty.monitor import History, Met, Monitor, Values
from pcarann.uncertainty.outliers import Outliers, Sifted, high_error, is_large, sifted, sizes_of, suspicious
from pcarann.validation import check_pair_lengths, first_sample, in_block, warn_user

__all__ = ["Come", "Looked", "Outcome", "Watched", "judged", "met"]

Looked = tuple[int, Iterable[Block], Values | None]
"""The number of samples, μ, σ, δ of their outputs by blocks, and which inputs lie outside the data, if that is known"""


@dataclass(frozen=True)
class Come:
    """Samples that came, as they are judged."""

    looked: Looked
    truth: Array
    """(samples, values), in the units inside"""
    marks: Callable[[], Any]
    """Gives what they are recognised by"""
    odd: Values | None = None
    """Which are suspicious whatever is predicted for them, (samples,) of bool"""


@dataclass(frozen=True)
class Outcome:
    """What samples have changed."""

    parts: dict[str, Any]
    """Calibration and history, by name"""
    said: list[str]
    """Warnings"""
    sifted: Sifted


def judged(looked: Looked, truth: Array, size: float) -> Scored:
    """True outputs, (samples, values), of about this size, beside their predictions."""
    check_pair_lengths(looked[0], int(truth.shape[0]))
    return scored(looked[1], truth, size)


def met(
    state: Any,
    come: Come,
    before: History,
    *,
    unheld: Callable[[Array], Values | None],
    learned: bool,
    outliers: Outliers = "skip",
) -> Outcome:
    """What samples change of a state, and what has to be said of them.

    A model that is not calibrated learns without being judged, unless outputs are suspiciously large.
    """
    looked, truth = come.looked, come.truth
    check_pair_lengths(looked[0], int(truth.shape[0]))
    calibration, fresh = state.calibration, state.calibration is not None and not state.stale
    sizes = sizes_of(truth, state.output_size, int(state.how.get("steps", 1)))
    doubted = outliers == "skip" and bool(is_large(sizes).any())
    if fresh or not learned:
        found = judged(looked, truth, state.output_size)
    elif doubted:
        with in_block(first_sample(), quiet=True):  # that roll-outs leave the data is no news of what is learned
            found = judged(looked, truth, state.output_size)
    else:
        found = None
    suspects = np.zeros(looked[0], dtype=bool)
    if outliers == "skip" and found is not None:
        together = high_error(before.high_error, None, found.absolute[~is_large(sizes)])
        suspects = suspicious(sizes, found.absolute, together)
    if outliers == "skip" and come.odd is not None:
        suspects = suspects | come.odd
    sorted_out = sifted(suspects, sizes, before.run)
    rows = sorted_out.accepted
    history = replace(before, run=sorted_out.run, outliers=before.outliers + len(sorted_out.skipped))
    said = _said_of_outliers(sorted_out.skipped, sizes, learned)
    novel = None if looked[2] is None else looked[2][rows]
    known: dict[str, Any] = {"novel": novel, "unheld": unheld(taken(truth, rows)) if rows else None}
    if rows and found is not None and (fresh or not learned):
        left = come.marks()
        marks, each = by_sample(left, looked[0])[rows], left.shape[1]
        trained = state.recognised(marks.reshape(-1, each) if each else left[: len(left) // looked[0] * len(rows)])
        told = ~(trained.learned | trained.repeated | repeated(marks, before.seen))
        new = [row for row, one in zip(rows, told, strict=True) if one]
        for name in ("errors", "absolute"):
            known[name] = np.where(told, getattr(found, name)[rows], np.nan)
        if fresh and new:
            inside = None if novel is None else novel[told] == 0
            calibration, missed = calibration.observed(taken(found.scores, new), inside)
            known["missed"] = np.full((len(rows), missed.shape[1]), np.nan)
            known["missed"][told] = missed
        history = history.having_seen(marks)
        said += _said_of_learned(trained) if fresh else []
    after = history.after(Met.of(len(rows), **known), learned=learned)
    return Outcome({"calibration": calibration, "history": after}, said + after.said(before), sorted_out)


def _said_of_outliers(skipped: list[int], sizes: Values, learned: bool) -> list[str]:
    if not skipped:
        return []
    shown = ", ".join(str(first_sample() + i) for i in skipped[:10]) + (", …" if len(skipped) > 10 else "")
    which, has = ("Sample", "has") if len(skipped) == 1 else ("Samples", "have")
    times = f"{max(sizes[i] for i in skipped):.3g} times as large as those of the training"
    used = "not learned" if learned else "not counted"
    advice = " If they are right, use outliers='learn'." if learned else " If they are right, fit again."
    return [
        f"{which} {shown}, counted from 0, {has} outputs up to {times} and errors far beyond all that are known: "
        f"{used}, and intervals stay as they are.{advice}"
    ]


def _said_of_learned(found: Recognised) -> list[str]:
    if not found.number:
        return []
    return [
        f"The model was trained on {found.number} of these {len(found.learned)} samples: they say nothing about its "
        "error, and intervals do not follow them."
    ]


class Watched:
    """What every surrogate does with samples that it meets: judge itself by them, and say how it fares."""

    @abstractmethod
    def _come_true(self, X: Any, y: Any) -> tuple[Any, Come]:
        """The fitted record, and samples as it judges them."""

    @abstractmethod
    def _require_fitted(self) -> Any:
        """The fitted record, or a refusal."""

    @abstractmethod
    def _publish(self, **parts: Any) -> None:
        """Replace parts of the fitted record, by name."""

    def observe(self, X: Array, y: Array) -> Self:
        """Compare predictions with what came true, without learning from it: intervals and `monitor` follow.

        Samples are taken in the order in which they came. A drift is said once, when it is found. Samples with outputs
        far outside of all that was seen (`pcarann.uncertainty.outliers`), those that the model was trained on and
        repeats do not count.
        """
        with writing(self):
            found = self._met(*self._come_true(X, y), learned=False)
            self._publish(**found.parts)
        warn_user(*found.said)
        return self

    @property
    def monitor(self) -> Monitor:
        """How the model fares with what was observed since its calibration, and whether it needs a fit; print it."""
        fitted = self._require_fitted()
        return Monitor.of(fitted.history or self._unwatched(fitted), *self._memory(fitted))

    def _met(self, fitted: Any, come: Come, *, learned: bool, outliers: Outliers = "skip") -> Outcome:
        before = fitted.history or self._unwatched(fitted)

        def unheld(truth: Array) -> Values | None:
            return self._unheld(truth, fitted)

        return met(fitted, come, before, unheld=unheld, learned=learned, outliers=outliers)

    def _unheld(self, truth: Array, fitted: Any) -> Values | None:
        """What output modes cannot hold of true outputs, relative to them; None where there are no modes."""

    def _unwatched(self, fitted: Any) -> History:
        """The history before anything was met"""
        return History()

    def _memory(self, fitted: Any) -> tuple[tuple[float, float] | None, float | None, str]:
        """Samples that count and all that were learned, the factor of forgetting, and a further reason to fit again"""
        return None, None, ""
