"""What a fit of stages decided and gained."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pcarann.spatial.chain import Step
from pcarann.spatial.choice import Settled

__all__ = ["StagesReport"]


@dataclass(frozen=True)
class StagesReport:
    """Where stages started, what they see, and the error after each.

    Errors are relative, on samples held out from the stages that are reported; the stages that predict were then fitted
    to these samples too, with the same ridges. In a roll-out they are those of the whole window.
    """

    start: str
    """What the first stage corrects"""
    begun: float
    """Its error"""
    settled: Settled
    steps: tuple[Step, ...]
    held_out: int
    """Samples; none where roll-outs were judged"""

    def __str__(self) -> str:
        layout, seen = self.settled.layout, self.settled.channels
        axes = ", ".join(f"{axis} {kind}" for axis, kind in zip(layout.space, layout.boundaries, strict=True))
        lines = [
            f"axes of space: {axes}" if layout.mesh is None else f"space: {layout.mesh.mesh!r}",
            f"channels: {', '.join(f'{name} {value}' for name, value in vars(seen).items())}",
            *(f"  tried {trial.name}: {trial.error:.3g}" for trial in self.settled.trials),
            f"start: {self.start}, error {self.begun:.3g}"
            + (
                f" on {self.held_out} samples held out"
                if self.held_out
                else " of its roll-outs, by which stages are judged"
            ),
        ]
        before = self.begun
        for number, step in enumerate(self.steps, start=1):
            gained = f", {before / step.error:.3g} times less" if 0 < step.error < before < math.inf else ""
            lines.append(
                f"stage {number}: error {step.error:.3g}{gained}, ridge {step.ridge:.0e}, {step.seconds:.2f} s"
            )
            before = step.error
        if not self.steps:
            lines.append("no stage lowered it")
        return "\n".join(lines)
