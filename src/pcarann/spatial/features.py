"""Random features of a point and its surroundings.

    fields   local operators on standardised channels: identity, slopes, both of Gaussian means 1.5 and 3 points wide
    hⱼ       tanh(g · (mixture of about 6 of these fields, random weights, spread 1) + bⱼ),   bⱼ ~ g N(0, 1)

Beside the features stand the channels themselves and a constant. Weights are the same at every point, so that nothing
here grows with the grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pcarann.backend.arrays import Array, cuts, place_of, tanh_inplace
from pcarann.backend.concurrency import concurrently
from pcarann.backend.random import normal, uniform
from pcarann.spatial.channels import Sight
from pcarann.spatial.pairs import LinearizedPair, Pair

__all__ = ["WIDTHS", "Features"]

WIDTHS = (1.5, 3.0)
"""Of Gaussian means, in points"""
_AT_ONCE = 1 << 14  # points of samples on a CPU
_ALWAYS = 4.0  # spreads that are never clipped
_MARGIN, _FAR, _LEAST_MARGIN = 2.0, 12.0, 1.1  # times what training samples reach; spreads up to which, and beyond
_NOTHING = 1e-12  # of a mean, or of a spread of 1: what is left of a constant by rounding
_WEIGHTS, _CHOSEN, _BIASES = -22, -23, -24


@dataclass(frozen=True, eq=False)
class Features:
    """The features of one stage."""

    sight: Sight
    shift: Array
    """(channels,)"""
    scale: Array
    """(channels,): channels are (c − shift) · scale"""
    limit: Array
    """(channels,): what they are clipped to outside the training data, so that products of û cannot run away"""
    mixing: Array
    """(fields, features), gains and the spreads of the fields in it"""
    biases: Array
    """(features,)"""

    @classmethod
    def drawn(
        cls, sight: Sight, inputs: Array, fields: Array, *, count: int, terms: float, seed: int, number: int
    ) -> Features:
        """Draw `count` features, standardised on these samples; `number` tells stages and members apart."""
        place, gain = place_of(fields), sight.families.gain
        xp = place.xp
        most = max(1, (_AT_ONCE if place.on_host else 64 * _AT_ONCE) // sight.domain.points)
        samples = [(inputs[rows, ...], fields[rows, ...]) for rows in cuts(int(fields.shape[0]), most)]
        shift, moments = _moments(sight.channels, samples)
        spreads = xp.sqrt(xp.linalg.diagonal(moments))
        scale = _inverse(spreads, _NOTHING * xp.abs(shift))
        limit = xp.zeros_like(scale) + math.inf
        _, moments = _moments(lambda a, u: _local(sight, (sight.channels(a, u) - shift) * scale), samples)
        spreads = xp.sqrt(xp.linalg.diagonal(moments))
        spreads = _inverse(spreads, xp.zeros_like(spreads) + _NOTHING)
        shape = (int(moments.shape[0]), count)
        weights = normal(shape, seed=seed, stream=(_WEIGHTS, number), place=place)
        chosen = uniform(shape, seed=seed, stream=(_CHOSEN, number), place=place) < terms / shape[0]
        mixing = spreads[:, None] * xp.where(chosen, weights, xp.zeros_like(weights))
        mixtures = xp.sqrt(xp.clip(xp.sum(mixing * (moments @ mixing), axis=0), min=0.0))
        mixing = gain * mixing * _inverse(mixtures, xp.zeros_like(mixtures) + _NOTHING)[None, :]
        biases = gain * normal((count,), seed=seed, stream=(_BIASES, number), place=place)
        return cls(sight, shift, scale, limit, mixing, biases)

    def limited(self, samples: Callable[[slice], tuple[Array, Array]], blocks: Sequence[slice]) -> Features:
        """The same, channels clipped beyond what samples reach, all of the training set, handed out in blocks.

        Others reach a little further, and a flow goes on. Where tails are heavy, features far out are extrapolations.
        """
        place = place_of(self.shift)
        xp = place.xp

        def ends(rows: slice) -> Array:
            channels = self.sight.channels(*samples(rows))
            channels = xp.reshape(channels, (-1, channels.shape[-1]))
            return xp.maximum(xp.max(channels, axis=0) - self.shift, self.shift - xp.min(channels, axis=0))

        reached = xp.zeros_like(self.shift)
        points = max((rows.stop - rows.start for rows in blocks), default=0) * self.sight.domain.points
        size = 24 * points * int(self.shift.shape[0])
        for far in concurrently(ends, blocks, place=place, bytes_each=max(1, size)):
            reached = xp.maximum(reached, far * self.scale)
        limit = xp.maximum(_LEAST_MARGIN * reached, xp.clip(_MARGIN * reached, max=_FAR))
        return replace(self, limit=xp.clip(limit, min=_ALWAYS))

    @property
    def count(self) -> int:
        """Features, channels and the constant"""
        return int(self.mixing.shape[1] + self.shift.shape[0]) + 1

    @property
    def bytes_each(self) -> int:
        """Of a feature at a point"""
        return 4 if self.sight.families.single else 8

    @property
    def n_fields(self) -> int:
        """Fields of which mixtures are made: local operators on every channel"""
        operators = 1 + self.sight.domain.directions
        return int(self.shift.shape[0]) * (1, operators, (1 + len(WIDTHS)) * operators)[self.sight.families.reach]

    @cached_property
    def _weights(self) -> Array:
        """(fields and 1, count): one product gives the arguments of tanh, then channels, which are fields, and 1"""
        place = place_of(self.mixing)
        fields, features = (int(n) for n in self.mixing.shape)
        weights = place.zeros(fields + 1, self.count)
        weights[:fields, :features] = self.mixing
        weights[fields, :features] = self.biases
        channels = self.count - features - 1
        weights[:channels, features : features + channels] = place.eye(channels)
        weights[fields, -1] = 1.0
        return self.rounded(weights)

    def rounded(self, array: Array) -> Array:
        """A real or complex array in the precision of the features."""
        xp = place_of(array).xp
        if not self.sight.families.single:
            return array
        return xp.astype(array, xp.complex64 if xp.isdtype(array.dtype, "complex floating") else xp.float32)

    def __call__(self, inputs: Array, fields: Array) -> Array:
        """(samples, *space, count)"""
        channels = self.sight.channels(inputs, fields)
        channels -= self.shift
        channels *= self.scale
        return self._activated(channels)

    def linearized(self, inputs: Array, fields: Array) -> LinearizedPair:
        """Features with their derivative; channels that are clipped do not change.

        Features of single precision have slopes 1 − h² of single precision. Products with these are in double, so that
        forward and back are adjoint to rounding.
        """
        xp, count = place_of(fields).xp, int(self.mixing.shape[1])
        seen = self.sight.linearized(inputs, fields)
        scaled = (seen.value - self.shift) * self.scale
        scale = xp.where(xp.abs(scaled) < self.limit, self.scale, xp.zeros_like(self.scale))
        found = self._activated(scaled)

        def push(inputs: Array, fields: Array) -> Array:
            channels = seen.push(inputs, fields) * scale
            change = _local(self.sight, channels) @ self.mixing
            change *= 1 - found[..., :count] ** 2
            return xp.concat([change, channels, xp.zeros_like(channels[..., :1])], axis=-1)

        def pull(features: Array) -> Pair:
            flat = found[..., :count] ** 2
            flat -= 1
            parts = (flat * features[..., :count]) @ -self.mixing.T
            parts[..., : self.shift.shape[0]] += features[..., count:-1]
            return seen.pull(_local_adjoint(self.sight, parts) * scale)

        return LinearizedPair(found, push, pull)

    def _activated(self, scaled: Array) -> Array:
        """Features of standardised channels."""
        channels = self.rounded(place_of(scaled).xp.clip(scaled, -self.limit, self.limit))
        found = _local(self.sight, channels, constant=True) @ self._weights
        tanh_inplace(found[..., : self.mixing.shape[1]])
        return found


def _local(sight: Sight, channels: Array, constant: bool = False) -> Array:
    """(samples, *space, fields): local operators on every channel, and 1 if asked."""
    place = place_of(channels)
    domain, reach = sight.domain, sight.families.reach
    parts = [channels]
    if reach > 0:
        parts += domain.slopes(channels)
    if reach > 1:
        for width in WIDTHS:
            mean = domain.blurred(channels, width)
            parts += [mean, *domain.slopes(mean)]
    if constant:
        parts.append(place.xp.ones((*channels.shape[:-1], 1), dtype=channels.dtype, device=place.device))
    return place.xp.concat(parts, axis=-1) if len(parts) > 1 else channels


def _local_adjoint(sight: Sight, fields: Array) -> Array:
    """Adjoint of `_local`: (samples, *space, fields) back to channels."""
    domain, reach = sight.domain, sight.families.reach
    if reach == 0:
        return fields
    means = 1 + (len(WIDTHS) if reach > 1 else 0)
    count = int(fields.shape[-1]) // (means * (1 + domain.directions))
    parts = [fields[..., i : i + count] for i in range(0, int(fields.shape[-1]), count)]

    def gathered(number: int) -> Array:
        own, *slopes = parts[number * (1 + domain.directions) : (number + 1) * (1 + domain.directions)]
        return own + domain.slopes_adjoint(slopes)

    blurred = (domain.blurred_adjoint(gathered(i), width) for i, width in enumerate(WIDTHS[: means - 1], start=1))
    return sum(blurred, start=gathered(0))


def _moments(seen: Callable[[Array, Array], Array], samples: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Mean and covariance, over all points, of (samples, *space, columns) arrays made of some samples after others.

    The variance of any mixture follows from them, and no more than some samples are in memory.
    """
    place = place_of(samples[0][1])
    count, mean, scatter = 0, place.zeros(1), place.zeros(1, 1)
    for sample in samples:
        part = seen(*sample)
        part = place.xp.reshape(part, (-1, part.shape[-1]))
        more, here = int(part.shape[0]), place.xp.mean(part, axis=0)
        part = part - here
        apart = here - mean  # of the two means; Chan's update, which rounds as if all points were seen at once
        scatter = scatter + part.T @ part + (apart[:, None] * apart[None, :]) * (count * more / (count + more))
        count, mean = count + more, mean + apart * (more / (count + more))
    return mean, scatter / count


def _inverse(spread: Array, least: Array) -> Array:
    """1/spread; 0 where there is none, so that what never varies in training is not looked at."""
    xp = place_of(spread).xp
    there = spread > least
    return xp.where(there, 1.0 / xp.where(there, spread, xp.ones_like(spread)), xp.zeros_like(spread))
