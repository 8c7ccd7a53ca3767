"""The members of an ensemble on a sheet: random layers or a kernel, each with its readout, all of them in one product.

As in `pcarann.features`, whose formulas these are: the kernel with its series for near points too. Weights of all
members are stacked, (members, latent, width), so that (rows, latent) become (members, rows, width) at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, to_host
from pcarann.ensemble.members import Member
from pcarann.export.graph import Sheet, Value
from pcarann.features.kernel import REST, KernelFeatures
from pcarann.features.random_layers import RandomFeatures
from pcarann.latent.weighting import Weighting

__all__ = ["write_members"]

Values = np.ndarray[Any, np.dtype[Any]]


def write_members(sheet: Sheet, members: Sequence[Member], x: Value) -> Value:
    """Φ of every member for (rows, latent) latents: (members, rows, output latent)."""
    features: list[Any] = [member.features for member in members]
    write = _kernel if isinstance(features[0], KernelFeatures) else _layers
    terms = write(sheet, features, x)
    readout, start, total = _stacked(members, lambda member: member.coefficients), 0, None
    for term, width in terms:
        part = term @ readout[:, start : start + width, :]
        total, start = part if total is None else total + part, start + width
    assert total is not None
    return total


def _layers(sheet: Sheet, features: Sequence[RandomFeatures], x: Value) -> list[tuple[Value, int]]:
    """h⁽¹⁾ = tanh(r₁ (W⁽¹⁾x − c⁽¹⁾)), h⁽²⁾ of that, and the linear term, with the number of each."""
    found, inputs, weights = [], _weighted(features[0].weighting, x), [one.hidden_weights() for one in features]
    for layer, scale in enumerate(features[0].scales):
        W = np.stack([np.ascontiguousarray(to_host(one[layer]).T) for one in weights])
        c = np.stack([to_host(one.anchors[layer]) for one in features])[:, None, :]
        inputs = sheet.tanh((inputs @ W - c) * scale)
        found.append((inputs, int(W.shape[2])))
    return found + _linear(features[0].weighting, x)


def _kernel(sheet: Sheet, features: Sequence[KernelFeatures], x: Value) -> list[tuple[Value, int]]:
    """g of every landmark, the terms of the polynomial, and the linear term, with the number of each."""
    Z = _stacked(features, lambda one: one.landmarks)
    seen = _weighted(features[0].weighting, x)
    own = sheet.summed(seen * seen, [-1], keep=True)
    squares = (seen @ np.ascontiguousarray(np.swapaxes(Z, 1, 2))) * -2.0 + own + (Z**2).sum(axis=2)[:, None, :]
    unit = np.asarray([5.0 / one.length**2 for one in features])[:, None, None]
    squares = sheet.maximum(squares, 0.0) * unit
    near = sheet.less(sheet.averaged(squares, [-1], keep=True), 1.0)
    rest = _rest(sheet, squares, near)
    ones = own * 0.0 + 1.0
    polynomial = sheet.where(near, sheet.joined([ones, own, seen], axis=-1), 0.0)
    count, size = Z.shape[1:]
    return [(rest, count), (polynomial, 2 + size), *_linear(features[0].weighting, x)]


def _rest(sheet: Sheet, squares: Value, near: Value) -> Value:
    """g(s) of s² for rows that are near, k(s) for the others."""
    root = sheet.sqrt(squares)
    whole = (1.0 + root + squares / 3.0) * sheet("Exp", -root)
    series = root * REST[-1] + REST[-2]
    for coefficient in reversed(REST[:-2]):
        series = series * root + coefficient
    series = series * squares * squares
    return sheet.where(near, sheet.where(sheet.less(root, 0.5), series, whole - 1.0 + squares / 6.0), whole)


def _weighted(weighting: Weighting, x: Value) -> Value:
    w = None if weighting.relevance is None else to_host(weighting.relevance)
    return x if w is None else x * w if w.ndim == 1 else x @ w


def _linear(weighting: Weighting, x: Value) -> list[tuple[Value, int]]:
    if weighting.linear is None:
        return []
    s = to_host(weighting.linear)
    return [(x * s, len(s))]


def _stacked(members: Sequence[Any], part: Callable[[Any], Array]) -> Values:
    return np.stack([to_host(part(one)) for one in members])
