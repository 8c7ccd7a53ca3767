"""One axis of a grid, and the harmonics that suit its ends.

    periodic   e^{2πikx/n}                                   Fourier
    zero       sin(πk j/(m + 1)),  j, k = 1…m inner points   DST-I, for fields that vanish at both ends
    free       cos(πk (j + ½)/n),  k = 0…n − 1               DCT-II

All of them are orthonormal, so that a transform keeps norms. Short axes are transformed by a matrix, long ones by an
FFT of the odd or even extension. Arrays are (samples, *space, columns).

On another grid than that of the training, operators keep their stencil in space: with a stretch of r points of this
axis for each one of the training, a slope is (f(x + r) − f(x − r))/2 and a Gaussian mean is sampled at steps of r. At
points of the training both are what they were. Harmonics are the functions of space that they were.

Each operator has its adjoint beside it: ⟨A f, c⟩ = ⟨f, Aᵀ c⟩ for the sums over points. At ends that are not periodic,
operators see fields that go on beyond them with their outermost values: A = B E, E going on and B a stencil without
ends, so that Aᵀ = Eᵀ Bᵀ, and Eᵀ adds what lies beyond an end to its outermost value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from pcarann.backend.arrays import Array, Place, place_of

__all__ = ["Axis", "Boundary"]

Boundary = Literal["periodic", "zero", "free"]

_NEAR = (3.0, 13.0)  # points of the training from an end: up to which its points count alone, and from which all do
_SMOOTH = 5.0  # of them at least, between the two: a short axis has no room for that
_DENSE = 512  # points up to which a product with a matrix is faster than an FFT of the extension


@dataclass(frozen=True)
class Axis:
    """An axis of so many points, as computed with: a repeated last point of a period is not among them."""

    points: int
    boundary: Boundary
    stretch: int = 1
    """Points for each one of the training, r"""

    @property
    def modes(self) -> int:
        """The number of its harmonics; of a period, all n of them"""
        return {"periodic": self.points, "zero": self.trained - 2, "free": self.trained}[self.boundary]

    @property
    def length(self) -> float:
        """Points along which the phase of mode k grows by πk"""
        return {"periodic": self.points / 2, "zero": self.points - 1.0, "free": self.points - 1 + self.stretch}[
            self.boundary
        ]

    @property
    def trained(self) -> int:
        """Points of the training"""
        ends = int(self.boundary != "periodic")
        return (self.points - ends) // self.stretch + ends

    def forward(self, fields: Array, at: int) -> Array:
        """Harmonics along array axis `at` of an axis that is not periodic."""
        return self._matched(fields, at, inverse=False)

    def backward(self, harmonics: Array, at: int) -> Array:
        """Undo `forward`; sine harmonics give fields that vanish at both ends."""
        return self._matched(harmonics, at, inverse=True)

    def forward_adjoint(self, harmonics: Array, at: int) -> Array:
        """Adjoint of `forward`: its inverse where harmonics are orthonormal, as those of the training grid are."""
        return self._matched(harmonics, at, inverse=True) if self.stretch == 1 else self._turned(harmonics, at, 0)

    def backward_adjoint(self, fields: Array, at: int) -> Array:
        """Adjoint of `backward`."""
        return self._matched(fields, at, inverse=False) if self.stretch == 1 else self._turned(fields, at, 1)

    def slope(self, fields: Array, at: int) -> Array:
        """∂ in units of one point of the training: central differences, one-sided at ends that are not periodic."""
        xp = place_of(fields).xp
        n = self.points
        if self.stretch != 1:
            return self._stretched_slope(fields, at)
        if self.boundary == "periodic":
            return (xp.roll(fields, -1, axis=at) - xp.roll(fields, 1, axis=at)) * 0.5
        if n < 2:
            return xp.zeros_like(fields)
        inner = (_part(fields, at, 2, n) - _part(fields, at, 0, n - 2)) * 0.5
        first = _part(fields, at, 1, 2) - _part(fields, at, 0, 1)
        last = _part(fields, at, n - 1, n) - _part(fields, at, n - 2, n - 1)
        return xp.concat([first, inner, last], axis=at)

    def slope_adjoint(self, fields: Array, at: int) -> Array:
        """Adjoint of `slope`; of a period, its negative."""
        if self.boundary == "periodic":
            return -self.slope(fields, at)
        if self.points < 2:
            return place_of(fields).xp.zeros_like(fields)
        steep = fields * self._steepness(fields, at)
        return self._beyond(steep, at, 1, [(1, 1.0), (-1, -1.0)])

    def blurred(self, fields: Array, at: int, width: float) -> Array:
        """A Gaussian mean, `width` points of the training wide.

        The outermost values go on beyond ends that are not periodic.
        """
        weights = _gaussian(width)
        found = fields * weights[0]
        for by in range(1, len(weights)):
            found += (self._shifted(fields, at, by) + self._shifted(fields, at, -by)) * weights[by]
        return found

    def blurred_adjoint(self, fields: Array, at: int, width: float) -> Array:
        """Adjoint of `blurred`; of a period, the same."""
        if self.boundary == "periodic":
            return self.blurred(fields, at, width)
        weights = _gaussian(width)
        far = len(weights) - 1
        return self._beyond(fields, at, far, [(by, weights[abs(by)]) for by in range(-far, far + 1)])

    def _stretched_slope(self, fields: Array, at: int) -> Array:
        """Differences over two points of the training, over what is left of them at ends that are not periodic."""
        change = self._shifted(fields, at, -1) - self._shifted(fields, at, 1)
        if self.boundary == "periodic":
            return change * 0.5
        return change * self._steepness(fields, at)

    def _steepness(self, fields: Array, at: int) -> Array:
        """What a difference between the points on both sides counts for between ends, beside fields."""
        place, numbers, r = place_of(fields), np.arange(self.points), self.stretch
        apart = np.minimum(numbers + r, self.points - 1) - np.maximum(numbers - r, 0)
        shape = tuple(self.points if axis == at else 1 for axis in range(len(fields.shape)))
        return place.xp.astype(place.put((r / apart).reshape(shape)), fields.dtype)

    def _beyond(self, fields: Array, at: int, far: int, stencil: Sequence[tuple[int, float]]) -> Array:
        """Eᵀ Bᵀ: fields at points shifted by so many of the training, weighted, those beyond an end added to it."""
        place, n, far = place_of(fields), self.points, far * self.stretch
        shape = [int(size) for size in fields.shape]
        shape[at] = n + 2 * far
        wide = place.xp.zeros(tuple(shape), dtype=fields.dtype, device=place.device)
        for by, weight in stencil:
            start = far + by * self.stretch
            wide[_slices(wide, at, start, start + n)] += fields * weight
        found = _part(wide, at, far, far + n)
        for end, start in ((0, 0), (n - 1, far + n)):
            lost = place.xp.sum(_part(wide, at, start, start + far), axis=at, keepdims=True)
            found[_slices(found, at, end, end + 1)] += lost
        return found

    def _shifted(self, fields: Array, at: int, by: int) -> Array:
        """Fields at x − by, in points of the training."""
        place, by = place_of(fields), by * self.stretch
        if self.boundary == "periodic":
            return place.xp.roll(fields, by, axis=at)
        index = np.clip(np.arange(self.points) - by, 0, self.points - 1)
        return place.xp.take(fields, place.xp.asarray(index, device=place.device), axis=at)

    def _matched(self, fields: Array, at: int, inverse: bool) -> Array:
        if self.stretch != 1:
            place, pair = place_of(fields), _trained_matrices(self.points, self.trained, self.boundary)
            return _along(place.put(pair[inverse]), fields, at, place)
        if self.points > _DENSE:
            return (_sines if self.boundary == "zero" else _cosines)(fields, at, self.points, inverse)
        place = place_of(fields)
        matrix = place.put(_matrix(self.points, self.boundary))
        return _along(matrix.T if inverse else matrix, fields, at, place)

    def _turned(self, fields: Array, at: int, which: int) -> Array:
        """The product with the transpose of a matrix between a finer grid and the harmonics of the training."""
        place, pair = place_of(fields), _trained_matrices(self.points, self.trained, self.boundary)
        return _along(place.put(pair[which]).T, fields, at, place)


@lru_cache(maxsize=16)
def _gaussian(width: float) -> tuple[float, ...]:
    """Weights of a mean at 0, 1, … points to each side."""
    reach = math.ceil(2.5 * width)
    weights = np.exp(-0.5 * (np.arange(reach + 1) / width) ** 2)
    weights /= weights[0] + 2 * weights[1:].sum()
    return tuple(weights.tolist())


@lru_cache(maxsize=64)
def _matrix(n: int, boundary: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(modes, points), rows orthonormal."""
    if boundary == "zero":
        numbers = np.arange(1, n - 1)
        sines = np.zeros((n - 2, n))
        sines[:, 1:-1] = math.sqrt(2 / (n - 1)) * np.sin(math.pi * np.outer(numbers, numbers) / (n - 1))
        return sines
    cosines = math.sqrt(2 / n) * np.cos(math.pi * np.outer(np.arange(n), np.arange(n) + 0.5) / n)
    cosines[0] /= math.sqrt(2)
    return cosines


