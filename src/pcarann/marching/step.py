"""What marching needs of a step model: the estimator that is fitted, and one state of it that is rolled out.

An estimator offers `fit(starts, ends, together=…)`, `predict` and `fitted_`, its state; `partial_fit` where it adapts.
One whose `fit` has a `judge` besides chooses its own options by it, on the error of roll-outs.

A state that also has `inputs`, `look`, `warning` and `possible_error`, as `pcarann.fitted.Fitted` does, tells where a
roll-out leaves the training data, and by how much it may be wrong there; of others the range of values is watched.
"""

from __future__ import annotations

import inspect
from typing import Any, Protocol

from pcarann.backend.arrays import Array, Place

__all__ = ["StepState", "check_step", "looks", "takes_judge"]


class StepState(Protocol):
    """One state of a step model. Fields are (samples, values)."""

    @property
    def place(self) -> Place:
        """Where its arrays are"""

    @property
    def output_grid(self) -> tuple[int, ...]:
        """Shape of one snapshot"""

    @property
    def output_size(self) -> float:
        """Root mean square of the values of the training snapshots"""

    @property
    def state(self) -> int:
        """Counts the changes of the step"""

    @property
    def members(self) -> int:
        """Members of the ensemble, each of which rolls out a trajectory of its own"""

    def member_step(self, member: int, fields: Array) -> Array:
        """One step of a member, in the user's units; controls stand behind the state, each a constant field."""

    def outputs(self, fields: Array) -> Array:
        """Snapshots as they were handed in, to the units inside."""

    def handed(self, fields: Array) -> Array:
        """Snapshots in the units inside, to those that are handed out."""


def looks(state: Any) -> bool:
    """Whether a state can compare inputs with the training data."""
    return hasattr(state, "look")


def check_step(model: Any) -> Any:
    """The estimator, or a refusal where it cannot be a step: pairs of a trajectory must be said to belong together."""
    fit = getattr(model, "fit", None)
    if isinstance(model, type):
        raise ValueError(f"model must be an estimator, got the class {model.__name__}: write {model.__name__}().")
    if fit is None or "together" not in inspect.signature(fit).parameters:
        raise ValueError(
            f"model must be a surrogate of this library, such as PCARaNN() or Staged(), got {type(model).__name__}: "
            "its fit knows nothing of pairs that belong together."
        )
    return model


def takes_judge(model: Any) -> bool:
    """Whether an estimator chooses its own options on roll-outs."""
    return "judge" in inspect.signature(model.fit).parameters
