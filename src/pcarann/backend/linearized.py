"""A map at given points with its derivative, forward and back: the chain rule in closed form.

    value   y = f(x)              one row for each sample
    push    dy = f′(x) dx         tangents forward
    pull    dx = f′(x)ᵀ dy        cotangents back, the adjoint

A room that maps rows to rows gives such a record, and a surrogate is the chain of those of its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pcarann.backend.arrays import Array, cuts, place_of

__all__ = ["Linearized", "in_blocks"]


@dataclass(frozen=True, eq=False)
class Linearized:
    """A map at (samples, values) rows: its value and its derivative, sample by sample."""

    value: Array
    """(samples, outputs)"""
    push: Callable[[Array], Array]
    """(samples, inputs) to (samples, outputs)"""
    pull: Callable[[Array], Array]
    """(samples, outputs) to (samples, inputs), the adjoint of `push`"""

    def then(self, later: Linearized) -> Linearized:
        """This map and then another, which was taken at this one's value."""
        return Linearized(later.value, lambda t: later.push(self.push(t)), lambda c: self.pull(later.pull(c)))

    def scaled(self, factor: float) -> Linearized:
        """The same map times a number."""
        return Linearized(self.value * factor, lambda t: self.push(t) * factor, lambda c: self.pull(c * factor))

    def plus(self, other: Linearized) -> Linearized:
        """The sum of this map and another of the same rows."""
        return Linearized(
            self.value + other.value, lambda t: self.push(t) + other.push(t), lambda c: self.pull(c) + other.pull(c)
        )


def in_blocks(linearize: Callable[[slice], Linearized], samples: int, size: int) -> Linearized:
    """A map of many samples by blocks of them, whose records take memory.

    A single block is kept. Of several none is: each is linearised again where it is pushed or pulled through.
    """
    if samples <= size:
        return linearize(slice(0, samples))
    blocks = list(cuts(samples, size))
    values = [linearize(rows).value for rows in blocks]

    def push(tangents: Array) -> Array:
        return place_of(tangents).xp.concat([linearize(rows).push(tangents[rows, :]) for rows in blocks])

    def pull(cotangents: Array) -> Array:
        return place_of(cotangents).xp.concat([linearize(rows).pull(cotangents[rows, :]) for rows in blocks])

    return Linearized(place_of(values[0]).xp.concat(values), push, pull)
