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
from pcarann.ensemble.maps import FeatureMap, Features, RandomMap
from pcarann.ensemble.pairs import ROWS, Pairs
from pcarann.features.random_layers import HiddenLayers, RandomFeatures
from pcarann.readout.direct import ReadoutReport, solve_readout, transposed_product
from pcarann.readout.leave_out import left_out_residuals
from pcarann.readout.ridge import choose_ridge, spectrum_of_rows, spectrum_of_sums
from pcarann.readout.streamed import solve_sums

__all__ = ["Member", "Predictors", "fit_members", "keeps_weights", "resolve_ridge"]

_ANCHOR_ROWS = 4096  # that anchors are taken from and features are kept of, at most; more rows are streamed
_KERNEL_JUDGES = 8  # of which each can judge but the few samples that are no landmarks of it
_JUDGES = 1  # members that predict what they have not seen, so that a fit can be judged
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
    judged: Sequence[Sequence[int]] = (),
    tick: Tick = lambda stage, done, total: None,
) -> tuple[tuple[Member, ...], dict[int, Array]]:
    """Fit members 0, …, K − 1 to latent pairs; return them with the residuals of judged rows.

    A judged sample is given by its row and those of its copies: its residual is the mean over the first members, which
    predict it without it.
    """
    x, y, anchors = pairs.x, pairs.y, spread(pairs.originals, _ANCHOR_ROWS)
    judges = min(n_members, _JUDGES if isinstance(feature_map, RandomMap) else _KERNEL_JUDGES) if judged else 0

    def fit_member(k: int) -> tuple[Member, Sequence[Sequence[int]], Array | None]:
        features, H = feature_map.features(k, x, anchors)
        groups = features.judgeable(judged) if k < judges else ()
        kept, targets = groups, y
        if _direct(features, x, anchors):
            H = H if x.shape[0] == len(anchors) else features(x)
            found = solve_readout(H, y, ridge)
        else:
            del H
            found = solve_sums(pairs.sums(features), ridge)
            if groups:
                rows = [row for group in groups for row in group]
                H, targets, kept = features(taken(x, rows)), taken(y, rows), _counted(groups)
        residuals = left_out_residuals(found, H, targets, kept) if groups else None
        return Member.of(_forgetful(features, n_members), found.readout, found.report), groups, residuals

    members: list[Member] = []
    left: dict[int, list[Array]] = {}
    rows = min(int(x.shape[0]), max(len(anchors), ROWS))
    bytes_each = feature_map.working_bytes(rows, len(anchors))
    seconds = feature_map.seconds(int(x.shape[0])) if n_members == 1 else math.inf
    fitted = concurrently(fit_member, range(n_members), place=place_of(x), bytes_each=bytes_each, seconds_each=seconds)
    for member, groups, missed in fitted:
        members.append(member)
        if missed is not None:
            for i, group in enumerate(groups):
                left.setdefault(group[0], []).append(missed[i, :])
        tick("fitting members", len(members), n_members)
    return tuple(members), {row: sum(parts) / len(parts) for row, parts in left.items()}


def _counted(groups: Sequence[Sequence[int]]) -> list[range]:
    """The same groups of rows where only these rows are kept, one after another."""
    ends = list(accumulate(len(group) for group in groups))
    return [range(end - len(group), end) for end, group in zip(ends, groups, strict=True)]


def resolve_ridge(feature_map: FeatureMap, pairs: Pairs, ridge: float | Literal["gcv"]) -> float:
    """Return the ridge, chosen on member 0 where none is given: the members differ by chance alone."""
    if not isinstance(ridge, str):
        return ridge
    x, y, anchors = pairs.x, pairs.y, spread(pairs.originals, _ANCHOR_ROWS)
    with alike(place_of(x), feature_map.seconds(int(x.shape[0]))):
        features, H = feature_map.features(0, x, anchors)
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
