"""The last round: finalists fitted by the estimator itself to all samples but those held out.

The samples are cut into five folds. Every finalist is judged on the first; those that are worse than the leader by
more than chance drop out, and the others go on to the next fold, until one is left or the time is. Two models are
compared by the logarithm of the ratio of their mean errors on a fold, averaged over folds, since refined scales of some
folds may be far from those of the others. Chance is the standard error of that: over the paired differences of the
errors on single samples, or over the folds, whichever is larger.

What is still level then is decided by simplicity: the estimator as it comes, what the search found, a symmetry, in
this order; a later one is taken only where it is better by more than one standard error, since the search chose it
on some of the same samples.

Nothing is begun that would not leave time for the last fit (`pcarann.recipe.judge` foresees).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pcarann.recipe.choice import Choice
from pcarann.recipe.judge import Judge, Split
from pcarann.recipe.report import AutoReport, Finalist, failures_in

__all__ = ["Race"]

_FEWEST = 60  # samples held out before anyone drops out
_TINY = 1e-300


class Race:
    """Finalists, their errors on the folds so far, and who is still in."""

    def __init__(self, judge: Judge, folds: list[Split], report: AutoReport, tick: Callable[[str], None]):
        self.judge, self.folds, self.report, self.tick = judge, folds, report, tick
        self.errors: dict[Choice, list[np.ndarray[Any, Any]]] = {}
        self.seconds: dict[Choice, float] = {}
        self.running: list[Choice] = []

    def enter(self, choice: Choice, share: float = 1.0, *, as_is: bool = False) -> None:
        """Judge a finalist on the first fold, if that and the last fit take no more than a share of the time left.

        Unless `as_is`, it may have fewer copies and members for that. One that fails is left out.
        """
        with failures_in(self.report.failed, choice.name):
            self._enter(choice, share, as_is)

    def _enter(self, choice: Choice, share: float, as_is: bool) -> None:
        inner, held = (len(part) for part in self.folds[0])
        seconds = self.judge.foreseen(choice, inner, held)  # which may take a while itself
        reserve, left = self.last_fit(), self.judge.seconds_left
        found: Choice | None = choice
        if seconds + max(self.judge.last_fit(choice), reserve) > share * left:
            found = None if as_is else self.judge.affordable(choice, (inner, held), share * left, reserve)
            why = f"{seconds + self.judge.last_fit(choice):.0f} s foreseen, {left:.0f} s left"
            if found is not None:
                parts = [(found.copies, "copies"), (found.members, "member(s)")]
                why += "; tried with " + ", ".join(f"{count} {what}" for count, what in parts if count is not None)
            self.report.left_out.append((choice.name, why))
        if found is not None and found not in self.errors:
            self._judge_on(found, 0)
            self.running.append(found)

    def last_fit(self) -> float:
        """Seconds of the last fit, whoever wins."""
        return max(map(self.judge.last_fit, self.running), default=0.0)

    def run(self) -> Choice | None:
        """Go from fold to fold while several are level and there is time; return the winner, None if all failed."""
        for k in range(1, len(self.folds)):
            self._drop_the_worse()
            if len(self.running) < 2:
                break
            inner, held = (len(part) for part in self.folds[k])
            seconds = sum(self.judge.foreseen(choice, inner, held) for choice in self.running)
            if seconds + self.last_fit() > self.judge.seconds_left:
                self.report.left_out.append(
                    (f"folds {k + 1} to {len(self.folds)} of the finalists", "no time was left for them")
                )
                break
            self.running = [choice for choice in self.running if self._goes_on(choice, k)]
        winner = self._winner() if self.running else None
        if winner is not None:
            self._complete(winner)
        for choice, parts in self.errors.items():
            whole = np.concatenate(parts)
            told = Finalist(choice.name, float(whole.mean()), int(whole.size), self.seconds[choice])
            self.report.finalists.append(told)
            if choice == winner:
                self.report.choice, self.report.error, self.report.by_fold = choice, told.error, parts
                self.report.held = self.judge.fit_report(choice, self.folds[: len(parts)])
        return winner

    def best(self, among: Iterable[Choice]) -> Choice:
        """The one of least error on the folds that they have in common."""
        best, *others = among
        for other in others:
            if self._lead(other, best)[0] > 0.0:
                best = other
        return best

    def _complete(self, winner: Choice) -> None:
        """Judge the winner on further folds where it was judged on few samples, so that its error is known."""
        while (k := len(self.errors[winner])) < len(self.folds):
            if sum(part.size for part in self.errors[winner]) >= _FEWEST:
                return
            seconds = self.judge.foreseen(winner, *(len(part) for part in self.folds[k]))
            if seconds + self.judge.last_fit(winner) > self.judge.seconds_left or not self._goes_on(winner, k):
                return

    def _goes_on(self, choice: Choice, k: int) -> bool:
        """Whether a finalist could be fitted on a further fold."""
        with failures_in(self.report.failed, choice.name):
            self._judge_on(choice, k)
            return True
        return False

    def _judge_on(self, choice: Choice, k: int) -> None:
        self.tick(f"{choice.name}, fold {k + 1}")
        errors, seconds = self.judge.errors(choice, self.folds[k])
        self.errors.setdefault(choice, []).append(errors)
        self.seconds[choice] = self.seconds.get(choice, 0.0) + seconds

    def _lead(self, first: Choice, second: Choice) -> tuple[float, float]:
        """log of the second's error over the first's, the mean over their folds, and its standard error.

        Samples differ, and so do fits: of the two standard errors, over samples and over folds, the larger counts.
        """
        pairs = list(zip(self.errors[first], self.errors[second], strict=False))
        ratios = np.asarray([math.log((two.mean() or _TINY) / (one.mean() or _TINY)) for one, two in pairs])
        apart = np.concatenate([(two - one) / (max(one.mean(), two.mean()) or 1.0) for one, two in pairs])
        return float(ratios.mean()), max(_standard_error(apart), _standard_error(ratios))

    def _drop_the_worse(self) -> None:
        """Take out who is behind the leader by more than twice the standard error."""
        leader = self.best(self.running)
        if sum(part.size for part in self.errors[leader]) < _FEWEST:
            return
        leads = {choice: self._lead(leader, choice) for choice in self.running}
        self.running = [choice for choice, (lead, chance) in leads.items() if choice == leader or lead <= 2 * chance]

    def _winner(self) -> Choice:
        # The plain ones, those of the search, and those with a symmetry, as far as there are any.
        rank = {choice: 2 if choice.symmetry else 0 if choice.plain else 1 for choice in self.running}
        tiers = [[choice for choice in self.running if rank[choice] == tier] for tier in range(3)]
        winner, *others = (self.best(tier) for tier in tiers if tier)
        for other in others:
            lead, chance = self._lead(other, winner)
            if lead > chance:
                winner = other
        return winner


def _standard_error(values: np.ndarray[Any, Any]) -> float:
    """Of the mean; 0 for one value alone."""
    return float(values.std()) / math.sqrt(max(1, values.size - 1))
