"""Random features of a point and its surroundings.

    fields   local operators on standardised channels: identity, slopes, both of Gaussian means 1.5 and 3 points wide
    hⱼ       tanh(g · (mixture of about 6 of these fields, random weights, spread 1) + bⱼ),   bⱼ ~ g N(0, 1)

Beside the features stand the channels themselves and a constant. Weights are the same at every point, so that nothing
here grows with the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pcarann.backend.arrays import Array, place_of, tanh_inplace
from pcarann.backend.random import normal, uniform
from pcarann.spatial.channels import Sight

__all__ = ["Features"]

_WIDTHS = (1.5, 3.0)
_WEIGHTS, _CHOSEN, _BIASES = -22, -23, -24


@dataclass(frozen=True, eq=False)
class Features:
    """The features of one stage."""

    sight: Sight
    shift: Array
    """(channels,)"""
    scale: Array
    """(channels,): channels are (c − shift) · scale"""
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
        channels = sight.channels(inputs, fields)
        every = tuple(range(channels.ndim - 1))
        shift, scale = xp.mean(channels, axis=every), _inverse(xp.std(channels, axis=every))
        local = _local(sight, (channels - shift) * scale)
        spreads = _inverse(xp.std(local, axis=every))
        shape = (int(local.shape[-1]), count)
        weights = normal(shape, seed=seed, stream=(_WEIGHTS, number), place=place)
        chosen = uniform(shape, seed=seed, stream=(_CHOSEN, number), place=place) < terms / shape[0]
        mixing = spreads[:, None] * xp.where(chosen, weights, xp.zeros_like(weights))
        mixing = gain * mixing * _inverse(xp.std(local @ mixing, axis=every))[None, :]
        biases = gain * normal((count,), seed=seed, stream=(_BIASES, number), place=place)
        return cls(sight, shift, scale, mixing, biases)

    @property
    def count(self) -> int:
        """Features, channels and the constant"""
        return int(self.mixing.shape[1] + self.shift.shape[0]) + 1

    @property
    def n_fields(self) -> int:
        """Fields of which mixtures are made: local operators on every channel"""
        operators = 1 + len(self.sight.domain.axes)
        return int(self.shift.shape[0]) * (1, operators, (1 + len(_WIDTHS)) * operators)[self.sight.families.reach]

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
        return weights

    def __call__(self, inputs: Array, fields: Array) -> Array:
        """(samples, *space, count)"""
        channels = self.sight.channels(inputs, fields)
        channels -= self.shift
        channels *= self.scale
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
        for width in _WIDTHS:
            mean = domain.blurred(channels, width)
            parts += [mean, *domain.slopes(mean)]
    if constant:
        parts.append(place.xp.ones((*channels.shape[:-1], 1), dtype=channels.dtype, device=place.device))
    return place.xp.concat(parts, axis=-1) if len(parts) > 1 else channels


def _inverse(spread: Array) -> Array:
    """1/spread; 0 where there is none, so that what never varies in training is not looked at."""
    xp = place_of(spread).xp
    tiny = 1e-12 * xp.max(spread)
    return xp.where(spread > tiny, 1.0 / xp.where(spread > tiny, spread, xp.ones_like(spread)), xp.zeros_like(spread))
