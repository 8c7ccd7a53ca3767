"""Stages that see space, as `auto` tries them: one setting, its error on samples held out, and the seconds it takes.

    seconds of a fit  ≈  settling + stages · [(a + 0.8 b n) + members · (a + b n · copies)]

for n samples: one chain chooses ridges on four fifths of them, and every member is a chain on all of them and their
copies under a symmetry. A stage's part a (solving by bands) does not grow with the samples, its part b n (features,
harmonics, sums) does. Both are taken from two small fits; every further fit says by how much that was wrong.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of, taken, to_host
from pcarann.fitting import Grids
from pcarann.options import Grid
from pcarann.spatial.channels import Channels
from pcarann.symmetry.generators import Symmetry

__all__ = ["Stages", "StagesJudge", "relative_errors"]

_INNER = 0.8  # of the samples: those on which a chain chooses its ridges
_MOST_SETTLED = 320  # samples that trials of channels and ends look at
_LEAST_GROWTH = 0.3  # of a stage's seconds that grow with the samples, however small fits look
_WRONG = 4.0  # times by which what was foreseen may be corrected
_PREDICTED = 0.5  # of the seconds of a fitted sample, for one that is predicted
_LOOKED_AT, _EQUAL = 4, 1e-6  # samples and elements by which a symmetry is recognised, and the error that is rounding
_FEWEST = 32  # samples that stages are fitted to, where there are as many
_FEWER: tuple[tuple[float, int, float, int], ...] = (
    (1.0, 2, 1.0, 6),
    (1.0, 1, 1.0, 6),
    (1.0, 1, 0.5, 6),
    (1.0, 1, 0.25, 6),
    (0.7, 1, 0.25, 5),
    (0.7, 1, 0.12, 4),
    (0.4, 1, 0.12, 3),
    (0.4, 1, 0.06, 2),
)  # shares of features, members, shares of samples, stages, where more would take too long


@dataclass(frozen=True)
class Stages:
    """One setting of stages."""

    n_stages: int = 6
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
        return min(samples, self.samples or samples)

    def fewer(self, samples: int) -> list[Stages]:
        """The setting and cheaper ones, the dearest first."""
        found = [self]
        for features, members, share, stages in _FEWER:
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
    ):
        self.estimator, self.symmetry, self.fixed = estimator, symmetry, fixed
        place = place_of(pair[0])
        self.pair = tuple(
            place.xp.reshape(part, (part.shape[0], *grid)) for part, grid in zip(pair, grids, strict=True)
        )
        self.group = None if symmetry is None else symmetry.bind(*grids)
        self.order = 1 if self.group is None else self.group.order
        self.settling, self.start_seconds = 0.0, 0.0
        self._steps: list[tuple[int, float]] = []
        """Rows and seconds of a stage with the usual number of features"""
        self._wrong = 1.0

    def unfitted(self, choice: Stages) -> Any:
        """The estimator that a choice means."""
        symmetry = None
        if choice.copies > 1 and self.symmetry is not None:
            symmetry = self.symmetry.using(fit=choice.copies, predict=choice.copies)
        given = {"samples": "max_samples"}
        options = {given.get(name, name): value for name, value in vars(choice).items() if name != "copies"}
        if choice.samples is None:
            del options["max_samples"]
        return self.estimator(**options, symmetry=symmetry, **self.fixed)

    def errors(
        self, choice: Stages, inner: Sequence[int], held: Sequence[int]
    ) -> tuple[np.ndarray[Any, Any], Any, float]:
        """Relative L² errors on the samples held out, the fitted model, and the seconds that took."""
        begun = time.perf_counter()
        (a, a_held), (u, u_held) = ([taken(part, sorted(rows)) for rows in (inner, held)] for part in self.pair)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = self.unfitted(choice).fit(a, u)
            found = relative_errors(model.predict(a_held), u_held)
        seconds = time.perf_counter() - begun
        self._learn(choice, len(inner), len(held), model, seconds)
        return found, model, seconds

    def foreseen(self, choice: Stages, samples: int, held: int = 0) -> float:
        """Seconds of a fit to so many samples and the prediction of others."""
        return self._wrong * self._foreseen(choice, samples, held) + (6 * self.start_seconds) * (
            choice.model is not None
        )

    def is_symmetric(self, model: Any) -> bool:
        """Whether a fitted model already does to a moved input what the symmetry says, on a few samples."""
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
                if relative_errors(again, moved).max() > _EQUAL:
                    return False
        return True

    def in_time(self, choices: Sequence[Stages], seconds: float, samples: int) -> Stages:
        """The first that can be fitted to so many samples in these seconds, or else the last."""
        return next((one for one in choices if self.foreseen(one, samples) <= seconds), choices[-1])

    def _foreseen(self, choice: Stages, samples: int, held: int) -> float:
        n = choice.fitted_rows(samples)
        fixed, growing = self._pace(choice.n_features)
        fit = (fixed + _INNER * n * growing) + choice.n_members * (fixed + n * choice.copies * growing)
        predicted = _PREDICTED * choice.n_members * held * choice.copies * growing
        settling = 0.0 if choice.channels is not None else self.settling * min(n, _MOST_SETTLED / _INNER)
        return settling + choice.n_stages * (fit + predicted)

    def _pace(self, features: int) -> tuple[float, float]:
        """Seconds of a stage, those that do not grow and those of each sample."""
        rows, seconds = self._steps[-1]
        growing = seconds / rows
        if len(self._steps) > 1:
            fewer, less = self._steps[-2]
            slope = (seconds - less) / (rows - fewer) if rows > fewer else growing
            growing = min(max(slope, _LEAST_GROWTH * growing), growing)
        scale = features / Stages.n_features
        return scale**2 * (seconds - growing * rows), scale * growing

    def _learn(self, choice: Stages, samples: int, held: int, model: Any, seconds: float) -> None:
        """Take the pace from small fits, and by how much it was wrong from others."""
        steps = model.stages_.steps
        n = choice.fitted_rows(samples)
        if len(self._steps) < 2:
            scale = choice.n_features / Stages.n_features
            each = sum(step.seconds for step in steps) / len(steps) if steps else seconds / 3
            self._steps.append((max(1, round(_INNER * n)), each / scale))
            done = replace(choice, n_stages=max(1, len(steps)), channels=Channels())
            rest = seconds - self._foreseen(done, samples, held)
            self.settling = max(0.0, rest) / n
            return
        done = replace(choice, n_stages=len(steps), model=None)
        foreseen = self._foreseen(done, samples, held)
        if foreseen > 0 and choice.model is None:
            self._wrong = min(max(seconds / foreseen, 1 / _WRONG), _WRONG)


def relative_errors(found: Array, truth: Array) -> np.ndarray[Any, Any]:
    """‖û − u‖/‖u‖ of every sample."""
    xp = place_of(truth).xp
    found, truth = (xp.reshape(part, (part.shape[0], -1)) for part in (found, truth))
    sizes = xp.linalg.vector_norm(truth, axis=1)
    missed = xp.linalg.vector_norm(found - truth, axis=1)
    return np.asarray(to_host(missed / xp.where(sizes > 0, sizes, xp.ones_like(sizes))))
