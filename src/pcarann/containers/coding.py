"""Parts by name as plain arrays, for models of latents.

    a number or column   z = w (a − ā)
    an input field       z = w F(a),   F the PCA of that part alone
    an output field      u / s,        s the spread of that part

Weights w make the outputs likeliest (`pcarann.features.part_weights`): every column of a table has its own, the modes
of a field share theirs by half octaves. So units do not count, and no part is lost in the number of another's points.
Outputs are divided by the spread of their part, so that none drowns in
another's unit. Points that have no value in any sample are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, contiguous, largest, place_of, taken, to_host
from pcarann.backend.random import permutation, spread
from pcarann.containers.parts import Part
from pcarann.features.column_units import looks_like_table
from pcarann.features.part_weights import part_weights
from pcarann.latent.pca import fit_pca
from pcarann.validation import check_fields

__all__ = ["InputCode", "OutputCode", "PartCode", "holes_of", "is_table", "matrix_of", "scale_of"]

_ENERGY, _MOST_MODES = 1 - 1e-9, 400  # of an input field
_JUDGED, _LEADING = 1000, 20  # samples and output latents by which weights are found
_FAR, _FEWEST = 2.0, 20  # times what the modes of four fifths miss of the others; samples from which that is known
_STREAM = (-31,)

Values = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class PartCode:
    """How one input part becomes latents."""

    part: Part
    unit: float
    """By which values are divided, so that they can be squared"""
    mean: Array
    """(values,)"""
    modes: Array | None
    """(latents, values); None for columns, which are their own latents"""
    quadrature: Array | None
    factor: Array
    """w, (latents,)"""
    far: float = np.inf
    """What the modes miss of a field that is unlike those of the training, without w"""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the latents"""
        name, count = self.part.name, int(self.factor.shape[0])
        if self.modes is not None:
            return tuple(f"mode {i} of {name}" for i in range(count))
        columns = self.part.columns or tuple(str(i) for i in range(count))
        return (name,) if self.part.grid in ((), (1,)) and name else tuple(_joined(name, column) for column in columns)

    def __call__(self, matrix: Array) -> Array:
        """(samples, values) to (samples, latents)."""
        centred = matrix / self.unit - self.mean
        if self.modes is None:
            return centred * self.factor
        if self.quadrature is not None:
            centred *= self.quadrature
        return (centred @ self.modes.T) * self.factor

    def unlike(self, matrix: Array) -> int:
        """How many of these samples are unlike those of the training, so that the modes miss much of them."""
        if self.modes is None or not np.isfinite(self.far):
            return 0
        return int((_missed(matrix / self.unit, self.mean, self.modes, self.quadrature) > self.far).sum())


