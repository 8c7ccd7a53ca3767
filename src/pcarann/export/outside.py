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
from pcarann.uncertainty.extrapolation import CERTAIN, LEAST_SHARE, MIRRORED, ROUNDING
from pcarann.uncertainty.novelty import LEAST_P, LEVEL, shells, tail_of

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

    @classmethod
    def of(cls, sheet: Sheet, fitted: Fitted, fields: Value, x: Value) -> Looks:
        """Look at inputs as a record does."""
        residual = _residual(sheet, fitted, fields, x, _leading(fitted))
        return cls(fields, x, residual, _p_values(sheet, fitted, fields, x, residual))

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
    p = sheet("Exp", sheet.averaged(sheet("Log", looks.all_p), [1], keep=True))
    certainty = sheet.minimum(sheet.maximum(sheet("Log", LEVEL / p) / math.log(CERTAIN), 0.0), 1.0)
    pair = sheet.joined([sheet("Unsqueeze", one, _FIRST) for one in (inside, inside - share * steps)], axis=0)
    latents = sheet.averaged(model.latents(pair), [0])
    halves = sheet("Reshape", latents, np.asarray([2, -1, fitted.ensemble.output_pca.n_components]))
    at_edge, mirrored = (sheet.one_of(halves, i, axis=0) for i in (0, 1))
    spread = to_host(edge.output_spread(fitted.ensemble))
    changes = [sheet("Abs", one) for one in (apart(at_edge), model.change(at_edge - mirrored))]
    none = sheet.less(distance, np.nextafter(ROUNDING, 1.0))  # new in combination alone; false for NaN
    with sheet.loosely():
        found = (changes[0] + changes[1] / sheet.reshaped(share, (1,)) + distance * spread) * certainty
        found = sheet.where(sheet.less(found, math.inf), found, math.inf)  # NaN is no less
        return sheet.where(none, 0.0, found)


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
    """Which latents are looked at in each channel: 1 or 0, (latent, channels)."""
    view = fitted.view
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


def _p_values(sheet: Sheet, fitted: Fitted, fields: Value, x: Value, residual: Value) -> Value:
    """p-values, (samples, elements)."""
    test, pca, leading = fitted.novelty_test, fitted.ensemble.input_pca, _leading(fitted)
    assert test is not None
    spread = to_host(pca.singular_values) / fitted.pca_samples**0.5
    scaled = x / np.where(spread > 0, spread, 1.0)
    distance = sheet.sqrt((scaled * scaled) @ leading)
    numbers = np.arange(float(pca.mean.shape[0]))[None, :]
    columns = fitted.view.columns(numbers, pca.grid)[0, :].astype(np.int64)
    seen = np.flatnonzero(leading.sum(axis=1))
    base = [sheet.gathered(x, seen, axis=2), distance, sheet.maximum(residual, test.floor)]
    base = [sheet.gathered(fields, columns, axis=2), *base] if len(columns) else base
    index, sign = _table(len(columns), latent_parts(fitted.view.modes))
    statistics = sheet.gathered(sheet.joined(base, axis=2), index, axis=2) * sign
    statistics = sheet.where(sheet.less(sheet("Abs", statistics), math.inf), statistics, math.inf)
    body, excess = (_padded(part, test.groups) for part in (test.tails.body, test.tails.excess))
    depth = sheet.greatest((statistics - body) / excess, [-1])
    p = _p_among(sheet, depth, list(test.depths))
    least = sheet.least(p, [-1], keep=True)
    ranked = _p_among(sheet, -sheet("Log", least), [test.surprises])
    return sheet.least(sheet.minimum(ranked, least * float(len(test.groups))), [-1])


def _table(columns: int, parts: Sequence[slice]) -> tuple[Values, Values]:
    """Where each statistic stands among columns, latents, distances and residuals, and its sign: (groups, most) each.

    >>> _table(1, [slice(0, 2)])[0]
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
    groups.append([columns + latents + channels + c for c in range(channels)])
    signs.append([1.0] * channels)
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
    below = sheet.summed(sheet.counted(sheet.less(reference, sheet("Unsqueeze", depth, _LAST))), [-1])
    beyond = sheet.maximum(depth - reference[:, -1], 0.0)
    p = (1.0 + many - below) / (many + 1.0) * sheet("Pow", 1.0 + beyond / far, power)
    return sheet.maximum(p, LEAST_P)


def _norm(sheet: Sheet, x: Value) -> Value:
    return sheet.sqrt(sheet.summed(x * x, [-1], keep=True))
