"""A step that is learned from trajectories, and what its roll-out is worth on those that were held out.

choose on roll-outs   hold some trajectories out → candidates, judged → the best, fitted to all trajectories
a model with `judge`  hold some out → it is fitted to the others, choosing by the judge as it goes, and stays so
"""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

from sklearn.base import clone

from pcarann.backend.arrays import place_of
from pcarann.marching.choice import AS_GIVEN, Choice, choose
from pcarann.marching.judge import Judge
from pcarann.marching.report import RolloutReport
from pcarann.marching.rollout_spread import RolloutSpread, needs_spread
from pcarann.marching.step import takes_judge
from pcarann.marching.trajectories import FEWEST_TO_JUDGE, Trajectories
from pcarann.operator import PCARaNN

__all__ = ["learned"]


def learned(model: Any, whole: Trajectories, *, chosen: bool) -> tuple[Any, RolloutReport, RolloutSpread | None]:
    """Fit an unfitted step model, its options `chosen` on roll-outs where asked for; return it with report and spread.

    The spread is that of roll-outs, where the members of the step show too little of their error."""
    if not chosen:
        model = _fitted(model, whole)
        return model, RolloutReport(0, "choose=False holds no trajectories out"), _spread_of_step(model)
    seed = getattr(model, "random_state", 0)
    learning, held = whole.split(int(seed) if isinstance(seed, Integral) else 0)
    if held is None:
        few = f"{len(whole)} trajectories are too few to hold one out, {FEWEST_TO_JUDGE} are needed"
        model = _fitted(model, whole)
        return model, RolloutReport(0, few), _spread_of_step(model)
    judge = Judge(held)
    if takes_judge(model):
        model = _fitted(model, learning, judge=judge)
        if hasattr(model.fitted_, "remembering"):  # what stages were chosen by is no longer new to them
            flat = (place_of(part).xp.reshape(part, (int(part.shape[0]), -1)) for part in held.pairs())
            model.fitted_ = model.fitted_.remembering(*flat)
        found = judge.mean(model.fitted_)
        tried = (("as fitted", judge.error(found)),)
        report = RolloutReport.of(judge, found, learning.mean(), tried, "as fitted", None)
        return model, report, _spread(judge, found, model)
    choice = choose(model, learning, judge) if isinstance(model, PCARaNN) else _as_given(model, learning, judge)
    model = _fitted(model.set_params(**choice.parameters), whole)
    seen = judge.error(judge.mean(model.fitted_))
    report = RolloutReport.of(judge, choice.found, learning.mean(), choice.tried, choice.chosen, seen)
    return model, report, _spread(judge, choice.found, model)


def _spread(judge: Judge, found: Any, model: Any) -> RolloutSpread | None:
    """That of judged roll-outs."""
    state = model.fitted_
    return RolloutSpread.of(judge.missed(found, state)) if needs_spread(state) else None


def _spread_of_step(model: Any) -> RolloutSpread | None:
    """That of single steps, one after another, where nothing was judged."""
    missed = getattr(model.fitted_, "residual_spread", None)
    return None if missed is None else RolloutSpread.of_step(missed)


def _fitted(model: Any, trajectories: Trajectories, **others: Any) -> Any:
    return model.fit(*trajectories.pairs(), together=trajectories.pairs_each, **others)


def _as_given(model: Any, learning: Trajectories, judge: Judge) -> Choice:
    """A step model of which nothing is chosen, judged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = judge.mean(_fitted(clone(model), learning).fitted_)
    return Choice(((AS_GIVEN, judge.error(found)),), AS_GIVEN, {}, found)
