"""The ridge of a step, chosen on roll-outs.

On pairs alone the best ridge is often 0, and the roll-out blows up: a step that has learned the noise of its own data
amplifies what it adds to them. Candidates are the model as given and the same with other ridges. PCAs, scales and
random layers are found once; a candidate costs the readouts of a few members. The one of least error wins, the model as
given unless another is better by more than a hundredth; it is then fitted to all trajectories.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import clone

from pcarann.backend.arrays import Array
from pcarann.ensemble.members import fit_members
from pcarann.ensemble.pairs import Pairs
from pcarann.fitted import Fitted
from pcarann.marching.judge import Judge
from pcarann.marching.report import Trial
from pcarann.marching.trajectories import Trajectories
from pcarann.operator import PCARaNN
from pcarann.options import Kernel, Refine, resolved
from pcarann.validation import check_count

__all__ = ["AS_GIVEN", "Choice", "choose"]

AS_GIVEN = "as given"
RIDGES = (1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_MEMBERS = 4  # that judge
_BETTER = 0.99  # of the error of the model as given, below which another is chosen
_HOPELESS = 2.0  # times the least error so far, from which on larger ridges are not tried


@dataclass(frozen=True)
class Choice:
    """What was tried, and what won."""

    tried: tuple[Trial, ...]
    chosen: str
    parameters: dict[str, Any]
    """By which what won differs from the model as given"""
    found: Array
    """Its roll-outs of the trajectories held out"""


def choose(model: PCARaNN, learning: Trajectories, judge: Judge) -> Choice:
    """Compare the model as given with other ridges, fitted to the trajectories that learn."""
    first = clone(model).set_params(n_members=min(check_count(model.n_members, "n_members"), _MEMBERS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit to all trajectories will say the same
        first.fit(*learning.pairs(), together=learning.pairs_each)
    best = found = judge.mean(first.fitted_)
    given = least = judge.error(found)
    tried, chosen, parameters = [(AS_GIVEN, given)], AS_GIVEN, dict[str, Any]()
    for ridge, state in _with_ridges(first.fitted_):
        found = judge.mean(state)
        error = judge.error(found)
        tried.append((f"ridge={ridge:g}", error))
        if error < min(least, _BETTER * given):
            least, best, chosen = error, found, tried[-1][0]
            parameters = {"ridge": ridge, **_fixed(first)}
        if math.isfinite(error) and error > _HOPELESS * least:
            break
    return Choice(tuple(tried), chosen, parameters, best)


def _with_ridges(fitted: Fitted) -> Iterator[tuple[float, Fitted]]:
    """Yield the same state with readouts of other ridges, ascending."""
    for ridge in RIDGES:
        if ridge == fitted.ridge:
            continue
        pairs = Pairs(fitted.x, fitted.y, fitted.samples)
        members, _ = fit_members(fitted.feature_map, pairs, n_members=fitted.members, ridge=ridge)
        yield ridge, replace(fitted, ensemble=replace(fitted.ensemble, members=members), ridge=ridge)


def _fixed(first: PCARaNN) -> dict[str, Any]:
    """Scales, or the length of a kernel, that were found together with another ridge."""
    if isinstance(resolved("regressor", first.regressor), Kernel):
        return {"regressor": Kernel(first.length_)}
    return {"scales": first.scales_} if isinstance(resolved("scales", first.scales), Refine) else {}
