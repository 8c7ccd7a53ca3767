"""A grid of several axes: harmonics T, bands of wavenumbers, derivatives, inverse Laplacians.

A readout by bands is a convolution: T turns shifts into factors, so that weights V(k) on harmonics are a kernel in
space, and weights that are equal inside a band make it a smooth one with few numbers. The first few wavenumbers of each
axis are bands of their own; further on bands grow by a factor.

Arrays are (samples, *space, columns) in space and (samples, modes, columns) as harmonics. Of the harmonics of a real
field, those with negative wavenumbers on the last periodic axis are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of
from pcarann.spatial.axis import Axis

__all__ = ["Domain"]

_GROWTH = 1.3
_MOST_BANDS = 400  # beyond it growth is raised: three axes of single wavenumbers would be thousands


@dataclass(frozen=True)
class Domain:
    """The axes of space.

    >>> domain = Domain((Axis(16, "periodic"), Axis(9, "zero")))
    >>> fields = np.random.default_rng(0).standard_normal((2, 16, 9, 3))
    >>> fields[:, :, [0, -1], :] = 0
    >>> np.allclose(domain.backward(domain.forward(fields)), fields)
    True
    """

    axes: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along each axis"""
        return tuple(axis.points for axis in self.axes)

    @property
    def points(self) -> int:
        """All of them"""
        return math.prod(self.shape)

    @property
    def dimension(self) -> int:
        """The number of axes"""
        return len(self.axes)

    @property
    def directions(self) -> int:
        """Along which there are slopes"""
        return len(self.axes)

    @property
    def is_periodic(self) -> bool:
        """Whether it has no ends at all, so that no point differs from another"""
        return all(axis.boundary == "periodic" for axis in self.axes)

    @property
    def is_complex(self) -> bool:
        """Whether harmonics are complex"""
        return self.halved is not None

    @property
    def halved(self) -> int | None:
        """The last periodic axis, half of whose harmonics are kept; None where there is no period"""
        periodic = [i for i, axis in enumerate(self.axes) if axis.boundary == "periodic"]
        return periodic[-1] if periodic else None

    @property
    def modes(self) -> tuple[int, ...]:
        """Harmonics along each axis"""
        return tuple(axis.points // 2 + 1 if i == self.halved else axis.modes for i, axis in enumerate(self.axes))

    def forward(self, fields: Array) -> Array:
        """T: (samples, *space, columns) to (samples, modes, columns)."""
        return self._as_harmonics(fields, Axis.forward)

    def backward(self, harmonics: Array) -> Array:
        """T⁻¹"""
        return self._in_space(harmonics, Axis.backward)

    def forward_adjoint(self, harmonics: Array) -> Array:
        """T*: ⟨T f, c⟩ = ⟨f, T* c⟩, harmonics that stand for two counted twice: T⁻¹ where they are orthonormal."""
        return self._in_space(harmonics, Axis.forward_adjoint)

    def backward_adjoint(self, fields: Array) -> Array:
        """The adjoint of T⁻¹, in the same product: T where harmonics are orthonormal."""
        return self._as_harmonics(fields, Axis.backward_adjoint)

    def _as_harmonics(self, fields: Array, along: Callable[[Axis, Array, int], Array]) -> Array:
        """Fourier along periods, and `along` each other axis."""
        xp = place_of(fields).xp
        for i, axis in enumerate(self.axes):
            if axis.boundary != "periodic":
                fields = along(axis, fields, i + 1)
        if self.halved is not None:
            fields = xp.fft.rfft(fields, axis=self.halved + 1, norm="ortho")
            for i in self._whole():
                fields = xp.fft.fft(fields, axis=i + 1, norm="ortho")
        return xp.reshape(fields, (fields.shape[0], -1, fields.shape[-1]))

    def _in_space(self, harmonics: Array, along: Callable[[Axis, Array, int], Array]) -> Array:
        """The way back, `along` each axis that is no period."""
        xp = place_of(harmonics).xp
        fields = xp.reshape(harmonics, (harmonics.shape[0], *self.modes, harmonics.shape[-1]))
        if self.halved is not None:
            for i in self._whole():
                fields = xp.fft.ifft(fields, axis=i + 1, norm="ortho")
            fields = xp.fft.irfft(fields, n=self.shape[self.halved], axis=self.halved + 1, norm="ortho")
        for i, axis in enumerate(self.axes):
            if axis.boundary != "periodic":
                fields = along(axis, fields, i + 1)
        return fields

    def slopes(self, fields: Array) -> list[Array]:
        """∂ᵢ of fields along every axis, in units of one point of the training."""
        return [axis.slope(fields, i + 1) for i, axis in enumerate(self.axes)]

    def slopes_adjoint(self, slopes: Sequence[Array]) -> Array:
        """Adjoint of `slopes`."""
        sides = enumerate(zip(self.axes, slopes, strict=True), start=1)
        first, *others = (axis.slope_adjoint(slope, at) for at, (axis, slope) in sides)
        return sum(others, start=first)

    def blurred(self, fields: Array, width: float) -> Array:
        """A Gaussian mean along all axes, `width` points of the training wide."""
        for i, axis in enumerate(self.axes):
            fields = axis.blurred(fields, i + 1, width)
        return fields

    def blurred_adjoint(self, fields: Array, width: float) -> Array:
        """Adjoint of `blurred`."""
        for i, axis in enumerate(self.axes):
            fields = axis.blurred_adjoint(fields, i + 1, width)
        return fields

    def smoothed(self, fields: Array, length: float) -> Array:
        """T⁻¹ (1/ℓ² + |q|²)⁻¹ T, ℓ in units of the shortest axis; ℓ = ∞ is the inverse Laplacian, without a mean."""
        return self.backward(self.forward(fields) * self._beside(fields, length))

    def smoothed_adjoint(self, fields: Array, length: float) -> Array:
        """Adjoint of `smoothed`; the same where harmonics are orthonormal."""
        return self.forward_adjoint(self.backward_adjoint(fields) * self._beside(fields, length))

    def damping(self, length: float) -> np.ndarray[Any, np.dtype[np.float64]]:
        """(1/ℓ² + |q|²)⁻¹ of every mode, (modes,), on the host."""
        factors = (length * min(axis.trained for axis in self.axes)) ** -2.0 + self._squares
        found: np.ndarray[Any, np.dtype[np.float64]] = np.zeros_like(factors)
        np.divide(1.0, factors, out=found, where=factors > 0)
        return found

    def _beside(self, fields: Array, length: float) -> Array:
        return place_of(fields).put(self.damping(length))[None, :, None]

    def bands(self, singles: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The number of the band to which every mode belongs; so many wavenumbers of each axis stand alone.

        None alone means one band for all.

        >>> Domain((Axis(12, "free"),)).bands(4)
        array([0, 1, 2, 3, 4, 4, 4, 5, 5, 5, 6, 6])
        """
        if singles == 0:
            return np.zeros(math.prod(self.modes), dtype=np.int64)
        growth = _GROWTH
        while True:
            labels = np.zeros((), dtype=np.int64)
            for i in range(len(self.axes)):
                labels = np.add.outer(labels * 100_000, _axis_bands(self.numbers(i), singles, growth))
            found: np.ndarray[Any, np.dtype[np.int64]] = np.unique(labels, return_inverse=True)[1].reshape(-1)
            if found.max() < max(_MOST_BANDS, 2 * singles) or growth > 8:
                return found
            singles, growth = max(2, singles - 1), growth * (1.1 if singles <= 4 else 1.0)

    @cached_property
    def coordinates(self) -> np.ndarray[Any, np.dtype[np.float64]] | None:
        """(1, *space, fields): x and x² along every axis that is not periodic; None where all are"""
        if self.is_periodic:
            return None
        found = []
        for i, axis in enumerate(self.axes):
            if axis.boundary != "periodic":
                shape = [axis.points if j == i else 1 for j in range(len(self.axes))]
                line = np.broadcast_to(np.linspace(-1, 1, axis.points).reshape(shape), self.shape)
                found += [line, line**2]
        lines = np.stack(found, axis=-1)[None, ...]
        lines.flags.writeable = False
        return lines

    @cached_property
    def _squares(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """|q|² of every mode, (modes,), q in radians per point of the training"""
        squares = np.zeros(())
        for i, axis in enumerate(self.axes):
            first = 1 if axis.boundary == "zero" else 0
            turns = math.pi * (np.abs(self.numbers(i)) + first) / axis.length
            squares = np.add.outer(squares, (turns * axis.stretch) ** 2)
        return squares.reshape(-1)

    def numbers(self, i: int) -> np.ndarray[Any, Any]:
        """Wavenumbers along an axis, counted from 0, negative ones where all are kept."""
        axis = self.axes[i]
        if axis.boundary != "periodic" or i == self.halved:
            return np.arange(self.modes[i])
        return np.fft.fftfreq(axis.points, 1 / axis.points)

    def _whole(self) -> list[int]:
        """The periodic axes all of whose wavenumbers are kept"""
        return [i for i, axis in enumerate(self.axes) if axis.boundary == "periodic" and i != self.halved]


def _axis_bands(numbers: np.ndarray[Any, Any], singles: int, growth: float) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Bands of one axis, signs kept apart: weights of e^{ikx} and e^{−ikx} are conjugate, not equal."""
    size = np.abs(numbers)
    edges = [float(singles)]
    while edges[-1] <= size.max():
        edges.append(edges[-1] * growth + 1)
    found = np.where(size < singles, size, singles - 1 + np.searchsorted(edges, size, side="right"))
    labels: np.ndarray[Any, np.dtype[np.int64]] = 2 * found.astype(np.int64) + (numbers < 0)
    return labels
