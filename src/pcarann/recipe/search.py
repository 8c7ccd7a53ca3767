"""The recipe: choose among the options of the estimator by validation, within a time budget.

    data ──▶ folds ──▶ the estimator as it comes ──▶ unit, modes, power, metric, linear term (kernel ridge on the
             latents tells them apart in milliseconds) ──▶ random layers ──▶ finalists at full size, with a symmetry
             if one is offered ──▶ one fit to all samples

A setting is judged by the mean relative L² error on samples that its PCAs and coefficients never saw. Settings are
tried one at a time around the best so far, and a change is kept where it lowers that error by more than chance would
(`pcarann.recipe.trials` judges, `pcarann.recipe.choice` says what a setting means). The best kernel, the best random
layers and the estimator as it comes then meet at full size (`pcarann.recipe.finals`).
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from pcarann.backend.arrays import Array, place_of, taken
from pcarann.backend.concurrency import single_threaded
from pcarann.backend.random import uniform
from pcarann.fitting import checked_pairs
from pcarann.latent.repeats import groups_of
from pcarann.latent.smoothing import Smoothing
from pcarann.recipe.choice import DEFAULT, ENERGY, Choice
from pcarann.recipe.finals import Race
from pcarann.recipe.judge import Judge, Split, split_into_folds
from pcarann.recipe.report import AutoReport, Trial, failures_in
from pcarann.recipe.trials import SEARCHED_LENGTHS, Fold, KernelTrial, random_trial
from pcarann.symmetry.generators import Symmetry
from pcarann.uncertainty.fit_report import FitReport
from pcarann.validation import check_number, warn_user

__all__ = ["FEWEST_TO_CHOOSE", "AutoReport", "Search", "choose", "fitted_or_plain", "searched"]

FEWEST_TO_CHOOSE = 10
"""Samples"""

_POWERS = (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0)
_MODES = (4, 8, 16, 32, 64, 128)
_MOST_SAMPLES = 1000  # samples at most in the search; the fit takes all
_LEAST_GAIN = 0.01  # of the error, below which a change is chance
_SMOOTHINGS = (0.01, 0.03, 0.07, 0.15)
_FEWEST_POINTS = 16  # of an axis that may be smoothed
_HOPELESS = 1.4  # times the best error, beyond which no other length is tried
_WIDEST_TABLE = 256  # values of an input at most for which each may be given its own unit
_OFFSETS = ((0.0, 0.0), (1.0, 0.0), (-1.0, 0.0), (-2.0, 0.0), (-1.0, 1.0), (-1.0, -1.5))
_SEARCH_SHARE = 0.4  # of the time left after the last fit
_LEAST_SEARCH_SHARE = 0.15  # of the budget, where it is there
_FAR_BETTER = 0.5  # of the error of the estimator as it comes
_PROBE_SIZE = 200  # size of the matrix whose eigenvalues are timed before the first trial
_LENGTHS_TRIED = 6  # lengths at which a trial needs them, about


def searched(
    estimator: Callable[..., Any],
    X: Any,
    y: Any,
    *,
    budget: float,
    symmetry: Symmetry | None,
    fixed: dict[str, Any],
    tick: Callable[[str], None],
    smooth: bool = True,
) -> tuple[Any, AutoReport]:
    """Choose for inputs X and outputs y as a user hands them in; return the estimator, to be fitted, and the report.

    `smooth` says whether the inputs are fields, which may be smoothed.
    """
    check_number(budget, "budget", above=0.0)
    inputs, outputs, grids, units = checked_pairs(X, y, fixed["device"], least=FEWEST_TO_CHOOSE)
    chosen = choose(
        estimator,
        (inputs, outputs),
        grids,
        fixed=fixed,
        budget=budget,
        symmetry=symmetry,
        tick=tick,
        smooth=smooth,
    )
    model = estimator(**chosen[0])
    if isinstance(model.scales, tuple):
        model.scales = (model.scales[0] / units.inputs, model.scales[1])
    return model, chosen[1]


def choose(
    estimator: Callable[..., Any],
    pair: tuple[Array, Array],
    grids: tuple[tuple[int, ...], tuple[int, ...]],
    *,
    fixed: dict[str, Any],
    budget: float,
    symmetry: Symmetry | None,
    tick: Callable[[str], None],
    smooth: bool = True,
) -> tuple[dict[str, Any], AutoReport]:
    """Choose for (samples, values) inputs and outputs on these grids; return parameters to be fitted, and the report.

    `fixed` holds parameters that are no choice, `random_state` among them.
    """
    judge = Judge(estimator, pair, grids, symmetry=symmetry, fixed=fixed, budget=budget)
    report, seed = AutoReport(), fixed["random_state"]
    race = Race(judge, split_into_folds(judge.groups, seed), report, tick)
    for plain in (ENERGY, DEFAULT):
        race.enter(plain, share=0.6)
    if not race.running and not report.failed:
        report.choice = judge.in_time(ENERGY)
        report.left_out.append(("the search", f"a fit of {report.choice.name} is all that the budget allows"))
    else:
        searched = _search_folds(judge.groups, seed)
        _try_defaults(judge, race, searched)
        spare = judge.seconds_left - race.last_fit()
        seconds = max(_SEARCH_SHARE * spare, min(_LEAST_SEARCH_SHARE * budget, spare))
        search = Search(*pair, grids[0], seed=seed, budget=seconds, tick=tick, report=report)
        search.smooth = smooth
        found = search.run()
        for choice in found:
            race.enter(choice, share=0.75 if symmetry is None else 0.5)
        if symmetry is not None:
            _offer_symmetry(race)
        if race.run() is None:
            report.fall_back()
        _take_unjudged(judge, race, found)
        wanted = report.choice
        with failures_in(report.failed, wanted.name):
            report.choice = judge.in_time(wanted)
        if report.choice != wanted:  # the last fit turned out to take longer than was foreseen
            late = f"a fit of {judge.last_fit(wanted):.0f} s with {judge.seconds_left:.0f} s left"
            report.left_out.append((f"the other members of {report.choice.name}", late))
    parameters: dict[str, Any] = {}
    with failures_in(report.failed, report.choice.name):
        parameters = judge.parameters(report.choice)
    if not parameters:
        report.fall_back()
        parameters = judge.parameters(DEFAULT)
    report.seconds = judge.budget - judge.seconds_left
    return parameters, report


def fitted_or_plain(model: Any, plain: Any, X: Any, y: Any, report: AutoReport) -> Any:
    """Fit the model that was chosen; where that fails the plain one, whose error is raised."""
    with failures_in(report.failed, report.choice.name):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="n_components=.* is more than there are")
            if report.held is not None:
                warnings.filterwarnings("ignore", message="relative error .* better than the mean field")
            model.fit(X, y)
        return _reported(model, report.held)
    report.fall_back()
    return plain.fit(X, y)


def _reported(model: Any, held: FitReport | None) -> Any:
    """The model with the error of the folds as its fit report: its options were chosen, and its metric learned, on all.

    In a fold the metric was learned without the samples held out.
    """
    own = model.fitted_.report
    if held is None:
        return model
    if own is not None:
        held = replace(held, solver=own.solver, rank=own.rank, ridge=own.ridge, parts=own.parts)
    model.fitted_ = replace(model.fitted_, report=held)
    if warning := held.warning:
        warn_user(warning)
    return model


def _take_unjudged(judge: Judge, race: Race, found: list[Choice]) -> None:
    """Take what the search found where there was no time to judge it again, and in the trials it was far better."""
    report = race.report
    tried = {trial.name: trial.error for trial in report.trials}
    plain = min((tried[c.name] for c in race.errors if c.plain and c.name in tried), default=math.inf)
    judged = {replace(choice, copies=None, members=None) for choice in race.errors}
    for choice in sorted(found, key=lambda choice: tried.get(choice.name, math.inf)):
        far_better = tried.get(choice.name, math.inf) < _FAR_BETTER * plain < math.inf
        if report.choice.plain and far_better and choice not in judged:
            with failures_in(report.failed, choice.name):
                fits = judge.in_time(choice)
                if judge.last_fit(fits) <= judge.seconds_left:
                    report.choice, report.error, report.by_fold, report.held = fits, tried[choice.name], [], None
                    late = "no time was left; the trials decided"
                    report.left_out.append((f"a second judgement of {choice.name}", late))
                    return


def _search_folds(groups: Sequence[int], seed: int) -> list[Split]:
    """The folds of the search: fewer of them where there are more samples, and no more than some samples."""
    few = min(len(groups), _MOST_SAMPLES)
    return split_into_folds(groups, seed, _MOST_SAMPLES)[: 1 if few > 450 else 2 if few > 200 else 4]


def _try_defaults(judge: Judge, race: Race, searched: list[Split]) -> None:
    """Judge the plain finalists where the settings of the search are judged."""
    for plain in race.running:
        needed = sum(judge.foreseen(plain, len(inner), len(held)) for inner, held in searched[1:])
        if needed > _SEARCH_SHARE * (judge.seconds_left - race.last_fit()):
            race.report.left_out.append((f"{plain.name} among the trials", f"{needed:.0f} s foreseen"))
            continue
        parts = []
        with failures_in(race.report.failed, f"{plain.name} among the trials"):
            parts = [judge.errors(plain, rows) for rows in searched]
        if not parts:
            continue
        errors, seconds = zip(*parts, strict=True)
        mean = sum(float(part.mean()) for part in errors) / len(errors)
        race.report.trials.append(Trial(plain.name, mean, sum(seconds)))


def _offer_symmetry(race: Race) -> None:
    """Enter the best of each kind beside the symmetry, the leader first, and the best of these with another ridge."""
    of_kind: dict[tuple[bool, bool], list[Choice]] = {}
    for choice in race.running:
        of_kind.setdefault((choice.plain != "", choice.is_kernel), []).append(choice)
    left = [race.best(choices) for choices in of_kind.values()]
    while left:
        left.remove(first := race.best(left))
        race.enter(replace(first.with_symmetry(), members=None), share=0.5)
    entered = [choice for choice in race.running if choice.symmetry]
    if entered and not (best := race.best(entered)).plain:
        race.enter(replace(best, ridge="gcv"), share=0.5, as_is=True)


class Search:
    """The best setting so far of (samples, values) inputs, on this grid, and outputs; and the ways to better it."""

    def __init__(
        self,
        inputs: Array,
        outputs: Array,
        grid: tuple[int, ...],
        *,
        seed: int,
        budget: float,
        tick: Callable[[str], None],
        report: AutoReport,
    ):
        self.begun, self.budget = time.perf_counter(), budget
        self.seed, self.tick, self.report, self.grid = seed, tick, report, grid
        rows = _search_folds(groups_of(inputs, outputs), seed)
        searched = [*rows[0][0], *rows[0][1]]
        at = {row: i for i, row in enumerate(searched)}
        self.rows = [([at[i] for i in inner], [at[i] for i in held]) for inner, held in rows]
        self.inputs, self.outputs = (taken(part, searched) for part in (inputs, outputs))
        self.best, self.error = Choice(), math.inf
        self.kept: dict[str, tuple[float, Choice]] = {}
        """The best with each regressor"""
        self.skipped, self.smooth = 0, True
        self._tried: set[Choice] = set()
        self._slowest = 0.0
        self._folds: dict[tuple[bool, float], list[Fold]] = {}

    def run(self) -> list[Choice]:
        """Return the best setting with a kernel and the best with random layers, the better one first."""
        with single_threaded(place_of(self.inputs)), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="n_components=.* is more than there are")
            self.try_out(Choice())
            if self.inputs.shape[1] <= _WIDEST_TABLE:
                self.try_out(replace(self.best, own_units=True))
            _improve_power(self)
            _improve_smoothing(self)
            _improve_modes(self)
            _improve_metric(self)
            self.try_out(replace(self.best, linear=True))
            _try_random(self)
        if self.skipped:
            over = f"its {max(self.budget, 0.0):.1f} s were over"
            self.report.left_out.append((f"{self.skipped} settings of the search", over))
        return [choice for _, choice in sorted(self.kept.values(), key=lambda kept: kept[0])]

    def try_out(self, choice: Choice) -> bool:
        """Judge a setting at the best of its lengths and ridges; keep it if it is better by more than chance."""
        if choice.setting in self._tried:
            return False
        self._tried.add(choice.setting)
        if not self._has_time():
            self.skipped += 1
            return False
        self.tick(choice.name)
        with failures_in(self.report.failed, choice.name):
            return self._tried_out(choice)
        return False

    def _tried_out(self, choice: Choice) -> bool:
        begun = time.perf_counter()
        tuned, error = self._tuned(choice) if choice.is_kernel else random_trial(self.folds(choice), choice, self.seed)
        seconds = time.perf_counter() - begun
        self._slowest = max(self._slowest, seconds)
        self.report.trials.append(Trial(choice.name, error, seconds))
        better = error < (1 - _LEAST_GAIN) * self.error
        if better:
            self.best, self.error = tuned, error
        if error < (1 - _LEAST_GAIN) * self.kept.get(choice.regressor, (math.inf, choice))[0]:
            self.kept[choice.regressor] = error, tuned
        return better

    def _has_time(self) -> bool:
        """Whether a trial as slow as the slowest so far would end in time."""
        if not self._slowest and math.isfinite(self.budget):
            # Before the first trial: what eigenvalues take, foreseen from those of a small matrix.
            place, size = place_of(self.inputs), len(self.rows[0][0])
            few = min(size, _PROBE_SIZE)
            matrix = uniform((few, few), seed=0, stream=(0,), place=place)
            begun = time.perf_counter()
            place.xp.linalg.eigh(matrix + matrix.T)
            place.wait()
            once = (time.perf_counter() - begun) * (size / few) ** 3
            self._slowest = len(self.rows) * _LENGTHS_TRIED * once
        return time.perf_counter() - self.begun + self._slowest <= self.budget

    def folds(self, choice: Choice) -> list[Fold]:
        """Cut the samples into folds and encode them, once for each unit and smoothing."""
        key = (choice.own_units, choice.smoothing)
        if key not in self._folds:
            inputs = Smoothing.of(self.inputs, self.grid, choice.smoothing)(self.inputs, self.grid)
            self._folds[key] = [Fold.of(inputs, self.outputs, *rows, choice.own_units) for rows in self.rows]
        return self._folds[key]

    def _tuned(self, choice: Choice) -> tuple[Choice, float]:
        """Walk along the lengths from the one at hand while the error falls."""
        trial = KernelTrial(self.folds(choice), choice)
        judged = cache(lambda index: trial.error(SEARCHED_LENGTHS[index]))
        at = min(range(len(SEARCHED_LENGTHS)), key=lambda i: abs(math.log(SEARCHED_LENGTHS[i] / choice.length)))
        while judged(at)[0] < _HOPELESS * self.error:
            near = [i for i in (at - 1, at, at + 1) if 0 <= i < len(SEARCHED_LENGTHS)]
            following = min(near, key=lambda i: judged(i)[0])
            if following == at:
                break
            at = following
        error, ridge = judged(at)
        return replace(choice, length=SEARCHED_LENGTHS[at], ridge=ridge), error


def _improve_power(state: Search) -> None:
    """Move along the powers from the one at hand, in the direction that helps."""
    for step in (-1, 1):
        at = _POWERS.index(state.best.power) + step
        while 0 <= at < len(_POWERS) and state.try_out(replace(state.best, power=_POWERS[at])):
            at += step


def _improve_smoothing(state: Search) -> None:
    """Try to smooth fields: at the power at hand, and since smoothing flattens, at powers nearer to whitening."""
    if not state.smooth or max(state.grid) < _FEWEST_POINTS or state.best.own_units:
        return
    before = state.best
    for width in _SMOOTHINGS:
        for power in (before.power, 0.0):
            state.try_out(replace(before, smoothing=width, power=power))
    if state.best.smoothing:
        _improve_power(state)


def _improve_modes(state: Search) -> None:
    """Try fewer input modes, each number with the power at hand and with one towards whitening."""
    if not state.kept:
        return
    available = int(state.folds(state.best)[0].x.shape[1])
    before = state.best
    for modes in (modes for modes in reversed(_MODES) if modes < available):
        for power in (before.power, min(before.power + 0.5, _POWERS[-1])):
            state.try_out(replace(before, modes=modes, power=power))


def _improve_metric(state: Search) -> None:
    """Learn the metric, all of it or one weight a latent, for as long as it helps."""
    for diagonal in (False, True):
        start = replace(state.best, steps=0, diagonal=diagonal)
        for steps in (1, 2, 3):
            at = (state.best.length, float(state.best.ridge))
            if not state.try_out(replace(start, steps=steps, learned_at=at, length=at[0])):
                break


def _try_random(state: Search) -> None:
    """Try random layers in the metric that was found, at a few scales."""
    half = min(1500, max(200, len(state.rows[0][0])))
    best = state.best
    errors: list[float] = []
    for offsets in _OFFSETS:
        before = len(state.report.trials)
        state.try_out(replace(best, regressor="random", widths=(half, half), offsets=offsets))
        errors += [trial.error for trial in state.report.trials[before:]]
        if len(errors) > 1 and min(errors[-2:]) > _HOPELESS * state.error:
            break
