"""What a roll-out is worth: its error at each step, on trajectories that were held out of the fit.

It stands beside two predictions that cost nothing: persistence, the last snapshot taken for all that follow, and the
mean of the training snapshots. An error e₁ at the first step that is e_T at the last has grown by
(e_T / e₁)^(1/(T − 1)) at each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcarann.marching.judge import Judge
from pcarann.storage.typed import record

__all__ = ["RolloutReport", "Trial"]

_BAD, _NOTABLE = 0.5, 0.1  # relative errors: not to be trusted, and worth saying from which step on
_RUNAWAY = 2.0  # growth at each step that no flow of which more is to be predicted has
_APART = 2.0  # times the judged error, at which the model that was fitted again is another one

Trial = tuple[str, float]
"""What was tried, and its error over the whole window"""


@dataclass(frozen=True)
class RolloutReport:
    """What a roll-out is worth. Errors are relative, one for each step."""

    trajectories: int
    """On which it was judged; 0 where it was not"""
    reason: str = ""
    """Why it was not"""
    median: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    """90 % quantile over the trajectories"""
    persistence: tuple[float, ...] = ()
    """Median error of the last snapshot given"""
    mean_field: tuple[float, ...] = ()
    """Median error of the mean of the training snapshots"""
    tried: tuple[Trial, ...] = ()
    chosen: str = ""
    seen_error: float | None = None
    """Of the model that was fitted again to all trajectories, on the same ones, which it has then seen"""

    @classmethod
    def of(
        cls, judge: Judge, found: Any, mean_field: Any, tried: Sequence[Trial], chosen: str, seen: float | None
    ) -> RolloutReport:
        """Judge (samples, window, values) roll-outs of what was chosen."""
        errors = judge.by_step(found)
        return cls(
            len(judge.held),
            "",
            _numbers(np.median(errors, axis=0)),
            _numbers(np.quantile(errors, 0.9, axis=0, method="higher")),
            _numbers(np.median(judge.persistence(), axis=0)),
            _numbers(np.median(judge.constant(mean_field), axis=0)),
            tuple(tried),
            chosen,
            seen,
        )

    @classmethod
    def rebuilt(cls, described: Mapping[str, Any]) -> RolloutReport:
        """The report that a document describes; ValueError where it does not fit together."""
        found = record(cls, described, "its roll-out report")
        if len({len(found.median), len(found.upper), len(found.persistence), len(found.mean_field)}) > 1:
            raise ValueError("its roll-out report does not fit together")
        if found.trajectories < 0 or bool(found.trajectories) != bool(found.median):
            raise ValueError("its roll-out report does not fit together")
        return found

    @property
    def error(self) -> float:
        """Of what was chosen, over the whole window; NaN where nothing was judged"""
        return dict(self.tried).get(self.chosen, math.nan)

    @property
    def growth(self) -> float:
        """Factor by which the median error grows at each step; NaN where there is but one"""
        if len(self.median) < 2:
            return math.nan
        first, last = self.median[0], self.median[-1]
        if not (first > 0 and math.isfinite(last)):
            return math.inf if last > 0 else 1.0
        return float((last / first) ** (1 / (len(self.median) - 1)))

    @property
    def warning(self) -> str | None:
        """One sentence where the roll-out is not to be trusted over the whole window."""
        if not self.trajectories:
            return None
        last = self.median[-1]
        runaway = len(self.median) > 2 and self.growth > _RUNAWAY and last > _NOTABLE
        if last <= _BAD and math.isfinite(self.upper[-1]) and not runaway:
            if self.seen_error is None or self.seen_error <= max(_APART * self.error, _NOTABLE):
                return None
            return (
                f"The model that was fitted to all trajectories rolls out with an error of {_share(self.seen_error)} "
                f"where that without {self.trajectories} of them had {_share(self.error)}: do not trust it."
            )
        facts = [f"{_share(self.median[0])} at step 1, {_share(last)} at step {len(self.median)}"]
        if at := _from(self.median, [_NOTABLE] * len(self.median)):
            facts.append(f"above {_share(_NOTABLE)} from step {at} on")
        for name, baseline in (("persistence", self.persistence), ("the mean field", self.mean_field)):
            if at := _from(self.median, baseline):
                facts.append(f"worse than {name} from step {at} on")
        return (
            f"The roll-out is not to be trusted over the whole window: its median error on {self.trajectories} "
            f"trajectories held out is {', '.join(facts)} (see rollout_report_)."
        )

    def __str__(self) -> str:
        if not self.trajectories:
            return f"The roll-out was not judged: {self.reason}."
        head = f"Roll-out judged on {self.trajectories} trajectories held out, chosen: {self.chosen}."
        rows = [f"{'step':>6}{'median':>10}{'90 %':>10}{'persistence':>13}{'mean field':>12}"]
        columns = zip(self.median, self.upper, self.persistence, self.mean_field, strict=True)
        for t, (median, upper, persistence, mean) in enumerate(columns, 1):
            rows.append(f"{t:>6}{median:>10.3g}{upper:>10.3g}{persistence:>13.3g}{mean:>12.3g}")
        tried = "; ".join(f"{name} {error:.3g}" for name, error in self.tried)
        grown = "" if math.isnan(self.growth) else f"Each step multiplies the error by {self.growth:.3g}. "
        return "\n".join([head, *rows, f"{grown}Tried, with the error over the whole window: {tried}."])


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _share(error: float) -> str:
    """An error in percent, as one reads it.

    >>> _share(0.0416), _share(6.4), _share(2.3e8), _share(math.inf)
    ('4.2 %', '640 %', '2.3e+10 %', 'infinite')
    """
    if not math.isfinite(error):
        return "infinite"
    percent = 100 * error
    return f"{percent:.0f} %" if 10 <= percent < 1e4 else f"{percent:.2g} %"


def _from(errors: Sequence[float], limits: Sequence[float]) -> int | None:
    """The step from which errors stay above limits to the end, from 1 on; None where the last does not."""
    above = [error > limit for error, limit in zip(errors, limits, strict=True)]
    return None if not above[-1] else len(above) - above[::-1].index(False) + 1 if False in above else 1
