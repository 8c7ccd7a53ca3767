"""Samples that a surrogate meets, judged by it as it is, before it learns them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pcarann.backend.arrays import Array
from pcarann.uncertainty.bands import Block, Scored, scored
from pcarann.uncertainty.monitor import History, Met, Values
from pcarann.validation import check_pair_lengths

__all__ = ["Looked", "judged", "met"]

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
            calibration, known["missed"] = calibration.observed(found.scores)
    history = before.after(Met.of(looked[0], **known), learned=learned)
    return {"calibration": calibration, "history": history}, history.said(before)
