"""An ensemble prepared for calls with few samples: what it keeps in memory, and in which precision.

A call with one sample reads every hidden weight once, and does one multiplication with it: what it costs is bytes.

    bytes = Σₖ b n₁ (d + n₂) + 8 p e,   and those of the modes,   b = 8, or 4 in single precision

Weights that are not kept are drawn again, which costs several times as much as reading them. In single precision W x
is summed to seven digits, of which ill-conditioned readouts leave fewer: the change of the prediction is measured on
training latents, and single precision is taken only where it is a hundredth or less of what the fit misses of samples
that were left out. Kernels draw nothing, and are as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pcarann.backend.arrays import Array, place_of, taken
from pcarann.backend.concurrency import least_seconds
from pcarann.backend.random import spread
from pcarann.ensemble.members import Member
from pcarann.features.random_layers import RandomFeatures, layer_output

__all__ = ["Prepared", "SingleFeatures", "prepared_members"]

_JUDGED = 32  # training rows on which single precision is measured
_ALLOWED = 0.01  # of what the fit misses, by which single precision may change a prediction


@dataclass(frozen=True)
class SingleFeatures:
    """The features of one member from hidden weights in single precision; all but W x is double."""

    features: RandomFeatures
    weights: tuple[Array, Array]
    """W⁽¹⁾, W⁽²⁾ in single precision"""

    @classmethod
    def of(cls, features: RandomFeatures) -> SingleFeatures:
        """The same features, their weights rounded."""
        xp = place_of(features.anchors[0]).xp
        first, second = (xp.astype(weights, xp.float32) for weights in features.hidden_weights())
        return cls(replace(features, weights=None), (first, second))

    def predictors(self, latents: Array) -> Array:
        """h of (samples, latent) rows, (samples, features)."""
        features, xp = self.features, place_of(latents).xp
        neurons, rows = features.weighting.neurons(features.layers.sizes, latents)
        inputs = features.weighting.weighted(latents).T
        for layer, weights in enumerate(self.weights):
            projections = neurons[rows[layer], :]
            projections[...] = xp.astype(weights @ xp.astype(inputs, xp.float32), xp.float64)
            inputs = layer_output(projections, features.anchors[layer], features.scales[layer])
        return neurons.T

    def seconds(self, samples: int) -> float:
        """What the products for so many samples take on one core at best."""
        count = _hidden_count(self.features)
        return least_seconds(count * samples / 2, 4 * count)


@dataclass(frozen=True)
class Prepared:
    """What was kept for calls with few samples; print it."""

    memory: int
    """Bytes that hidden weights may take"""
    members: int
    kept: int = 0
    """Members whose hidden weights are in memory"""
    bytes_kept: int = 0
    single: bool = False
    """Whether those for few samples are in single precision"""
    change: float | None = None
    """By which single precision changes predictions, a share of what the fit misses; None where it was not measured"""
    call_bytes: int = 0
    """Read by a call with one sample, beside the modes"""
    drawn_bytes: int = 0
    """Of hidden weights that each call draws again"""

    @classmethod
    def of(cls, members: Sequence[Member], memory: int, change: float | None = None) -> Prepared:
        """What these members keep."""
        quick, kept, held, drawn = 0, 0, 0, 0
        read = sum(8 * math.prod(member.coefficients.shape) for member in members)
        for member in members:
            features, count = member.features, _hidden_count(member.features)
            double = isinstance(features, RandomFeatures) and features.weights is not None
            single = member.quick is not None
            quick, kept = quick + single, kept + (single or double or not count)
            held += 4 * count * single + 8 * count * double
            read += 4 * count if single else 8 * count * double
            drawn += 0 if single or double else 8 * count
        return cls(memory, len(members), kept, held, quick > 0, change, read, drawn)

    def __str__(self) -> str:
        if not self.members:
            return "Nothing is drawn at a call: all that predicts is in memory."
        if not self.bytes_kept + self.drawn_bytes:
            return "A kernel has no hidden weights: nothing is to be prepared."
        precision = "single" if self.single else "double"
        found = (
            f"Hidden weights of {self.kept} of {self.members} members are kept in {precision} precision, "
            f"{_size(self.bytes_kept)} of {_size(self.memory)}; a call with one sample reads {_size(self.call_bytes)}"
        )
        found += f" and draws {_size(self.drawn_bytes)} again" if self.drawn_bytes else ""
        if self.change is None:
            return f"{found}."
        verdict = "changes" if self.single else f"would change, more than {_ALLOWED:g} of it,"
        return f"{found}. Single precision {verdict} predictions by {self.change:.2g} of what the fit misses."


def prepared_members(
    members: Sequence[Member], memory: int, *, single: bool, x: Array, y: Array, missed: float | None
) -> tuple[tuple[Member, ...], Prepared]:
    """Members that keep hidden weights up to so many bytes, and what was kept.

    `single` allows single precision where it changes predictions of some (rows, latent) training rows little enough;
    `missed` is the share of the spread of y that the fit misses of samples left out, None where nobody knows.
    """
    plain = tuple(replace(member, quick=None) for member in members)
    if not _hidden_count(plain[0].features):
        return plain, Prepared.of(plain, memory)
    rounded, change = _rounded(plain, x, y, missed) if single and place_of(x).on_host else (False, None)
    each = (4 if rounded else 8) * _hidden_count(plain[0].features)
    kept = min(len(plain), memory // each)
    room = memory - kept * each
    found = [
        _keeping(member, rounded, room >= 2 * (k + 1) * each) if k < kept else _lean(member)
        for k, member in enumerate(plain)
    ]
    return tuple(found), Prepared.of(found, memory, change)


def _keeping(member: Member, single: bool, double_too: bool) -> Member:
    """A member that keeps its weights: rounded ones for few samples, and those of batches where there is room."""
    features = member.features
    assert isinstance(features, RandomFeatures)
    if not single:
        return replace(member, features=replace(features, weights=features.hidden_weights()))
    weights = features.hidden_weights() if double_too else None
    return replace(member, features=replace(features, weights=weights), quick=SingleFeatures.of(features))


def _lean(member: Member) -> Member:
    assert isinstance(member.features, RandomFeatures)
    return replace(member, features=replace(member.features, weights=None))


def _rounded(members: Sequence[Member], x: Array, y: Array, missed: float | None) -> tuple[bool, float | None]:
    """Whether single precision will do, and by what share of the fit's own error it changes predictions."""
    if not missed:
        return False, None
    xp = place_of(x).xp
    rows = taken(x, spread(int(x.shape[0]), _JUDGED))
    change: Array = 0.0
    for member in members:
        assert isinstance(member.features, RandomFeatures)
        rounded = replace(member, quick=SingleFeatures.of(member.features))
        change = change + (rounded.few(rows) - member(rows)) / len(members)
    size = float(xp.linalg.vector_norm(y)) / math.sqrt(int(y.shape[0]))
    share = float(xp.linalg.vector_norm(change)) / math.sqrt(int(rows.shape[0])) / (missed * size or 1.0)
    return share <= _ALLOWED, share


def _hidden_count(features: object) -> int:
    """Hidden weights; none of a kernel."""
    if not isinstance(features, RandomFeatures):
        return 0
    size, n1, n2 = features.layers.sizes
    return n1 * (size + n2)


def _size(count: int) -> str:
    """Bytes in words.

    >>> _size(1_500_000), _size(20)
    ('1.5 MB', '20 bytes')
    """
    units = [(10**9, "GB"), (10**6, "MB"), (10**3, "kB")]
    return next((f"{count / unit:.3g} {name}" for unit, name in units if count >= unit), f"{count} bytes")
