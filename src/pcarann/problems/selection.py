"""Which part of a stored array is wanted: an index, a range of samples, a stride over the grid.

A key may carry an index, "u[..., 0:10]", of integers, slices and `...` alone; nothing is evaluated. The index comes
first; what it leaves has the sample as its first axis. All three together are one integer or range for each axis of
the stored array, so that a file is asked once, for what is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np

__all__ = ["DataFileError", "Index", "Selection", "nonfinite", "parse_index", "parse_key", "select", "slices"]

Index: TypeAlias = tuple[int | slice | EllipsisType, ...]
Selection: TypeAlias = tuple[int | range, ...]

_NUMBER = r"\s*(-?\d{1,18})?\s*"
_SLICE = re.compile(f"{_NUMBER}:{_NUMBER}(?::{_NUMBER})?")
_CHUNK = 1 << 22  # numbers looked at together


class DataFileError(ValueError):
    """The file does not hold the fields that were asked for."""


def parse_key(text: str, names: Collection[str], where: str) -> tuple[str, Index]:
    """Return the name of an array and the index behind it; no name means the only array there is.

    >>> parse_key("u[..., 0:10]", ["u"], "ns.mat")
    ('u', (Ellipsis, slice(0, 10, None)))
    """
    if text in names:
        return text, (Ellipsis,)
    name, bracket, index = text.partition("[")
    name = name.strip()
    if not name and len(names) == 1:
        name = next(iter(names))
    if name not in names:
        found = ", ".join(sorted(names)[:20]) or "nothing"
        more = f" and {len(names) - 20} more" if len(names) > 20 else ""
        raise DataFileError(f"{where} has no array {name or text!r}: it holds {found}{more}.")
    if not bracket:
        return name, (Ellipsis,)
    if not index.rstrip().endswith("]"):
        raise DataFileError(f"{text!r} has no closing bracket: an index reads [..., 0:10].")
    return name, parse_index(index.rstrip()[:-1])


def parse_index(text: str) -> Index:
    """Return the index that the text between the brackets names.

    >>> parse_index("::2, ..., -1")
    (slice(None, None, 2), Ellipsis, -1)
    """
    return tuple(_parse_part(part.strip()) for part in text.split(","))


def select(shape: tuple[int, ...], index: Index, samples: slice | None, stride: Any, where: str) -> Selection:
    """Return the integer or range of every axis of an array of this shape."""
    chosen = [_along(n, part, where) for n, part in zip(shape, _expand(index, len(shape), where), strict=True)]
    kept = [axis for axis, part in enumerate(chosen) if isinstance(part, range)]
    if not kept:
        raise DataFileError(f"{where} is one number: wanted are fields with the sample as the first axis.")
    first, *grid = kept
    if samples is not None:
        chosen[first] = _cut(_ranged(chosen[first]), samples, f"{where}, samples")
    for axis, step in zip(grid, _steps(stride, len(grid), where), strict=True):
        chosen[axis] = _ranged(chosen[axis])[::step]
    if not all(len(part) for part in chosen if isinstance(part, range)):
        raise DataFileError(f"{where}: nothing is selected from the shape {shape}.")
    return tuple(chosen)


def slices(selection: Selection) -> tuple[int | slice, ...]:
    """Return a selection as NumPy and h5py index with."""
    return tuple(slice(p.start, p.stop, p.step) if isinstance(p, range) else p for p in selection)


def nonfinite(array: np.ndarray[Any, Any], first: int = 0) -> str:
    """Say how many numbers are NaN or infinite and where the first is; an empty string where all are finite.

    `first` is the number of the sample in row 0. Memory stays bounded for arrays on disk.
    """
    if array.dtype.kind != "f":
        return ""
    rows = max(1, _CHUNK * len(array) // max(array.size, 1))
    count, sample = 0, -1
    for start in range(0, len(array), rows):
        finite = np.isfinite(array[start : start + rows])
        if finite.all():
            continue
        bad = np.flatnonzero(~finite.reshape(len(finite), -1).all(axis=1))
        sample = start + int(bad[0]) if sample < 0 else sample
        count += int(finite.size - finite.sum())
    if not count:
        return ""
    return f"{count} {'value is' if count == 1 else 'values are'} NaN or infinite, the first in sample {first + sample}"


def _parse_part(text: str) -> int | slice | EllipsisType:
    if text == "...":
        return Ellipsis
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    match = _SLICE.fullmatch(text)
    if match is None:
        raise DataFileError(f"{text!r} is no index: integers, slices such as 0:10 and ... are understood.")
    return slice(*(None if number is None else int(number) for number in match.groups()))


def _expand(index: Index, ndim: int, where: str) -> list[int | slice]:
    """Return one part for each axis: `...` stands for all axes that are not named."""
    named = [part for part in index if not isinstance(part, EllipsisType)]
    if len(index) - len(named) > 1 or len(named) > ndim:
        raise DataFileError(f"{where} has {ndim} axes, which the index does not fit: it names {len(named)}.")
    before = index.index(Ellipsis) if len(named) < len(index) else len(named)
    return [*named[:before], *[slice(None)] * (ndim - len(named)), *named[before:]]


def _along(n: int, part: int | slice, where: str) -> int | range:
    if isinstance(part, slice):
        return _cut(range(n), part, f"{where}, index")
    if not -n <= part < n:
        raise DataFileError(f"{where}: index {part} is outside an axis of length {n}.")
    return part % n


def _cut(whole: range, part: slice, where: str) -> range:
    """Return the part of a range; unlike Python, refuse what reaches beyond it."""
    n = len(whole)
    bounds = [int(bound) for bound in (part.start, part.stop) if bound is not None]
    if any(not -n <= bound <= n for bound in bounds):
        raise DataFileError(f"{where}: {_text(part)} reaches beyond the {n} there are.")
    if part.step is not None and part.step < 1:
        raise DataFileError(f"{where}: the step of {_text(part)} must be at least 1.")
    return whole[part]


def _steps(stride: Any, ndim: int, where: str) -> list[int]:
    """Return the step along each axis of the grid; axes that a tuple does not reach are kept whole."""
    steps = [1 if stride is None else stride] * ndim if not isinstance(stride, tuple | list) else list(stride)
    if len(steps) > ndim:
        raise DataFileError(f"stride has {len(steps)} numbers, but the grid of {where} has {ndim} axes.")
    for step in steps:
        if not isinstance(step, int | np.integer) or isinstance(step, bool) or step < 1:
            raise ValueError(f"stride must be whole numbers of at least 1, got {stride!r}.")
    return [*map(int, steps), *[1] * (ndim - len(steps))]


def _ranged(part: int | range) -> range:
    assert isinstance(part, range)
    return part


def _text(part: slice) -> str:
    start, stop = ("" if bound is None else bound for bound in (part.start, part.stop))
    return f"{start}:{stop}" + ("" if part.step is None else f":{part.step}")
