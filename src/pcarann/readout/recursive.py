"""Recursive least squares on the readout of one member, exact, in blocks.

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

from dataclasses import dataclass, replace

from pcarann.backend.arrays import Array, Place, place_of
from pcarann.backend.linalg import cholesky, solve_cholesky, solve_lower
from pcarann.readout.direct import transposed_product

__all__ = ["Dual", "Primal", "RecursiveLeastSquares", "appended"]


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
        return Dual(appended(old, rows), xp.concat([kept, residuals], axis=0), extended)

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


def appended(blocks: tuple[Array, ...], rows: Array) -> tuple[Array, ...]:
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
        raise ValueError("adaptation lost positive definiteness: use a larger ridge, Adapt(ridge=…).")
    return lower
