"""Stages that see space, as `auto` tries them: one setting, its error on samples held out, and the seconds it takes.

Operations of a fit to n samples of P points, with F columns of features, B bands, S stages, K members, g copies:

    a stage       n P (60 + F) (300 + F) + r B F³ · 4/3     fields, features and sums; solving for r ridges
    a fit         S stages of 0.8 n samples and 8 ridges, which chooses; K S stages of g n samples and one ridge
    settling      two stages of few samples, features and ridges for each trial of ends and channels

The seconds of an operation are those of the last fit, and fits grow from eight samples to all.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of, taken, to_host
from pcarann.fitting import Grids
from pcarann.mesh.mesh import Mesh
from pcarann.options import Grid
from pcarann.spatial.channels import Channels
from pcarann.spatial.choice import usual_channels
from pcarann.spatial.layout import Layout
from pcarann.symmetry.generators import Symmetry

_USUAL = 4000  # samples at most that `Staged` fits by itself
__all__ = ["Stages", "StagesJudge", "relative_errors"]

_INNER = 0.8  # of the samples: those on which a chain chooses its ridges
_RIDGES = 8  # which it solves for
_TRIED = (2, 200, 48, 5)  # stages, samples, features and ridges of a trial of ends or channels
_TRIALS, _FEW_TRIALS = 11, 2  # of channels and ends, and of ends alone
_CHANNELS = 30  # columns beside the random features, about
_BANDS, _MOST_BANDS = 30, 400  # on a line, four times as many on each further axis
_FIELDS = 60  # columns of features that cost as much as the fields which they are made of
_SEEN = 300  # operations for a feature at a point: its mixture, tanh, harmonics
_SEEN_ON_MESH = 1300  # where harmonics are a product with a matrix of a few hundred of them
_OVERHEAD = 5e7  # operations of a stage that do not grow: Python, threads, memory
_LOOKED_AT = 4  # samples, and elements, by which a symmetry is recognised
_EQUAL = 0.2  # of the error: without a part of it that is as small, 2 % less would be left
_FEWEST = 32  # samples that stages are fitted to, where there are as many
_FEWER: tuple[tuple[float, int, float, int], ...] = (
    (1.0, 1, 1.0, 8),
    (0.5, 1, 1.0, 8),
    (0.5, 1, 0.7, 8),
    (0.5, 1, 0.5, 8),
    (0.5, 1, 0.35, 6),
    (0.5, 1, 0.25, 6),
    (0.25, 1, 0.25, 5),
    (0.25, 1, 0.12, 4),
    (0.25, 1, 0.06, 3),
)  # shares of features, members, shares of samples, stages, where more would take too long


@dataclass(frozen=True)
class Stages:
    """One setting of stages, by default that of `Staged` as it comes."""

    n_stages: int = 8
    n_features: int = 120
    n_members: int = 2
    samples: int | None = None
    """At most so many are fitted"""
    copies: int = 1
    """Elements of the symmetry that are used"""
    model: Any = None
    """A surrogate that the stages correct, unfitted"""
    grid: Grid | None = None
    channels: Channels | None = None

    @property
    def name(self) -> str:
        """For people."""
        parts = [
            (True, f"at most {self.n_stages} stages of {self.n_features} features"),
            (True, f"{self.n_members} member(s)"),
            (self.samples, f"{self.samples} samples"),
            (self.copies > 1, f"symmetry by {self.copies} elements"),
            (self.model is not None, "on the latent model"),
        ]
        return ", ".join(text for said, text in parts if said)

    def fitted_rows(self, samples: int) -> int:
        """Of so many samples, those that are fitted."""
        return min(samples, self.samples or _USUAL)

    def fewer(self, samples: int) -> list[Stages]:
        """The setting and cheaper ones, the dearest first."""
        found = [self]
        for features, members, share, stages in _FEWER:
            samples = min(samples, _USUAL)
            rows = max(min(_FEWEST, samples), round(share * samples))
            cheaper = replace(
                self,
                n_stages=min(stages, self.n_stages),
                n_features=max(1, round(features * self.n_features)),
                n_members=min(members, self.n_members),
                samples=min(rows, self.fitted_rows(samples)) if rows < samples else self.samples,
            )
            if cheaper != found[-1]:
                found.append(cheaper)
        return found


class StagesJudge:
    """Fits stages to some samples, tells their errors on others, and foresees what a fit will take."""

    def __init__(
        self,
        estimator: Callable[..., Any],
        pair: tuple[Array, Array],
        grids: Grids,
        *,
        symmetry: Symmetry | None,
        fixed: dict[str, Any],
        mesh: Mesh | None = None,
    ):
        self.estimator, self.symmetry, self.fixed, self.mesh = estimator, symmetry, fixed, mesh
        place = place_of(pair[0])
        self.pair = tuple(
            place.xp.reshape(part, (part.shape[0], *grid)) for part, grid in zip(pair, grids, strict=True)
        )
        self.group = None if symmetry is None else symmetry.bind(*grids)
        self.order = 1 if self.group is None else self.group.order
        axes = len(Layout.of(*grids).space) if mesh is None else mesh.dimension
        self.usual = replace(usual_channels(axes), single=True)
        """What stages see before anything is settled"""
        self.points: int = math.prod(grids[1])
        self.bands: int = min(_BANDS * 4 ** (axes - 1), _MOST_BANDS)
        self.pace = 0.0
        """Seconds of an operation"""
        self.start_seconds = 0.0
        """Of one fit of a model that stages correct"""

    def unfitted(self, choice: Stages) -> Any:
        """The estimator that a choice means."""
        symmetry = None
        if choice.copies > 1 and self.symmetry is not None:
            symmetry = self.symmetry.using(fit=choice.copies, predict=choice.copies)
        given = {"samples": "max_samples"}
        options = {given.get(name, name): value for name, value in vars(choice).items() if name != "copies"}
        if choice.samples is None:
            del options["max_samples"]
        if self.mesh is not None:
            options["grid"] = self.mesh
        return self.estimator(**options, symmetry=symmetry, **self.fixed)

    def fitted(self, choice: Stages, fields: tuple[Array, Array]) -> Any:
        """A choice fitted to these samples, in whatever kind of array; its seconds are learned from."""
        begun = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = self.unfitted(choice).fit(*fields)
        self._learn(choice, int(fields[0].shape[0]), 0, model, time.perf_counter() - begun)
        return model

    def errors(self, choice: Stages, inner: Sequence[int], held: Sequence[int]) -> tuple[np.ndarray[Any, Any], float]:
        """Relative L² errors on the samples held out of a fit to others, and the seconds that took."""
        begun = time.perf_counter()
        (a, a_held), (u, u_held) = ([taken(part, sorted(rows)) for rows in (inner, held)] for part in self.pair)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = self.unfitted(choice).fit(a, u)
            found = relative_errors(model.predict(a_held), u_held)
        seconds = time.perf_counter() - begun
        self._learn(choice, len(inner), len(held), model, seconds)
        return found, seconds

    def _learn(self, choice: Stages, samples: int, held: int, model: Any, seconds: float) -> None:
        if choice.model is None:
            done = min(len(model.stages_.steps) + 1, choice.n_stages)  # with the one that was of no use
            trials = len(model.stages_.settled.trials)
            self.pace = seconds / self._operations(replace(choice, n_stages=done), samples, held, trials)

    def foreseen(self, choice: Stages, samples: int, held: int = 0) -> float:
        """Seconds of a fit to so many samples and the prediction of others; a model is fitted to five folds and all."""
        start = 0.0 if choice.model is None else 6 * self.start_seconds
        trials = _TRIALS if choice.channels is None else _FEW_TRIALS if choice.grid is None else 0
        return start + self.pace * self._operations(choice, samples, held, trials)

    def is_symmetric(self, model: Any, error: float) -> bool:
        """Whether moving an input moves the prediction, but for much less than the error: on a few samples."""
        if self.group is None:
            return False
        few = self.pair[0][:_LOOKED_AT, ...]
        xp = place_of(few).xp
        flat = xp.reshape(few, (few.shape[0], -1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            found = model.predict(few)
            for element in self.group.subset(_LOOKED_AT, 0)[1:]:
                moved = self.group.move_outputs(xp.reshape(found, (few.shape[0], -1)), element)
                again = model.predict(xp.reshape(self.group.move_inputs(flat, element), few.shape))
                if relative_errors(again, moved).mean() > _EQUAL * error:
                    return False
        return True

    def _operations(self, choice: Stages, samples: int, held: int, trials: int) -> float:
        n, F = choice.fitted_rows(samples), choice.n_features + _CHANNELS
        chosen = self._stage(_INNER * n, F, _RIDGES)
        member = self._stage(n * choice.copies, F, 1) + held * choice.copies * self.points * F * _SEEN
        stages, most, features, ridges = _TRIED
        trial = stages * self._stage(min(_INNER * n, most), features + _CHANNELS, ridges)
        return choice.n_stages * (chosen + choice.n_members * member) + trials * trial

    def _stage(self, rows: float, F: int, ridges: int) -> float:
        solving = ridges * self.bands * float(F) ** 3 * 4 / 3
        seen = _SEEN if self.mesh is None else _SEEN_ON_MESH
        return _OVERHEAD + rows * self.points * (_FIELDS + F) * (seen + F) + solving


def relative_errors(found: Array, truth: Array) -> np.ndarray[Any, Any]:
    """‖û − u‖/‖u‖ of every sample."""
    xp = place_of(truth).xp
    found, truth = (xp.reshape(part, (part.shape[0], -1)) for part in (found, truth))
    sizes = xp.linalg.vector_norm(truth, axis=1)
    missed = xp.linalg.vector_norm(found - truth, axis=1)
    return np.asarray(to_host(missed / xp.where(sizes > 0, sizes, xp.ones_like(sizes))))
