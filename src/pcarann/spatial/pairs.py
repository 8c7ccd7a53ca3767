"""A map of two fields, inputs a and the prediction û so far, with its derivative, forward and back.

    value   f(a, û)
    push    ∂ₐf da + ∂ᵤf dû
    pull    (∂ₐfᵀ c, ∂ᵤfᵀ c)

What a stage does at a point depends on both, so that the chain rule of stages runs along û and gathers what belongs to
a on its way (`pcarann.backend.linearized` has the record for maps of one).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pcarann.backend.arrays import Array

__all__ = ["LinearizedPair", "Pair"]

Pair = tuple[Array, Array]
"""What belongs to inputs and to predictions"""


@dataclass(frozen=True, eq=False)
class LinearizedPair:
    """A map of (a, û) at given ones."""

    value: Array
    push: Callable[[Array, Array], Array]
    """(da, dû) to the change of the value"""
    pull: Callable[[Array], Pair]
    """The adjoint of `push`"""
