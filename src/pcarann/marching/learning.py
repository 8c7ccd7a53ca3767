"""A step that is learned from trajectories, and what its roll-out is worth on those that were held out.

Trajectories that repeat each other, or nearly so, stay on one side of every split.

choose on roll-outs   hold some trajectories out → candidates, judged → the best, fitted to all trajectories
a model with `judge`  hold some out → it is fitted to the others, choosing by the judge as it goes, and stays so
fit report            few pairs: each of some folds is rolled out by a step learned from the others, with the options
                      chosen, or with a judge of its own; else the trajectories held out
"""

from __future__ import annotations

import math
import warnings
from itertools import islice
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

from pcarann.backend.arrays import place_of
from pcarann.marching.choice import AS_GIVEN, Choice, choose
from pcarann.marching.judge import Judge
from pcarann.marching.report import RolloutReport
from pcarann.marching.rollout_spread import RolloutSpread, needs_spread
from pcarann.marching.step import takes_judge
from pcarann.marching.trajectories import FEWEST_TO_JUDGE, Trajectories
from pcarann.operator import PCARaNN
from pcarann.uncertainty.fit_report import FitReport

__all__ = ["learned"]

_FEW_PAIRS, _FEW_VALUES = 200, 1 << 18  # pairs, and values of all, for which a fit for each fold is cheap
_JUDGED_VALUES = 1 << 16  # the same with a judge, by which the trajectories held out are used up
_TWO_FOLDS = 40  # distinct trajectories, from which on two of the folds are enough
_FOLDS, _JUDGED_FOLDS = 10, 5  # few trajectories more may halve an error; a model with a judge learns from fewer anyway


Learned = tuple[Any, RolloutReport, FitReport | None, RolloutSpread | None]
"""The fitted model, reports of its roll-outs and of their error, and their spread"""


def learned(model: Any, whole: Trajectories, *, chosen: bool) -> Learned:
    """Fit an unfitted step model, its options `chosen` on roll-outs where asked for; return it with its reports.

    The spread is that of roll-outs, where the members of the step show too little of their error.
    """
    model, report, told, missed = _learned(model, whole, chosen)
    if _is_cheap(model, whole) and len(set(whole.groups)) > 1:
        told = _cross_validated(model, whole, chosen)
    return model, report, told, missed


def _learned(model: Any, whole: Trajectories, chosen: bool) -> Learned:
    """The model with the report of its roll-outs, and their error on the trajectories held out, if any were."""
    if not chosen:
        model = _fitted(model, whole)
        return model, RolloutReport(0, "choose=False holds no trajectories out"), None, _spread_of_step(model)
    learning, held = whole.split(_seed(model))
    if held is None:
        few = f"{len(whole)} trajectories are too few to hold one out, {FEWEST_TO_JUDGE} are needed"
        model = _fitted(model, whole)
        return model, RolloutReport(0, few), None, _spread_of_step(model)
    judge = Judge(held)
    if takes_judge(model):
        model = _fitted(model, learning, judge=judge)
        if hasattr(model.fitted_, "remembering"):  # what stages were chosen by is no longer new to them
            flat = (place_of(part).xp.reshape(part, (int(part.shape[0]), -1)) for part in held.pairs())
            model.fitted_ = model.fitted_.remembering(*flat)
        found = judge.mean(model.fitted_)
        tried = (("as fitted", judge.error(found)),)
        report = RolloutReport.of(judge, found, learning.mean(), tried, "as fitted", None)
        told = FitReport.of_errors(*judge.squares(found, learning.mean()), groups=held.groups)
        return model, report, told, _spread(judge, found, model)
    choice = choose(model, learning, judge) if isinstance(model, PCARaNN) else _as_given(model, learning, judge)
    model = _fitted(model.set_params(**choice.parameters), whole)
    seen = judge.error(judge.mean(model.fitted_))
    report = RolloutReport.of(judge, choice.found, learning.mean(), choice.tried, choice.chosen, seen)
    told = FitReport.of_errors(*judge.squares(choice.found, learning.mean()), groups=held.groups)
    return model, report, told, _spread(judge, choice.found, model)


def _spread(judge: Judge, found: Any, model: Any) -> RolloutSpread | None:
    """That of judged roll-outs."""
    state = model.fitted_
    return RolloutSpread.of(judge.missed(found, state)) if needs_spread(state) else None


def _spread_of_step(model: Any) -> RolloutSpread | None:
    """That of single steps, one after another, where nothing was judged."""
    missed = getattr(model.fitted_, "residual_spread", None)
    return None if missed is None else RolloutSpread.of_step(missed)


def _seed(model: Any) -> int:
    seed = getattr(model, "random_state", 0)
    return int(seed) if isinstance(seed, Integral) else 0


def _is_cheap(model: Any, whole: Trajectories) -> bool:
    """Whether some more fits of the step take about a second."""
    if type(whole) is not Trajectories:
        return False
    if takes_judge(model):
        return _values(whole) <= _JUDGED_VALUES
    return len(whole) * whole.pairs_each <= _FEW_PAIRS and _values(whole) <= _FEW_VALUES


def _values(whole: Trajectories) -> int:
    """Of the inputs of all pairs"""
    return len(whole) * whole.pairs_each * int(math.prod(whole.fields.shape[2:]))


def _cross_validated(model: Any, whole: Trajectories, chosen: bool) -> FitReport:
    """The error of roll-outs of trajectories, each by a step that was learned without its fold."""
    parts = []
    groups: list[int] = []
    judged = takes_judge(model)
    folds = whole.folds(_JUDGED_FOLDS if judged else _FOLDS, _seed(model))
    for learning, held in islice(folds, 2 if judged and len(set(whole.groups)) >= _TWO_FOLDS else None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            if judged:
                step = _learned(clone(model), learning, chosen)[0]
            else:
                step = _fitted(clone(model), learning)
            judge = Judge(held)
            parts.append(judge.squares(judge.mean(step.fitted_), learning.mean()))
        groups += held.groups
    return FitReport.of_errors(*(np.concatenate(part) for part in zip(*parts, strict=True)), groups=groups)


def _fitted(model: Any, trajectories: Trajectories, **others: Any) -> Any:
    return model.fit(*trajectories.pairs(), together=trajectories.pairs_each, **others)


def _as_given(model: Any, learning: Trajectories, judge: Judge) -> Choice:
    """A step model of which nothing is chosen, judged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = judge.mean(_fitted(clone(model), learning).fitted_)
    return Choice(((AS_GIVEN, judge.error(found)),), AS_GIVEN, {}, found)
