"""What `auto` tried, what it left out, and what it chose, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pcarann.recipe.choice import DEFAULT, Choice
from pcarann.uncertainty.fit_report import FitReport

__all__ = ["AutoReport", "Finalist", "Trial", "failures_in"]

_LONGEST = 300  # characters of an error message that a report repeats


class Trial(NamedTuple):
    """A setting that was judged in the search."""

    name: str
    error: float
    """Mean relative L² error on the validation samples"""
    seconds: float


class Finalist(NamedTuple):
    """A setting that was fitted by the estimator to all samples but those held out."""

    name: str
    error: float
    """Mean relative L² error on the samples held out"""
    held: int
    """How many these were, over all folds"""
    seconds: float


@dataclass
class AutoReport:
    """What was tried, what it gave, and what was chosen."""

    trials: list[Trial] = field(default_factory=list)
    finalists: list[Finalist] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    """What the budget did not allow, and why"""
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Settings that raised an error, and the error"""
    choice: Choice = field(default_factory=Choice)
    error: float = math.inf
    """Error of the choice on samples held out; infinite where there was no time to judge it"""
    by_fold: list[np.ndarray[Any, Any]] = field(default_factory=list)
    """Errors of the choice on the samples held out, fold by fold, as far as it was judged"""
    held: FitReport | None = None
    """Error of the choice on all samples held out of the folds; None where it was not judged"""
    seconds: float = 0.0
    """In all, with the last fit"""

    @property
    def stopped(self) -> bool:
        """Whether the budget left something out."""
        return bool(self.left_out)

    def fall_back(self) -> None:
        """Choose the estimator as it comes, after what was chosen has failed."""
        known = [finalist.error for finalist in self.finalists if finalist.name == DEFAULT.name]
        self.choice, self.error, self.by_fold, self.held = DEFAULT, min(known, default=math.inf), [], None

    @property
    def _uncertainty(self) -> str:
        deviation = None if self.held is None else self.held.standard_error
        return "" if deviation is None or not math.isfinite(deviation) else f" ± {deviation:.2g}"

    def __str__(self) -> str:
        lines = [
            f"{len(self.trials)} settings tried in {self.seconds:.1f} s; validation error {self.error:.3g}"
            f"{self._uncertainty} with",
            *_described(self.choice),
        ]
        if any("symmetry" in finalist.name for finalist in self.finalists):
            without = "not used: it did not lower the error by more than chance"
            used = "used" if self.choice.copies is None else f"used, {self.choice.copies} elements of it"
            lines.append(f"  symmetry   {used if self.choice.symmetry else without}")
        if self.finalists:
            lines.append("Finalists, fitted to all samples but those held out:")
            lines += [f"  {f.error:.3e}  {f.seconds:6.1f} s  {f.name} ({f.held} held out)" for f in self.finalists]
        if self.trials:
            lines.append("Trials:")
            lines += [f"  {trial.error:.3e}  {trial.seconds:6.2f} s  {trial.name}" for trial in self.trials]
        if self.left_out:
            lines.append("The budget left out, and a larger one may find better:")
            lines += [f"  {name}: {why}" for name, why in self.left_out]
        if self.failed:
            lines.append("Left out because they failed:")
            lines += [f"  {name}: {why}" for name, why in self.failed]
        return "\n".join(lines)


@contextmanager
def failures_in(failed: list[tuple[str, str]], name: str) -> Iterator[None]:
    """Suppress the error of a candidate, and append its name and the error to `failed`.

    A candidate that was tried without being asked for must not end the call. MemoryError is such an error too: a
    smaller candidate may fit. Warnings that the user turned into errors pass, as does KeyboardInterrupt.
    """
    try:
        yield
    except Warning:
        raise
    except Exception as error:
        told = " ".join(str(error).split())
        failed.append((name, f"{type(error).__name__}: {told[:_LONGEST]}" if told else type(error).__name__))


def _described(chosen: Choice) -> list[str]:
    """The setting, a line for each part of it."""
    members = [] if chosen.members is None else [f"  members    {chosen.members}"]
    if chosen.plain:
        scales = "" if chosen.plain == "refined" else "scales='energy'"
        return [f"  regressor  the estimator as it comes, PCARaNN({scales})", *members]
    kernel = f"a kernel of length {chosen.length:g} medians"
    layers = f"random layers of {chosen.widths[0]} and {chosen.widths[1]} neurons"
    ridge = chosen.ridge if isinstance(chosen.ridge, str) else f"{chosen.ridge:.0e}"
    modes = "all modes" if chosen.modes is None else f"{chosen.modes} modes"
    metric = f"relevance={chosen.power:g}: weights s^({-chosen.power:g})".replace("(-", "(−")
    if chosen.steps:
        metric = f"{'weights' if chosen.diagonal else 'a metric'} learned in {chosen.steps} step(s)"
    elif not chosen.power:
        metric = "latents as they are"
    lines = [
        f"  regressor  {kernel if chosen.is_kernel else layers}, ridge {ridge}",
        *members,
        f"  inputs     {modes}, {metric}",
    ]
    if chosen.own_units:
        lines.append("  units      each input value in units of its own spread")
    if chosen.smoothing:
        lines.append(f"  smoothing  of the inputs by {chosen.smoothing:g} of their axes")
    return [*lines, f"  linear     {'with' if chosen.linear else 'without'} a linear term"]
