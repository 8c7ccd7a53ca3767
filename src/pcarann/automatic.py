"""`auto`: all options chosen by validation, among latent models and stages that see space, within a budget.

    samples ──▶ a fold held out ──▶ a first look at stages: hopeless? how slow?
                                ──▶ stages at full size ──▶ the latent search ──▶ better stages ──▶ one fit to all

Both sides are judged on the same samples held out: the first fold of the latent search, whose finalists are fitted to
all others, as the stages are. Before anything is begun its seconds are foreseen (`pcarann.recipe.stages`), and time is
kept for the last fit, whoever wins.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, taken
from pcarann.backend.progress import progress
from pcarann.fitting import checked_pairs
from pcarann.operator import PCARaNN
from pcarann.options import Grid
from pcarann.recipe.choice import KEPT_ENERGY
from pcarann.recipe.judge import split_into_folds
from pcarann.recipe.report import AutoReport, Trial
from pcarann.recipe.search import FEWEST_TO_CHOOSE, searched
from pcarann.recipe.stages import Stages, StagesJudge, relative_errors
from pcarann.recipe.verdict import AutoVerdict
from pcarann.spatial.channels import Channels
from pcarann.spatial.layout import Layout
from pcarann.staged import Staged
from pcarann.symmetry.generators import Symmetry
from pcarann.validation import check_number, check_seed

__all__ = ["auto"]

_MOST_HELD = 200  # samples on which both sides are judged
_FIRST, _LOOKED_AT = 8, (64, 32, 16)  # samples of the first fit, which is timed, and of the first look
_LOOK_SHARE = 0.1  # of the budget
_SETTLING = 3.0  # times the seconds of a small fit with known channels that one takes which has to find them
_HOPELESS = 5.0  # times the error of a kernel on the latents, for the same few samples
_JUDGED_SHARE, _LAST_SHARE = 0.35, 0.3  # of the time left, for stages at full size and for their last fit
_FAR = 3.0  # times the error of the latent model: stages that no symmetry and no further features will save
_GAIN = 0.98  # of the error, for which dearer stages are taken
_RICHER: dict[str, Any] = {"n_stages": 10, "n_features": 200}
_MOST_COPIES = 16
_MOST_MEMBERS = 4
_CAREFUL = 0.8  # of the time left, that the last fit may be foreseen to take


def auto(
    X: Array,
    y: Array,
    *,
    budget: float = 60.0,
    symmetry: Symmetry | None = None,
    random_state: Any = 0,
    device: str | None = None,
    verbose: bool = False,
) -> PCARaNN | Staged:
    """Choose a surrogate and all its options by validation, within about `budget` seconds in all, and fit it.

    Latent models are searched (`PCARaNN.auto`), and stages that see space (`Staged`) are tried where inputs and outputs
    share axes; whichever has the lower error on samples held out comes back. `auto_report_` says what was tried on both
    sides, and why the winner won: print it. A `symmetry` that is offered is used only where it lowers the error.
    """
    check_number(budget, "budget", above=0.0)
    begun = time.perf_counter()
    with progress(verbose) as tick:
        contest = _Contest(
            X, y, end=begun + budget, budget=budget, symmetry=symmetry,
            fixed={"random_state": check_seed(random_state), "device": device}, tick=lambda name: tick(name, 0, None),
        )  # fmt: skip
        model = contest.run()
    model.verbose = verbose
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="n_components=.* was asked for")
        model.fit(X, y)
    model.verbose = False
    verdict = contest.verdict
    if isinstance(model, Staged):
        verdict.chosen = str(model.stages_)
    verdict.seconds = time.perf_counter() - begun
    model.auto_report_ = verdict
    return model


class _Contest:
    """Both sides, and the time that is left for them."""

    def __init__(
        self,
        X: Array,
        y: Array,
        *,
        end: float,
        budget: float,
        symmetry: Symmetry | None,
        fixed: dict[str, Any],
        tick: Callable[[str], None],
    ):
        self.fields, self.end, self.symmetry, self.fixed, self.tick = (X, y), end, symmetry, fixed, tick
        inputs, outputs, self.grids, _ = checked_pairs(X, y, fixed["device"], least=FEWEST_TO_CHOOSE)
        self.samples = int(inputs.shape[0])
        self.folds = split_into_folds(self.samples, fixed["random_state"])
        self.judge = StagesJudge(Staged, (inputs, outputs), self.grids, symmetry=symmetry, fixed=fixed)
        self.verdict = AutoVerdict(AutoReport(), budget=budget)
        self.symmetric = False
        """Whether stages without copies respect the symmetry that is offered"""
        self.quick = math.inf
        """Error of a kernel on the latents of few samples"""

    @property
    def left(self) -> float:
        """Seconds"""
        return self.end - time.perf_counter()

    def run(self) -> PCARaNN | Staged:
        """The winner, to be fitted to all samples."""
        stages = self._stages()
        reserve = 0.0 if stages is None else self._last(stages[0])
        self.tick("latent models")
        latent: PCARaNN
        latent, report = searched(
            PCARaNN, *self.fields, budget=max(self.left - reserve, 1e-3), symmetry=self.symmetry, fixed=self.fixed,
            tick=self.tick,
        )  # fmt: skip
        self.verdict.latent = report
        if stages is None:
            self.verdict.error, self.verdict.reason = report.error, "no stages were judged"
            return latent
        rival = float(report.by_fold[0][self._positions(0)].mean()) if report.by_fold else report.error
        if stages[1].mean() < _FAR * rival:
            stages = self._bettered(*stages, latent, rival)
        return self._decided(*stages, latent, rival)

    def _stages(self) -> tuple[Stages, np.ndarray[Any, Any]] | None:
        """Stages at full size, what they see settled, and their errors; None where they are not worth it."""
        try:
            axes = len(Layout.of(*self.grids).space)
        except ValueError as nothing_shared:
            self.verdict.left_out.append(("all", str(nothing_shared)))
            return None
        if (why := self._looked(axes)) is not None:
            self.verdict.left_out.append(("all further ones", why))
            return None
        inner, held = len(self.folds[0][0]), len(self._positions(0))
        for choice in Stages().fewer(self.samples):
            if self.judge.foreseen(choice, inner, held) <= _JUDGED_SHARE * self.left and (
                self.judge.foreseen(_settled(choice), self.samples) <= _LAST_SHARE * self.left
            ):
                errors, model = self._judged(choice, 0)
                self.symmetric = self.judge.is_symmetric(model)
                return _settled(choice, model), errors
        seconds = self.judge.foreseen(choice, inner, held)
        self.verdict.left_out.append((choice.name, f"{seconds:.0f} s foreseen, {self.left:.0f} s left"))
        return None

    def _looked(self, axes: int) -> str | None:
        """Time small fits of stages, compare them with a kernel on the latents; say why to leave it at that."""
        inner, held = self.folds[0][0], [sorted(self.folds[0][1])[i] for i in self._positions(0)]
        known = Channels(reach=2, singles=16) if axes == 1 else Channels()
        small = Stages(n_stages=1, n_features=24, n_members=1, channels=known)
        self.judge.errors(small, inner[:_FIRST], held[:2])
        small = Stages(n_stages=2, n_members=1)
        for rows in _LOOKED_AT:
            count = min(rows, len(inner))
            foreseen = _SETTLING * self.judge.foreseen(replace(small, channels=known), count, count)
            if foreseen <= _LOOK_SHARE * self.verdict.budget:
                break
        else:
            return f"a first look at {count} samples would take {foreseen:.0f} s"
        self.tick("stages, a first look")
        errors, _, seconds = self.judge.errors(small, inner[:count], held[:count])
        error = float(errors.mean())
        self.quick = self._kernel(inner[:count], held[:count])
        name = f"{small.name}, {count} samples: a first look, a kernel on their latents has {self.quick:.2e}"
        self.verdict.stages.append(Trial(name, error, seconds))
        if error > _HOPELESS * self.quick:
            return f"at the first look they were {error / self.quick:.0f} times worse than a kernel on the latents"
        return None

    def _kernel(self, inner: list[int], held: list[int]) -> float:
        """The error of a plain latent model of few samples."""
        model = PCARaNN(KEPT_ENERGY, n_members=1, regressor="kernel", **self.fixed)
        (a, a_held), (u, u_held) = ([taken(part, sorted(rows)) for rows in (inner, held)] for part in self.judge.pair)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return float(relative_errors(model.fit(a, u).predict(a_held), u_held).mean())

    def _bettered(
        self, choice: Stages, errors: np.ndarray[Any, Any], latent: PCARaNN, rival: float
    ) -> tuple[Stages, np.ndarray[Any, Any]]:
        """Dearer stages, one change at a time, each kept where it lowers the error."""
        for name, offers in self._offers(latent, rival):
            fits = [one for one in (offer(choice) for offer in offers) if self._has_time(one)]
            if not fits:
                self.verdict.left_out.append((name, f"{self.left:.0f} s left"))
                continue
            found, _ = self._judged(fits[0], 0)
            if found.mean() < _GAIN * errors.mean():
                choice, errors = fits[0], found
        return choice, errors

    def _offers(self, latent: PCARaNN, rival: float) -> Iterator[tuple[str, list[Callable[[Stages], Stages]]]]:
        """Changes to try by name, of each the dearest first."""
        order = min(self.judge.order, _MOST_COPIES)
        if self.symmetry is not None:
            order = min(order, self.symmetry.n_fit or order)
            if self.symmetric:
                self.verdict.left_out.append(("symmetry", "stages have it by themselves here"))
            else:
                yield "symmetry", [_changed(copies=order >> k) for k in range(5) if order >> k > 1]
        yield "more stages and features", [_changed(**_RICHER)]
        if math.isfinite(rival):
            yield "stages on the latent model", [_changed(model=latent)]

    def _has_time(self, choice: Stages) -> bool:
        inner, held = len(self.folds[0][0]), len(self._positions(0))
        return self.judge.foreseen(choice, inner, held) + self._last(choice) <= _CAREFUL * self.left

    def _decided(self, choice: Stages, errors: np.ndarray[Any, Any], latent: PCARaNN, rival: float) -> PCARaNN | Staged:
        own, verdict = float(errors.mean()), self.verdict
        other = rival if math.isfinite(rival) else self.quick
        on = f"on {len(errors)} samples held out"
        if not own < other:
            verdict.error, verdict.reason = rival, f"error {rival:.3g} against {own:.3g} of stages, {on}"
            return latent
        verdict.winner, verdict.error = "stages", own
        verdict.reason = f"error {own:.3g} against {other:.3g} of a latent model, {on}"
        more = [replace(choice, n_members=k) for k in range(_MOST_MEMBERS, choice.n_members, -1)]
        every = [replace(one, samples=None) for one in (*more, choice)] if choice.samples else []
        options = [*every, *more, *choice.fewer(self.samples)]
        winner: Staged = self.judge.unfitted(self.judge.in_time(options, _CAREFUL * self.left, self.samples))
        return winner

    def _judged(self, choice: Stages, fold: int) -> tuple[np.ndarray[Any, Any], Staged]:
        inner, held = self.folds[fold]
        self.tick(f"stages: {choice.name}")
        errors, model, seconds = self.judge.errors(choice, inner, [sorted(held)[i] for i in self._positions(fold)])
        self.verdict.stages.append(Trial(choice.name, float(errors.mean()), seconds))
        return errors, model

    def _last(self, choice: Stages) -> float:
        return self.judge.foreseen(choice, self.samples)

    def _positions(self, fold: int) -> list[int]:
        """Which of the samples held out, in ascending order, both sides are judged on."""
        count = len(self.folds[fold][1])
        return list(range(0, count, -(-count // _MOST_HELD)))


def _changed(**options: Any) -> Callable[[Stages], Stages]:
    return lambda choice: replace(choice, **options)


def _settled(choice: Stages, model: Staged | None = None) -> Stages:
    """The choice with what a fit settled on; with anything at all, where only the seconds matter."""
    if model is None:
        return replace(choice, channels=Channels())
    found = model.stages_.settled
    return replace(choice, channels=found.channels, grid=Grid(found.layout.boundaries, found.layout.space))
