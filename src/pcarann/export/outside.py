"""Inputs beside the training data on a sheet: their p-values, and the possible error δ outside.

What `pcarann.uncertainty.novelty` and `pcarann.uncertainty.extrapolation` compute for the inputs that need it is
written down for all inputs; δ is 0 where they lie inside. Statistics stand in one table, (groups, statistics), the
first of a group repeated where it has fewer than others, so that the greatest depth of all groups is one operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.export.ensembles import LatentModel
from pcarann.export.graph import Sheet, Value
from pcarann.fitted import Fitted
from pcarann.latent.channels import latent_parts
from pcarann.latent.resampled import Resampled
from pcarann.uncertainty.extrapolation import CERTAIN, FAR_AWAY, LEAST_SHARE, MIRRORED, ROUNDING, Near
from pcarann.uncertainty.holes import Gaps
from pcarann.uncertainty.novelty import LEAST_P, LEVEL, shells, tail_of, with_ties

__all__ = ["Looks", "possible_error"]

Values = np.ndarray[Any, np.dtype[Any]]
_FIRST, _LAST = np.asarray([0]), np.asarray([-1])


@dataclass(frozen=True, eq=False)
class Looks:
    """What is seen of inputs, (samples, elements, …)."""

    fields: Value
    """(samples, elements, values), in the units inside"""
    x: Value
    """Their latents"""
    residual: Value
    """What leading modes miss of each channel, (samples, elements, channels)"""
    all_p: Value
    """p-values, (samples, elements)"""
    gap: Value | None
    """How deep inputs lie in a gap between training values of a column, (samples, 1); None without such columns"""

    @classmethod
    def of(cls, sheet: Sheet, fitted: Fitted, fields: Value, x: Value) -> Looks:
        """Look at inputs as a record does."""
        every = np.ones((fitted.ensemble.input_pca.n_components, 1))
        residual = _residual(sheet, fitted, fields, x, every if fitted.view.fields else _leading(fitted))
        seen = _Seen.of(sheet, fitted, fields, x, residual)
        return cls(fields, x, residual, _p_values(sheet, fitted, seen), seen.deepest)

    @property
    def p(self) -> Value:
        """The p-value of each input as it is, (samples,)"""
        return self.all_p.sheet.one_of(self.all_p, 0)


def possible_error(model: LatentModel, fitted: Fitted, looks: Looks, apart: Callable[[Value], Value]) -> Value:
    """δ, (samples, values), where predictions lie so far `apart` from fields of the latents that it is handed."""
    sheet, edge = model.sheet, fitted.edge
    assert edge is not None
    clipped = looks.x
    if edge.columns is not None and model.elements == 1:
        low, high = (to_host(end) for end in edge.columns)
        clipped = model.encoded(sheet.minimum(sheet.maximum(looks.fields, low), high))
    inside = _inside(sheet, edge, clipped)
    steps = looks.x - inside
    lengths = sheet("Abs", steps)
    room = MIRRORED * 0.5 * to_host(edge.high - edge.low)
    ways = sheet.where(sheet("Greater", lengths, room), room / sheet.maximum(lengths, np.finfo(float).tiny), 1.0)
    share = sheet.maximum(sheet.least(ways, [1, 2], keep=True), LEAST_SHARE)
    distance = sheet.averaged(_norm(sheet, steps), [1])
    missed = sheet.maximum(_missed(sheet, fitted, looks) - edge.residual, 0.0)
    distance = (distance + missed) / edge.size  # (samples, 1)
    mirrored, unknown = inside - share * steps, None
    if edge.near is not None:
        beside = _beside(sheet, edge.near, looks.x)
        far = sheet.averaged(beside[2], [1]) / edge.size
        if looks.gap is not None and model.elements == 1:
            far = sheet.maximum(far, looks.gap)
            certain = sheet.minimum(looks.gap, 1.0)
            unknown = certain * certain * edge.output_range(fitted.ensemble)
        hole = sheet("Greater", far, distance)  # (samples, 1)
        wide = sheet.reshaped(hole, (1, 1))
        distance, share = sheet.where(hole, far, distance), sheet.where(wide, 1.0, share)
        inside, mirrored = sheet.where(wide, beside[0], inside), sheet.where(wide, beside[1], mirrored)
    p = sheet("Exp", sheet.averaged(sheet("Log", looks.all_p), [1], keep=True))
    certainty = sheet.minimum(sheet.maximum(sheet("Log", LEVEL / p) / math.log(CERTAIN), 0.0), 1.0)
    pair = sheet.joined([sheet("Unsqueeze", one, _FIRST) for one in (inside, mirrored)], axis=0)
    latents = sheet.averaged(model.latents(pair), [0])
    halves = sheet("Reshape", latents, np.asarray([2, -1, fitted.ensemble.output_pca.n_components]))
    at_edge, mirror = (sheet.one_of(halves, i, axis=0) for i in (0, 1))
    spread = to_host(edge.output_spread(fitted.ensemble))
    changes = [sheet("Abs", one) for one in (apart(at_edge), model.change(at_edge - mirror))]
    none = sheet.less(distance, np.nextafter(ROUNDING, 1.0))  # inside in every respect; false for NaN
    with sheet.loosely():
        found = changes[0] + changes[1] / sheet.reshaped(share, (1,)) + distance * spread
        found = (found if unknown is None else found + unknown) * certainty
        found = sheet.where(sheet.less(found, math.inf), found, math.inf)  # NaN is no less
        return sheet.where(none, 0.0, found)


def _beside(sheet: Sheet, near: Near, x: Value) -> tuple[Value, Value, Value]:
    """`Near.beside` for (samples, elements, latent) x; the distance is (samples, elements, 1)."""
    points = to_host(near.points)
    index = list(near.index)
    short, few = sheet.gathered(x, np.asarray(index), axis=2), points[:, index]
    squares = _squares(sheet, short, few) + near.order
    nearest = _where_least(sheet, squares, points)
    way = sheet.gathered(nearest, np.asarray(index), axis=2) - short
    behind = sheet.less(way @ few.T, sheet.summed(way * short, [-1], keep=True))
    squares = sheet.where(behind, squares, FAR_AWAY)
    some = sheet.less(sheet.least(squares, [-1], keep=True), FAR_AWAY)
    opposite = sheet.where(some, _where_least(sheet, squares, points), nearest)
    return nearest, opposite, sheet.maximum(_norm(sheet, way) - near.usual, 0.0)


def _where_least(sheet: Sheet, squares: Value, points: Values) -> Value:
    """The point of the least squared distance."""
    weights = 1.0 - sheet.counted(sheet.less(sheet.least(squares, [-1], keep=True), squares))
    found: Value = (weights / sheet.summed(weights, [-1], keep=True)) @ points
    return found


def _squares(sheet: Sheet, x: Value, points: Values) -> Value:
    """Squared distances of (samples, elements, latent) x to points, (samples, elements, points)."""
    own = sheet.summed(x * x, [-1], keep=True)
    found: Value = own - x @ (2.0 * points.T) + (points**2).sum(axis=1)
    return found


def _inside(sheet: Sheet, edge: Any, x: Value) -> Value:
    """Latents taken back into the box of the training latents, and no farther than the farthest of these."""
    x = sheet.minimum(sheet.maximum(x, to_host(edge.low)), to_host(edge.high))
    far = _norm(sheet, x / to_host(edge.spread))
    shrunk = x * (edge.farthest / sheet.maximum(far, np.finfo(float).tiny))
    return sheet.where(sheet("Greater", far, edge.farthest), shrunk, x)


def _missed(sheet: Sheet, fitted: Fitted, looks: Looks) -> Value:
    """What modes miss of inputs, (samples, 1): with a symmetry all modes, on average over the orbit."""
    if len(fitted.ensemble.averaged) == 1:
        return sheet.reshaped(_norm(sheet, looks.residual), (1,))
    every = np.ones((fitted.ensemble.input_pca.n_components, 1))
    return sheet.averaged(_residual(sheet, fitted, looks.fields, looks.x, every), [1])


def _leading(fitted: Fitted) -> Values:
    """Which latents are looked at in each channel: 1 or 0, (latent, channels); of fields those that are looked at."""
    view = fitted.view
    if view.fields:
        return np.repeat(np.eye(len(view.modes)), view.modes, axis=0)
    found = np.zeros((fitted.ensemble.input_pca.n_components, len(view.sizes)))
    for c, (where, count) in enumerate(zip(latent_parts(view.sizes), view.modes, strict=True)):
        found[where.start : where.start + count, c] = 1.0
    return found


def _residual(sheet: Sheet, fitted: Fitted, fields: Value, x: Value, modes: Values) -> Value:
    """What these of the modes miss of each channel, (samples, elements, channels)."""
    pca, channels = fitted.ensemble.input_pca, modes.shape[1]
    centred = fields - to_host(pca.mean)
    resampled = isinstance(pca, Resampled)
    if resampled:  # whose modes are not orthonormal
        centred = centred - (x * modes.max(axis=1)) @ to_host(pca.modes)
    squares = centred * centred
    if pca.weights is not None:
        squares = squares * to_host(pca.weights)
    elements = len(fitted.ensemble.averaged)
    total = sheet.summed(sheet.reshaped(squares, (elements, channels, int(pca.mean.shape[0]) // channels)), [-1])
    return sheet.sqrt(total if resampled else sheet.maximum(total - (x * x) @ modes, 0.0))


@dataclass(frozen=True, eq=False)
class _Seen:
    """Statistics of inputs without signs, one kind after another, (samples, elements, all)."""

    statistics: Value
    columns: int
    residuals: int
    holes: tuple[int, int]
    deepest: Value | None
    """The deepest gap of a column, (samples, 1)"""

    @classmethod
    def of(cls, sheet: Sheet, fitted: Fitted, fields: Value, x: Value, residual: Value) -> _Seen:
        test, pca, view = fitted.novelty_test, fitted.ensemble.input_pca, fitted.view
        assert test is not None
        numbers = np.arange(float(pca.mean.shape[0]))[None, :]
        columns = view.columns(numbers, pca.grid)[0, :].astype(np.int64)
        parts = [sheet.gathered(fields, columns, axis=2)] if len(columns) else []
        leading = _leading(fitted)
        if view.fields:
            codes = np.concatenate([np.arange(n) + s for (_, s), n in zip(view.fields, view.modes, strict=True)])
            looked = sheet.gathered(fields, codes, axis=2)
            scaled = looked / np.asarray(view.spreads)
        else:
            spread = to_host(pca.singular_values) / fitted.pca_samples**0.5
            looked = sheet.gathered(x, np.flatnonzero(leading.sum(axis=1)), axis=2)
            scaled = x / np.where(spread > 0, spread, 1.0)
        parts += [looked, sheet.sqrt((scaled * scaled) @ leading)]
        residuals = 0 if view.fields else len(view.sizes)
        if residuals:
            parts.append(sheet.maximum(residual, test.floor))
        deepest, holes = None, test.holes
        if holes is not None and holes.sizes[0]:
            own = holes.sizes[0] - len(holes.latents)
            coordinates = [sheet.gathered(parts[0], np.arange(own), axis=2)] if own else []
            coordinates += [sheet.gathered(looked, np.asarray(holes.latents), axis=2)] if holes.latents else []
            gaps = holes.gaps
            inside = _inside_gaps(sheet, gaps, sheet.joined(coordinates, axis=2))
            ratios = inside / gaps.scale
            parts.append(sheet.maximum(sheet.greatest(ratios, [-1]) - gaps.least, 0.0))
            if own:
                deep = sheet.where(sheet("Greater", ratios, gaps.least[:, None]), inside, 0.0)
                spreads = sheet.one_of(sheet.greatest(deep, [-1]) / gaps.unit, 0)
                deepest = sheet.greatest(sheet.gathered(spreads, np.arange(own)), [-1], keep=True)
                deepest = sheet.maximum(deepest, 0.0)
        if holes is not None:
            near = holes.nearest
            short = sheet.gathered(x, np.asarray(near.index), axis=2)
            far = [_squares(sheet, short * scale, near.points * scale) for scale in near.scales]
            parts += [sheet.sqrt(sheet.maximum(sheet.least(one, [-1], keep=True), 0.0)) for one in far]
        sizes = (0, 0) if holes is None else holes.sizes
        return cls(sheet.joined(parts, axis=2), len(columns), residuals, sizes, deepest)


def _inside_gaps(sheet: Sheet, gaps: Gaps, values: Value) -> Value:
    """How far (samples, elements, coordinates) values are from the ends of each gap, negative outside of it."""
    wide = sheet("Unsqueeze", values, _LAST)
    return sheet.minimum(wide - gaps.low, gaps.high - wide)


def _p_values(sheet: Sheet, fitted: Fitted, seen: _Seen) -> Value:
    """p-values, (samples, elements)."""
    test = fitted.novelty_test
    assert test is not None
    index, sign = _table(seen.columns, latent_parts(fitted.view.modes), seen.residuals, seen.holes)
    statistics = sheet.gathered(seen.statistics, index, axis=2) * sign
    statistics = sheet.where(sheet.less(sheet("Abs", statistics), math.inf), statistics, math.inf)
    body, excess = (_padded(part, test.groups) for part in (test.tails.body, test.tails.excess))
    depth = sheet.greatest((statistics - body) / excess, [-1])
    p = _p_among(sheet, depth, list(test.depths))
    least = sheet.least(p, [-1], keep=True)
    ranked = _p_among(sheet, -sheet("Log", least), [test.surprises])
    return sheet.least(sheet.minimum(ranked, least * float(len(test.groups))), [-1])


def _table(
    columns: int, parts: Sequence[slice], residuals: int, holes: tuple[int, int] = (0, 0)
) -> tuple[Values, Values]:
    """Where each statistic stands among columns, latents, distances, residuals and holes, and its sign.

    Both are (groups, most).

    >>> _table(1, [slice(0, 2)], 1)[0]
    array([[0, 0, 0, 0],
           [1, 2, 1, 2],
           [3, 3, 3, 3],
           [4, 4, 4, 4]])
    """
    latents, channels = parts[-1].stop, len(parts)
    groups = [[*range(columns), *range(columns)]]
    signs = [[1.0] * columns + [-1.0] * columns]
    for c, part in enumerate(parts):
        for shell in shells(part):
            own = [columns + i for i in range(shell.start, shell.stop)]
            groups.append(own + own)
            signs.append([1.0] * len(own) + [-1.0] * len(own))
        if part.stop - part.start > 1:
            groups.append([columns + latents + c])
            signs.append([1.0])
    start = columns + latents + channels
    for count in (residuals, *holes):
        groups.append([start + i for i in range(count)])
        signs.append([1.0] * count)
        start += count
    sizes = [len(group) for group in groups if group]
    index, sign = (np.concatenate([np.asarray(one) for one in table if one]) for table in (groups, signs))
    return _padded(index, sizes), _padded(sign, sizes)


def _padded(flat: Values, groups: Sequence[int]) -> Values:
    """Numbers of all groups one after another as a table, the first of each group repeated behind it."""
    most = max(groups)
    rows = [np.concatenate([flat[at], np.repeat(flat[at][:1], most - count)]) for at, count in _cut(groups)]
    return np.stack(rows)


def _cut(groups: Sequence[int]) -> list[tuple[slice, int]]:
    return list(zip(latent_parts(groups), groups, strict=True))


def _p_among(sheet: Sheet, depth: Value, references: Sequence[Values]) -> Value:
    """p-values of depths, (…, groups), each among the reference of its group."""
    tails = [tail_of(one) for one in references]
    far = np.asarray([count * tail for tail, count in tails])
    power = np.asarray([-float(count) for _, count in tails])
    reference = np.stack(references)
    many = float(reference.shape[1])
    below = sheet.summed(sheet.counted(sheet.less(with_ties(reference), sheet("Unsqueeze", depth, _LAST))), [-1])
    beyond = sheet.maximum(depth - reference[:, -1], 0.0)
    p = (1.0 + many - below) / (many + 1.0) * sheet("Pow", 1.0 + beyond / far, power)
    return sheet.maximum(p, LEAST_P)


def _norm(sheet: Sheet, x: Value) -> Value:
    return sheet.sqrt(sheet.summed(x * x, [-1], keep=True))
