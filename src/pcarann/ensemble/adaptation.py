"""An ensemble that adapts: recursive least squares of all members, on rows that they share.

The rows of latents are kept once; what each member makes of them (`readout.recursive`) is made where it is needed, and
need not be stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from pcarann.backend.arrays import Array, place_of
from pcarann.ensemble.mean_and_spread import Ensemble
from pcarann.ensemble.members import Member
from pcarann.ensemble.pairs import stream
from pcarann.readout.direct import fit_readout
from pcarann.readout.recursive import Dual, Primal, RecursiveLeastSquares, appended
from pcarann.readout.streamed import Block, NormalEquations, solve_streamed_readout

__all__ = ["Adaptation", "Choice", "Rows", "Start", "batch_refit"]

_ROWS_AT_ONCE = 8192  # of the start; more are summed block by block, in the primal

Start = Literal["least-squares", "ridge"]
"""What an adaptation departs from: the fitted readout, or the ridge solution of the training rows"""


@dataclass(frozen=True)
class Rows:
    """Latent pairs that the readouts have learned from, and their weights, in blocks that grow together.

    A row's weight is D = exp(2 (own + faded)): forgetting changes the one number `faded`, and no row.
    """

    x: tuple[Array, ...]
    """(samples, latent) each"""
    y: tuple[Array, ...]
    own: tuple[Array, ...]
    """(samples, 1) each"""
    faded: float = 0.0

    @classmethod
    def of(cls, x: Array, y: Array, weights: Array | None = None) -> Rows:
        """One block of rows, of weights √D (samples,) where given."""
        place = place_of(x)
        least = 2.0**-1000  # of rows that are all but forgotten
        own = (
            place.zeros(x.shape[0], 1) if weights is None else place.xp.log(place.xp.clip(weights, min=least))[:, None]
        )
        return cls((x,), (y,), (own,))

    def __len__(self) -> int:
        return sum(int(block.shape[0]) for block in self.x)

    def appended(self, x: Array, y: Array, forgetting: float) -> Rows:
        """With a block of newer rows, the last of them the newest."""
        step, count = 0.5 * math.log(forgetting), int(x.shape[0])
        faded = self.faded + count * step
        own = place_of(x).put([[step * (count - 1 - i) - faded] for i in range(count)])
        return Rows(appended(self.x, x), appended(self.y, y), appended(self.own, own), faded)

    def aged(self, trained: int, forgetting: float) -> Rows:
        """The same rows as if each that came after the first so many had discounted all before it by this factor."""
        x, y, _ = Rows(self.x, self.y, self.own).joined()
        place, new = place_of(x), len(self) - trained
        if not new:
            return self
        step = 0.5 * math.log(forgetting)
        first = place.xp.concat(self.own, axis=0)[:trained, :]
        rest = place.put([[-step * (i + 1)] for i in range(new)])
        return Rows((x,), (y,), (place.xp.concat([first, rest], axis=0),), new * step)

    @property
    def weight(self) -> float:
        """Σ D: the number of rows, each by what it counts"""
        xp = place_of(self.own[0]).xp
        return sum(float(xp.sum(xp.exp(2 * (own + self.faded)))) for own in self.own)

    def joined(self) -> tuple[Array, Array, Array | None]:
        """All of them: x, y and √D, (samples,), or None where every weight is 1"""
        xp = place_of(self.x[0]).xp
        x, y, own = (xp.concat(part, axis=0) if len(part) > 1 else part[0] for part in (self.x, self.y, self.own))
        logarithms = own[:, 0] + self.faded
        return x, y, xp.exp(logarithms) if bool(xp.any(logarithms != 0)) else None


@dataclass(frozen=True)
class Choice:
    """Which of several factors of forgetting is in use (`pcarann.ensemble.forgetting`)."""

    losses: tuple[float, ...]
    """Discounted errors of each relative to their mean, every sample predicted before it was learned"""
    chosen: int
    learners: tuple[RecursiveLeastSquares, ...] | None = None
    """Those of one member, for each factor; None after loading"""


@dataclass(frozen=True)
class Adaptation:
    """Recursive least squares of all members of an ensemble."""

    rows: Rows
    """Everything learned, the training rows first: the learners are made from it where they are needed"""
    trained: int
    """Training rows"""
    ridge: float
    """λ"""
    priors: tuple[Array | None, ...]
    """Coefficients of V₀ of each member; None for 0"""
    learners: tuple[RecursiveLeastSquares, ...] | None = None
    """None after loading, until more is learned"""
    choice: Choice | None = None
    """None where the forgetting is given"""

    @classmethod
    def start(cls, ensemble: Ensemble, rows: Rows, *, ridge: float, start: Start) -> Adaptation:
        """Start every member from the training latents."""
        priors = tuple(member.coefficients if start == "least-squares" else None for member in ensemble.members)
        return cls(rows, len(rows), ridge, priors).ready(ensemble)

    def ready(self, ensemble: Ensemble) -> Adaptation:
        """The same with learners, made from all rows at once where there are none."""
        if self.learners is not None:
            return self
        x, y, weights = self.rows.joined()
        ridge, trained, count = self.ridge, self.trained, len(self.rows)

        def begin(member: Member) -> RecursiveLeastSquares:
            stored = self.priors[member.features.member]
            prior = None if stored is None else member.features.readout(stored)
            if count < member.features.count and count <= _ROWS_AT_ONCE:
                H = member.features(x)
                return RecursiveLeastSquares(ridge, prior, Dual.of(*_weighted(H, y, weights, trained, prior), ridge))
            sums = NormalEquations.of(_weighted_blocks(member, x, y, weights, trained, prior))
            information = sums.normal + ridge * place_of(x).eye(int(sums.normal.shape[0]))
            return RecursiveLeastSquares(ridge, prior, Primal(information, sums.moment))

        return replace(self, learners=tuple(ensemble.over_members(begin, min(count, _ROWS_AT_ONCE))))

    def at_ridge(self, ridge: float) -> Adaptation:
        """The same rows to be learned with another λ."""
        choice = self.choice and replace(self.choice, learners=None)
        return self if ridge == self.ridge else replace(self, ridge=ridge, learners=None, choice=choice)

    def update(self, ensemble: Ensemble, x: Array, y: Array, *, forgetting: float) -> Adaptation:
        """Take in new latent pairs."""
        old = self.ready(ensemble).learners
        assert old is not None

        def take_in(member: Member) -> RecursiveLeastSquares:
            return old[member.features.member].update(member.features(x), y, forgetting=forgetting)

        learners = tuple(ensemble.over_members(take_in, x.shape[0]))
        return replace(self, rows=self.rows.appended(x, y, forgetting), learners=learners)

    @property
    def begun(self) -> Start:
        """What the adaptation departed from."""
        return "ridge" if self.priors[0] is None else "least-squares"

    def readouts(self, ensemble: Ensemble) -> list[Array]:
        """The adapted readout of each member."""
        learners = self.ready(ensemble).learners
        assert learners is not None

        def readout(member: Member) -> Array:
            return learners[member.features.member].readout

        return list(ensemble.over_members(readout, len(self.rows)))


def _weighted_blocks(
    member: Member, x: Array, y: Array, weights: Array | None, trained: int, prior: Array | None
) -> Iterator[Block]:
    """Yield √D H and √D R of blocks of rows."""
    start = 0
    for H, Y in stream(member.features, x, y):
        stop = start + int(H.shape[0])
        yield _weighted(H, Y, None if weights is None else weights[start:stop], trained - start, prior)
        start = stop


def _weighted(H: Array, Y: Array, weights: Array | None, old: int, prior: Array | None) -> Block:
    """√D H and √D R; towards a prior, the residuals R of the old rows, which come first, count as 0."""
    R = Y
    if prior is not None:
        R = place_of(Y).zeros(*Y.shape)
        new = slice(min(max(old, 0), int(Y.shape[0])), int(Y.shape[0]))
        if new.start < new.stop:
            R[new, :] = Y[new, :] - H[new, :] @ prior
    return (H, R) if weights is None else (H * weights[:, None], R * weights[:, None])


def batch_refit(ensemble: Ensemble, rows: Rows, *, ridge: float) -> Ensemble:
    """Refit every readout to these latents at once: what the recursion is compared with."""
    x, y, weights = rows.joined()

    def refit(member: Member) -> Array:
        if x.shape[0] > max(_ROWS_AT_ONCE, member.features.count):
            return solve_streamed_readout(lambda: _weighted_blocks(member, x, y, weights, 0, None), ridge).readout
        return fit_readout(*_weighted(member.features(x), y, weights, 0, None), ridge)[0]

    return ensemble.with_readouts(list(ensemble.over_members(refit, min(int(x.shape[0]), _ROWS_AT_ONCE))))
