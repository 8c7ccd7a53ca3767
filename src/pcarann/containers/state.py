"""What all surrogates keep of a fit, as calibration and intervals need it."""

from __future__ import annotations

from typing import Any, Protocol

from pcarann.backend.arrays import Array, Place
from pcarann.containers.packing import Packing
from pcarann.uncertainty.conformal import Calibration
from pcarann.uncertainty.fingerprints import Recognised
from pcarann.uncertainty.monitor import History

__all__ = ["State"]


class State(Protocol):
    """One state of a surrogate, as calibration and intervals need it."""

    @property
    def place(self) -> Place:
        """Where its arrays are"""

    @property
    def output_grid(self) -> tuple[int, ...]:
        """Shape of one predicted field"""

    @property
    def output_size(self) -> float:
        """Root mean square of the output values of the training set"""

    @property
    def state(self) -> int:
        """Counts the changes of the readouts"""

    @property
    def calibration(self) -> Calibration | None:
        """The last one"""

    @property
    def stale(self) -> bool:
        """Whether the surrogate was changed after it"""

    @property
    def history(self) -> History | None:
        """What was observed since then"""

    @property
    def packing(self) -> Packing | None:
        """What inputs and outputs are made of, where they are more than plain arrays"""

    @property
    def how(self) -> dict[str, Any]:
        """Options of `predict` that it was asked with, as they are handed over: those of a roll-out"""

    def refuse_shape(self, shape: tuple[int, ...]) -> None:
        """Refuse inputs of a shape (samples, …) that is not theirs."""

    def refuse_unaligned(self, X: Any, y: Any = None) -> None:
        """Raise ValueError where labels of inputs and outputs do not go together, or are others than those of the fit.

        Without y, only what inputs alone can tell.
        """

    def outputs(self, fields: Array) -> Array:
        """(samples, values) outputs as they were handed in, to the units inside."""

    def handed(self, fields: Array) -> Array:
        """(samples, values) outputs in the units inside, to those that are handed out."""

    def marks(self, inputs: Array, outputs: Array | None) -> Any:
        """What (samples, values) pairs, as they were handed in, leave, (rows, 4); inputs only leave (rows, 2)"""

    def recognised(self, marks: Any) -> Recognised:
        """Which of the samples that have left these were learned before."""
