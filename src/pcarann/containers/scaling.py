"""Parts by name as (samples, values), and outputs of several parts side by side.

Outputs are divided by the spread of their part and by the root of its number of points, so that none drowns in
another's unit or size. Points that have no value in any sample are left out, and come back as such.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, contiguous, cuts, largest, place_of, to_host
from pcarann.containers.parts import Part
from pcarann.validation import check_fields

__all__ = ["OutputCode", "holes_of", "kept_points", "matrix_of", "power_of_two", "scale_of", "squared_unit"]

Values = np.ndarray[Any, np.dtype[Any]]
_AT_ONCE = 1 << 21  # values


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
        return tuple(kept_points(part) for part in self.parts)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Values of each part"""
        return tuple(len(kept) for kept in self.kept)

    @property
    def named(self) -> dict[str, slice]:
        """The values of each part"""
        ends = np.cumsum([0, *(len(kept) for kept in self.kept)])
        return {part.name: slice(int(a), int(b)) for part, (a, b) in zip(self.parts, pairwise(ends), strict=True)}

    @classmethod
    def fit(cls, parts: Sequence[Part], arrays: Mapping[str, Array], place: Place) -> OutputCode:
        """Measure every part."""
        counts = [len(kept_points(part)) for part in parts]
        found = [
            scale_of(matrix_of(arrays[part.name], part, "y", place), math.sqrt(count / max(counts)))
            for part, count in zip(parts, counts, strict=True)
        ]
        return cls(tuple(parts), tuple(found))

    def __call__(self, arrays: Mapping[str, Array], place: Place) -> Array:
        """(samples, values)"""
        found = [
            matrix_of(arrays[part.name], part, "y", place) / scale
            for part, scale in zip(self.parts, self.scales, strict=True)
        ]
        return place.xp.concat(found, axis=1)

    def push(self, flat: Array) -> Array:
        """Changes of (samples, values), as those of all points of all parts side by side: `apart`, which is linear."""
        xp = place_of(flat).xp
        return xp.concat([xp.reshape(one, (one.shape[0], -1)) for _, one in self.apart(flat)], axis=1)

    def pull(self, rows: Array) -> Array:
        """The adjoint of `push`: points without values are not looked at."""
        place = place_of(rows)
        found, start = [], 0
        for part, scale, kept in zip(self.parts, self.scales, self.kept, strict=True):
            index = place.xp.asarray(kept + start, device=place.device)
            found.append(place.xp.take(rows, index, axis=1) * scale)
            start += math.prod(part.grid)
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
                holes = xp.asarray(part.holes.reshape(-1), device=place_of(flat).device)
                values = xp.where(holes, xp.nan * xp.ones_like(values), values)
            yield part.name, xp.reshape(values, (values.shape[0], *part.grid))


def scale_of(matrix: Array, share: float = 1.0) -> float:
    """The spread of (samples, values) around their mean field, times a share, as a power of two: it rounds nothing."""
    xp = place_of(matrix).xp
    most = largest(matrix)
    unit = squared_unit(most)
    total, mean = 0.0, xp.mean(matrix / unit, axis=0)
    for rows in cuts(int(matrix.shape[0]), max(1, _AT_ONCE // int(matrix.shape[1]))):
        total += float(xp.sum((matrix[rows, :] / unit - mean) ** 2))
    return power_of_two(unit * share * math.sqrt(total / math.prod(matrix.shape)), most)


def power_of_two(spread: float, most: float) -> float:
    """The one next to a spread of values, the largest of which is known; one above that where nothing varies."""
    unit = squared_unit(most)
    found = spread / unit
    return unit * (2.0 ** round(math.log2(found)) if found > 1e-14 else 1.0)


def squared_unit(most: float) -> float:
    """In which the squares of values up to this one are numbers."""
    return math.ldexp(1.0, min(math.frexp(most)[1], 1000)) if most > 0 else 1.0


def holes_of(array: Array, place: Place) -> Values | None:
    """Where a (samples, *grid) array is NaN in every sample; None where that is nowhere."""
    xp = place.xp
    if array.ndim < 2 or not array.shape[0] or not bool(xp.any(xp.isnan(place.put(array[:1, ...])))):
        return None
    missing = xp.all(xp.isnan(place.put(array)), axis=0)
    if not bool(xp.any(missing)) or bool(xp.all(missing)):
        return None
    return np.asarray(to_host(missing), dtype=bool)


def matrix_of(array: Array, part: Part, what: str, place: Place) -> Array:
    """The (samples, values) of a part, points that have none left out, checked."""
    said = f"{what}[{part.name!r}]" if part.name else what
    if part.holes is not None:
        xp = place.xp
        flat = xp.reshape(place.put(array), (array.shape[0], -1))
        array = xp.take(flat, xp.asarray(kept_points(part), device=place.device), axis=1)
    try:
        matrix: Array = check_fields(contiguous(place.put(array)), said, place, scalar=True)[0]
    except ValueError as refused:
        if "NaN or infinity" not in str(refused) or part.holes is None:
            raise
        raise ValueError(f"{refused} Only points that are NaN in every sample are left out.") from None
    return matrix


def kept_points(part: Part) -> Values:
    """Numbers of the points that have values."""
    holes = np.zeros(part.grid, dtype=bool) if part.holes is None else part.holes
    return np.flatnonzero(~holes.reshape(-1))
