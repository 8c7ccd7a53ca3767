"""Grids and scales of fields, as networks want them.

An axis of a grid with n points is one of three kinds:

    "interval"   xᵢ = i/(n − 1), both ends given, not periodic
    "periodic"   xᵢ = i/n, one period
    "closed"     xᵢ = i/(n − 1), one period whose last point repeats the first

A Gaussian normaliser subtracts a mean and divides by a standard deviation, taken over all samples at each point
("pointwise"), or over all samples and the last two axes ("channel"), where the axes before these are channels:

    z = (a − ā) / σ,   a = ā + σ z.

A point where all samples agree has σ = 0: there z = 0, and what comes back is the mean, exactly.

Latents of a PCA fall off by orders of magnitude. With sₖ the standard deviation of the k-th one, they are divided by
s₁^{1−w} sₖʷ: whitening w = 1 makes all equal, w = 0 leaves them as they are up to one factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pcarann.backend.arrays import place_of
from pcarann.backend.random import permutation
from pcarann.latent.pca import PCA, fit_pca
from pcarann.validation import check_choice, check_components, check_fields, check_pair_lengths

__all__ = [
    "Axis",
    "Fields",
    "Gaussian",
    "Kind",
    "check_axes",
    "checked",
    "coordinates",
    "fit_pcas",
    "flat",
    "latent_scales",
    "split",
]

Fields = np.ndarray[Any, Any]
Axis = Literal["interval", "periodic", "closed"]
Kind = Literal["channel", "pointwise"]

_SPLIT_STREAM = (0x76616C,)  # "val" in ASCII: no other stream has this number
# Rounding of equal numbers leaves a deviation of a few eps = 2e-16; real fields vary by far more than this share.
_CONSTANT = 1e-13


@dataclass(frozen=True)
class Gaussian:
    """Mean and standard deviation of fields, of a shape that broadcasts over (samples, *grid)."""

    mean: Fields
    std: Fields

    @classmethod
    def fit(cls, fields: Fields, kind: Kind) -> Gaussian:
        """Take both from (samples, *grid) fields.

        >>> Gaussian.fit(np.array([[1.0, 5.0], [3.0, 5.0]]), "pointwise").encode(np.array([[4.0, 5.0]]))
        array([[2., 0.]])
        """
        check_choice(kind, "normalisation", ("channel", "pointwise"))
        over: tuple[int, ...] = (0,)
        if kind == "channel":
            over += tuple(range(max(1, fields.ndim - 2), fields.ndim))
        mean = fields.mean(axis=over, keepdims=True)[0]
        std = fields.std(axis=over, keepdims=True)[0]
        return cls(mean, np.where(std > _CONSTANT * (np.abs(mean) + std.max()), std, 0.0))

    def encode(self, fields: Fields) -> Fields:
        """z = (a − ā) / σ, and 0 where σ = 0."""
        inverse = np.divide(1.0, self.std, out=np.zeros_like(self.std), where=self.std > 0)
        return np.asarray((fields - self.mean) * inverse)


def coordinates(grid: tuple[int, ...], axes: tuple[Axis, ...]) -> Fields:
    """Return the coordinates of all points, (axes, *grid).

    >>> coordinates((3,), ("interval",)).tolist(), coordinates((4,), ("periodic",)).tolist()
    ([[0.0, 0.5, 1.0]], [[0.0, 0.25, 0.5, 0.75]])
    """
    check_axes(axes, len(grid))
    lines = [np.linspace(0, 1, n, endpoint=axis != "periodic") for n, axis in zip(grid, axes, strict=True)]
    return np.stack(np.meshgrid(*lines, indexing="ij"))


def check_axes(axes: tuple[Axis, ...], wanted: int) -> None:
    """Refuse kinds that do not exist, and another number of them than the grid has axes."""
    for axis in axes:
        check_choice(axis, "axes", ("interval", "periodic", "closed"))
    if len(axes) != wanted:
        raise ValueError(f"axes names {len(axes)} kind(s), {axes}, but the grid has {wanted} axes.")


def checked(inputs: Any, outputs: Any) -> tuple[Fields, Fields]:
    """Return both as float64 (samples, *grid) arrays, or refuse."""
    place = place_of(None)
    first, input_grid = check_fields(inputs, "inputs", place, least=2)
    second, output_grid = check_fields(outputs, "outputs", place, least=2)
    check_pair_lengths(first.shape[0], second.shape[0])
    return first.reshape(-1, *input_grid), second.reshape(-1, *output_grid)


def split(n: int, share: float, seed: int) -> tuple[Fields, Fields]:
    """Return which of n samples train and which validate: the last `share` of a shuffled order."""
    held = min(n - 1, math.ceil(share * n))
    order = np.array(permutation(n, seed=seed, stream=_SPLIT_STREAM))
    return order[: n - held], order[n - held :]


def latent_scales(latents: Fields, whitening: float) -> Fields:
    """Return s₁^{1−w} sₖʷ for (samples, components) latents.

    >>> latent_scales(np.array([[4.0, 1.0], [-4.0, -1.0]]), 0.5)
    array([4., 2.])
    """
    deviations = latents.std(axis=0)
    deviations = np.where(deviations > 0, deviations, 1.0)
    return np.asarray(deviations[0] ** (1 - whitening) * deviations**whitening)


def fit_pcas(inputs: Fields, outputs: Fields, n_components: Any) -> tuple[PCA, PCA, Fields, Fields]:
    """Return the PCAs of input and output fields, and the latents of both."""
    wanted = check_components(n_components)
    input_pca, x = fit_pca(flat(inputs), wanted[0], grid=inputs.shape[1:], name="inputs")
    output_pca, y = fit_pca(flat(outputs), wanted[1], grid=outputs.shape[1:], name="outputs")
    return input_pca, output_pca, x, y


def flat(fields: Fields) -> Fields:
    """Return fields as a (samples, values) matrix."""
    return fields.reshape(len(fields), -1)