@dataclass(frozen=True, eq=False)
class InputCode:
    """All parts side by side."""

    codes: tuple[PartCode, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of all latents"""
        return tuple(name for code in self.codes for name in code.names)

    @property
    def grid(self) -> tuple[int, ...]:
        """Shape of one sample of the array that is made"""
        return (self.slices[-1].stop,)

    @property
    def slices(self) -> list[slice]:
        """The latents of each part"""
        ends = np.cumsum([0, *(int(code.factor.shape[0]) for code in self.codes)])
        return [slice(int(a), int(b)) for a, b in pairwise(ends)]

    @property
    def named(self) -> dict[str, slice]:
        """The latents of each field, number or column by name"""
        found: dict[str, slice] = {}
        for code, where in zip(self.codes, self.slices, strict=True):
            if code.modes is not None:
                found[code.part.name] = where
            else:
                found |= {name: slice(where.start + i, where.start + i + 1) for i, name in enumerate(code.names)}
        return found

    @property
    def shown(self) -> tuple[tuple[float, float], ...]:
        """Offset and factor by which each latent is read in the user's units; those of modes stay as they are"""
        found: list[tuple[float, float]] = []
        for code in self.codes:
            factors = to_host(code.factor)
            offsets = np.zeros(len(factors)) if code.modes is not None else to_host(code.mean)
            found += [(code.unit * float(a), code.unit / float(w)) for a, w in zip(offsets, factors, strict=True)]
        return tuple(found)

    def __call__(self, arrays: Mapping[str, Array], place: Place) -> tuple[Array, list[str]]:
        """(samples, latents), and the parts of which some samples are unlike those of the training."""
        found, unlike = [], []
        for code in self.codes:
            matrix = matrix_of(arrays[code.part.name], code.part, "X", place)
            found.append(code(matrix))
            if many := code.unlike(matrix):
                unlike.append(f"{many} of {int(matrix.shape[0])} samples of X[{code.part.name!r}]")
        return place.xp.concat(found, axis=1), unlike

    @classmethod
    def fit(
        cls, parts: Sequence[Part], arrays: Mapping[str, Array], outputs: Array, weights: Mapping[str, Any], seed: int
    ) -> InputCode:
        """Find the PCA of every field and the weight of every part, for (samples, values) outputs."""
        place = place_of(outputs)
        codes, latents = [], []
        for part in parts:
            matrix = matrix_of(arrays[part.name], part, "X", place)
            codes.append(_code(part, matrix, weights.get(part.name), seed))
            latents.append(codes[-1](matrix))
        sizes = [n for code in codes for n in _blocks(code)]
        x, rows = place.xp.concat(latents, axis=1), spread(int(outputs.shape[0]), _JUDGED)
        _, y = fit_pca(taken(outputs, rows), min(_LEADING, len(rows)), name="outputs", complain=lambda _: None)
        found = part_weights(taken(x, rows), y, sizes=sizes)
        whole = cls(tuple(codes))
        return cls(
            tuple(
                replace(code, factor=code.factor * found[where])
                for code, where in zip(codes, whole.slices, strict=True)
            )
        )


@dataclass(frozen=True, eq=False)
class OutputCode:
    """Output parts side by side, each divided by its spread, without points that have no values."""

    parts: tuple[Part, ...]
    scales: tuple[float, ...]

    @property
    def grid(self) -> tuple[int, ...]:
        """Shape of one sample of the array that is made"""
        return (sum(len(kept) for kept in self.kept),)

    @cached_property
    def kept(self) -> tuple[Values, ...]:
        """Numbers of the points of each part that have values"""
        return tuple(_kept(part) for part in self.parts)

    @classmethod
    def fit(cls, parts: Sequence[Part], arrays: Mapping[str, Array], place: Place) -> OutputCode:
        """Measure every part."""
        scales = (scale_of(matrix_of(arrays[part.name], part, "y", place)) for part in parts)
        return cls(tuple(parts), tuple(scales))

    def __call__(self, arrays: Mapping[str, Array], place: Place) -> Array:
        """(samples, values)"""
        found = [
            matrix_of(arrays[part.name], part, "y", place) / scale
            for part, scale in zip(self.parts, self.scales, strict=True)
        ]
        return place.xp.concat(found, axis=1)

    def weights(self, of_parts: Mapping[str, Any]) -> Values | None:
        """Quadrature of all values side by side; None where no part has one."""
        if not of_parts:
            return None
        found = [
            np.ones(len(kept)) if of_parts.get(part.name) is None else np.ravel(of_parts[part.name])[kept]
            for part, kept in zip(self.parts, self.kept, strict=True)
        ]
        return np.concatenate(found)

    def apart(self, flat: Array) -> Iterator[tuple[str, Array]]:
        """Undo it: every part by name, (samples, *grid), nothing where there are no values."""
        xp = place_of(flat).xp
        ends = np.cumsum([0, *(len(kept) for kept in self.kept)])
        for i, part in enumerate(self.parts):
            values = flat[:, int(ends[i]) : int(ends[i + 1])] * self.scales[i]
            if part.holes is not None:
                index = np.cumsum(~part.holes.reshape(-1)) - 1
                values = xp.take(values, xp.asarray(np.maximum(index, 0), device=place_of(flat).device), axis=1)
                values[:, xp.asarray(part.holes.reshape(-1), device=place_of(flat).device)] = xp.nan
            yield part.name, xp.reshape(values, (values.shape[0], *part.grid))


def scale_of(matrix: Array) -> float:
    """The spread of (samples, values) around their mean field, as a power of two, which rounds nothing."""
    xp = place_of(matrix).xp
    unit = 2.0 ** math.frexp(largest(matrix))[1] if largest(matrix) > 0 else 1.0  # squares of huge values are none
    scaled = matrix / unit
    found = float(xp.sqrt(xp.mean((scaled - xp.mean(scaled, axis=0)) ** 2)))
    return unit * (2.0 ** round(math.log2(found)) if found > 1e-14 else 1.0)


def holes_of(array: Array, place: Place) -> Values | None:
    """Where a (samples, *grid) array is NaN in every sample; None where that is nowhere."""
    xp = place.xp
    values = place.put(array)
    if values.ndim < 2 or not values.shape[0]:
        return None
    missing = xp.isnan(values[0, ...])
    if not bool(xp.any(missing)):
        return None
    missing = xp.all(xp.isnan(values), axis=0)
    if not bool(xp.any(missing)) or bool(xp.all(missing)):
        return None
    return np.asarray(to_host(missing), dtype=bool)


def matrix_of(array: Array, part: Part, what: str, place: Place) -> Array:
    """The (samples, values) of a part, points that have none left out, checked."""
    said = f"{what}[{part.name!r}]" if part.name else what
    if part.holes is not None:
        xp = place.xp
        flat = xp.reshape(place.put(array), (array.shape[0], -1))
        array = xp.take(flat, xp.asarray(_kept(part), device=place.device), axis=1)
    try:
        matrix: Array = check_fields(contiguous(place.put(array)), said, place, scalar=True)[0]
    except ValueError as refused:
        if "NaN or infinity" not in str(refused) or part.holes is None:
            raise
        raise ValueError(f"{refused} Only points that are NaN in every sample are left out.") from None
    return matrix


def is_table(part: Part, array: Array) -> bool:
    """Whether a part is a number or columns of a table, not a field: neighbours have little to do with each other."""
    if part.label is not None and part.label.dims and part.label.along(part.label.dims[-1]) is not None:
        return False
    if len(part.grid) != 1 or part.columns or part.grid[0] < 2:
        return len(part.grid) < 2
    xp = place_of(array).xp
    spreads = xp.std(array, axis=0)
    return not bool(xp.any(spreads > 0)) or looks_like_table(array, spreads)


def _code(part: Part, matrix: Array, quadrature: Any, seed: int) -> PartCode:
    place = place_of(matrix)
    xp, unit = place.xp, scale_of(matrix)
    matrix = matrix / unit
    mean = xp.mean(matrix, axis=0)
    if is_table(part, matrix):
        spreads = xp.std(matrix, axis=0)
        there = spreads > 1e-14 * xp.max(xp.abs(matrix), axis=0)
        usual = xp.where(xp.abs(mean) > 0, xp.abs(mean), xp.ones_like(mean))  # a number that never changed
        return PartCode(part, unit, mean, None, None, 1.0 / xp.where(there, spreads, usual))
    weights = None if quadrature is None else place.put(np.ravel(quadrature)[_kept(part)])
    pca = _field_pca(matrix, weights)
    size = float(xp.sqrt(xp.sum(pca.singular_values**2) / matrix.shape[0])) or 1.0
    factor = place.zeros(pca.n_components) + 1.0 / size
    return PartCode(part, unit, pca.mean, pca.modes, weights, factor, _far(matrix, weights, seed))


def _field_pca(matrix: Array, weights: Array | None) -> Any:
    pca = fit_pca(matrix, _ENERGY, weights=weights, complain=lambda _: None)[0]
    if pca.n_components <= _MOST_MODES:
        return pca
    return fit_pca(matrix, _MOST_MODES, weights=weights, complain=lambda _: None)[0]


def _far(matrix: Array, weights: Array | None, seed: int) -> float:
    """What the modes of most samples miss of the others, beyond which a field is unlike them."""
    count = int(matrix.shape[0])
    if count < _FEWEST:
        return float("inf")
    order = permutation(count, seed=seed, stream=_STREAM)
    inner, held = taken(matrix, sorted(order[count // 5 :])), taken(matrix, sorted(order[: count // 5]))
    pca = _field_pca(inner, weights)
    size = float(place_of(matrix).xp.sqrt(place_of(matrix).xp.sum(pca.singular_values**2) / len(order)))
    return _FAR * max(float(_missed(held, pca.mean, pca.modes, weights).max()), 1e-6 * size)


def _missed(matrix: Array, mean: Array, modes: Array, weights: Array | None) -> Values:
    """‖a − G(F(a))‖ of every sample, on the host."""
    xp = place_of(matrix).xp
    centred = matrix - mean
    weighted = centred if weights is None else centred * weights
    x = weighted @ modes.T
    squares = xp.sum(centred * weighted, axis=1) - xp.sum(x * x, axis=1)
    return np.asarray(to_host(xp.sqrt(xp.clip(squares, min=0.0))))


def _blocks(code: PartCode) -> list[int]:
    """Latents that share a weight: columns none, modes of a field the more of them the further down they stand.

    A field's leading modes are seldom those that count most, and its last ones are noise: half octaves of them are told
    apart, which costs as many numbers as its rank has octaves.
    """
    count = int(code.factor.shape[0])
    if code.modes is None:
        return [1] * count
    ends = sorted({*range(min(4, count)), *(min(end << k, count) for end in (4, 6) for k in range(16)), count})
    return [last - first for first, last in pairwise(ends)]


def _kept(part: Part) -> Values:
    """Numbers of the points that have values."""
    holes = np.zeros(part.grid, dtype=bool) if part.holes is None else part.holes
    return np.flatnonzero(~holes.reshape(-1))


def _joined(name: str, column: str) -> str:
    return f"{name}.{column}" if name else column
