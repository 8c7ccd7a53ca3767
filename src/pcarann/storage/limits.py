"""How much memory a model from a file may take.

Sizes in a document are products that no array of the file bounds: hidden weights are n₁ × n₂ numbers of a seed, a
kernel is factored, a grid is only said. A small file could ask for any of them to be larger than all memory. So each
is counted before it is made, and a file that asks for more than is allowed is refused: four times its arrays, and the
`limit` that `load` was given beyond that. What a later call makes, a stage at work or the sums of an adaptation, may
take four times as much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pcarann.storage.formats import Tensors
from pcarann.validation import check_memory

__all__ = ["LIMIT", "Allowance", "shape_of"]

LIMIT = "256MB"
"""Beyond four times the arrays of a file"""
_TIMES = 4
_LONGEST = 1 << 40  # of an axis: products of a few of them are exact in floating point


@dataclass(frozen=True)
class Allowance:
    """Bytes that a model may take."""

    bytes: int

    @classmethod
    def of(cls, tensors: Tensors, limit: int | str) -> Allowance:
        """For a file with these arrays."""
        return cls(_TIMES * sum(array.nbytes for array in tensors.values()) + check_memory(limit))

    def check(self, needed: int, what: str, *, later: bool = False) -> None:
        """Refuse a file of which something would take more; `later` is what calls after loading make."""
        allowed = self.bytes * (_TIMES if later else 1)
        if needed > allowed:
            wanted = -(-needed // (_TIMES if later else 1))
            raise ValueError(
                f"{what} would take {_said(needed)}, but a file of this size may take {_said(allowed)}: if you trust "
                f"it, load it with limit='{math.ceil(wanted / 1e6)}MB'"
            )


def shape_of(said: object, what: str) -> tuple[int, ...]:
    """A shape that a document says, whole numbers of at least 1."""
    sound = isinstance(said, list | tuple) and all(
        isinstance(n, int) and not isinstance(n, bool) and 0 < n < _LONGEST for n in said
    )
    if not sound:
        raise ValueError(f"{what} is no shape: {str(said)[:100]}")
    assert isinstance(said, list | tuple)
    return tuple(said)


def _said(size: int) -> str:
    """
    >>> _said(3_200_000_000), _said(2_000_000)
    ('3200 MB', '2 MB')
    """
    return f"{math.ceil(size / 1e6)} MB"
