"""Bad truths in a stream: samples whose outputs are far outside of all that was seen, left out unless they go on.

    size     rms of the output, largest part, over the rms of the training outputs
    error    rms of û − u over the rms of the training outputs

A sample is suspicious if its size is above 3 and its error above 10 times a high error of good samples: the 90 %
quantile of the calibration, or 1.5 times the error of the fit report, or the 70 % quantile of the last 20 samples that
were accepted, or of those that came together with it. Suspicious samples are held back. A single one is a bad truth and
is dropped when a good sample follows. Five in a row whose sizes agree within a factor of 10 are a new regime: all of
them are accepted, as are those that follow. Outputs more than 100 times as large as those of the training, as in other
units, are never accepted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pcarann.backend.arrays import Array, place_of, taken, to_host

__all__ = [
    "Outliers",
    "Sifted",
    "above_mean",
    "check_outliers",
    "high_error",
    "high_of",
    "is_large",
    "sifted",
    "sizes_of",
    "suspicious",
]

Values = np.ndarray[Any, np.dtype[Any]]

Outliers = Literal["skip", "learn"]
"""What happens to suspicious samples"""

_LARGE, _FAR = 3.0, 10.0  # size and error of a suspicious sample
_HIGH, _ABOVE_MEAN, _RECENT = 0.9, 1.5, 0.7  # quantile of a calibration, factor to a mean, quantile of a stream
_UNKNOWN = 0.5  # error where nothing is known
_RUN = 5  # suspicious samples in a row that are a new regime
_AGREEING, _MOST = 10.0, 100.0  # factor between their sizes, and the largest size


@dataclass(frozen=True)
class Sifted:
    """What becomes of samples that came together."""

    accepted: list[int]
    """Those that are used, by number"""
    held: list[int]
    """Suspicious ones that wait for the next call"""
    skipped: list[int]
    """All suspicious ones that are not used in this call"""
    earlier: Literal["dropped", "held", "accepted"]
    """What becomes of those that were held before"""
    run: tuple[float, ...]
    """Sizes of the last suspicious samples in a row"""

    def learned(self, held: tuple[Array, ...] | None, *arrays: Array) -> tuple[list[Array], tuple[Array, ...] | None]:
        """Rows of these arrays that are learned, those held before them first; and the rows that are held from now on.

        `held` has the same arrays of earlier samples, or is None.
        """
        if held is not None and [one.shape[1:] for one in held] != [one.shape[1:] for one in arrays]:
            held = None
        now = [taken(one, self.accepted) for one in arrays]
        waiting = [taken(one, self.held) for one in arrays]
        if held is not None and self.earlier == "accepted":
            now = [place_of(new).xp.concat([old, new], axis=0) for old, new in zip(held, now, strict=True)]
        if held is not None and self.earlier == "held":
            waiting = [place_of(new).xp.concat([old, new], axis=0) for old, new in zip(held, waiting, strict=True)]
        return now, tuple(waiting) if int(waiting[0].shape[0]) else None


def check_outliers(value: Any, name: str) -> Outliers:
    """Return "skip" or "learn", or raise ValueError."""
    if value == "skip":
        return "skip"
    if value == "learn":
        return "learn"
    raise ValueError(f"{name} must be 'skip' or 'learn', got {value!r}.")


def sizes_of(outputs: Array, size: float, parts: int = 1) -> Values:
    """Size of (samples, values) outputs, the largest of so many equal parts of each; `size` is the rms in training."""
    xp = place_of(outputs).xp
    fields = xp.reshape(outputs, (int(outputs.shape[0]), parts, -1))
    largest = xp.max(xp.abs(fields), axis=2)  # before squares, which may overflow
    unit = xp.where(largest > 0, largest, 1.0)
    rms = largest * xp.sqrt(xp.mean((fields / unit[:, :, None]) ** 2, axis=2))
    with np.errstate(over="ignore"):
        return np.asarray(to_host(xp.max(rms, axis=1)) / max(size, np.finfo(float).tiny))


def is_large(sizes: Values) -> Values:
    """Which samples are suspicious if their errors are, (samples,) of bool."""
    return np.asarray(sizes > _LARGE)


def suspicious(sizes: Values, errors: Values, known: float) -> Values:
    """Which samples are suspicious by sizes and errors, beside a high error of good samples."""
    return is_large(sizes) & ~(errors <= _FAR * known)


def sifted(suspects: Values, sizes: Values, run: tuple[float, ...]) -> Sifted:
    """What becomes of samples in order, after such a run of suspicious ones.

    >>> found = sifted(np.array([False, True, False]), np.array([1.0, 10.0, 1.0]), ())
    >>> found.accepted, found.skipped, found.held
    ([0, 2], [1], [])
    """
    accepted: list[int] = []
    held: list[int] = []
    earlier: Literal["dropped", "held", "accepted"] = "held"
    for i, suspect in enumerate(suspects):
        if not suspect:
            accepted.append(i)
            run, held = (), []
            earlier = "accepted" if earlier == "accepted" else "dropped"
            continue
        run = (*run, float(sizes[i]))[-_RUN:]
        if len(run) == _RUN and max(run) <= min(_MOST, _AGREEING * min(run)):
            accepted += [*held, i]
            held = []
            earlier = "accepted" if earlier == "held" else earlier
        else:
            held = [*held, i][1 - _RUN :]
    used = set(accepted)
    return Sifted(sorted(used), held, [i for i in np.flatnonzero(suspects).tolist() if i not in used], earlier, run)


def high_error(calibration: float | None, usual: float | None, recent: Values) -> float:
    """A high error of good samples, from a calibration, the usual error and those of a stream; ½ if none is known."""
    found = [one for one in (calibration, None if usual is None else above_mean(usual)) if one is not None][:1]
    known = recent[np.isfinite(recent)]
    if known.size >= _RUN:
        found.append(float(np.quantile(known, _RECENT)))
    return max(found or [_UNKNOWN])


def above_mean(error: float) -> float:
    """A high error of samples that have this error on average."""
    return _ABOVE_MEAN * error


def high_of(errors: Values) -> float | None:
    """The error of a calibration that others are compared with; None where none is finite."""
    known = errors[np.isfinite(errors)]
    return max(float(np.quantile(known, _HIGH)), math.sqrt(np.finfo(float).eps)) if known.size else None
