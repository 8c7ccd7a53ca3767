"""The members of an ensemble: feature maps with their readouts, each fitted by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal, Protocol

from pcarann.backend.arrays import Array, contiguous, cuts, place_of, taken
from pcarann.backend.concurrency import alike, concurrently, least_seconds
from pcarann.backend.linearized import Linearized
from pcarann.backend.progress import Tick
from pcarann.backend.random import spread
from pcarann.ensemble.maps import FeatureMap, Features
from pcarann.ensemble.pairs import ROWS, Pairs
from pcarann.features.random_layers import HiddenLayers, RandomFeatures
from pcarann.latent.rows import LeaveOut
from pcarann.readout.direct import ReadoutReport, solve_readout, transposed_product
from pcarann.readout.leave_out import distinct_residuals, left_out_residuals, refitted_residuals
from pcarann.readout.ridge import choose_ridge, spectrum_of_rows, spectrum_of_sums
from pcarann.readout.streamed import solve_sums

__all__ = ["Member", "Predictors", "fit_members", "keeps_weights", "resolve_ridge"]

_ANCHOR_ROWS = 4096  # that anchors are taken from and features are kept of, at most; more rows are streamed
_JUDGES = 5  # members that predict samples without having seen them, at least; all where rows are few
_FEW_ROWS = 400
_REFITTING = 3  # those whose readouts are fitted anew, where rows are not so few that it costs nothing
_FEW_REFITTED = 100  # rows
_ROUNDING = 1e-9  # of latents, by which equal ones differ
_LEAST_SHARE = 0.1  # of a squared error, that a larger ensemble leaves of it
_KEPT_WEIGHT_BYTES = 1 << 30  # hidden weights stay in memory up to here, and are drawn at each use beyond


class Predictors(Protocol):
    """What predictions are combinations of."""

    def predictors(self, latents: Array) -> Array:
        """(samples, latent) rows to (samples, terms)."""

    def seconds(self, samples: int) -> float:
        """What that takes on one core at best."""


@dataclass(frozen=True)
class Member:
    """One feature map with its fitted readout."""

    features: Features
    coefficients: Array
    """Of the predictors, (features, output latent): V itself for random layers, α for a kernel"""
    report: ReadoutReport
    quick: Predictors | None = None
    """What takes the place of the features for few samples, in single precision, where that was asked for"""

    @classmethod
    def of(cls, features: Features, readout: Array, report: ReadoutReport) -> Member:
        """A member with the readout V of its features."""
        return cls(features, contiguous(features.coefficients(readout)), report)

    @property
    def readout(self) -> Array:
        """V, (features, output latent)"""
        return self.features.readout(self.coefficients)

    def __call__(self, x: Array) -> Array:
        """Φ(x) = h(x)ᵀV for (samples, latent) rows."""
        return transposed_product(self.features.predictors(x).T, self.coefficients)

    def linearized(self, x: Array) -> Linearized:
        """Φ of (samples, latent) rows with its derivative."""
        features, V = self.features.linearized(x), self.coefficients
        value = transposed_product(features.value.T, V)
        return features.then(Linearized(value, lambda t: transposed_product(t.T, V), lambda c: c @ V.T))

    def few(self, x: Array) -> Array:
        """Φ(x), each row by itself: products with one vector, not with a tile of them."""
        xp = place_of(x).xp
        features = self.features if self.quick is None else self.quick
        if isinstance(features, RandomFeatures) and features.weights is None:
            features = replace(features, weights=features.hidden_weights())  # drawn once for all rows
        rows = [transposed_product(features.predictors(x[row, :]).T, self.coefficients) for row in cuts(x.shape[0], 1)]
        return rows[0] if len(rows) == 1 else xp.concat(rows, axis=0)

    def seconds(self, samples: int) -> float:
        """What a prediction for so many samples takes on one core at best."""
        count = int(self.coefficients.shape[0]) * int(self.coefficients.shape[1])
        features = self.features if self.quick is None else self.quick
        return features.seconds(samples) + least_seconds(count * samples, 8 * count)


def fit_members(
    feature_map: FeatureMap,
    pairs: Pairs,
    *,
    n_members: int,
    ridge: float,
    judged: Sequence[LeaveOut] = (),
    tick: Tick = lambda stage, done, total: None,
) -> tuple[tuple[Member, ...], dict[int, Array]]:
    """Fit members 0, …, K − 1 to latent pairs; return them with the residuals of judged rows.

    A residual is that of the mean of all members, fitted without the sample and its group, as some of them show it.
    """
    x, y, anchors = pairs.x, pairs.y, spread(pairs.originals, _ANCHOR_ROWS)
    repeated = any(one.own > 1 for one in judged)
    judges = n_members if x.shape[0] <= _FEW_ROWS else min(n_members, _JUDGES)
    few = x.shape[0] <= _FEW_REFITTED
    refitting = min(n_members, _JUDGES if few else _REFITTING)
    groups, own = [one.rows for one in judged], [one.own for one in judged]
    equal = repeated and sum(own) == x.shape[0] and _equal(x, groups)

    def fit_member(k: int) -> tuple[Member, Array | None]:
        features, H = feature_map.features(k, x, anchors)
        left = groups if k < judges else []
        residuals = None
        if _direct(features, x, anchors):
            H = H if x.shape[0] == len(anchors) else features(x)
            found = solve_readout(H, y, ridge)
            # Rows that repeat each other have no slack where features interpolate.
            anew = few and (repeated or found.report.solver == "svd")
            if left and equal and not anew:
                residuals = distinct_residuals(H, y, ridge, left)
            elif left and not repeated and not anew:
                residuals = left_out_residuals(found, H, y, left, own)
            elif left and k < refitting:
                residuals = refitted_residuals(H, y, ridge, left, own)
        else:
            del H
            found = solve_sums(pairs.sums(features), ridge)
            if left:
                rows = [row for group in left for row in group]
                kept = features(taken(x, rows)), taken(y, rows), _counted(left), own
                residuals = left_out_residuals(found, *kept)
        return Member.of(_forgetful(features, n_members), found.readout, found.report), residuals

    members: list[Member] = []
    left: list[Array] = []
    rows = min(int(x.shape[0]), max(len(anchors), ROWS))
    bytes_each = feature_map.working_bytes(rows, len(anchors))
    seconds = feature_map.seconds(int(x.shape[0])) if n_members == 1 else math.inf
    fitted = concurrently(fit_member, range(n_members), place=place_of(x), bytes_each=bytes_each, seconds_each=seconds)
    for member, missed in fitted:
        members.append(member)
        left += [] if missed is None else [missed]
        tick("fitting members", len(members), n_members)
    if not left:
        return tuple(members), {}
    missed = _of_ensemble(left, n_members)
    rows_of = [row for one in judged for row in one.rows[: one.own]]
    return tuple(members), {row: missed[i, :] for i, row in enumerate(rows_of)}


def _equal(x: Array, groups: Sequence[Sequence[int]]) -> bool:
    """Whether the (rows, latent) rows of each group are equal to rounding."""
    xp = place_of(x).xp
    firsts = [group[0] for group in groups for _ in group]
    apart = taken(x, [row for group in groups for row in group]) - taken(x, firsts)
    return float(xp.max(xp.abs(apart))) <= _ROUNDING * float(xp.max(xp.abs(x)))


def _of_ensemble(residuals: Sequence[Array], members: int) -> Array:
    """Residuals of the mean of all members, from those of some, (rows, outputs) each.

    Members differ by chance alone, so that the mean of J of them errs by ‖r̄‖² ≈ bias² + s²/J with s² the variance
    of one: r̄ is shortened to ‖r̄‖² − s² (1/J − 1/K).
    """
    count = len(residuals)
    xp = place_of(residuals[0]).xp
    mean = sum(residuals[1:], residuals[0]) / count
    if count in (1, members):
        return mean
    variance = sum(xp.sum((one - mean) ** 2, axis=1) for one in residuals) / (count - 1)
    square = xp.sum(mean**2, axis=1)
    share = 1.0 - variance * (1 / count - 1 / members) / xp.where(square > 0, square, xp.ones_like(square))
    return mean * xp.sqrt(xp.clip(share, min=_LEAST_SHARE))[:, None]


def _counted(groups: Sequence[Sequence[int]]) -> list[range]:
    """The same groups of rows where only these rows are kept, one after another."""
    ends = list(accumulate(len(group) for group in groups))
    return [range(end - len(group), end) for end, group in zip(ends, groups, strict=True)]


def resolve_ridge(
    feature_map: FeatureMap, pairs: Pairs, ridge: float | Literal["gcv"], distinct: Sequence[int] | None = None
) -> float:
    """Return the ridge, chosen on member 0 where none is given: the members differ by chance alone.

    `distinct` are rows that do not repeat each other, None for all: cross-validation sees no error of repeats.
    """
    if not isinstance(ridge, str):
        return ridge
    x, y, anchors = pairs.x, pairs.y, spread(pairs.originals, _ANCHOR_ROWS)
    with alike(place_of(x), feature_map.seconds(int(x.shape[0]))):
        features, H = feature_map.features(0, x, anchors)
        if distinct is not None:
            rows = [distinct[i] for i in spread(len(distinct), _ANCHOR_ROWS)]
            return choose_ridge(spectrum_of_rows(features(taken(x, rows)), taken(y, rows)))
        if _direct(features, x, anchors):
            return choose_ridge(spectrum_of_rows(H if x.shape[0] == len(anchors) else features(x), y))
        return choose_ridge(spectrum_of_sums(pairs.sums(features).normal()))


def _direct(features: Features, x: Array, anchors: list[int]) -> bool:
    """Whether all rows are handled at once: few of them, or fewer than features."""
    return bool(x.shape[0] == len(anchors) or x.shape[0] < features.count)


def _forgetful(features: Features, n_members: int) -> Features:
    """Drop hidden weights where those of all members would not fit: they can be drawn again."""
    if not isinstance(features, RandomFeatures):
        return features
    return features if keeps_weights(features.layers, n_members) else replace(features, weights=None)


def keeps_weights(layers: HiddenLayers, n_members: int) -> bool:
    """Whether hidden weights of so many members stay in memory; else they are drawn at each use."""
    size, n1, n2 = layers.sizes
    return n_members * 8 * n1 * (size + n2) <= _KEPT_WEIGHT_BYTES
