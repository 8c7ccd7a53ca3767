"""How axes end and what stages see, settled on samples held out.

Each family of channels is decisive on one problem and harmful on another, so that validation must choose: small trials
of two stages, one change at a time, kept where the error falls by more than noise. What makes stages cheaper is kept
where the error hardly rises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pcarann.spatial.channels import Channels
from pcarann.spatial.layout import Layout

__all__ = ["Settled", "Trial", "settle", "usual_channels"]

_ENOUGH = 0.97  # of the error: trials are small, and differences below are noise
_AS_GOOD = 1.01
_FINE = 1e-3  # errors of a trial below which rounding may show only after more stages and features
_DEAR = 0.85  # what three times the fields must bring: later stages make up for most of it

Changes = list[tuple[str, dict[str, Any]]]
Tried = Callable[[Layout, Channels], float]


@dataclass(frozen=True)
class Trial:
    """One of them."""

    name: str
    error: float


@dataclass(frozen=True)
class Settled:
    """What was decided, and on what grounds."""

    layout: Layout
    channels: Channels
    trials: tuple[Trial, ...] = ()


def settle(layouts: Sequence[Layout], channels: Channels | None, tried: Tried) -> Settled:
    """Choose among layouts, the likeliest first, and channels where none are given; nothing to choose costs nothing."""
    best = Settled(layouts[0], channels or usual_channels(layouts[0].domain.dimension))
    if len(layouts) == 1 and channels is not None:
        return best
    error = tried(best.layout, best.channels)
    trials = [Trial("as usual", error)]

    def offer(name: str, layout: Layout, seen: Channels, enough: float | None = None) -> bool:
        nonlocal best, error
        found = tried(layout, seen)
        trials.append(Trial(name, found))
        fewer, more = seen.reach < best.channels.reach, seen.reach > best.channels.reach
        enough = enough or (1.0 if fewer else _DEAR if more else _ENOUGH)
        if not found < enough * error:
            return False
        best, error = Settled(layout, seen), found
        return True

    if channels is None and error > _FINE:  # first, as all that follow are twice as fast in it
        offer("single precision", best.layout, replace(best.channels, single=True), _AS_GOOD)
    for layout in layouts[1:]:
        offer(f"ends {', '.join(layout.boundaries)}", layout, best.channels)
    if channels is None:
        begun = best.channels
        for change in _changes(best):
            for name, options in change:
                if not offer(name, best.layout, replace(best.channels, **options)):
                    break
        # These may have been of use only while others were missing.
        if best.channels.smoothed is not None:
            offer("nothing smoothed", best.layout, replace(best.channels, smoothed=None))
        nearer = replace(best.channels, reach=begun.reach)
        if best.channels.reach > begun.reach and nearer != begun:
            offer(f"reach {begun.reach} again", best.layout, nearer, 1 / _DEAR)
    return replace(best, trials=tuple(trials))


def usual_channels(axes: int) -> Channels:
    """Where trials begin: a line has few wavenumbers, which can all be told apart, and few points around each."""
    return Channels(reach=2, singles=16) if axes == 1 else Channels()


def _changes(settled: Settled) -> list[Changes]:
    """Changes to try; of each list the next one only after the one before it has helped."""
    reach, singles = settled.channels.reach, settled.channels.singles
    reaches = (0, 1, 2) if settled.layout.mesh is None else (0, 1)  # means over neighbours are slow, and of little use
    more: Changes = [(f"{n} single wavenumbers", {"singles": n}) for n in (8, 16, 32, 64) if n > singles]
    fewer: Changes = [(f"{n} single wavenumbers", {"singles": n}) for n in (8, 4) if n < singles]
    return [
        *([(f"reach {n}", {"reach": n})] for n in reaches if n != reach),
        [("smoothed", {"smoothed": math.inf})],
        [("smoothed nearby", {"smoothed": 0.05})],
        more,
        fewer,
        [("gain 1", {"gain": 1.0})],
    ]
