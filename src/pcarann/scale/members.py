"""Members of an ensemble on the workers of a cluster: sums over (member, block) tasks, added up in a tree.

    HᵀH = Σ_b H_bᵀH_b        H_b the features of a block of rows, made where the block is

Latents travel once, block by block, and stay on the workers as long as the fit goes on; a block whose worker dies comes
from the scheduler again. Hidden weights are functions of the seed, and each task draws them: all that a member sends is
its anchors, and all that comes back is its sums.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pcarann.backend.arrays import Array, cuts, place_of
from pcarann.ensemble.maps import Features
from pcarann.ensemble.pairs import ROWS, Elsewhere, stream
from pcarann.features.random_layers import RandomFeatures
from pcarann.readout.streamed import NormalEquations, joined_triangle, missed_moment, triangle_of
from pcarann.scale.engine import Budget, kept_on_workers, over_blocks

__all__ = ["WorkerSums", "on_workers"]

_TURNS = 3  # blocks for each task that can work at a time
_MOST_ROWS = 1 << 16  # of a block
_SUMS = 4  # of one member that a task holds: its own, and those that it adds up


def on_workers(x: Array, y: Array) -> Elsewhere | None:
    """Take latent pairs to the workers of the user's cluster; None where there is none, or where a GPU holds them."""
    budget = Budget.now()
    if not (budget.on_cluster and place_of(x).by_numpy):
        return None
    tasks, rows = _TURNS * budget.tasks * budget.workers, int(x.shape[0])
    most = max(ROWS, budget.each // 8 // (8 * int(x.shape[1] + y.shape[1])))
    size = max(1, min(_MOST_ROWS, most, -(-rows // (tasks * ROWS)) * ROWS))
    blocks: list[Any] = []
    lock = threading.Lock()  # members are asked for by several threads

    def sums(features: Features) -> WorkerSums:
        with lock:
            if not blocks:  # of few rows, sums are never asked for
                blocks.extend(kept_on_workers([(x[part, :], y[part, :]) for part in cuts(rows, size)]))
        return WorkerSums(blocks, _light(features), _rows_at_once(features, int(y.shape[1]), budget))

    return sums


@dataclass(frozen=True)
class WorkerSums:
    """Sums of the features of one member over all rows."""

    blocks: list[Any]
    """Latent pairs, delayed, each on a worker"""
    features: Features
    rows: int
    """At a time through the hidden layers"""

    def normal(self) -> NormalEquations:
        """HᵀH and HᵀY."""
        found: NormalEquations = self._added(member_normal, NormalEquations.add)
        return found

    def missed(self, readout: Array) -> Array:
        """Hᵀ(Y − HV), from the rows themselves."""
        return self._added(member_missed, _total, readout=readout)

    def triangle(self) -> Array:
        """R of a QR factorisation of (H Y)."""
        return self._added(member_triangle, joined_triangle)

    def _added(self, task: Callable[..., Any], add: Callable[[list[Any]], Any], **constants: Any) -> Any:
        constants |= {"features": self.features, "rows": self.rows}
        return over_blocks(task, self.blocks, [()] * len(self.blocks), constants, add)[0]


def member_normal(pair: tuple[Array, Array], *, features: Features, rows: int) -> tuple[NormalEquations, None]:
    """HᵀH and HᵀY of a block."""
    return NormalEquations.of(stream(_ready(features), *pair, rows)), None


def member_missed(pair: tuple[Array, Array], *, features: Features, rows: int, readout: Array) -> tuple[Array, None]:
    """Hᵀ(Y − HV) of a block."""
    return missed_moment(stream(_ready(features), *pair, rows), readout), None


def member_triangle(pair: tuple[Array, Array], *, features: Features, rows: int) -> tuple[Array, None]:
    """R of a block."""
    return triangle_of(stream(_ready(features), *pair, rows)), None


def _total(parts: list[Array]) -> Array:
    return sum(parts[1:], parts[0])


def _light(features: Features) -> Features:
    """Without the hidden weights, which a task draws."""
    return replace(features, weights=None) if isinstance(features, RandomFeatures) else features


def _ready(features: Features) -> Features:
    """With the hidden weights, drawn once for all rows of a block."""
    return replace(features, weights=features.hidden_weights()) if isinstance(features, RandomFeatures) else features


def _rows_at_once(features: Features, outputs: int, budget: Budget) -> int:
    """Rows whose features fit into the memory of a task beside the sums of the member, or a refusal."""
    sums = _SUMS * 8 * features.count * (features.count + outputs)
    fixed = sums + features.working_bytes(0)
    each = max(1, features.working_bytes(1) - features.working_bytes(0))
    rows = (budget.each - fixed) // each
    if rows < 1:
        raise ValueError(
            f"A member of {features.count} features needs {(fixed + each) / 1e9:.3g} GB on a worker, but a task may "
            f"take {budget.each / 1e9:.3g} GB: take smaller widths, or workers with more memory."
        )
    return int(min(ROWS, rows))
