"""Trajectories that are not in memory: their pairs are lazy, and those that judge are read.

Pairs of snapshots are rows of a lazy fit (`pcarann.scale`). At most 40 trajectories are held out: they fit into memory.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of
from pcarann.marching.trajectories import Trajectories, checked_times, refuse_no_trajectories
from pcarann.marching.watch import Reach
from pcarann.scale.engine import Budget, computed, over_blocks
from pcarann.scale.fields import cut_along, matrix_of
from pcarann.scale.parts import as_lazy
from pcarann.validation import required

__all__ = ["LazyTrajectories"]

_MOST_COMPARED = 1 << 22  # values of the snapshots that are compared


class LazyTrajectories(Trajectories):
    """Lazy snapshots from which a step is learned, and those that follow."""

    @classmethod
    def of(cls, X: Any, y: Any, controls: Any, **asked: Any) -> Trajectories:
        """Lazy trajectories X, then y, or a refusal."""
        import dask.array as da

        if controls is not None:
            raise ValueError("Lazy trajectories are learned without controls: compute them first.")
        parts = []
        for value, name in ((X, "X"), (required(y), "y")):
            array = as_lazy(value, name)
            refuse_no_trajectories(tuple(int(n) for n in array.shape), name)
            parts.append(array.astype(np.float64))
        step, first = checked_times(parts[0], parts[1], asked["step"], asked["first"])
        fields = da.concatenate([part.rechunk({0: parts[0].chunks[0], 1: -1}) for part in parts], axis=1)
        return cls(fields.rechunk({1: -1}), int(parts[0].shape[1]), step, first)

    def pairs(self) -> tuple[Any, Any]:
        """All (u(t), u(t + s)), (samples × pairs, *grid) each, lazy."""
        last = int(self.fields.shape[1]) - self.step
        ends = (self.fields[:, self.first : last], self.fields[:, self.first + self.step :])
        starts, later = (part.reshape((-1, *part.shape[2:])) for part in ends)
        return starts, later

    def split(self, seed: int) -> tuple[Trajectories, Trajectories | None]:
        """Those that learn, and those that judge, in memory."""
        learning, held = super().split(seed)
        if held is None:
            return learning, None
        return learning, Trajectories(computed(held.fields), self.given, self.step, self.first, None, held.labels)

    def _found_groups(self) -> list[int]:
        if 2 * math.prod(self.fields[:, 0].shape) > _MOST_COMPARED:
            return list(range(len(self)))  # too large to be read only for this
        return super()._found_groups()

    def _ends(self) -> tuple[Array, Array]:
        both = np.asarray(computed(self.fields[:, [0, -1]]))
        return both[:, 0].reshape(len(self), -1), both[:, 1].reshape(len(self), -1)

    def mean(self) -> Array:
        """The mean of all snapshots, (values,)"""
        return np.asarray(computed(self.fields.mean(axis=(0, 1)))).reshape(-1)

    def reach(self, state: Any) -> Reach:
        """The range of the snapshots, in the units inside."""
        matrix = matrix_of(self.fields)
        blocks = cut_along(matrix, 0, Budget.now(), "X").blocks(matrix)
        constants = {"state": state, "times": int(self.fields.shape[1]), "phases": self.pairs_each}
        found: Reach = over_blocks(_reach_block, blocks, [()] * len(blocks), constants, _furthest)[0]
        return found

    def _some(self, rows: list[int]) -> Trajectories:
        return replace(self, fields=self.fields[rows], labels=tuple(self.groups[row] for row in rows))


def _reach_block(raw: Any, *, state: Any, times: int, phases: int) -> tuple[Reach, None]:
    flat = place_of(None).put(raw).reshape(len(raw) * times, -1)
    return Reach.of(state.outputs(state.place.put(flat)), phases), None


def _furthest(parts: list[Reach]) -> Reach:
    found = parts[0]
    for one in parts[1:]:
        found = found.joined(one)
    return found
