"""What a fit says of samples that were left out of it, from the factorisation of the fit itself.

With M the matrix that was factored for the readout V (`readout.Solution`), and i the row of a sample, or the few rows
that are copies of it under a symmetry,

    primal, M = HᵀH + λI:   yᵢ − ŷᵢ⁽⁻ⁱ⁾ = (I − Hᵢ M⁻¹ Hᵢᵀ)⁻¹ (yᵢ − Hᵢ V)
    dual,   M = HHᵀ + λI:   yᵢ − ŷᵢ⁽⁻ⁱ⁾ = [(M⁻¹)ᵢᵢ]⁻¹ [M⁻¹Y]ᵢ

where ŷᵢ⁽⁻ⁱ⁾ is predicted by the same features with a readout that never saw the rows i.
"""

from __future__ import annotations

from collections.abc import Sequence

from pcarann.backend.arrays import Array, place_of, taken
from pcarann.readout.direct import Solution

__all__ = ["left_out_residuals"]

_LEAST_SLACK = 1e-12  # of 1 − Hᵢ M⁻¹ Hᵢᵀ: a row that alone holds up a feature has none, and rounding may make it less


def left_out_residuals(solution: Solution, features: Array, targets: Array, groups: Sequence[Sequence[int]]) -> Array:
    """Return y − ŷ of samples predicted without themselves, (groups, outputs).

    A group holds the row of a sample, then the rows of its copies. H and Y are those of all rows in the dual; in the
    primal some are enough, and the groups count these.

    >>> import numpy as np
    >>> from pcarann.readout.direct import solve_readout
    >>> H, Y = np.ones((4, 1)), np.array([[0.0], [1.0], [2.0], [9.0]])
    >>> print(left_out_residuals(solve_readout(H, Y), H, Y, [[3]]))  # 9 against the mean of the others
    [[8.]]
    """
    place = place_of(features)
    xp = place.xp
    rows = [row for group in groups for row in group]
    if solution.dual:
        picked = xp.astype(xp.asarray(rows, device=place.device)[None, :] == _count(features)[:, None], xp.float64)
        within, missed = taken(solution.solve(picked), rows), taken(solution.solve(targets), rows)
    else:
        H = taken(features, rows)
        within, missed = place.eye(len(rows)) - H @ solution.solve(H.T), taken(targets, rows) - H @ solution.readout
    if all(len(group) == 1 for group in groups):
        slack = xp.linalg.diagonal(within)
        return missed / (slack if solution.dual else xp.clip(slack, min=_LEAST_SLACK))[:, None]
    return xp.stack(_by_groups(within, missed, [len(group) for group in groups]))


def _by_groups(within: Array, missed: Array, sizes: Sequence[int]) -> list[Array]:
    """Solve for each group alone; return the row of the sample itself."""
    found, start = [], 0
    for size in sizes:
        part = slice(start, start + size)
        found.append((place_of(within).xp.linalg.pinv(within[part, part]) @ missed[part, :])[0, :])
        start += size
    return found


def _count(features: Array) -> Array:
    place = place_of(features)
    return place.xp.arange(features.shape[0], device=place.device)
