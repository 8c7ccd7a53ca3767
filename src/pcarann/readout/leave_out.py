"""What a fit says of samples that were left out of it, from the factorisation of the fit itself.

With M the matrix that was factored for the readout V (`readout.Solution`), and i the row of a sample, or the rows of
a group of samples and their copies under a symmetry,

    primal, M = HᵀH + λI:   yᵢ − ŷᵢ⁽⁻ⁱ⁾ = (I − Hᵢ M⁻¹ Hᵢᵀ)⁻¹ (yᵢ − Hᵢ V)
    dual,   M = HHᵀ + λI:   yᵢ − ŷᵢ⁽⁻ⁱ⁾ = [(M⁻¹)ᵢᵢ]⁻¹ [M⁻¹Y]ᵢ

where ŷᵢ⁽⁻ⁱ⁾ is predicted by the same features with a readout that never saw the rows i. Rows that repeat each other
make both singular where features interpolate: equal rows are made one, and of others readouts are fitted anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from pcarann.backend.arrays import Array, place_of, taken
from pcarann.backend.linalg import triangle
from pcarann.readout.direct import Solution, solve_readout

__all__ = ["distinct_residuals", "left_out_residuals", "refitted_residuals"]

_FEWEST_FOLDS, _IN_FOLD, _FEW_GROUPS = 10, 3, 100  # where readouts are fitted anew: folds, and groups in one
_LEAST_SLACK = 1e-12  # of 1 − Hᵢ M⁻¹ Hᵢᵀ: a row that alone holds up a feature has none, and rounding may make it less


def left_out_residuals(
    solution: Solution,
    features: Array,
    targets: Array,
    groups: Sequence[Sequence[int]],
    own: Sequence[int] | None = None,
) -> Array:
    """Return y − ŷ of samples predicted without their group, (samples, outputs).

    A group holds the rows of its `own` samples, one if None, then the rows of their copies. H and Y are those of all
    rows in the dual; in the primal some are enough, and the groups count these.

    >>> import numpy as np
    >>> from pcarann.readout.direct import solve_readout
    >>> H, Y = np.ones((4, 1)), np.array([[0.0], [1.0], [2.0], [9.0]])
    >>> print(left_out_residuals(solve_readout(H, Y), H, Y, [[3]]))  # 9 against the mean of the others
    [[8.]]
    """
    place = place_of(features)
    xp = place.xp
    rows = [row for group in groups for row in group]
    if solution.left is not None:
        return _from_left(*solution.left, targets, rows, groups, own)
    if solution.dual:
        picked = xp.astype(xp.asarray(rows, device=place.device)[None, :] == _count(features)[:, None], xp.float64)
        within, missed = taken(solution.solve(picked), rows), taken(solution.solve(targets), rows)
    else:
        H = taken(features, rows)
        within, missed = place.eye(len(rows)) - H @ solution.solve(H.T), taken(targets, rows) - H @ solution.readout
    if all(len(group) == 1 for group in groups):
        slack = xp.linalg.diagonal(within)
        return missed / (slack if solution.dual else xp.clip(slack, min=_LEAST_SLACK))[:, None]
    return xp.concat(_by_groups(within, missed, groups, own), axis=0)


def _from_left(
    U: Array,
    shares: Array,
    targets: Array,
    rows: list[int],
    groups: Sequence[Sequence[int]],
    own: Sequence[int] | None,
) -> Array:
    """The same for a truncated decomposition H = U Σ Wᵀ: as for a ridge ε², which truncates as the fit does.

    I − Hᵢ M⁻¹ Hᵢᵀ = (I − UUᵀ + ε² U Σ⁻² Uᵀ)ᵢᵢ, and Y instead of the second I: no rounding of large weights V.
    """
    place = place_of(U)
    xp = place.xp
    mine, moved = taken(U, rows), U.T @ targets
    missed = taken(targets, rows) - mine @ moved + (mine * shares) @ moved
    if all(len(group) == 1 for group in groups):
        slack = xp.clip(1.0 - xp.sum(mine**2, axis=1), min=0.0) + xp.sum(mine**2 * shares, axis=1)
        return missed / xp.clip(slack, min=_LEAST_SLACK)[:, None]
    within = place.eye(len(rows)) - mine @ mine.T + (mine * shares) @ mine.T
    return xp.concat(_by_groups(within, missed, groups, own), axis=0)


def refitted_residuals(
    features: Array, targets: Array, ridge: float, groups: Sequence[Sequence[int]], own: Sequence[int] | None = None
) -> Array:
    """The same from readouts of the other rows, fitted anew a fold of groups at a time; H and Y have all rows."""
    xp = place_of(features).xp
    if features.shape[1] > features.shape[0]:
        features = triangle(features.T).T  # H Q, of as many columns as rows
    residuals: dict[int, Array] = {}
    folds = max(_FEWEST_FOLDS, len(groups) // _IN_FOLD) if len(groups) <= _FEW_GROUPS else _FEWEST_FOLDS
    folds = min(folds, len(groups))
    for fold in range(folds):
        left = [row for group in groups[fold::folds] for row in group]
        gone = set(left)
        others = [row for row in range(int(features.shape[0])) if row not in gone]
        readout = solve_readout(taken(features, others), taken(targets, others), ridge).readout
        missed = taken(targets, left) - taken(features, left) @ readout
        residuals |= {row: missed[i, :] for i, row in enumerate(left)}
    counts = [1] * len(groups) if own is None else own
    return xp.stack([residuals[row] for group, count in zip(groups, counts, strict=True) for row in group[:count]])


def distinct_residuals(features: Array, targets: Array, ridge: float, groups: Sequence[Sequence[int]]) -> Array:
    """The same where rows of a group are equal, and groups hold all rows: leave one of the distinct rows out at a time.

    m equal rows are one, with the mean of their targets, in a fit with the ridge λ/m; m is taken as the same for all.
    """
    xp = place_of(features).xp
    H = taken(features, [group[0] for group in groups])
    Y = xp.stack([xp.mean(taken(targets, list(group)), axis=0) for group in groups])
    ridge *= len(groups) / sum(len(group) for group in groups)
    residuals = left_out_residuals(solve_readout(H, Y, ridge), H, Y, [[i] for i in range(len(groups))])
    rows = [row for group in groups for row in group]
    which = [i for i, group in enumerate(groups) for _ in group]
    return taken(residuals, which) + taken(targets, rows) - taken(Y, which)


def _by_groups(within: Array, missed: Array, groups: Sequence[Sequence[int]], own: Sequence[int] | None) -> list[Array]:
    """Solve for each group alone; return the rows of the samples themselves."""
    found, start, xp = [], 0, place_of(within).xp
    for i, group in enumerate(groups):
        part = slice(start, start + len(group))
        block, count = within[part, part], 1 if own is None else own[i]
        found.append((xp.linalg.pinv(block) @ missed[part, :])[:count, :])
        start += len(group)
    return found


def _count(features: Array) -> Array:
    place = place_of(features)
    return place.xp.arange(features.shape[0], device=place.device)
