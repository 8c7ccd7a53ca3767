"""The members of an ensemble on a sheet: random layers or a kernel, each with its readout, all of them in one product.

As in `pcarann.features`, whose formulas these are: the kernel with its series for near points too. Weights of all
members are stacked, (members, width, latent), and rows are columns here, so that (latent, rows) become (members, width,
rows) at once: runtimes read a matrix on the left once, where they would copy it on the right. Hidden weights may be
kept in single precision where that hardly changes what members say of training samples: readouts of nearly dependent
features would amplify it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of, taken, to_host
from pcarann.backend.random import spread
from pcarann.ensemble.members import Member
from pcarann.export.graph import Sheet, Value
from pcarann.features.kernel import REST, KernelFeatures
from pcarann.features.posterior import KernelPosterior
from pcarann.features.random_layers import RandomFeatures
from pcarann.latent.channels import latent_parts
from pcarann.latent.weighting import Weighting

__all__ = ["Members", "posterior_on_sheet"]

_PROBED, _JUDGES = 16, 2  # training samples and members that are looked at
_ROBUST = 1e-6  # of the greatest output latent, that weights in single precision may change


class Members:
    """All members of an ensemble, whose weights are written once, however often they are used."""

    def __init__(self, sheet: Sheet, members: Sequence[Member], known: Array | None = None):
        """`known` latents of training samples tell whether weights may be kept in single precision; None for no."""
        self._sheet = sheet
        features: list[Any] = [member.features for member in members]
        rough = known is not None and isinstance(features[0], RandomFeatures) and _is_robust(members, known)
        self._features = _Kernel(features) if isinstance(features[0], KernelFeatures) else _Layers(features, rough)
        linear = features[0].weighting.linear
        self._linear = None if linear is None else to_host(linear)[:, None]
        widths = [*self._features.widths, *([] if self._linear is None else [len(self._linear)])]
        readout = np.stack([to_host(member.coefficients).T for member in members])
        self._readouts = [np.ascontiguousarray(readout[:, :, part]) for part in latent_parts(widths)]

    def __call__(self, x: Value) -> Value:
        """Φ of every member for (rows, latent) latents: (members, rows, output latent)."""
        columns = self._sheet.transposed(x, (1, 0))
        terms = self._features(self._sheet, columns) + ([] if self._linear is None else [columns * self._linear])
        found = reduce(add, (V @ term for term, V in zip(terms, self._readouts, strict=True)))
        return self._sheet.transposed(found, (0, 2, 1))


class _Layers:
    """h⁽¹⁾ = tanh(r₁ (W⁽¹⁾x − c⁽¹⁾)) and h⁽²⁾ of that."""

    def __init__(self, features: Sequence[RandomFeatures], rough: bool):
        self._weighting, self._rough, self._scales = features[0].weighting, rough, features[0].scales
        weights = [one.hidden_weights() for one in features]
        self._W = [np.stack([to_host(one[layer]) for one in weights]) for layer in (0, 1)]
        self._c = [np.stack([to_host(one.anchors[layer]) for one in features])[:, :, None] for layer in (0, 1)]
        self.widths = [int(W.shape[1]) for W in self._W]

    def __call__(self, sheet: Sheet, x: Value) -> list[Value]:
        found, inputs = [], _weighted(self._weighting, x)
        for W, c, scale in zip(self._W, self._c, self._scales, strict=True):
            inputs = sheet.tanh(((sheet.rough(W) if self._rough else W) @ inputs - c) * scale)
            found.append(inputs)
        return found


class _Kernel:
    """g of every landmark, and the terms of the polynomial."""

    def __init__(self, features: Sequence[KernelFeatures]):
        self._weighting = features[0].weighting
        Z = np.stack([to_host(one.landmarks) for one in features])
        self._Z, self._squares = Z, (Z**2).sum(axis=2)[:, :, None]
        self._unit = np.asarray([5.0 / one.length**2 for one in features])[:, None, None]
        self.widths = [int(Z.shape[1]), 2 + int(Z.shape[2])]

    def __call__(self, sheet: Sheet, x: Value) -> list[Value]:
        seen = _weighted(self._weighting, x)
        own = sheet.summed(seen * seen, [0], keep=True)
        squares = sheet.maximum((self._Z @ seen) * -2.0 + own + self._squares, 0.0) * self._unit
        near = sheet.less(sheet.averaged(squares, [1], keep=True), 1.0)
        polynomial = sheet.joined([own * 0.0 + 1.0, own, seen], axis=0)
        return [_rest(sheet, squares, near), sheet.where(near, polynomial, 0.0)]


def posterior_on_sheet(sheet: Sheet, posterior: KernelPosterior, x: Value) -> Value:
    """The relative posterior variance v of (rows, latent) latents, (rows,), in double precision."""
    weighting, points, lower = posterior.weighting, to_host(posterior.points), to_host(posterior.lower)
    columns = sheet.transposed(x, (1, 0))
    seen, Z = _weighted(weighting, columns), to_host(weighting.weighted(posterior.points))
    own = sheet.summed(seen * seen, [0], keep=True)
    squares = sheet.maximum((Z @ seen) * -2.0 + own + (Z**2).sum(axis=1)[:, None], 0.0) * (5.0 / posterior.length**2)
    root = sheet.sqrt(squares)
    kernel, prior = (1.0 + root + squares / 3.0) * sheet("Exp", -root), sheet.summed(own, [0]) * 0.0 + 1.0
    if weighting.linear is not None:
        linear = columns * to_host(weighting.linear)[:, None]
        kernel = kernel + (points * to_host(weighting.linear)) @ linear
        prior = prior + sheet.summed(linear * linear, [0])
    solved = np.linalg.solve(lower, np.eye(len(lower))) @ kernel
    rest = sheet.maximum(prior - sheet.summed(solved * solved, [0]), 0.0)
    return (rest + posterior.nugget) / posterior.unit


def _is_robust(members: Sequence[Member], known: Array) -> bool:
    """Whether the first members say the same of some training samples with weights in single precision."""
    rows = taken(known, spread(int(known.shape[0]), _PROBED))
    xp = place_of(rows).xp
    for member in members[:_JUDGES]:
        features: Any = member.features
        W1, W2 = features.hidden_weights()
        exact, rounded = (replace(features, weights=pair) for pair in ((W1, W2), (_rounded(W1), _rounded(W2))))
        whole, other = (one.predictors(rows) @ member.coefficients for one in (exact, rounded))
        if not float(xp.max(xp.abs(other - whole))) <= _ROBUST * float(xp.max(xp.abs(whole))):
            return False
    return True


def _rounded(weights: Array) -> Array:
    xp = place_of(weights).xp
    return xp.astype(xp.astype(weights, xp.float32), xp.float64)


def _rest(sheet: Sheet, squares: Value, near: Value) -> Value:
    """g(s) of s² for rows that are near, k(s) for the others."""
    root = sheet.sqrt(squares)
    whole = (1.0 + root + squares / 3.0) * sheet("Exp", -root)
    series = root * REST[-1] + REST[-2]
    for coefficient in reversed(REST[:-2]):
        series = series * root + coefficient
    series = series * squares * squares
    return sheet.where(near, sheet.where(sheet.less(root, 0.5), series, whole - 1.0 + squares / 6.0), whole)


def _weighted(weighting: Weighting, columns: Value) -> Value:
    """w ⊙ x, or Rᵀx, of (latent, rows) latents."""
    w = None if weighting.relevance is None else to_host(weighting.relevance)
    if w is None:
        return columns
    return columns * w[:, None] if w.ndim == 1 else np.ascontiguousarray(w.T) @ columns
