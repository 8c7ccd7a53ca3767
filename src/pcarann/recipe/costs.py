"""What a fit will cost, foreseen from a smaller one that was timed.

Each stage of a timed fit is scaled by how its operations grow with the rows n, the copies g of each under a symmetry,
the members K, the values d of a field, and the h samples that are predicted:

    PCA           2 d n min(n, d) + 10 min(n, d)³, of twice the rows beside a symmetry, and the encoding of the copies
    members       2 K g n p min(p, g n)     p features; those of a kernel are min(0.9 g n, 3000)
    prediction    2 K g h p², or what the hidden layers take
    choice        what is found before the fit: PCAs as above, and a metric from n rows, n³ a step
    the rest      2 g n p² for each evaluation of the refinement; a metric beside a symmetry

Beside them each stage has a part that does not grow. Where a small fit was held up by something else its seconds say
too much: no more is foreseen than a slow machine would need for as many operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pcarann.features.kernel import MOST_LANDMARKS, SHARE
from pcarann.recipe.choice import METRIC_ROWS, Choice

__all__ = ["Size", "Timing"]

_SLOW = 5e9  # operations in a second
_OVERHEAD = 5e7  # operations of a stage or a member that do not grow: Python, threads, memory
_DEFAULT_FEATURES = 700
_INSIDE = 600  # operations in the hidden layers for each feature
_ENCODED = 100  # latents of a copy, about
_EVALUATIONS = 60  # of the loss in a refinement, about
_MOST_REFINED, _MOST_TUNED = 6000, 2000  # rows in the loss, and those whose eigenvalues tune a learned metric


@dataclass(frozen=True)
class Size:
    """What the cost of a fit, and of the prediction after it, grows with."""

    rows: int
    held: int
    members: int
    copies: int
    values: tuple[int, int]
    """Of an input and of an output"""


@dataclass(frozen=True)
class Timing:
    """A fit that was timed, by stage."""

    choice: Choice
    size: Size
    seconds: Mapping[str, float]
    """Of "choice", "pca", "members", "rest" and "prediction\""""

    @property
    def total(self) -> float:
        """Seconds of all stages."""
        return sum(self.seconds.values())

    def at(self, size: Size) -> float:
        """Seconds foreseen at another size."""
        if size == self.size:
            return self.total
        before, then = _operations(self.choice, self.size), _operations(self.choice, size)
        scaled = sum(seconds * then[stage] / before[stage] for stage, seconds in self.seconds.items())
        return min(scaled, sum(then.values()) / _SLOW)


def _operations(choice: Choice, size: Size) -> dict[str, float]:
    """Operations in each stage."""
    copied = size.rows * size.copies
    p = sum(choice.widths) or _DEFAULT_FEATURES
    if choice.is_kernel:
        p = max(1, min(round(SHARE * copied), MOST_LANDMARKS))
    each = 2 * p**2 if choice.is_kernel else _INSIDE * p
    pca = _OVERHEAD + _pca(size)
    members = max(size.members, 2)  # one alone has no other to share the machine with
    return {
        "choice": pca + choice.steps * min(size.rows, METRIC_ROWS) ** 3,
        "pca": pca,
        "members": members * (_OVERHEAD + copied * (2 * p * min(p, copied) + each)),
        "prediction": members * (_OVERHEAD + size.copies * size.held * each),
        "rest": _OVERHEAD + _rest(choice, copied),
    }


def _rest(choice: Choice, rows: int) -> float:
    if choice.plain == "refined":
        return 2.0 * _EVALUATIONS * min(rows, _MOST_REFINED) * _DEFAULT_FEATURES**2
    learned = 80.0 * min(rows, _MOST_TUNED) ** 3 if choice.steps and choice.symmetry else 0.0
    return learned + _INSIDE * _DEFAULT_FEATURES * rows


def _pca(size: Size) -> float:
    rows = size.rows * (1 if size.copies == 1 else 2)
    copies = (size.copies - 1) * size.rows * _ENCODED
    return float(sum(2 * d * (rows * min(rows, d) + copies) + 10 * min(rows, d) ** 3 for d in size.values))
