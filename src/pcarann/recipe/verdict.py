"""What `pcarann.auto` tried on both sides, latent models and stages, and why one of them won, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from pcarann.recipe.report import AutoReport, Trial
from pcarann.uncertainty.fit_report import FitReport

__all__ = ["AutoVerdict"]


@dataclass
class AutoVerdict:
    """The latent side, the side of the stages, and the decision."""

    latent: AutoReport
    stages: list[Trial] = field(default_factory=list)
    """Settings of stages, with their mean relative L² errors on samples that they had not seen"""
    winner: Literal["latent", "stages"] = "latent"
    reason: str = ""
    left_out: list[tuple[str, str]] = field(default_factory=list)
    """Settings of stages that were not tried, and why"""
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Candidates that raised an error, and the error"""
    chosen: str = ""
    """The stages that were fitted, where they won"""
    error: float = math.inf
    """Of the winner on samples held out; infinite where there was no time to judge it"""
    report: FitReport | None = None
    """Error of the model that was fitted, on samples left out, with its uncertainty"""
    seconds: float = 0.0
    """In all, with the last fit"""
    budget: float = math.inf

    @property
    def stopped(self) -> bool:
        """Whether the budget left something out."""
        return bool(self.left_out) or self.latent.stopped

    def __str__(self) -> str:
        name = {"latent": "A latent model", "stages": "Stages"}[self.winner]
        lines = [f"{name}: {self.reason}; {self.seconds:.1f} s of {self.budget:g} s."]
        if self.report is not None:
            lines.append(f"  {self.report}")
        if self.chosen:
            lines += [f"  {line}" for line in self.chosen.splitlines()]
        if self.stages:
            lines.append("Stages that were tried:")
            lines += [f"  {trial.error:.3e}  {trial.seconds:6.2f} s  {trial.name}" for trial in self.stages]
        if self.left_out:
            lines.append("Stages that were not:")
            lines += [f"  {name}: {why}" for name, why in self.left_out]
        if self.failed:
            lines.append("Left out because they failed:")
            lines += [f"  {name}: {why}" for name, why in self.failed]
        lines += ["Latent models:", *(f"  {line}" for line in str(self.latent).splitlines())]
        return "\n".join(lines)
