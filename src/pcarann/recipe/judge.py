"""One choice, fitted by the estimator itself to some samples and judged on others, with its seconds.

Nothing need be begun blindly: what a fit will take is foreseen from fits with two members to more and more rows
(`pcarann.recipe.costs`), the time of the budget that is left is known, and a choice that takes too long may be had
with fewer members, or with fewer elements of a symmetry.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of, taken, to_host
from pcarann.backend.random import permutation
from pcarann.latent.repeats import groups_of
from pcarann.recipe.choice import Choice, chosen_parameters
from pcarann.recipe.costs import Size, Timing
from pcarann.symmetry.generators import Symmetry
from pcarann.uncertainty.fit_report import FitReport

__all__ = ["FOLDS", "Judge", "Split", "split_into_folds"]

Squares = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]
"""Squared norms of errors, of true fields, and of their distances from the mean field, for every sample"""
Split = tuple[list[int], list[int]]
"""Samples fitted, and samples held out"""
FOLDS = 5
_STREAM = (-6,)
_MOST_HELD = 1000  # samples in a fold, beyond which chance is no matter
_FIRST_PROBE = 100  # rows
_CLEARLY = 0.1  # of the time left, below which no better estimate is needed
_LONGEST_PROBE = 0.05  # of the time left
_MEMBERS = (10, 5, 2, 1)  # where the estimator's own number takes too long
_FEWEST_COPIES = 4


def split_into_folds(groups: Sequence[int], seed: int, most: int | None = None) -> list[Split]:
    """Five folds of the samples, or of about `most` of them, in a random order.

    `groups` has a label per sample (`pcarann.latent.repeats`): those of one group are in one fold.
    """
    rows: dict[int, list[int]] = {}
    for row, group in enumerate(groups):
        rows.setdefault(group, []).append(row)
    each = list(rows.values())
    order = permutation(len(each), seed=seed, stream=_STREAM)
    if most is not None and len(groups) > most:
        order = order[: max(FOLDS, round(most * len(each) / len(groups)))]
    folds = min(FOLDS, len(order))
    drawn = [row for group in order for row in each[group]]
    parts: list[list[int]] = [[] for _ in range(folds)]
    for k, held in enumerate(parts):
        for group in order[k::folds]:
            if len(held) < _MOST_HELD:
                held += each[group]
    return [([row for row in drawn if row not in out], held) for held in parts for out in [set(held)]]


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
        self.members, self.samples = int(estimator().n_members), int(pair[0].shape[0])
        self.budget, self.begun = budget, time.perf_counter()
        self.timings: dict[Choice, Timing] = {}
        self.groups = groups_of(*pair)
        """A label per sample; repeats and near-repeats share it"""
        self._known: dict[tuple[Choice, int, int], tuple[Squares, float]] = {}

    @property
    def seconds_left(self) -> float:
        """Seconds of the budget."""
        return self.begun + self.budget - time.perf_counter()

    def errors(self, choice: Choice, rows: Split) -> tuple[np.ndarray[Any, Any], float]:
        """Relative L² errors on the samples held out, and the seconds that took; known ones are not found again."""
        key = (choice, len(rows[0]), rows[1][0])
        if key not in self._known:
            begun = time.perf_counter()
            squares = self._fit(choice, *rows)
            self._known[key] = squares, time.perf_counter() - begun
        (missed, sizes, _), seconds = self._known[key]
        return np.sqrt(missed / np.where(sizes > 0, sizes, 1.0)), seconds

    def fit_report(self, choice: Choice, folds: Sequence[Split]) -> FitReport:
        """The error of a choice on the samples held out of these folds, on which it was judged before."""
        parts = [self._known[choice, len(rows[0]), rows[1][0]][0] for rows in folds]
        groups = [self.groups[row] for rows in folds for row in sorted(rows[1])]
        return FitReport.of_errors(*(np.concatenate(part) for part in zip(*parts, strict=True)), groups=groups)

    def foreseen(self, choice: Choice, rows: int, held: int = 0) -> float:
        """Seconds of a fit to so many rows and the prediction of those held out."""
        if _same_cost(choice) not in self.timings:
            self._probe(choice, rows)
        return self.timings[_same_cost(choice)].at(self._size(choice, rows, held))

    def last_fit(self, choice: Choice) -> float:
        """Seconds of the fit to all samples."""
        return self.foreseen(choice, self.samples)

    def affordable(self, choice: Choice, rows: tuple[int, int], seconds: float, reserve: float) -> Choice | None:
        """The choice with so many copies and members that it is judged on a fold and fitted in these seconds.

        `rows` are those fitted and held out; `reserve` are the seconds of another's last fit, should that one win.
        A kernel gains little from more members, random layers as much as from more copies.
        """
        weight = 0.25 if choice.is_kernel else 1.0
        members = [self.members, *(k for k in _MEMBERS if k < self.members)]
        copies = [self.copies >> k for k in range(12) if self.copies >> k >= min(self.copies, _FEWEST_COPIES)]
        options = [(g, k) for g in (copies if choice.symmetry else [1]) for k in members]
        for g, k in sorted(options, key=lambda option: -option[0] * option[1] ** weight):
            used = g if choice.symmetry and g < self.copies else None  # None where these are all
            found = replace(choice, copies=used, members=k if k < self.members else None)
            if self.foreseen(found, *rows) + max(self.last_fit(found), reserve) <= seconds:
                return found
        return None

    def in_time(self, choice: Choice) -> Choice:
        """The choice with as many of its members as can be fitted to all samples in the time left, one at least."""
        fewer = [replace(choice, members=k) for k in _MEMBERS if k < (choice.members or self.members)]
        options = [choice, *fewer]
        return next((option for option in options if self.last_fit(option) <= self.seconds_left), options[-1])

    def parameters(self, choice: Choice, rows: Sequence[int] | None = None) -> dict[str, Any]:
        """What a choice means for the samples, or for some of them."""
        inputs, outputs = self.pair if rows is None else (taken(part, sorted(rows)) for part in self.pair)
        return self.fixed | chosen_parameters(choice, inputs, outputs, self.grids[0], self.symmetry)

    def _probe(self, choice: Choice, rows: int) -> None:
        """Time fits with two members to more and more rows, then copies, until the estimate is good enough."""
        inner, held = split_into_folds(self.groups, 0)[0]
        wanted = self._size(choice, rows, len(held))
        for count, copies in _probe_sizes(min(rows, len(inner)), wanted.copies):
            few = replace(choice, members=min(2, self.members), copies=copies if choice.symmetry else None)
            known = self.timings.get(_same_cost(choice))
            if known and known.at(self._size(few, count, _FIRST_PROBE)) > _LONGEST_PROBE * self.seconds_left:
                return
            self._fit(few, inner[:count], held[:_FIRST_PROBE])
            if self.timings[_same_cost(choice)].at(wanted) < _CLEARLY * self.seconds_left:
                return

    def _fit(self, choice: Choice, inner: Sequence[int], held: Sequence[int]) -> Squares:
        laps = [time.perf_counter()]
        model = self.estimator(**self.parameters(choice, inner))
        laps.append(time.perf_counter())
        (a, a_held), (u, u_held) = ([taken(part, sorted(rows)) for rows in (inner, held)] for part in self.pair)
        xp, (grid, output_grid) = place_of(a).xp, self.grids
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the last fit will say what matters
            model.fit(xp.reshape(a, (-1, *grid)), xp.reshape(u, (-1, *output_grid)))
            laps.append(time.perf_counter())
            found = xp.reshape(model.predict(xp.reshape(a_held, (-1, *grid))), u_held.shape)
        laps.append(time.perf_counter())
        self._keep_timing(choice, self._size(choice, len(inner), len(held)), laps, model.fit_seconds_)
        parts = (found - u_held, u_held, u_held - xp.mean(u, axis=0))
        missed, sizes, centred = (np.asarray(to_host(xp.linalg.vector_norm(part, axis=1))) ** 2 for part in parts)
        return missed, sizes, centred

    def _keep_timing(self, choice: Choice, size: Size, laps: list[float], stages: dict[str, float]) -> None:
        pca = stages["inputs_pca"] + stages["outputs_pca"]
        rest = max(0.0, laps[2] - laps[1] - pca - stages["members"])
        seconds = {"choice": laps[1] - laps[0], "pca": pca, "members": stages["members"], "rest": rest}
        timing = Timing(choice, size, seconds | {"prediction": laps[3] - laps[2]})
        before = self.timings.get(_same_cost(choice))
        # What is slower at the same size was held up by something else.
        if before is None or size != before.size or timing.total < before.total:
            self.timings[_same_cost(choice)] = timing

    def _size(self, choice: Choice, rows: int, held: int) -> Size:
        copies = (choice.copies or self.copies) if choice.symmetry else 1
        values = (int(self.pair[0].shape[1]), int(self.pair[1].shape[1]))
        return Size(rows, held, choice.members or self.members, copies, values)


def _same_cost(choice: Choice) -> Choice:
    """What choices of the same cost at the same size have in common."""
    ridge = choice.ridge if isinstance(choice.ridge, str) else Choice.ridge
    return replace(choice.setting, ridge=ridge, copies=None, members=None)


def _probe_sizes(rows: int, copies: int) -> list[tuple[int, int]]:
    """Rows and copies of probes, twice as many each time; the first one twice, since it starts things up."""
    counts = [*(count for count in (_FIRST_PROBE << k for k in range(20)) if count < rows), rows]
    few = [(count, min(2, copies)) for count in (counts[0], *counts)]
    return [*few, *((rows, g) for g in (4, 8, 16, 32, 64) if g < copies)]
