"""Trajectories that a flow is learned from: checked, cut into pairs, and split into those that learn and that judge.

A trajectory of T snapshots holds T − s pairs (u(t), u(t + s)) of one map. What belongs to one trajectory stays on one
side of a split: its snapshots resemble each other more than those of a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

from pcarann.backend.arrays import Array, Place, place_of
from pcarann.backend.random import permutation
from pcarann.latent.repeats import groups_of
from pcarann.marching.controls import as_channels, checked_controls
from pcarann.marching.watch import Reach
from pcarann.validation import check_count, check_fields

__all__ = ["FEWEST_TO_JUDGE", "Trajectories", "checked_times", "refuse_no_trajectories", "snapshots_of"]

FEWEST_TO_JUDGE = 5
"""Trajectories, of fewer of which none is held out"""
_HELD_OUT, _MOST_HELD_OUT = 0.2, 40
_SPLIT_STREAM, _FOLD_STREAM = (-21,), (-29,)


@dataclass(frozen=True)
class Trajectories:
    """Snapshots from which a step is learned, and those that follow, on one grid."""

    fields: Array
    """(samples, times, *grid)"""
    given: int
    """Snapshots that are known when a roll-out begins"""
    step: int
    first: int
    """Pairs that begin before this snapshot are not used"""
    controls: Array | None = None
    """(samples, times − step, p)"""
    labels: tuple[int, ...] | None = None
    """The groups of these trajectories among all of which they are a part; None for those that are all"""

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        controls: Any,
        *,
        step: Any,
        first: Any,
        wanted: int | None = None,
        device: str | None = None,
    ) -> Trajectories:
        """Trajectories X, then y, where a model on that device computes, or a refusal.

        `wanted` controls are known after a fit.
        """
        place = place_of(X, device).computing
        X, y = (snapshots_of(part, name, place) for part, name in ((X, "X"), (y, "y")))
        step, first = checked_times(X, y, step, first)
        samples, times = int(X.shape[0]), int(X.shape[1] + y.shape[1])
        acting = checked_controls(controls, place, samples=samples, departures=times - step, wanted=wanted)
        return cls(place.xp.concat([X, y], axis=1), int(X.shape[1]), step, first, acting)

    def __len__(self) -> int:
        return int(self.fields.shape[0])

    @property
    def window(self) -> int:
        """Snapshots that follow those given"""
        return int(self.fields.shape[1]) - self.given

    @property
    def n_controls(self) -> int:
        """Numbers that act at each step, p"""
        return 0 if self.controls is None else int(self.controls.shape[2])

    @property
    def pairs_each(self) -> int:
        """Pairs of one trajectory"""
        return int(self.fields.shape[1]) - self.step - self.first

    def pairs(self) -> tuple[Array, Array]:
        """All (u(t), u(t + s)), (samples × pairs, *grid) each, the starts with their controls as further channels."""
        xp = place_of(self.fields).xp
        grid, last = tuple(self.fields.shape[2:]), int(self.fields.shape[1]) - self.step
        starts, ends = self.fields[:, self.first : last, ...], self.fields[:, self.first + self.step :, ...]
        starts, ends = xp.reshape(starts, (-1, *grid)), xp.reshape(ends, (-1, *grid))
        if self.controls is None:
            return starts, ends
        return as_channels(starts, xp.reshape(self.controls[:, self.first :, :], (-1, self.n_controls))), ends

    def mean(self) -> Array:
        """The mean of all snapshots, (values,)"""
        xp = place_of(self.fields).xp
        return xp.mean(self.flat(), axis=0)

    def reach(self, state: Any) -> Reach:
        """The range of the snapshots, in the units inside of a fitted step."""
        return Reach.of(state.outputs(state.place.put(self.flat())), self.pairs_each)

    def flat(self) -> Array:
        """All snapshots, (snapshots, values)"""
        return place_of(self.fields).xp.reshape(self.fields, (self.fields.shape[0] * self.fields.shape[1], -1))

    def split(self, seed: int) -> tuple[Trajectories, Trajectories | None]:
        """Those that learn, and those that judge: a fifth, at most 40, repeats together; None of fewer than five."""
        rows = self._rows_of_groups()
        if len(self) < FEWEST_TO_JUDGE or len(rows) < 2:
            return self, None
        held = min(_MOST_HELD_OUT, max(1, round(_HELD_OUT * len(rows))))
        order = permutation(len(rows), seed=seed, stream=_SPLIT_STREAM)
        learning, judging = (sorted(i for group in some for i in rows[group]) for some in (order[held:], order[:held]))
        return self._some(learning), self._some(judging)

    def folds(self, count: int, seed: int) -> Iterator[tuple[Trajectories, Trajectories]]:
        """Yield trajectories to learn from and those left out, fold by fold; repeats stay together."""
        rows = self._rows_of_groups()
        order = permutation(len(rows), seed=seed, stream=_FOLD_STREAM)
        count = min(count, len(rows))
        for k in range(count):
            out = {i for group in order[k::count] for i in rows[group]}
            yield tuple(self._some([i for i in range(len(self)) if (i in out) == side]) for side in (False, True))  # type: ignore[misc]

    @cached_property
    def groups(self) -> list[int]:
        """A label per trajectory; repeats and near-repeats share it: a first snapshot, and controls, determine all."""
        return self._found_groups() if self.labels is None else list(self.labels)

    def _found_groups(self) -> list[int]:
        begun, ended = self._ends()
        if self.controls is not None:
            xp = place_of(begun).xp
            begun = xp.concat([begun, xp.reshape(self.controls, (len(self), -1))], axis=1)
        return groups_of(begun, ended)

    def _ends(self) -> tuple[Array, Array]:
        """The first and the last snapshot of every trajectory, (samples, values) each."""
        xp = place_of(self.fields).xp
        begun, ended = (xp.reshape(self.fields[:, t, ...], (len(self), -1)) for t in (0, -1))
        return begun, ended

    def _rows_of_groups(self) -> list[list[int]]:
        rows: dict[int, list[int]] = {}
        for row, group in enumerate(self.groups):
            rows.setdefault(group, []).append(row)
        return list(rows.values())

    def _some(self, rows: list[int]) -> Trajectories:
        place = place_of(self.fields)
        where = place.xp.asarray(rows, dtype=place.xp.int64, device=place.device)
        parts = (None if part is None else place.xp.take(part, where, axis=0) for part in (self.fields, self.controls))
        fields, controls = parts
        labels = tuple(self.groups[row] for row in rows)
        return Trajectories(fields, self.given, self.step, self.first, controls, labels)


def checked_times(X: Array, y: Array, step: Any, first: Any) -> tuple[int, int]:
    """The step and the first snapshot that is used, of trajectories that fit to each other; or a refusal."""
    step = check_count(step, "step")
    if X.shape[2:] != y.shape[2:] or X.shape[0] != y.shape[0]:
        raise ValueError(
            "Marching wants trajectories: X of shape (samples, times, *grid) and y of the times that follow on the "
            f"same grid, found {tuple(X.shape)} and {tuple(y.shape)}."
        )
    if step > X.shape[1]:
        raise ValueError(f"step={step} needs as many input snapshots to start from, found {X.shape[1]}.")
    times = int(X.shape[1] + y.shape[1])
    if not isinstance(first, Integral) or not 0 <= int(first) < times - step:
        raise ValueError(
            f"first must leave pairs: a whole number of at least 0 and below {times - step}, got {first!r}."
        )
    return step, int(first)


def snapshots_of(value: Any, name: str, place: Place) -> Array:
    """Return (samples, times, *grid) trajectories at `place`, or refuse."""
    fields, shape = check_fields(value, name, place)
    refuse_no_trajectories((int(fields.shape[0]), *shape), name)
    return place.xp.reshape(fields, (-1, *shape))


def refuse_no_trajectories(shape: tuple[int, ...], name: str) -> None:
    """Refuse arrays without axes of time and space."""
    if len(shape) < 3:
        raise ValueError(f"Marching wants trajectories: {name} of shape (samples, times, *grid), found {shape}.")
