"""What a fit out of memory did: how each PCA was found and how well, how often data were read, in which memory."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Log", "ScaleReport", "SideReport"]


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
    """Relative rounding of the modes' singular values, or, of an iteration, their last change"""
    passes: int
    """Times that all samples were read"""
    blocks: int
    """Of one pass"""
    read: float
    """Bytes, as the plan of the chunks foresees them"""


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
                f"{side.name}: PCA by {side.method}, relative accuracy {side.accuracy:.1g}; {side.passes} passes over "
                f"{side.blocks} blocks, {side.read / 1e9:.3g} GB read"
            )
        return "\n".join(lines)
