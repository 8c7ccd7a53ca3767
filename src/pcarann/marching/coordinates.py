"""Coordinates of labelled trajectories: the interval between snapshots, and the points of a snapshot.

A step is learned between snapshots that are one interval apart, t(k + 1) − t(k) = Δt across X and then y, and it means
nothing on snapshots that are another interval apart. Arrays without coordinates are taken as evenly spaced.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pcarann.containers.labels import Label, as_numbers, is_labelled, uneven_step
from pcarann.containers.parts import refuse_other_samples
from pcarann.containers.stacking import FEWEST_POINTS
from pcarann.storage.arrays import Arrays
from pcarann.storage.formats import Document, Tensors
from pcarann.storage.packing import described_label, rebuilt_label
from pcarann.storage.typed import checked

__all__ = ["Coordinates", "refuse_uneven_space"]

_SAME_INTERVAL = 0.02  # relative difference of two intervals that count as one
_NAME = "marching.coordinates"

Values = np.ndarray[Any, np.dtype[Any]]


class _Times(NamedTuple):
    """The times of one array."""

    what: str
    dim: str
    values: Values
    """(times,) as they were given, for messages"""


@dataclass(frozen=True, eq=False)
class Coordinates:
    """What the labels of trajectories say."""

    time: str
    """The dimension that counts snapshots"""
    snapshot: Label
    """Dimensions and coordinates of one snapshot"""
    interval: float | None = None
    """Between snapshots, in seconds where times are dates or durations; None where it is not known"""
    dated: bool = False
    """Whether times are dates or durations"""
    first: int = 0
    """Times before this snapshot may be uneven"""

    @classmethod
    def of(cls, X: Any, y: Any = None, *, first: int = 0) -> Coordinates | None:
        """Coordinates of trajectories X, then y; None where neither has labels.

        Raises ValueError where dimensions, samples or points of X and y differ, and where the times from the snapshot
        `first` on are not evenly spaced across both.
        """
        labelled = [(what, one) for what, one in (("X", X), ("y", y)) if is_labelled(one) and len(one.dims) > 2]
        if not labelled:
            return None
        (_, array), *others = labelled
        label = _snapshot(array)
        for name, other in others:
            if other.dims != array.dims:
                raise ValueError(f"X has the dimensions {array.dims}, but y has {other.dims}: transpose one of them.")
            if not label.agrees_with(_snapshot(other)):
                raise ValueError("X and y have different coordinates of space: interpolate one of them.")
            refuse_other_samples(array.coords.get(array.dims[0]), other.coords.get(array.dims[0]), name)
        times = [found for name, one in labelled if (found := _times(one, name)) is not None]
        interval, dated = _interval(times, first)
        return cls(str(array.dims[1]), label, interval, dated, first)

    def refuse_other(self, X: Any, y: Any = None) -> None:
        """Raise ValueError where trajectories have other dimensions, points or intervals than these."""
        found = Coordinates.of(X, y, first=self.first)
        if found is None:
            return
        if (found.time, *found.snapshot.dims) != (self.time, *self.snapshot.dims):
            raise ValueError(
                f"X has the dimensions {(found.time, *found.snapshot.dims)} after that of the samples, the model was "
                f"fitted with {(self.time, *self.snapshot.dims)}."
            )
        self.snapshot.refuse_other(found.snapshot, "X")
        if self.interval is None or found.interval is None:
            return
        if self.dated != found.dated:
            kinds = [("dates or durations" if one.dated else "numbers") for one in (found, self)]
            raise ValueError(f"The times of X are {kinds[0]}, but the model was fitted with {kinds[1]}.")
        if abs(found.interval - self.interval) > _SAME_INTERVAL * abs(self.interval):
            unit = " s" if self.dated else ""
            raise ValueError(
                f"The snapshots of X are {found.interval:g}{unit} apart along {self.time!r}, but the model was fitted "
                f"to snapshots {self.interval:g}{unit} apart: interpolate X to that interval, or fit another model."
            )

    def moved(self) -> Coordinates:
        """The same where snapshots are on another grid, whose coordinates are not known."""
        return replace(self, snapshot=Label(None, self.snapshot.dims))

    def described(self, tensors: Tensors) -> Document:
        """The document of it; arrays are added to the tensors."""
        snapshot = described_label(self.snapshot, _NAME, tensors)
        facts = {name: getattr(self, name) for name in ("time", "interval", "dated", "first")}
        return facts | {"snapshot": snapshot}

    @classmethod
    def rebuilt(cls, document: Document, arrays: Arrays, grid: tuple[int, ...]) -> Coordinates:
        """The coordinates that a document describes, of snapshots on this grid."""
        snapshot = rebuilt_label(document["snapshot"], _NAME, arrays, grid)
        interval = checked(document["interval"], float | None, "the interval of its snapshots")
        first = checked(document["first"], int, "first")
        sound = interval is None or (math.isfinite(interval) and interval)
        if not sound or first < 0:
            raise ValueError("the times of its snapshots are not evenly spaced")
        time, dated = (checked(document[name], kind, name) for name, kind in (("time", str), ("dated", bool)))
        return cls(time, snapshot, interval, dated, first)


def refuse_uneven_space(X: Any, y: Any) -> None:
    """Raise ValueError where a step that sees space would be fitted to unevenly spaced points."""
    for what, one in (("X", X), ("y", y)):
        if is_labelled(one) and len(one.dims) > 2:
            dims = [str(dim) for dim, n in zip(one.dims[2:], one.shape[2:], strict=True) if n >= FEWEST_POINTS]
            _snapshot(one).refuse_uneven(what, dims)


def _snapshot(array: Any) -> Label:
    dims = tuple(str(dim) for dim in array.dims[2:])
    coords = {str(dim): ((str(dim),), np.asarray(array.coords[dim].values)) for dim in dims if dim in array.coords}
    return Label(None, dims, coords)


def _times(array: Any, what: str) -> _Times | None:
    """The coordinates along the dimension of time, if there are some."""
    dim = array.dims[1]
    if dim not in array.coords or array.coords[dim].dims != (dim,):
        return None
    return _Times(what, str(dim), np.asarray(array.coords[dim].values))


def _interval(times: Sequence[_Times], first: int) -> tuple[float | None, bool]:
    """The interval of evenly spaced times and whether they are dates; ValueError where they are not evenly spaced."""
    if not times:
        return None, False
    joined = _joined(times)
    numbers = as_numbers(joined)
    if numbers is None:
        return None, False
    dim, dated = times[0].dim, joined.dtype.kind not in "fiu"
    if not np.isfinite(numbers).all():
        raise ValueError(f"The times along {dim!r} are not finite.")
    numbers, joined = numbers[first:], joined[first:]
    if len(numbers) < 2:
        return None, dated
    step = float(np.median(np.diff(numbers)))
    at = uneven_step(numbers, joined.dtype)
    if at is None:
        return float(numbers[-1] - numbers[0]) / (len(numbers) - 1), dated
    before, after = joined[at], joined[at + 1]
    usual = f"{step:g}{' s' if dated else ''}"
    if len(times) > 1 and at + 1 + first == len(times[0].values):
        raise ValueError(
            f"y begins at {dim} = {after}, but X ends at {before} and snapshots are {usual} apart: y must begin one "
            "interval after X, without a gap and without snapshots that are in both."
        )
    what = times[0].what if at + first < len(times[0].values) else times[1].what
    raise ValueError(
        f"The times of {what} along {dim!r} are not evenly spaced: after {before} comes {after}, but the usual "
        f"interval is {usual}. A step is learned for one interval: cut trajectories at gaps, or interpolate them."
    )


def _joined(times: Sequence[_Times]) -> Values:
    """The times of X, then y."""
    kinds = {"f" if one.values.dtype.kind in "fiu" else one.values.dtype.kind for one in times}
    if len(kinds) > 1:
        raise ValueError(
            f"The times of X and y along {times[0].dim!r} are of different kinds: {times[0].values.dtype} and "
            f"{times[1].values.dtype}."
        )
    return np.concatenate([one.values for one in times])
