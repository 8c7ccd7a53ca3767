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

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from numbers import Integral, Real

import numpy as np

from pcarann.backend.arrays import Array, place_of
from pcarann.backend.random import permutation
from pcarann.spatial.mesh_domain import Space
from pcarann.spatial.terms import Terms

__all__ = ["Channels", "Sight"]

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
        xp = place_of(fields).xp
        states = (inputs, fields) if self.evolving else (fields,)
        slopes = [self.domain.slopes(state) for state in states]
        parts = [inputs, fields, *(slope for one in slopes for slope in one)]
        if self.families.products:
            parts.extend(self._products(inputs, fields, slopes))
        if self.families.smoothed is not None:
            own = slopes if self.evolving else [self.domain.slopes(inputs), *slopes]
            for state, steep in zip((inputs, fields), own, strict=True):
                parts.extend(self._smoothed(state, steep))
        if self.terms is not None:
            parts.append(self.terms(inputs, fields))
        samples, lines = int(fields.shape[0]), self.domain.coordinates
        for constant in (None if lines is None else place_of(fields).put(lines), self.fixed):
            if constant is not None:
                parts.append(xp.broadcast_to(constant, (samples, *constant.shape[1:])))
        return xp.concat(parts, axis=-1)

    def _products(self, inputs: Array, fields: Array, slopes: Sequence[list[Array]]) -> list[Array]:
        if self.evolving:
            pairs = [
                pair
                for state, steep in zip((inputs, fields), slopes, strict=True)
                for pair in [*_with_itself(state), *_each([state], steep)]
            ]
        else:
            pairs = [*_each([inputs], [fields, *slopes[0]]), *_with_itself(fields), *_each([fields], slopes[0])]
        return _multiplied(pairs)

    def _smoothed(self, state: Array, slopes: list[Array]) -> list[Array]:
        assert self.families.smoothed is not None
        smooth = self.domain.smoothed(state, self.families.smoothed)
        steep = self.domain.slopes(smooth)
        return [smooth, *steep, *_multiplied(_each(slopes, steep))]


Pair = tuple[tuple[Array, int], tuple[Array, int]]


def _each(left: Sequence[Array], right: Sequence[Array]) -> list[Pair]:
    """All products of a component on the left with one on the right."""
    columns = [[(part, i) for part in side for i in range(part.shape[-1])] for side in (left, right)]
    return list(product(columns[0], columns[1]))


def _with_itself(field: Array) -> list[Pair]:
    return list(combinations_with_replacement([(field, i) for i in range(field.shape[-1])], 2))


def _multiplied(pairs: list[Pair]) -> list[Array]:
    if len(pairs) > _MOST_PRODUCTS:
        chosen = permutation(len(pairs), seed=0, stream=_STREAM)[:_MOST_PRODUCTS]
        pairs = [pairs[i] for i in sorted(chosen)]
    return [left[..., i : i + 1] * right[..., j : j + 1] for (left, i), (right, j) in pairs]
