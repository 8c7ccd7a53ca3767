"""What a model has met along a stream, as a part of its file, and back, every part checked."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from pcarann.backend.arrays import Place, to_host
from pcarann.ensemble.adaptation import Choice
from pcarann.ensemble.forgetting import FACTORS
from pcarann.storage.arrays import count_of
from pcarann.storage.formats import Tensors
from pcarann.storage.typed import checked
from pcarann.uncertainty.adaptive import Followed, Follower
from pcarann.uncertainty.alarm import Alarm, DriftTest
from pcarann.uncertainty.fingerprints import NUMBERS, Fingerprints
from pcarann.uncertainty.local import Local, kept_locally
from pcarann.uncertainty.monitor import History, Met

__all__ = [
    "described_followed",
    "described_history",
    "described_known",
    "described_local",
    "rebuilt_choice",
    "rebuilt_followed",
    "rebuilt_history",
    "rebuilt_known",
    "rebuilt_local",
]

_KINDS = ("points", "whole")
_FOLLOWER = tuple(part.name for part in fields(Follower))
_MET = tuple(part.name for part in fields(Met))
_FACTS = ("usual", "observed", "learned", "left", "high", "outliers", "run")


def described_followed(followed: Followed | None, name: str, tensors: Tensors) -> None:
    """Add the arrays of intervals that follow a stream under a name; nothing where they do not."""
    if followed is not None:
        for kind in _KINDS:
            tensors |= {f"{name}.{kind}.{part}": getattr(getattr(followed, kind), part) for part in _FOLLOWER}
        tensors[f"{name}.local"] = followed.local


def rebuilt_followed(name: str, tensors: Tensors) -> Followed | None:
    """The intervals under a name; None where a file holds none."""
    if f"{name}.points.rows" not in tensors:
        return None
    points, whole = (_follower(f"{name}.{kind}", tensors) for kind in _KINDS)
    local = _numbers(f"{name}.local", tensors) if f"{name}.local" in tensors else np.zeros_like(points.shifts)
    if local.shape != points.shifts.shape or not np.isfinite(local).all():
        raise ValueError("its intervals of single points do not fit the stream that they followed")
    return Followed(points, whole, local)


def _follower(name: str, tensors: Tensors) -> Follower:
    found = {part: _numbers(f"{name}.{part}", tensors) for part in _FOLLOWER}
    fresh = Follower.start(np.ones((1, 1)))
    rows, scales = found["rows"], found["scales"]
    sound = rows.ndim == 2 and rows.size and scales.shape == (len(rows), len(fresh.ahead)) and (rows > 0).all()
    sound = sound and all(found[part].shape == getattr(fresh, part).shape for part in ("ahead", "losses", "shifts"))
    if not sound or not all(np.isfinite(found[part]).all() for part in ("scales", "ahead", "losses", "shifts")):
        raise ValueError("its intervals do not fit the stream that they followed")
    return Follower(**found)


def described_local(local: Local | None, name: str, tensors: Tensors) -> None:
    """Add the scores of single points under a name; nothing where there are none."""
    if local is not None:
        tensors |= {f"{name}.ranks": local.ranks, f"{name}.scores": to_host(local.scores).astype(np.float32)}


def rebuilt_local(name: str, tensors: Tensors, place: Place, shape: tuple[int, int]) -> Local | None:
    """The scores of single points under a name, of so many samples and points; None where a file holds none."""
    if f"{name}.ranks" not in tensors:
        return None
    ranks, scores = tensors[f"{name}.ranks"], tensors[f"{name}.scores"]
    known = kept_locally(shape[0])
    sound = np.array_equal(ranks, known) and scores.shape == (len(known), shape[1]) and scores.dtype == np.float32
    if not sound or np.isnan(scores).any() or not (scores >= 0).all():
        raise ValueError("its scores of single points do not fit its calibration")
    return Local(known, place.put(scores.astype(np.float64)))


def described_history(history: History | None, name: str, tensors: Tensors) -> dict[str, Any] | None:
    """Add the arrays of a history under a name; return the rest of it."""
    if history is None:
        return None
    tensors |= {f"{name}.{part}": getattr(history.recent, part) for part in _MET}
    tensors[f"{name}.seen"] = history.seen
    found = {part: getattr(history, part) for part in _FACTS}
    found["alarms"] = [[one.began, one.raised, one.ended] for one in history.alarms]
    if (test := history.test) is not None:
        tensors |= {f"{name}.test.{part}": getattr(test, part) for part in ("reference", "ranked", "sums")}
        found["test"] = [test.low, test.won]
    return found


def rebuilt_history(described: dict[str, Any] | None, name: str, tensors: Tensors) -> History | None:
    """The history under a name; None where there is none."""
    if described is None:
        return None
    complete = "high" in described  # older files hold less
    known = {part: _numbers(f"{name}.{part}", tensors) for part in _MET if complete or part != "absolute"}
    recent, fresh = replace(Met.of(len(known["errors"])), **known), Met.of(0)
    seen = _numbers(f"{name}.seen", tensors) if complete else History().seen
    if seen.ndim != 2 or not np.isfinite(seen).all():
        raise ValueError("its history does not fit together")
    lengths = {len(getattr(recent, part)) for part in _MET}
    if len(lengths) > 1 or any(getattr(recent, part).shape[1:] != getattr(fresh, part).shape[1:] for part in _MET):
        raise ValueError("its history does not fit together")
    usual, left, test = described["usual"], described["left"], None
    if "test" in described:
        reference, ranked, sums = (_numbers(f"{name}.test.{part}", tensors) for part in ("reference", "ranked", "sums"))
        if reference.ndim != 1 or ranked.ndim != 1 or sums.shape != DriftTest.start(reference).sums.shape:
            raise ValueError("its drift test does not fit together")
        low, won = checked(described["test"], tuple[int, float], "its drift test")
        test = DriftTest(reference, ranked, sums, low, won)
    alarms = checked(described["alarms"], list[tuple[int, int, int | None]], "its alarms")
    return History(
        checked(usual, float | None, "its usual error"),
        count_of(described["observed"]),
        count_of(described["learned"]),
        recent,
        test,
        tuple(Alarm(*one) for one in alarms),
        checked(left, int | None, "the sample at which outputs left their modes"),
        checked(described.get("high"), float | None, "its high error"),
        count_of(described.get("outliers", 0)),
        checked(described.get("run", []), tuple[float, ...], "the sizes of its last samples"),
        seen,
    )


def described_known(known: Fingerprints | None, tensors: Tensors) -> None:
    """Add what is remembered of training samples; nothing where nothing is."""
    if known is not None:
        tensors |= {"known.numbers": known.numbers, "known.sizes": np.asarray(known.sizes)}


def rebuilt_known(tensors: Tensors) -> Fingerprints | None:
    """What is remembered of training samples; None in older files."""
    if "known.numbers" not in tensors:
        return None
    numbers, sizes = (_numbers(f"known.{part}", tensors) for part in ("numbers", "sizes"))
    sound = numbers.ndim == 2 and numbers.shape[1] == NUMBERS and len(numbers) and sizes.shape == (2,)
    if not sound or not np.isfinite(numbers).all() or not np.isfinite(sizes).all() or (sizes < 0).any():
        raise ValueError("what it remembers of its training samples is damaged")
    return Fingerprints(numbers, (float(sizes[0]), float(sizes[1])))


def rebuilt_choice(described: Any) -> Choice | None:
    """Which factor of forgetting was in use; None where it was not chosen."""
    if described is None:
        return None
    losses, chosen = checked(described, tuple[tuple[float, ...], int], "its choice of forgetting")
    if len(losses) != len(FACTORS) or not 0 <= chosen < len(FACTORS):
        raise ValueError("its choice of forgetting is none")
    return Choice(losses, chosen)


def _numbers(name: str, tensors: Tensors) -> np.ndarray[Any, Any]:
    found = tensors[name]
    if found.dtype != np.float64:
        raise ValueError(f"{name} has dtype {found.dtype}")
    return found
