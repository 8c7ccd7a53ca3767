"""Samples that a surrogate meets, judged by it as it is, before it learns them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Self

from pcarann.backend.arrays import Array
from pcarann.backend.locking import writing
from pcarann.uncertainty.bands import Block, Scored, scored
from pcarann.uncertainty.monitor import History, Met, Monitor, Values
from pcarann.validation import check_pair_lengths, warn_user

__all__ = ["Looked", "Watched", "judged", "met"]

Looked = tuple[int, Iterable[Block], Values | None]
"""The number of samples, μ, σ, δ of their outputs by blocks, and which inputs lie outside the data, if that is known"""


def judged(looked: Looked, truth: Array, size: float) -> Scored:
    """True outputs, (samples, values), of about this size, beside their predictions."""
    check_pair_lengths(looked[0], int(truth.shape[0]))
    return scored(looked[1], truth, size)


def met(
    state: Any, looked: Looked, truth: Array, before: History, *, unheld: Values | None, learned: bool
) -> tuple[dict[str, Any], list[str]]:
    """Calibration and history of a state after samples were met, by name; and what has to be said of them.

    A model that is not calibrated learns without being judged.
    """
    calibration, known = state.calibration, {"novel": looked[2], "unheld": unheld}
    fresh = calibration is not None and not state.stale
    if fresh or not learned:
        found = judged(looked, truth, state.output_size)
        known["errors"] = found.errors
        if fresh:
            inside = None if looked[2] is None else looked[2] == 0
            calibration, known["missed"] = calibration.observed(found.scores, inside)
    history = before.after(Met.of(looked[0], **known), learned=learned)
    return {"calibration": calibration, "history": history}, history.said(before)


class Watched:
    """What every surrogate does with samples that it meets: judge itself by them, and say how it fares."""

    @abstractmethod
    def _come_true(self, X: Any, y: Any) -> tuple[Any, Looked, Array]:
        """The fitted record, predictions for X, and the true outputs in the units inside."""

    @abstractmethod
    def _require_fitted(self) -> Any:
        """The fitted record, or a refusal."""

    @abstractmethod
    def _publish(self, **parts: Any) -> None:
        """Replace parts of the fitted record, by name."""

    def observe(self, X: Array, y: Array) -> Self:
        """Compare predictions with what came true, without learning from it: intervals and `monitor` follow.

        Samples are taken in the order in which they came. A drift is said once, when it is found.
        """
        with writing(self):
            parts, said = self._met(*self._come_true(X, y), learned=False)
            self._publish(**parts)
        warn_user(*said)
        return self

    @property
    def monitor(self) -> Monitor:
        """How the model fares with what was observed since its calibration, and whether it needs a fit; print it."""
        fitted = self._require_fitted()
        return Monitor.of(fitted.history or self._unwatched(fitted), *self._memory(fitted))

    def _met(self, fitted: Any, looked: Looked, truth: Array, *, learned: bool) -> tuple[dict[str, Any], list[str]]:
        before = fitted.history or self._unwatched(fitted)
        return met(fitted, looked, truth, before, unheld=self._unheld(truth, fitted), learned=learned)

    def _unheld(self, truth: Array, fitted: Any) -> Values | None:
        """What output modes cannot hold of true outputs, relative to them; None where there are no modes."""

    def _unwatched(self, fitted: Any) -> History:
        """The history before anything was met"""
        return History()

    def _memory(self, fitted: Any) -> tuple[tuple[float, float] | None, float | None, str]:
        """Samples that count and all that were learned, the factor of forgetting, and a further reason to fit again"""
        return None, None, ""
