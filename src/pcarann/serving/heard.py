"""What a model says while it answers, and which inputs lie outside the data, for each request apart.

Warnings of Python belong to a process. Here they are heard by the thread in which they are said, as long as a server
runs: filters are set once, since Python cannot set them for one thread. What several requests are told together would
depend on who asked at the same time, so that inputs are looked at for each request alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcarann.fitted import Fitted
from pcarann.spatial.fitted import FittedStages
from pcarann.uncertainty.look import Look
from pcarann.uncertainty.novelty import LEVEL
from pcarann.validation import check_fields

__all__ = ["Sighting", "entered", "hearing", "listening", "sighted"]

Values = np.ndarray[Any, np.dtype[Any]]

_heard: ContextVar[list[str] | None] = ContextVar("heard", default=None)


@contextmanager
def listening() -> Iterator[None]:
    """Let `hearing` hear warnings, in all threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        others = warnings.showwarning

        def show(message: Any, *about: Any, **more: Any) -> None:
            heard = _heard.get()
            if heard is None:
                others(message, *about, **more)
            elif str(message) not in heard:
                heard.append(str(message))

        warnings.showwarning = show
        yield


@contextmanager
def hearing() -> Iterator[list[str]]:
    """What is said inside, each sentence once."""
    heard: list[str] = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)


@dataclass(frozen=True)
class Sighting:
    """Inputs beside the training data."""

    said: Callable[[slice], str | None]
    """What to say of some of them alone"""
    outside: Callable[[slice], int]
    """How many of them lie outside"""
    p: Values | None = None
    """(samples,) p-values, where the model has them"""


def entered(model: Any, X: Any, how: Mapping[str, Any]) -> Any:
    """Inputs as the model knows them inside; a ValueError where it does not take them."""
    fitted = model.fitted_
    if not isinstance(fitted, Fitted | FittedStages):
        return model.asked(**how).departing(X)
    plain = X if fitted.packing is None else fitted.packing.opened(X, fitted.place)[0]
    if isinstance(fitted, Fitted):
        return fitted.checked(plain)
    return check_fields(plain, "X", fitted.place, grid=fitted.layout.input_grid)[0]


def sighted(model: Any, inside: Any) -> Sighting | None:
    """Look at inputs that were `entered`; None for flows, which look along the way."""
    fitted = model.fitted_
    if isinstance(fitted, Fitted):
        return _of_latents(fitted, fitted.look(inside))
    return _of_stages(fitted, inside) if isinstance(fitted, FittedStages) else None


def _of_latents(fitted: Fitted, look: Look) -> Sighting:
    def part(rows: slice) -> Look:
        if look.p is None or look.worst is None:
            return look
        orbit = [x[rows, :] for x in look.orbit]
        return Look(look.inputs[rows, :], orbit, look.p[rows], look.worst[rows], look.residual[rows], look.gap[rows])

    def outside(rows: slice) -> int:
        return 0 if look.p is None else int((look.p[rows] <= LEVEL).sum())

    return Sighting(lambda rows: fitted.warning(part(rows)), outside, look.p)


def _of_stages(fitted: FittedStages, inputs: Any) -> Sighting:
    def said(rows: slice) -> str | None:
        return fitted.warning(inputs[rows, :])

    def outside(rows: slice) -> int:
        if said(rows) is None:
            return 0
        return sum(said(slice(i, i + 1)) is not None for i in range(rows.start, rows.stop))

    return Sighting(said, outside)
