"""The last round: finalists fitted by the estimator itself to all samples but those held out.

The samples are cut into five folds. Every finalist is judged on the first; those that are worse than the leader by
more than chance drop out, and the others go on to the next fold, until one is left or the time is. Two models are
compared by the logarithm of the ratio of their mean errors on a fold, averaged over folds, since refined scales of some
folds may be far from those of the others. Chance is the standard error of that: over the paired differences of the
errors on single samples, or over the folds, whichever is larger.

What is still level then is decided by simplicity: the estimator as it comes, what the search found, a symmetry, in
this order; a later one is taken only where it is better by more than one standard error, since the search chose it
on some of the same samples.

Nothing is begun that would not leave time for the last fit (`pcarann.costs` foresees).
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pcarann.arrays import Array, place_of, to_host
from pcarann.choice import Choice, chosen_parameters
from pcarann.costs import Size, Timing
from pcarann.random import permutation
from pcarann.report import AutoReport, Finalist
from pcarann.symmetry import Symmetry

__all__ = ["Judge", "Race", "Rows", "cut"]

Rows = tuple[list[int], list[int]]
"""Samples fitted, and samples held out"""
FOLDS = 5
_STREAM = (-6,)
_MOST_HELD = 1000  # samples in a fold, beyond which chance is no matter
_FEWEST = 60  # samples held out before anyone drops out
_TINY = 1e-300
_FIRST_PROBE = 100  # rows
_CLEARLY = 0.1  # of the time left, below which no better estimate is needed
_LONGEST_PROBE = 0.05  # of the time left
_MEMBERS = (10, 5, 2, 1)  # where the estimator's own number takes too long
_FEWEST_COPIES = 4


def cut(samples: int, seed: int, most: int | None = None) -> list[Rows]:
    """Five folds of so many samples, or of `most` of them, in a random order."""
    order = permutation(samples, seed=seed, stream=_STREAM)[:most]
    folds = []
    for k in range(FOLDS):
        held = order[k::FOLDS][:_MOST_HELD]
        out = set(held)
        folds.append(([i for i in order if i not in out], held))
    return folds


class Judge:
    """Fits the estimator to some samples, tells its errors on others, and keeps the time."""

    def __init__(
        self,
        estimator: Callable[..., Any],
        pair: tuple[Array, Array],
        grids: tuple[tuple[int, ...], tuple[int, ...]],
        *,
        symmetry: Symmetry | None = None,
        fixed: dict[str, Any] | None = None,
        budget: float = math.inf,
    ):
        self.estimator, self.pair, self.grids, self.fixed = estimator, pair, grids, fixed or {}
        self.symmetry = symmetry
        order = symmetry.bind(*grids).order if symmetry is not None else 1
        self.copies = min(order, (symmetry and symmetry.n_fit) or order)
        self.members = int(estimator().n_members)
        self.budget, self.begun = budget, time.perf_counter()
        self.timings: dict[Choice, Timing] = {}
        self._known: dict[tuple[Choice, int, int], tuple[np.ndarray[Any, Any], float]] = {}

    @property
    def left(self) -> float:
        """Seconds of the budget."""
        return self.begun + self.budget - time.perf_counter()

    @property
    def samples(self) -> int:
        """All of them."""
        return int(self.pair[0].shape[0])

    def errors(self, choice: Choice, rows: Rows) -> tuple[np.ndarray[Any, Any], float]:
        """Relative L² errors on the samples held out, and the seconds that took; known ones are not found again."""
        key = (choice, len(rows[0]), rows[1][0])
        if key not in self._known:
            begun = time.perf_counter()
            errors = self._fit(choice, *rows)
            self._known[key] = errors, time.perf_counter() - begun
        return self._known[key]

    def foreseen(self, choice: Choice, rows: int, held: int = 0) -> float:
        """Seconds of a fit to so many rows and the prediction of those held out."""
        if _kind(choice) not in self.timings:
            self._probe(choice, rows)
        return self.timings[_kind(choice)].at(self._size(choice, rows, held))

    def last(self, choice: Choice) -> float:
        """Seconds of the fit to all samples."""
        return self.foreseen(choice, self.samples)

    def affordable(self, choice: Choice, rows: Rows, seconds: float) -> Choice | None:
        """The choice, or the same with fewer copies and members, that is judged and fitted in these seconds.

        A kernel gains little from more members, random layers as much as from more copies.
        """
        weight = 0.25 if choice.is_kernel else 1.0
        members = [self.members, *(k for k in _MEMBERS if k < self.members)]
        copies = [self.copies >> k for k in range(12) if self.copies >> k >= min(self.copies, _FEWEST_COPIES)]
        options = [(g, k) for g in (copies if choice.symmetry else [1]) for k in members]
        for g, k in sorted(options, key=lambda option: -option[0] * option[1] ** weight):
            found = self._with(choice, g, k)
            if self.foreseen(found, len(rows[0]), len(rows[1])) + self.last(found) <= seconds:
                return found
        return None

    def _with(self, choice: Choice, copies: int, members: int) -> Choice:
        """The choice with so many copies and members; None where these are all."""
        used = copies if choice.symmetry and copies < self.copies else None
        return replace(choice, copies=used, members=members if members < self.members else None)

    def cheapest(self, choice: Choice) -> Choice:
        """The choice with as many members as can be fitted to all samples in the time left, one at least."""
        options = [replace(choice, members=members) for members in (None, *(k for k in _MEMBERS if k < self.members))]
        return next((option for option in options if self.last(option) <= self.left), options[-1])

    def parameters(self, choice: Choice, rows: Sequence[int] | None = None) -> dict[str, Any]:
        """What a choice means for the samples, or for some of them."""
        inputs, outputs = self.pair if rows is None else self._taken(rows)
        return chosen_parameters(choice, inputs, outputs, self.grids[0], self.symmetry) | self.fixed

    def _probe(self, choice: Choice, rows: int) -> None:
        """Time fits with two members to more and more rows, then copies, until the estimate is good enough."""
        inner, held = cut(self.samples, 0)[0]
        wanted = self._size(choice, rows, len(held))
        for count, copies in _rungs(min(rows, len(inner)), wanted.copies):
            few = replace(choice, members=min(2, self.members), copies=copies if choice.symmetry else None)
            known = self.timings.get(_kind(choice))
            if known and known.at(self._size(few, count, _FIRST_PROBE)) > _LONGEST_PROBE * self.left:
                return
            self._fit(few, inner[:count], held[:_FIRST_PROBE])
            if self.timings[_kind(choice)].at(wanted) < _CLEARLY * self.left:
                return

    def _fit(self, choice: Choice, inner: Sequence[int], held: Sequence[int]) -> np.ndarray[Any, Any]:
        laps = [time.perf_counter()]
        model = self.estimator(**self.parameters(choice, inner))
        laps.append(time.perf_counter())
        (a, u), (a_held, u_held) = self._taken(inner), self._taken(held)
        xp, (grid, output_grid) = place_of(a).xp, self.grids
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="n_components=.* was asked for|.* inputs lie more than")
            model.fit(xp.reshape(a, (-1, *grid)), xp.reshape(u, (-1, *output_grid)))
            laps.append(time.perf_counter())
            found = xp.reshape(model.predict(xp.reshape(a_held, (-1, *grid))), u_held.shape)
        laps.append(time.perf_counter())
        self._note(choice, self._size(choice, len(inner), len(held)), laps, model.fit_seconds_)
        sizes = xp.linalg.vector_norm(u_held, axis=1)
        missed = xp.linalg.vector_norm(found - u_held, axis=1)
        return np.asarray(to_host(missed / xp.where(sizes > 0, sizes, xp.ones_like(sizes))))

    def _note(self, choice: Choice, size: Size, laps: list[float], stages: dict[str, float]) -> None:
        pca = stages["inputs_pca"] + stages["outputs_pca"]
        rest = max(0.0, laps[2] - laps[1] - pca - stages["members"])
        seconds = {"choice": laps[1] - laps[0], "pca": pca, "members": stages["members"], "rest": rest}
        timing = Timing(choice, size, seconds | {"prediction": laps[3] - laps[2]})
        before = self.timings.get(_kind(choice))
        # What is slower at the same size was held up by something else.
        if before is None or size != before.size or timing.total < before.total:
            self.timings[_kind(choice)] = timing

    def _size(self, choice: Choice, rows: int, held: int) -> Size:
        copies = (choice.copies or self.copies) if choice.symmetry else 1
        values = (int(self.pair[0].shape[1]), int(self.pair[1].shape[1]))
        return Size(rows, held, choice.members or self.members, copies, values)

    def _taken(self, rows: Sequence[int]) -> tuple[Array, Array]:
        place = place_of(self.pair[0])
        index = place.xp.asarray(sorted(rows), device=place.device)
        return place.xp.take(self.pair[0], index, axis=0), place.xp.take(self.pair[1], index, axis=0)


class Race:
    """Finalists, their errors on the folds so far, and who is still in."""

    def __init__(self, judge: Judge, folds: list[Rows], report: AutoReport, tick: Callable[[str], None]):
        self.judge, self.folds, self.report, self.tick = judge, folds, report, tick
        self.errors: dict[Choice, list[np.ndarray[Any, Any]]] = {}
        self.seconds: dict[Choice, float] = {}
        self.running: list[Choice] = []

    def enter(self, choice: Choice, share: float = 1.0) -> bool:
        """Judge a finalist on the first fold, if that and its last fit take no more than a share of the time left."""
        found = self.judge.affordable(choice, self.folds[0], share * self.judge.left)
        if found != choice:
            self._say(choice, found)
        if found is None or found in self.errors:
            return False
        self._go(found, 0)
        self.running.append(found)
        return True

    def enter_as_is(self, choice: Choice, share: float) -> None:
        """The same without fewer copies or members, and without a word where it takes too long."""
        inner, held = (len(part) for part in self.folds[0])
        if self.judge.foreseen(choice, inner, held) + self.judge.last(choice) <= share * self.judge.left:
            self._go(choice, 0)
            self.running.append(choice)

    def run(self) -> Choice:
        """Go from fold to fold while several are level and there is time; return the winner."""
        for k in range(1, FOLDS):
            self._drop()
            if len(self.running) < 2:
                break
            reserve = max(self.judge.last(choice) for choice in self.running)
            inner, held = (len(part) for part in self.folds[k])
            if sum(self.judge.foreseen(c, inner, held) for c in self.running) + reserve > self.judge.left:
                self.report.left_out.append((f"folds {k + 1} to {FOLDS} of the finalists", "no time was left for them"))
                break
            for choice in self.running:
                self._go(choice, k)
        winner = self._winner()
        self._tell(winner)
        return winner

    def best(self, among: Iterable[Choice]) -> Choice:
        """The one of least error on the folds that they have in common."""
        best, *others = among
        for other in others:
            if self._lead(other, best)[0] > 0.0:
                best = other
        return best

    def _go(self, choice: Choice, k: int) -> None:
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

    def _drop(self) -> None:
        """Take out who is behind the leader by more than twice the standard error."""
        leader = self.best(self.running)
        if sum(part.size for part in self.errors[leader]) < _FEWEST:
            return
        leads = {choice: self._lead(leader, choice) for choice in self.running}
        self.running = [choice for choice, (lead, chance) in leads.items() if choice == leader or lead <= 2 * chance]

    def _winner(self) -> Choice:
        winner, *others = (self.best(tier) for tier in _tiers(self.running))
        for other in others:
            lead, chance = self._lead(other, winner)
            if lead > chance:
                winner = other
        return winner

    def _say(self, choice: Choice, found: Choice | None) -> None:
        inner, held = (len(part) for part in self.folds[0])
        wanted = self.judge.foreseen(choice, inner, held) + self.judge.last(choice)
        why = f"{wanted:.0f} s foreseen, {self.judge.left:.0f} s left"
        instead = [] if found is None else [f"{found.copies} copies"] * (found.copies is not None)
        if found is not None and found.members is not None:
            instead.append(f"{found.members} member(s)")
        self.report.left_out.append((choice.name, f"{why}; tried with {', '.join(instead)}" if instead else why))

    def _tell(self, winner: Choice) -> None:
        for choice, parts in self.errors.items():
            whole = np.concatenate(parts)
            told = Finalist(choice.name, float(whole.mean()), int(whole.size), self.seconds[choice])
            self.report.finalists.append(told)
            if choice == winner:
                self.report.choice, self.report.error = choice, told.error


def _standard_error(values: np.ndarray[Any, Any]) -> float:
    """Of the mean; 0 for one value alone."""
    return float(values.std()) / math.sqrt(max(1, values.size - 1))


def _kind(choice: Choice) -> Choice:
    """Choices of the same cost at the same size."""
    ridge = choice.ridge if isinstance(choice.ridge, str) else Choice.ridge
    return replace(choice.setting, ridge=ridge, copies=None, members=None)


def _rungs(rows: int, copies: int) -> list[tuple[int, int]]:
    """Rows and copies of probes, twice as many each time; the first one twice, since it starts things up."""
    counts = [*(count for count in (_FIRST_PROBE << k for k in range(20)) if count < rows), rows]
    few = [(count, min(2, copies)) for count in (counts[0], *counts)]
    return [*few, *((rows, g) for g in (4, 8, 16, 32, 64) if g < copies)]


def _tiers(choices: list[Choice]) -> list[list[Choice]]:
    """The plain ones, those of the search, and those with a symmetry, as far as there are any."""
    rank = [2 if choice.symmetry else 0 if choice.plain else 1 for choice in choices]
    tiers = [[choice for choice, at in zip(choices, rank, strict=True) if at == tier] for tier in range(3)]
    return [tier for tier in tiers if tier]
