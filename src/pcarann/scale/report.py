"""What a fit out of memory did: how each PCA was found and how well, how often data were read, in which memory."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ITERATION", "Log", "ScaleReport", "SideReport"]

ITERATION = "subspace iteration"
_ROUNDED = 0.1  # of a mode that says nothing


@dataclass
class Log:
    """What is noted while a side is read."""

    passes: int = 0
    blocks: int = 0
    read: float = 0.0
    """Bytes"""
    method: str = ""
    accuracy: float = 0.0


@dataclass(frozen=True)
class SideReport:
    """Inputs or outputs."""

    name: str
    """"X" or "y\""""
    method: str
    """"covariance", "Gram matrix", either "in stages" where modes lie deep, or "subspace iteration\""""
    accuracy: float
    """Relative rounding of the last mode's singular value, or, of an iteration, the largest last change of one"""
    passes: int
    """Times that all samples were read"""
    blocks: int
    """Of one pass"""
    read: float
    """Bytes, as the plan of the chunks foresees them"""

    @property
    def quality(self) -> str:
        """How good the modes are, in words"""
        if self.method == ITERATION:
            return f"singular values moved by {self.accuracy:.1g} in the last pass"
        if self.accuracy > _ROUNDED:
            return "the last mode is no more than rounding: the data have lower rank"
        return f"the last mode is accurate to {self.accuracy:.1g}"


@dataclass(frozen=True)
class ScaleReport:
    """Both sides, and the memory that they were read in; print it."""

    sides: tuple[SideReport, ...]
    memory: int
    """Bytes that one process was allowed"""
    tasks: int
    """That worked in it at a time"""

    def __str__(self) -> str:
        """A line for each side."""
        lines = [f"{self.memory / 1e9:.3g} GB for {self.tasks} tasks at a time in each process"]
        for side in self.sides:
            lines.append(
                f"{side.name}: PCA by {side.method}, {side.quality}; {side.passes} passes over {side.blocks} blocks, "
                f"{side.read / 1e9:.3g} GB read"
            )
        return "\n".join(lines)