@lru_cache(maxsize=16)
def _trained_matrices(n: int, trained: int, boundary: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(modes, points) and (points, modes): to the harmonics of the training, as functions of space, and back.

    Far from the ends they are sums over all points, which say more than those of the training. Near an end features are
    not smooth, as stencils are one-sided there, nor do they vanish: sums over other points would be others. There the
    points of the training count alone.
    """
    known = _matrix(trained, boundary)
    times, x = (n - 1) // (trained - 1), np.linspace(0, trained - 1, n)
    if boundary == "zero":
        numbers = np.arange(1, trained - 1)
        waves = math.sqrt(2 / (trained - 1)) * np.sin(math.pi * np.outer(x, numbers) / (trained - 1))
    else:
        waves = math.sqrt(2 / trained) * np.cos(math.pi * np.outer(x + 0.5, np.arange(trained)) / trained)
        waves[:, 0] /= math.sqrt(2)
    first, last = _NEAR[0], min(_NEAR[1], (trained - 1) / 2)
    far = np.clip((np.minimum(x, x[-1] - x) - first) / (last - first), 0, 1) if last - first >= _SMOOTH else 0.0 * x
    inner = np.sin(0.5 * math.pi * far) ** 2
    forward = waves.T * inner / times
    forward[:, ::times] += known * (1 - inner[::times])
    return forward, waves


def _along(matrix: Array, fields: Array, at: int, place: Place) -> Array:
    """The product with a matrix along one axis: one product of matrices for each index before that axis."""
    shape = tuple(fields.shape)
    before, after = math.prod(shape[:at]), math.prod(shape[at + 1 :])
    flat = place.xp.reshape(fields, (before, shape[at], after))
    found = place.xp.matmul(place.xp.astype(matrix, fields.dtype), flat)
    return place.xp.reshape(found, (*shape[:at], matrix.shape[0], *shape[at + 1 :]))


def _sines(fields: Array, at: int, n: int, inverse: bool) -> Array:
    """DST-I of the inner points by an FFT of the odd extension; its own inverse."""
    place = place_of(fields)
    xp = place.xp
    inner = fields if inverse else _part(fields, at, 1, n - 1)
    nothing = xp.zeros_like(_part(inner, at, 0, 1))
    odd = xp.concat([nothing, inner, nothing, -xp.flip(inner, axis=at)], axis=at)
    found = -math.sqrt(0.5 / (n - 1)) * xp.imag(xp.fft.rfft(odd, axis=at))
    found = _part(found, at, 1, n - 1)
    return xp.concat([nothing, found, nothing], axis=at) if inverse else found


def _cosines(fields: Array, at: int, n: int, inverse: bool) -> Array:
    """DCT-II by an FFT of the even extension, whose harmonics are those of the cosines up to factors."""
    place = place_of(fields)
    xp = place.xp
    numbers = np.arange(n)
    norm = np.where(numbers == 0, math.sqrt(0.25 / n), math.sqrt(0.5 / n))
    turns = norm * np.exp(-0.5j * math.pi * numbers / n)
    shape = [n if axis == at else 1 for axis in range(len(fields.shape))]
    kind = xp.complex64 if fields.dtype == xp.float32 else xp.complex128
    factors = xp.reshape(xp.asarray(turns, dtype=kind, device=place.device), tuple(shape))
    if not inverse:
        even = xp.fft.rfft(xp.concat([fields, xp.flip(fields, axis=at)], axis=at), axis=at)
        return xp.real(_part(even, at, 0, n) * factors)
    halves = fields / factors
    even = xp.concat([halves, xp.zeros_like(_part(halves, at, 0, 1))], axis=at)
    return _part(xp.fft.irfft(even, n=2 * n, axis=at), at, 0, n)


def _part(fields: Array, at: int, start: int, stop: int) -> Array:
    return fields[_slices(fields, at, start, stop)]


def _slices(fields: Array, at: int, start: int, stop: int) -> tuple[slice, ...]:
    index = [slice(None)] * len(fields.shape)
    index[at] = slice(start, stop)
    return tuple(index)
