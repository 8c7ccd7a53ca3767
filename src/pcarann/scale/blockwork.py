"""What is done with one block of fields, wherever that is: the tasks of the PCA.

Blocks are cut along the longer side of the (samples, values) matrix: blocks of samples where these are many (tall), of
values where they are few (wide). D is the centred block of the inner samples, the longer side first. Each task gives
what is added up over the blocks, and what is kept of each.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, cuts, taken, to_host

__all__ = ["Changed", "Directions", "Frame", "Look", "Stage", "tall_iterate", "tall_look", "tall_stage"]
__all__ += ["wide_encode", "wide_iterate", "wide_look", "wide_stage"]

_NUMBERS = 1 << 21  # of centred fields at a time on a CPU
_GPU_NUMBERS = 1 << 27


class Changed(ValueError):
    """The data are others than they were."""


@dataclass(frozen=True)
class Frame:
    """How all blocks of one side are read."""

    place: Place
    name: str
    root: Any
    """√w of the values, on the host; None for 1"""
    inner: Any
    """Which samples the PCA is fitted to, a mask on the host"""
    leading: int
    """Channels that the first axis of the grid may count"""
    values: int
    gram: bool = True

    def rooted(self, values: slice) -> Array | None:
        """√w of some values"""
        return None if self.root is None else self.place.put(self.root[values])

    def at_a_time(self, short: int) -> int:
        """Of the longer side, so many are centred at a time: with few, sums would cost more than products."""
        numbers = _NUMBERS if self.place.on_host else _GPU_NUMBERS
        return max(1, numbers // short, short if self.gram else 0)


@dataclass(frozen=True)
class Directions:
    """Of the shorter side, (shorter, directions) each, on the host."""

    old: Any
    """Those that were found before"""
    new: Any
    deep: bool
    """Whether it matters what is left after the new ones"""
    more: bool
    """Whether more of them will be looked for in that"""


@dataclass
class Look:
    """What the first look at all blocks finds; of inner samples alone but for the last four."""

    gram: Array
    """DᵀD, about a shift where blocks are of samples"""
    total: Array
    """Σ (a − shift), (values,); 0 where blocks are of values"""
    squares: Array
    """Σ a² of each of the shorter side, (shorter,)"""
    longest: float
    """Largest Σ a² over the longer side"""
    lows: Array
    """Least value of each leading channel of each sample, where blocks are of values"""
    highs: Array
    energies: Array
    """Σ (a − ā)² and Σ a² of each sample, (samples, 2), where blocks are of values"""
    largest: float = 0.0
    bad: int = 0
    first_bad: int = -1

    @staticmethod
    def add(parts: list[Look]) -> Look:
        """All of these together, in the first."""
        found = parts[0]
        for one in parts[1:]:
            firsts = [n for n in (found.first_bad, one.first_bad) if n >= 0]
            found.gram += one.gram
            found.total += one.total
            found.squares += one.squares
            found.longest = max(found.longest, one.longest)
            found.lows, found.highs = np.minimum(found.lows, one.lows), np.maximum(found.highs, one.highs)
            found.energies += one.energies
            found.largest = max(found.largest, one.largest)
            found.bad += one.bad
            found.first_bad = min(firsts, default=-1)
        return found


@dataclass
class Stage:
    """What a stage of the PCA adds up, of inner samples alone but for the projections."""

    gram: Array
    """RᵀR of what is left after the stage"""
    cross: Array
    """(Q P)ᵀR"""
    left: float
    """‖R‖²"""
    projections: Array
    """Of all samples on P, (samples, modes), where blocks are of values"""

    @staticmethod
    def add(parts: list[Stage]) -> Stage:
        """All of these together."""
        names = [field.name for field in fields(Stage)]
        return Stage(*(sum((getattr(one, name) for one in parts[1:]), getattr(parts[0], name)) for name in names))


def checksum(block: Any) -> int:
    """Of the numbers as they were read."""
    return zlib.adler32(np.ascontiguousarray(block).view(np.uint8).reshape(-1).data)


def _verified(block: Any, start: int, known: int, frame: Frame, what: str) -> None:
    if checksum(block) != known:
        stop = start + (len(block) if what == "samples" else block.shape[1])
        raise Changed(f"{frame.name} has changed while it was read ({what} {start} to {stop - 1}): fit again.")


def _seen(look: Look, part: Array, frame: Frame, first: int | None) -> bool:
    """Note sizes and what is not finite in (samples, values) numbers; return whether all are finite."""
    xp = frame.place.xp
    size = max(abs(float(xp.max(part))), abs(float(xp.min(part))))
    if np.isfinite(size):
        look.largest = max(look.largest, size)
        return True
    finite = xp.isfinite(part)
    look.bad += int(xp.sum(xp.astype(~finite, xp.int64)))
    row = int(xp.argmin(xp.astype(xp.all(finite, axis=1), xp.int64))) + (first or 0)
    look.first_bad = row if look.first_bad < 0 else min(row, look.first_bad)
    return False


def _ends(part: Array, frame: Frame, start: int) -> tuple[Any, Any]:
    """Least and largest value of each leading channel of (samples, values) numbers that begin at this value."""
    low = np.full((part.shape[0], frame.leading), np.inf)
    high, size = -low, frame.values // max(frame.leading, 1)
    for channel in range(frame.leading):
        mine = slice(max(channel * size - start, 0), max((channel + 1) * size - start, 0))
        if part[:, mine].shape[1]:
            low[:, channel] = to_host(frame.place.xp.min(part[:, mine], axis=1))
            high[:, channel] = to_host(frame.place.xp.max(part[:, mine], axis=1))
    return low, high


def _nothing(frame: Frame, short: int, samples: int) -> Look:
    place = frame.place
    ends = np.full((samples, frame.leading), np.inf)
    gram = place.zeros(short, short) if frame.gram else place.zeros(0, 0)
    return Look(gram, place.zeros(short), place.zeros(short), 0.0, ends, -ends, np.zeros((samples, 2)))


def tall_look(raw: Any, start: int, *, frame: Frame, shift: Any) -> tuple[Look, Any]:
    """Look at a block of samples: sums about a shift; its checksum and the ends of its leading channels are kept."""
    place, xp = frame.place, frame.place.xp
    look, root, centre = _nothing(frame, frame.values, 0), frame.rooted(slice(None)), place.put(shift)
    kept = []
    for rows in cuts(len(raw), frame.at_a_time(frame.values)):
        part = place.put(raw[rows])
        kept.append(_ends(part, frame, 0))
        if not _seen(look, part, frame, start + rows.start):
            continue
        part = _inner_rows(part, frame, start, rows)
        squares = (part if root is None else part * root) ** 2
        look.squares = look.squares + xp.sum(squares, axis=0)
        look.longest = max(look.longest, float(xp.max(xp.sum(squares, axis=1))) if len(squares) else 0.0)
        del squares
        part = part - centre
        look.total = look.total + xp.sum(part, axis=0)
        if frame.gram:
            part = part if root is None else part * root
            look.gram += part.T @ part
    lows, highs = (np.concatenate(ends) for ends in zip(*kept, strict=True))
    return look, (checksum(raw), lows, highs)


def _inner_rows(part: Array, frame: Frame, start: int, rows: slice) -> Array:
    mask = frame.inner[start + rows.start : start + rows.stop]
    return part if mask.all() else taken(part, np.flatnonzero(mask).tolist())


def _tall_parts(raw: Any, start: int, frame: Frame, mean: Any) -> Iterator[tuple[slice, Array, Array]]:
    """Rows of a block, the fields as they were given and centred, both times √w."""
    root, centre = frame.rooted(slice(None)), frame.place.put(mean)
    for rows in cuts(len(raw), frame.at_a_time(frame.values)):
        part = frame.place.put(raw[rows])
        centred = part - centre
        yield rows, part if root is None else part * root, centred if root is None else centred * root


def tall_stage(
    raw: Any, start: int, known: int, held: Any, *, frame: Frame, mean: Any, to: Directions
) -> tuple[Stage, Any]:
    """One stage of the PCA on a block of samples.

    Kept are their projections on the new directions, those of what the old ones have left of the inner samples, and
    ‖a − ā‖² and ‖a‖².
    """
    _verified(raw, start, known, frame, "samples")
    place, xp = frame.place, frame.place.xp
    stage, at, B = _empty_stage(frame, frame.values, to, 0), 0, place.put(to.new)
    codes, left, energies = [], [], []
    for rows, given, centred in _tall_parts(raw, start, frame, mean):
        codes.append(centred @ B)
        energies.append(xp.stack([xp.sum(centred**2, axis=1), xp.sum(given**2, axis=1)], axis=1))
        D = _inner_rows(centred, frame, start, rows)
        Q = place.put(held[at : at + len(D)])
        at += len(D)
        left.append(_deflated(stage, D, Q, frame, to))
    return stage, (xp.concat(codes), xp.concat(left), xp.concat(energies))


def _empty_stage(frame: Frame, short: int, to: Directions, samples: int) -> Stage:
    place, known, k = frame.place, to.old.shape[1], to.new.shape[1]
    gram = place.zeros(short, short) if to.more else place.zeros(0, 0)
    return Stage(gram, place.zeros(known + k if to.deep else 0, short), 0.0, place.zeros(samples, k))


def _deflated(stage: Stage, D: Array, Q: Array, frame: Frame, to: Directions) -> Array:
    """Take old directions out of D, project it on the new ones, and add up what is left; return the projections P.

    Twice, since the first time leaves its own rounding.
    """
    before, B = frame.place.put(to.old), frame.place.put(to.new)
    for _ in range(2 if before.shape[1] else 0):
        D = D - (D @ before) @ before.T
    P = D @ B
    if to.deep:
        R = D - P @ B.T
        R = R - (R @ B) @ B.T
        stage.cross[: Q.shape[1], :] += Q.T @ R
        stage.cross[Q.shape[1] :, :] += P.T @ R
        stage.left += float((R * R).sum())
        if to.more:
            stage.gram += R.T @ R
    return P


def tall_iterate(raw: Any, start: int, known: int, *, frame: Frame, mean: Any, new: Any) -> tuple[Any, None]:
    """DᵀDB of a block of samples."""
    _verified(raw, start, known, frame, "samples")
    B, total = frame.place.put(new), 0.0
    for rows, _, centred in _tall_parts(raw, start, frame, mean):
        D = _inner_rows(centred, frame, start, rows)
        total = total + D.T @ (D @ B)
    return total, None


def _wide_parts(raw: Any, start: int, frame: Frame, mean: Any) -> Iterator[tuple[slice, Array, Array, Array | None]]:
    """Values of a block, the fields as they were given, the mean of the inner ones there, and √w."""
    for part in cuts(raw.shape[1], frame.at_a_time(len(raw))):
        given = frame.place.put(raw[:, part])
        centre = frame.place.put(mean[part]) if mean is not None else _inner_mean(given, frame)
        yield part, given, centre, frame.rooted(slice(start + part.start, start + part.stop))


def _inner(part: Array, frame: Frame) -> Array:
    return part if frame.inner.all() else taken(part, np.flatnonzero(frame.inner).tolist())


def _inner_mean(part: Array, frame: Frame) -> Array:
    """The mean, and the mean of what it leaves: its own rounding would be a mode."""
    xp, mine = frame.place.xp, _inner(part, frame)
    mean = xp.mean(mine, axis=0)
    return mean + xp.mean(mine - mean, axis=0)


def wide_look(raw: Any, start: int, *, frame: Frame) -> tuple[Look, Any]:
    """Look at a block of values of all samples; their mean and the checksum are kept."""
    xp = frame.place.xp
    look, means = _nothing(frame, int(frame.inner.sum()), len(raw)), []
    for part, given, mean, root in _wide_parts(raw, start, frame, _unfinished(raw)):
        low, high = _ends(given, frame, start + part.start)
        look.lows, look.highs = np.minimum(look.lows, low), np.maximum(look.highs, high)
        means.append(mean)
        if not _seen(look, given, frame, None):
            continue
        centred = given - mean if root is None else (given - mean) * root
        given = given if root is None else given * root
        look.energies += to_host(xp.stack([xp.sum(centred**2, axis=1), xp.sum(given**2, axis=1)], axis=1))
        D, given = _inner(centred, frame), _inner(given, frame)
        look.squares = look.squares + xp.sum(given**2, axis=1)
        look.longest = max(look.longest, float(xp.max(xp.sum(given**2, axis=0))))
        if frame.gram:
            look.gram += D @ D.T
    return look, (checksum(raw), to_host(xp.concat(means)))


def _unfinished(raw: Any) -> Any:
    """No mean is known yet; of numbers that are not finite none is wanted."""
    return None if np.isfinite(raw).all() else np.zeros(raw.shape[1])


def wide_stage(
    raw: Any, start: int, known: int, mean: Any, held: Any, *, frame: Frame, to: Directions
) -> tuple[Stage, Any]:
    """One stage of the PCA on a block of values; what is left of them in the new directions is kept."""
    _verified(raw, start, known, frame, "values")
    place = frame.place
    stage, found = _empty_stage(frame, int(frame.inner.sum()), to, len(raw)), []
    for part, given, centre, root in _wide_parts(raw, start, frame, mean):
        centred = given - centre if root is None else (given - centre) * root
        found.append(_deflated(stage, _inner(centred, frame).T, place.put(held[part]), frame, to))
        stage.projections += centred @ found[-1]
    return stage, place.xp.concat(found)


def wide_iterate(raw: Any, start: int, known: int, mean: Any, *, frame: Frame, new: Any) -> tuple[Any, None]:
    """DᵀDB of a block of values."""
    _verified(raw, start, known, frame, "values")
    B, total = frame.place.put(new), 0.0
    for _, given, centre, root in _wide_parts(raw, start, frame, mean):
        D = _inner(given - centre if root is None else (given - centre) * root, frame)
        total = total + D @ (D.T @ B)
    return total, None


def wide_encode(raw: Any, start: int, known: int, mean: Any, modes: Any, *, frame: Frame) -> tuple[Any, None]:
    """Projections of all samples on (values, modes) directions, as far as a block of values goes."""
    _verified(raw, start, known, frame, "values")
    total: Any = 0.0
    for part, given, centre, root in _wide_parts(raw, start, frame, mean):
        centred = given - centre if root is None else (given - centre) * root
        total = total + centred @ frame.place.put(modes[part])
    return total, None
