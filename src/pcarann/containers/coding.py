"""Input parts by name as one table of latents.

    a number or column   z = w (a − ā)
    a field              z = w F(a),   F the PCA of that part alone

Weights w make the outputs likeliest (`pcarann.features.part_weights`): every column of a table has its own, the modes
of a field share theirs by half octaves. So units do not count, and no part is lost in the number of another's points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, Place, cuts, place_of, taken, to_host
from pcarann.backend.gathers import gather_adjoint
from pcarann.backend.random import permutation, spread
from pcarann.containers.parts import Part
from pcarann.containers.scaling import kept_points, matrix_of, scale_of
from pcarann.features.column_units import looks_like_table
from pcarann.features.part_weights import part_weights
from pcarann.latent.crossfit import Fold, LeftOut, left_out_of
from pcarann.latent.pca import fit_pca

__all__ = ["FAR", "JUDGED", "MOST_MODES", "InputCode", "PartCode", "Recoding", "is_table"]

_ENERGY, MOST_MODES = 1 - 1e-9, 400  # of an input field
JUDGED, _LEADING = 1000, 20  # samples and output latents by which weights are found
FAR, _FEWEST = 2.0, 20  # times what the modes of four fifths miss of the others; samples from which that is known
_FURTHER = 1.6  # times the energy of samples that modes have seen, in others
_FEWEST_MODES, _AS_LIKELY = 4, 0.01  # modes that always stay; loss of likelihood for which others may go
_FEW_COLUMNS = 8  # which are a table, whatever they have to do with each other
_MOST_WEIGHTS = 64  # of the columns of a table; further ones share one
_STREAM = (-31,)
_AT_ONCE = 1 << 17  # values of a field on a CPU

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
        named = self.part.columns or tuple(str(i) for i in range(math.prod(self.part.grid)))
        columns = tuple(named[i] for i in kept_points(self.part))
        return (name,) if self.part.grid in ((), (1,)) and name else tuple(_joined(name, column) for column in columns)

    def __call__(self, matrix: Array) -> Array:
        """(samples, values) to (samples, latents)."""
        centred = matrix / self.unit - self.mean
        if self.modes is None:
            return centred * self.factor
        if self.quadrature is not None:
            centred *= self.quadrature
        return (centred @ self.modes.T) * self.factor

    def push(self, matrix: Array) -> Array:
        """Changes of (samples, points) of the whole grid as those of (samples, latents)."""
        place = place_of(matrix)
        change = place.xp.take(matrix, place.xp.asarray(kept_points(self.part), device=place.device), axis=1)
        change = change / self.unit if self.quadrature is None else change / self.unit * self.quadrature
        return (change if self.modes is None else change @ self.modes.T) * self.factor

    def pull(self, latents: Array) -> Array:
        """The adjoint of `push`: 0 where there are no values."""
        weighted = latents * self.factor
        change = weighted if self.modes is None else weighted @ self.modes
        change = change / self.unit if self.quadrature is None else change * self.quadrature / self.unit
        return gather_adjoint(change, kept_points(self.part), math.prod(self.part.grid))

    def leading(self, modes: int) -> PartCode:
        """The same with fewer modes."""
        assert self.modes is not None
        return replace(self, modes=self.modes[:modes, :], factor=self.factor[:modes])

    def shrunk(self, by: Values | None) -> PartCode:
        """The same with factors of its leading latents multiplied by these."""
        if by is None:
            return self
        count = int(self.factor.shape[0])
        return replace(self, factor=self.factor * place_of(self.factor).put(by[:count]))

    def looked_at(self, matrix: Array) -> tuple[Array, int]:
        """(samples, latents), and how many samples are unlike those of the training: the modes miss much of them.

        Samples go by blocks on a CPU, so that what is made of them stays in its cache.
        """
        if self.modes is None:
            return self(matrix), 0
        place, samples = place_of(matrix), int(matrix.shape[0])
        latents, unlike = place.empty(samples, int(self.factor.shape[0])), 0
        for rows in cuts(samples, max(1, _AT_ONCE // int(matrix.shape[1])) if place.on_host else samples):
            x, missed = _encoded(matrix[rows, :] / self.unit, self.mean, self.modes, self.quadrature)
            latents[rows, :] = x * self.factor
            unlike += int((missed > self.far).sum()) if np.isfinite(self.far) else 0
        return latents, unlike


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
    def numbers(self) -> tuple[int, ...]:
        """Latents that are numbers or columns, whose ranges are those of the training.

        Modes are those of the training too, and other samples reach further along the last of them.
        """
        parts = zip(self.codes, self.slices, strict=True)
        return tuple(i for code, where in parts if code.modes is None for i in range(where.start, where.stop))

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
    def fields(self) -> tuple[tuple[str, slice], ...]:
        """Name and latents of each field"""
        parts = zip(self.codes, self.slices, strict=True)
        return tuple((code.part.name, where) for code, where in parts if code.modes is not None)

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
            latents, many = code.looked_at(matrix)
            found.append(latents)
            if many:
                unlike.append(f"{many} of {int(matrix.shape[0])} samples of X[{code.part.name!r}]")
        return place.xp.concat(found, axis=1), unlike

    def push(self, rows: Array) -> Array:
        """Changes of all points of all parts side by side, as those of (samples, latents)."""
        ends = np.cumsum([0, *(math.prod(code.part.grid) for code in self.codes)])
        parts = (rows[:, int(a) : int(b)] for a, b in pairwise(ends))
        return place_of(rows).xp.concat([code.push(one) for code, one in zip(self.codes, parts, strict=True)], axis=1)

    def pull(self, latents: Array) -> Array:
        """The adjoint of `push`."""
        parts = zip(self.codes, self.slices, strict=True)
        return place_of(latents).xp.concat([code.pull(latents[:, where]) for code, where in parts], axis=1)

    @classmethod
    def fit(
        cls,
        parts: Sequence[Part],
        arrays: Mapping[str, Array],
        outputs: Array,
        weights: Mapping[str, Any],
        seed: int,
        rows: list[int] | None = None,
    ) -> tuple[InputCode, Recoding]:
        """Find the PCA of every field and the weight of every part, for (samples, values) outputs, or those of some.

        Modes are those of the quadrature, or of the nodes as they are where these make the outputs likelier: a mesh is
        often finer where more happens. The second value returned computes the code again without some of the samples.
        """
        if rows is None:
            rows = spread(int(outputs.shape[0]), JUDGED)
            outputs = taken(outputs, rows)
        _, y = fit_pca(outputs, min(_LEADING, len(rows)), name="outputs", complain=_nobody)
        found, value, recoding = cls._likeliest(parts, arrays, weights, y, rows, seed)
        if not weights:
            return found, recoding
        nodes = {name: np.ones(np.shape(weight)) for name, weight in weights.items()}
        plain, other, of_nodes = cls._likeliest(parts, arrays, nodes, y, rows, seed)
        return (plain, of_nodes) if other < value - _AS_LIKELY else (found, recoding)

    @classmethod
    def _likeliest(
        cls,
        parts: Sequence[Part],
        arrays: Mapping[str, Array],
        weights: Mapping[str, Any],
        y: Array,
        rows: list[int],
        seed: int,
    ) -> tuple[InputCode, float, Recoding]:
        """The code for these inner products, how unlikely latents y of some outputs still are, and how to recode."""
        place = place_of(y)
        codes, reached, shrinking, whole = [], [], [], []
        for part in parts:
            matrix = matrix_of(arrays[part.name], part, "X", place)
            code, modes, shrunk = _code(part, matrix, weights.get(part.name), seed)
            codes.append(code)
            reached.append(modes)
            shrinking.append(shrunk)
            whole.append(code(matrix))
        latents = [taken(one, rows) for one in whole]
        found, value = _weighted(codes, latents, y)
        if any(modes is not None for modes in reached):
            fewer = [code if modes is None else code.leading(modes) for code, modes in zip(codes, reached, strict=True)]
            parts_of_them = [x[:, : int(code.factor.shape[0])] for x, code in zip(latents, fewer, strict=True)]
            simpler, other = _weighted(fewer, parts_of_them, y)
            found, value = (simpler, other) if other < value + _AS_LIKELY else (found, value)
        found = tuple(code.shrunk(by) for code, by in zip(found, shrinking, strict=True))
        # What a weighted code has been multiplied by since `whole` was computed.
        factors = [new.factor / old.factor[: new.factor.shape[0]] for new, old in zip(found, codes, strict=True)]
        return (
            cls(found),
            value,
            Recoding(tuple(whole), tuple(factors), tuple(code.modes is not None for code in found)),
        )


@dataclass(frozen=True, eq=False)
class Recoding:
    """Codes of the training samples as they would be if some samples had not been there.

    The PCA of a field has seen all training samples. Along its last modes they reach less far than new samples, so
    the training samples say how far is usual only if each is coded by the PCA of others. Latents of all modes replace
    the field here: they span all of its samples.
    """

    latents: tuple[Array, ...]
    """Of each part without weights, all modes of a field, (samples, latents)"""
    factors: tuple[Array, ...]
    """w of those that are used"""
    fields: tuple[bool, ...]
    """Whether a part is a field"""
    known: tuple[int, ...] | None = None
    """Training samples that the latents belong to; None for all"""

    @property
    def samples(self) -> tuple[int, ...]:
        """Training samples that the latents belong to"""
        return tuple(range(int(self.latents[0].shape[0]))) if self.known is None else self.known

    def without(self, fold: Fold, unit: float) -> list[LeftOut]:
        """What the fields of a fold look like to codes fitted to the other samples; codes are divided by a unit."""
        left = set(fold.left)
        others = [row for row in range(len(self.samples)) if row not in left]
        parts = zip(self.latents, self.factors, self.fields, strict=True)
        return [
            left_out_of(fold.looked, taken(latents, fold.looked), others, taken(latents, others), factor / unit)
            for latents, factor, field in parts
            if field
        ]


def _weighted(codes: Sequence[PartCode], latents: Sequence[Array], y: Array) -> tuple[tuple[PartCode, ...], float]:
    """Codes with the weights that make latents y of the outputs likeliest, and how unlikely these still are."""
    sizes = [n for code in codes for n in _blocks(code)]
    found, value = part_weights(place_of(y).xp.concat(list(latents), axis=1), y, sizes=sizes)
    slices = InputCode(tuple(codes)).slices
    weighted = (replace(code, factor=code.factor * found[at]) for code, at in zip(codes, slices, strict=True))
    return tuple(weighted), value


def is_table(part: Part, array: Array) -> bool:
    """Whether a part is a number or columns of a table, not a field: neighbours have little to do with each other."""
    if len(part.grid) != 1 or part.columns or part.grid[0] <= _FEW_COLUMNS:
        return len(part.grid) < 2
    if part.label is not None and part.label.along(part.label.dims[-1]) is not None:
        return False
    xp = place_of(array).xp
    spreads = xp.std(array, axis=0)
    return not bool(xp.any(spreads > 0)) or looks_like_table(array, spreads)


def _code(part: Part, matrix: Array, quadrature: Any, seed: int) -> tuple[PartCode, int | None, Values | None]:
    """The code of a part without weights, how many of its modes hold for other samples if not all do, and factors.

    The factors are those by which latents have to shrink for other samples to reach as far as the weights assume.
    """
    place = place_of(matrix)
    xp, unit = place.xp, scale_of(matrix)
    matrix = matrix / unit
    mean = xp.mean(matrix, axis=0)
    if quadrature is None and is_table(part, matrix):
        spreads = xp.std(matrix, axis=0)
        there = spreads > 1e-14 * xp.max(xp.abs(matrix), axis=0)
        usual = xp.where(xp.abs(mean) > 0, xp.abs(mean), xp.ones_like(mean))  # a number that never changed
        return PartCode(part, unit, mean, None, None, 1.0 / xp.where(there, spreads, usual)), None, None
    weights = None if quadrature is None else place.put(np.ravel(quadrature)[kept_points(part)])
    modes, far, shrunk = _reached(matrix, weights, seed)
    pca = _field_pca(matrix, weights)
    if len(shrunk) < pca.n_components:  # of further modes nobody knows what they are to other samples
        pca = replace(pca, modes=pca.modes[: len(shrunk), :], singular_values=pca.singular_values[: len(shrunk)])
    size = float(xp.sqrt(xp.sum(pca.singular_values**2) / matrix.shape[0])) or 1.0
    factor = place.zeros(pca.n_components) + 1.0 / size
    found = PartCode(part, unit, pca.mean, pca.modes, weights, factor, far)
    return found, modes if modes < pca.n_components else None, shrunk


def _field_pca(matrix: Array, weights: Array | None) -> Any:
    pca = fit_pca(matrix, _ENERGY, weights=weights, complain=_nobody)[0]
    return pca if pca.n_components <= MOST_MODES else fit_pca(matrix, MOST_MODES, weights=weights, complain=_nobody)[0]


def _reached(matrix: Array, weights: Array | None, seed: int) -> tuple[int, float, Values]:
    """How many modes hold for samples that they have not seen, what they miss of these, and factors, from four fifths.

    Along the last modes of few samples others reach much further than those: such modes say little, and would make all
    that is new look strange. They go where the outputs are as likely without them. Where they stay, they are multiplied
    by the factors: their weights are found from samples that they have seen, in units of the spread of these.
    """
    count = int(matrix.shape[0])
    if count < _FEWEST:
        return MOST_MODES, math.inf, np.ones(MOST_MODES)
    order = permutation(count, seed=seed, stream=_STREAM)
    inner, held = taken(matrix, sorted(order[count // 5 :])), taken(matrix, sorted(order[: count // 5]))
    pca = _field_pca(inner, weights)
    seen = to_host(pca.singular_values) ** 2 / int(inner.shape[0])
    unseen = to_host(place_of(held).xp.mean(pca.encode(held) ** 2, axis=0))
    ends = np.cumsum([0, *_grouped(len(seen))])
    groups = [slice(int(a), int(b)) for a, b in pairwise(ends)]
    further = [unseen[part].sum() > _FURTHER * seen[part].sum() for part in groups]
    shrunk = np.ones(len(seen))
    for part, is_further in zip(groups, further, strict=True):
        if is_further:
            shrunk[part] = math.sqrt(seen[part].sum() / unseen[part].sum())
    shrunk = np.minimum.accumulate(shrunk)
    modes = int(groups[further.index(True)].start) if any(further) else MOST_MODES
    modes = max(modes, min(_FEWEST_MODES, len(seen)))
    _, missed = _encoded(held, pca.mean, pca.modes[: min(modes, len(seen)), :], weights)
    size = math.sqrt(float(seen.sum()))
    return modes, FAR * max(float(missed.max()), 1e-6 * size), shrunk


def _grouped(count: int) -> list[int]:
    """Sizes of half octaves of so many modes: 1, 1, 1, 1, 2, 2, 4, 4, …"""
    ends = sorted({*range(min(4, count)), *(min(end << k, count) for end in (4, 6) for k in range(16)), count})
    return [last - first for first, last in pairwise(ends)]


def _nobody(_: str) -> None:
    """Nobody is told."""


def _encoded(matrix: Array, mean: Array, modes: Array, weights: Array | None) -> tuple[Array, Values]:
    """Latents of every sample, without w, and ‖a − G(F(a))‖, on the host."""
    xp = place_of(matrix).xp
    centred = matrix - mean
    weighted = centred if weights is None else centred * weights
    x = weighted @ modes.T
    squares = xp.sum(centred * weighted, axis=1) - xp.sum(x * x, axis=1)
    return x, np.asarray(to_host(xp.sqrt(xp.clip(squares, min=0.0))))


def _blocks(code: PartCode) -> list[int]:
    """Latents that share a weight: columns none, modes of a field the more of them the further down they stand.

    A field's leading modes are seldom those that count most, and its last ones are noise: half octaves of them are told
    apart, which costs as many numbers as its rank has octaves.
    """
    count = int(code.factor.shape[0])
    if code.modes is not None:
        return _grouped(count)
    return [1] * count if count <= _MOST_WEIGHTS else [1] * (_MOST_WEIGHTS - 1) + [count - _MOST_WEIGHTS + 1]


def _joined(name: str, column: str) -> str:
    return f"{name}.{column}" if name else column
