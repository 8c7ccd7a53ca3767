"""Online adaptation: recursive least squares on the readout, exact, in blocks.

The paper's recursion for a new pair (h, y), with P = (HᵀH + λI)⁻¹ of the old features,

    k = Ph / (1 + hᵀPh),   V ← V + k(yᵀ − hᵀV),   P ← P − k hᵀP,

started from weights V₀, is the solution of a ridge regression that shrinks towards V₀:

    V = V₀ + (HᵀDH + λI)⁻¹ HᵀD R        over all rows, old and new

with D = I and R the residuals Y − HV₀, which the recursion takes as zero for the old rows. Two starts:

    least-squares   V₀ is the fitted readout and R = 0 on the training rows: the paper's.
    ridge           V₀ = 0 and R = Y on the training rows: equals a batch ridge refit to rounding.

A forgetting factor β < 1 gives a row of age t the weight D = βᵗ. The ridge is never forgotten, so that directions
without new data cannot blow up. The sum over rows does not depend on their order or on how they are cut into blocks.

    primal, p ≤ n:  keeps HᵀDH + λI and HᵀDR, both sums, and solves.
                    Paper: keeps P itself, which loses symmetry and positivity over many updates.
    dual,   p > n:  keeps √D H, √D R and the Cholesky factor of √D HHᵀ√D + λI, extended by each block; the p × p
                    matrix is never formed. A stream that outgrows the features switches to the primal.
                    The rows stay in the blocks in which they came, so that taking in a few copies none of the many.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from pcarann.backend.arrays import Array, Place, place_of
from pcarann.backend.linalg import cholesky, solve_cholesky, solve_lower
from pcarann.ensemble.members import Ensemble, Member, stream
from pcarann.readout.direct import Block, NormalEquations, fit_readout, transposed_product

__all__ = ["Adaptation", "Dual", "Primal", "RecursiveLeastSquares", "Rows", "Start", "batch_refit"]

_ROWS_AT_ONCE = 8192  # of the start; more are summed block by block, in the primal

Start = Literal["least-squares", "ridge"]


@dataclass(frozen=True)
class Primal:
    """Sums over rows, p × p."""

    information: Array
    """HᵀDH + λI, (features, features)"""
    moment: Array
    """HᵀDR, (features, outputs)"""

    @property
    def correction(self) -> Array:
        """V − V₀"""
        return solve_cholesky(_positive(self.information), self.moment)

    def updated(self, rows: Array, residuals: Array, fade: float, ridge: float) -> Primal:
        """Fade the old rows by `fade` and add weighted new ones."""
        information = fade * self.information + rows.T @ rows
        if fade != 1.0:
            information += (1.0 - fade) * ridge * place_of(rows).eye(rows.shape[1])
        return Primal(information, fade * self.moment + rows.T @ residuals)


@dataclass(frozen=True)
class Dual:
    """The rows themselves and the Cholesky factor of their Gram matrix, n × n."""

    blocks: tuple[Array, ...]
    """√D H, (samples, features), cut into blocks of rows"""
    residuals: Array
    """√D R, (samples, outputs)"""
    lower: Array
    """L Lᵀ = √D HHᵀ √D + λI"""

    @classmethod
    def of(cls, rows: Array, residuals: Array, ridge: float) -> Dual:
        """Factor the Gram matrix of weighted rows."""
        return cls((rows,), residuals, _positive(rows @ rows.T + ridge * place_of(rows).eye(rows.shape[0])))

    @property
    def samples(self) -> int:
        """n"""
        return int(self.lower.shape[0])

    @property
    def correction(self) -> Array:
        """V − V₀"""
        return self._transposed_times(solve_cholesky(self.lower, self.residuals))

    def updated(self, rows: Array, residuals: Array, fade: float, ridge: float) -> Dual:
        """Fade the old rows by `fade` and append weighted new ones."""
        place = place_of(rows)
        xp = place.xp
        lower, old, kept = self.lower, self.blocks, self.residuals
        if fade != 1.0:
            gram = lower @ lower.T
            lower = _positive(fade * gram + (1.0 - fade) * ridge * place.eye(gram.shape[0]))
            old, kept = tuple(fade**0.5 * block for block in old), fade**0.5 * kept
        # [L 0; S L'] with S = (new rows · old rowsᵀ) L⁻ᵀ and L' L'ᵀ what the new block leaves.
        cross = solve_lower(lower, xp.concat([block @ rows.T for block in old], axis=0)).T
        corner = _positive(rows @ rows.T - cross @ cross.T + ridge * place.eye(rows.shape[0]))
        n = lower.shape[0]
        extended = place.zeros(n + rows.shape[0], n + rows.shape[0])
        extended[:n, :n] = lower
        extended[n:, :n] = cross
        extended[n:, n:] = corner
        return Dual(_appended(old, rows), xp.concat([kept, residuals], axis=0), extended)

    def to_primal(self, ridge: float) -> Primal:
        """Return the same rows as sums."""
        gram = sum((block.T @ block for block in self.blocks), ridge * place_of(self.lower).eye(self._features))
        return Primal(gram, self._transposed_times(self.residuals))

    @property
    def _features(self) -> int:
        return int(self.blocks[0].shape[1])

    def _transposed_times(self, matrix: Array) -> Array:
        """(√D H)ᵀ times a (samples, outputs) matrix"""
        total: Array = 0.0
        start = 0
        for block in self.blocks:
            stop = start + block.shape[0]
            total = total + transposed_product(block, matrix[start:stop, :])
            start = stop
        return total


@dataclass(frozen=True)
class RecursiveLeastSquares:
    """The readout of one member while it adapts; `update` returns a new one."""

    ridge: float
    """λ"""
    prior: Array | None
    """V₀; None for 0"""
    state: Primal | Dual

    @classmethod
    def start(
        cls, features: Array, targets: Array, *, ridge: float = 1e-2, prior: Array | None = None
    ) -> RecursiveLeastSquares:
        """Start from the training rows: from the weights `prior` as in the paper, or ridge-consistent without."""
        place = place_of(features)
        samples, width = features.shape
        residuals = targets if prior is None else place.zeros(samples, targets.shape[1])
        if samples >= width:
            information = features.T @ features + ridge * place.eye(width)
            return cls(ridge, prior, Primal(information, features.T @ residuals))
        return cls(ridge, prior, Dual.of(features, residuals, ridge))

    @property
    def readout(self) -> Array:
        """V, (features, outputs)."""
        correction = self.state.correction
        return correction if self.prior is None else self.prior + correction

    @property
    def covariance(self) -> Array:
        """P = (HᵀDH + λI)⁻¹, (features, features); formed here only, for inspection."""
        primal = self.state.to_primal(self.ridge) if isinstance(self.state, Dual) else self.state
        identity = place_of(primal.information).eye(primal.information.shape[0])
        return solve_cholesky(_positive(primal.information), identity)

    def update(self, features: Array, targets: Array, *, forgetting: float = 1.0) -> RecursiveLeastSquares:
        """Take in a block of rows, the last of them the newest."""
        place = place_of(features)
        count, width = features.shape
        residuals = targets if self.prior is None else targets - features @ self.prior
        if forgetting != 1.0:
            ages = _age_weights(count, forgetting, place)[:, None]
            features, residuals = features * ages, residuals * ages
        state = self.state
        if isinstance(state, Dual) and state.samples + count > width:
            state = state.to_primal(self.ridge)
        return replace(self, state=state.updated(features, residuals, forgetting**count, self.ridge))


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
        return Rows(_appended(self.x, x), _appended(self.y, y), _appended(self.own, own), faded)

    def joined(self) -> tuple[Array, Array, Array | None]:
        """All of them: x, y and √D, (samples,), or None where every weight is 1"""
        xp = place_of(self.x[0]).xp
        x, y, own = (xp.concat(part, axis=0) if len(part) > 1 else part[0] for part in (self.x, self.y, self.own))
        logarithms = own[:, 0] + self.faded
        return x, y, xp.exp(logarithms) if bool(xp.any(logarithms != 0)) else None


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
        return self if ridge == self.ridge else replace(self, ridge=ridge, learners=None)

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
        return fit_readout(*_weighted(member.features(x), y, weights, 0, None), ridge)[0]

    return ensemble.with_readouts(list(ensemble.over_members(refit, x.shape[0])))


def _appended(blocks: tuple[Array, ...], rows: Array) -> tuple[Array, ...]:
    """Append rows as a block; a block that is no longer than the next is merged with it, so that there are few."""
    joined = [*blocks, rows]
    while len(joined) > 1 and joined[-2].shape[0] <= joined[-1].shape[0]:
        last = joined.pop()
        joined[-1] = place_of(last).xp.concat([joined[-1], last], axis=0)
    return tuple(joined)


def _age_weights(count: int, forgetting: float, place: Place) -> Array:
    """√β^age of a block of rows, the last of them the newest."""
    return place.put([forgetting ** (0.5 * (count - 1 - i)) for i in range(count)])


def _positive(matrix: Array) -> Array:
    """Cholesky factor of a matrix that a positive ridge makes positive definite."""
    lower = cholesky(matrix)
    if lower is None:
        raise ValueError("adaptation lost positive definiteness: use a larger adapt_ridge.")
    return lower
