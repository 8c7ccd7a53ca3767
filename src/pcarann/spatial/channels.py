"""Channels: what a stage sees at every point, made of the inputs a and the prediction û so far.

    a, û, ∂û                     always
    products                     a û, a ∂û, û ∂û, û²
    smoothed                     S a, S û with S = T⁻¹ (1/ℓ² + |k|²)⁻¹ T, their slopes, products of slopes ∂ᵢ· ∂ⱼS·
    coordinates                  x, x² along axes that are not periodic, and on a mesh
    fixed fields                 the mean change of a state, which carries what forces a flow
    terms                        what a user knows of the equation, as functions of a and u

Where û starts as the input itself, as in a flow, a and û are two states of one field: both then have slopes and
products with themselves, x, ∂x, x ∂x, x². Products of many components are too many: a random choice stands for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement, product
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from pcarann.backend.arrays import Array, place_of
from pcarann.backend.random import permutation
from pcarann.spatial.mesh_domain import Space
from pcarann.spatial.pairs import LinearizedPair, Pair
from pcarann.spatial.terms import Terms

__all__ = ["Channels", "Entry", "Sight"]

_MOST_PRODUCTS = 48
_STREAM = (-21,)


@dataclass(frozen=True)
class Channels:
    """What stages see, and how finely they tell wavenumbers apart.

    products : bool
        Whether products of inputs, prediction and slopes are among the channels.
    smoothed : None or float
        ℓ of smoothed fields, in units of the shortest axis; ∞ is the inverse Laplacian, None leaves them out.
    reach : 0, 1 or 2
        How far features look: at channels alone, at their slopes too, at both of Gaussian means as well.
    singles : int
        Wavenumbers along each axis that have weights of their own; further on bands share them. 0 is one band for
        all.
    gain : float
        Root mean square of the arguments of tanh.
    single : bool
        Whether features and corrections are computed in single precision, twice as fast; sums, solves and what is
        corrected stay in double.
    """

    products: bool = True
    smoothed: float | None = None
    reach: int = 1
    singles: int = 4
    gain: float = 0.3
    single: bool = False

    def checked(self) -> Channels:
        """The same, or a refusal of what has no meaning."""
        smoothed = self.smoothed is None or (isinstance(self.smoothed, Real) and float(self.smoothed) > 0)
        whole = isinstance(self.singles, Integral) and self.singles >= 0
        gain = isinstance(self.gain, Real) and self.gain > 0
        told = all(isinstance(one, bool | np.bool_) for one in (self.products, self.single))
        if not (smoothed and whole and gain and told and self.reach in (0, 1, 2)):
            raise ValueError(
                "Channels wants products and single True or False, smoothed None or positive, reach 0, 1 or 2, singles "
                f"a whole number of at least 0 and a positive gain, got {self!r}."
            )
        return self


@dataclass(frozen=True, eq=False)
class Sight:
    """How channels are made; arrays are (samples, *space, components)."""

    domain: Space
    families: Channels
    evolving: bool
    """Whether û starts as the input"""
    fixed: Array | None = None
    """(1, *space, fields)"""
    terms: Terms | None = None

    def channels(self, inputs: Array, fields: Array) -> Array:
        """(samples, *space, channels)"""
        return self._joined(self._sources(inputs, fields), inputs, fields)

    def linearized(self, inputs: Array, fields: Array) -> LinearizedPair:
        """Channels with their derivative: sources are linear in a and û, channels are sources and products of two."""
        self.require_derivative()
        sources = self._sources(inputs, fields)
        recipe, found = self.recipe(int(inputs.shape[-1]), int(fields.shape[-1])), self._joined(sources, inputs, fields)

        def push(inputs: Array, fields: Array) -> Array:
            return _pushed(recipe, sources, self._sources(inputs, fields), int(found.shape[-1]))

        def pull(channels: Array) -> Pair:
            parts = _pulled(recipe, sources, channels)
            own = len(parts) - self._count(True)
            return self._gathered(parts[:own], self.steep), self._gathered(parts[own:], True)

        return LinearizedPair(found, push, pull)

    def require_derivative(self) -> None:
        """Refuse terms."""
        if self.terms is not None:
            raise ValueError("Stages with terms have no derivative, since those of the terms are not known.")

    @property
    def steep(self) -> bool:
        """Whether slopes of the inputs are looked at"""
        return self.evolving or self.families.smoothed is not None

    def _sources(self, inputs: Array, fields: Array) -> list[Array]:
        """What channels are made of: linear in inputs and prediction."""
        return [*self._looked(inputs, self.steep), *self._looked(fields, True)]

    def _looked(self, state: Array, steep: bool) -> list[Array]:
        """x, ∂x, S x, ∂S x, as far as they are wanted."""
        found = [state, *(self.domain.slopes(state) if steep else ())]
        if self.families.smoothed is None:
            return found
        smooth = self.domain.smoothed(state, self.families.smoothed)
        return [*found, smooth, *self.domain.slopes(smooth)]

    def _count(self, steep: bool) -> int:
        """Of `_looked`"""
        n = self.domain.directions
        return 1 + n * steep + (1 + n) * (self.families.smoothed is not None)

    def _gathered(self, parts: Sequence[Array], steep: bool) -> Array:
        """Adjoint of `_looked`."""
        domain, n = self.domain, self.domain.directions
        found = parts[0] + domain.slopes_adjoint(parts[1 : 1 + n]) if steep else parts[0]
        if self.families.smoothed is None:
            return found
        smooth = parts[-1 - n] + domain.slopes_adjoint(parts[-n:])
        return found + domain.smoothed_adjoint(smooth, self.families.smoothed)

    def recipe(self, n_inputs: int, n_fields: int) -> tuple[Entry, ...]:
        """How channels are made of sources, x, ∂x, S x, ∂S x of a and then of û, for so many components of both."""
        told = (self.families.products, self.families.smoothed is not None, self.evolving)
        return _recipe(*told, self.domain.directions, n_inputs, n_fields)

    def _joined(self, sources: Sequence[Array], inputs: Array, fields: Array) -> Array:
        xp = place_of(fields).xp
        parts = [
            sources[entry] if isinstance(entry, int) else _column(sources, entry[0]) * _column(sources, entry[1])
            for entry in self.recipe(int(inputs.shape[-1]), int(fields.shape[-1]))
        ]
        if self.terms is not None:
            parts.append(self.terms(inputs, fields))
        samples, lines = int(fields.shape[0]), self.domain.coordinates
        for constant in (None if lines is None else place_of(fields).put(lines), self.fixed):
            if constant is not None:
                parts.append(xp.broadcast_to(constant, (samples, *constant.shape[1:])))
        return xp.concat(parts, axis=-1)


Column = tuple[int, int]
"""A source and one of its components"""
Entry = int | tuple[Column, Column]
"""A source, which is as many channels as it has components, or the product of two columns"""


class _Side(NamedTuple):
    """The numbers of the sources of a state, and its components."""

    state: int
    slopes: range
    smooth: range
    """S x and its slopes"""
    components: int

    @classmethod
    def of(cls, first: int, slopes: int, smooth: int, components: int) -> _Side:
        ends = (first + 1, first + 1 + slopes, first + 1 + slopes + smooth)
        return cls(first, range(ends[0], ends[1]), range(ends[1], ends[2]), components)

    def columns(self, sources: Iterable[int]) -> list[Column]:
        return [(source, i) for source in sources for i in range(self.components)]


@lru_cache(maxsize=64)
def _recipe(
    products: bool, smoothed: bool, evolving: bool, directions: int, n_inputs: int, n_fields: int
) -> tuple[Entry, ...]:
    """How channels are made of sources, in their order."""
    smooth = (1 + directions) * smoothed
    a = _Side.of(0, directions * (evolving or smoothed), smooth, n_inputs)
    u = _Side.of(a.smooth.stop, directions, smooth, n_fields)
    found: list[Entry] = [a.state, u.state, *(a.slopes if evolving else ()), *u.slopes]
    if products:
        found += _few(_products(a, u, evolving))
    if smoothed:
        for side in (a, u):
            steep = product(side.columns(side.slopes), side.columns(side.smooth[1:]))
            found += [*side.smooth, *_few(list(steep))]
    return tuple(found)


def _products(a: _Side, u: _Side, evolving: bool) -> list[tuple[Column, Column]]:
    states = {side: side.columns([side.state]) for side in (a, u)}
    alone = {
        side: [
            *combinations_with_replacement(states[side], 2),
            *product(states[side], side.columns(side.slopes)),
        ]
        for side in (a, u)
    }
    if evolving:
        return alone[a] + alone[u]
    return [*product(states[a], u.columns([u.state, *u.slopes])), *alone[u]]


def _few(pairs: list[tuple[Column, Column]]) -> list[tuple[Column, Column]]:
    if len(pairs) <= _MOST_PRODUCTS:
        return pairs
    chosen = permutation(len(pairs), seed=0, stream=_STREAM)[:_MOST_PRODUCTS]
    return [pairs[i] for i in sorted(chosen)]


def _column(sources: Sequence[Array], column: Column) -> Array:
    source, i = column
    return sources[source][..., i : i + 1]


def _pushed(recipe: Sequence[Entry], sources: Sequence[Array], tangents: Sequence[Array], count: int) -> Array:
    """The change of channels, d(x y) = dx y + x dy; of those that are constant, nothing."""
    place = place_of(tangents[0])
    parts = [
        tangents[entry]
        if isinstance(entry, int)
        else _column(tangents, entry[0]) * _column(sources, entry[1])
        + _column(sources, entry[0]) * _column(tangents, entry[1])
        for entry in recipe
    ]
    constant = count - sum(int(part.shape[-1]) for part in parts)
    return place.xp.concat([*parts, place.zeros(*parts[0].shape[:-1], constant)], axis=-1)


def _pulled(recipe: Sequence[Entry], sources: Sequence[Array], channels: Array) -> list[Array]:
    """What belongs to every source: a product gives each of its columns its share times the other."""
    parts, at = [place_of(channels).xp.zeros_like(source) for source in sources], 0
    for entry in recipe:
        if isinstance(entry, int):
            size = int(sources[entry].shape[-1])
            parts[entry] += channels[..., at : at + size]
        else:
            size = 1
            for (source, i), other in (entry, entry[::-1]):
                parts[source][..., i : i + 1] += channels[..., at : at + 1] * _column(sources, other)
        at += size
    return parts
