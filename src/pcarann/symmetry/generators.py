"""Exact symmetries of an operator, to be stated without a grid.

A solution operator S has the symmetry g where

    u = S(a)   ⇒   g_out u = S(g_in a),

so that one solved pair is worth as many pairs as the group has elements: copies of the samples are fitted too, and
predictions are averaged over the group, (1/|G|) Σ_g g_out⁻¹ û(g_in a), which makes the surrogate exactly equivariant.

A `Symmetry` names generators, pairs of functions of fields. Bound to the grids of inputs and outputs it becomes a
`Group` of tables (`pcarann.symmetry.group`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from pcarann.backend.arrays import place_of
from pcarann.backend.random import normal
from pcarann.symmetry.group import STREAM, Group, Table
from pcarann.validation import check_count

__all__ = ["Symmetry"]

Fields: TypeAlias = np.ndarray[Any, Any]
Move: TypeAlias = Callable[[Fields], Fields]


@dataclass(frozen=True)
class Generator:
    """One pair of moves, acting on NumPy arrays (samples, *grid) of inputs and of outputs."""

    name: str
    input: Move
    output: Move
    axes: tuple[int, ...] = ()
    """Axes that both grids must have"""
    steps: bool = False
    """Whether it counts grid steps, so that both grids must have as many points along the axes"""


@dataclass(frozen=True, repr=False)
class Symmetry:
    """A group of moves of (input, output) pairs, given by generators; `*` joins two groups.

    >>> Symmetry.shifts(-1) * Symmetry.reflection(-1, sign=-1)
    Symmetry.shifts(-1) * Symmetry.reflection(-1, sign=-1)
    >>> Symmetry.dihedral().bind((29, 29), (29, 29)).order
    8
    """

    generators: tuple[Generator, ...]
    n_fit: int | None = None
    """Elements used as copies in the fit; None for all"""
    n_predict: int | None = None
    """Elements averaged at prediction; None for all"""

    def __post_init__(self) -> None:
        for name in ("n_fit", "n_predict"):
            if getattr(self, name) is not None:
                check_count(getattr(self, name), name)

    @classmethod
    def dihedral(cls, axes: tuple[int, int] = (-2, -1)) -> Symmetry:
        """Return the eight moves of the square, on two axes of both fields; other axes are carried along."""
        if not isinstance(axes, tuple | list) or len(axes) != 2:
            raise ValueError(f"axes must be the two axes of a square, such as (-2, -1), got {axes!r}.")
        first, second = _checked_axes(axes)
        name = f"Symmetry.dihedral({'' if (first, second) == (-2, -1) else (first, second)})"
        moves: tuple[Move, Move] = (_Reflection((first,)), _Exchange(first, second))
        return cls(tuple(Generator(name, move, move, (first, second)) for move in moves))

    @classmethod
    def shifts(cls, *axes: int | Mapping[int, int], stride: int = 1, closed: bool = False) -> Symmetry:
        """Return all periodic shifts along each of these axes, or along directions {axis: step}.

        `{-2: 1, -1: -1}` makes ω(x + s, y − s) of ω. `stride` takes every stride-th shift alone. `closed` says that the
        axes hold both ends of the period, so that the last value repeats the first.
        """
        if not axes:
            raise ValueError("shifts wants at least one axis or direction, such as -1 or {-2: 1, -1: -1}, got 0.")
        stride = check_count(stride, "stride")
        generators = []
        for direction in axes:
            steps = dict(direction) if isinstance(direction, Mapping) else {direction: 1}
            checked = _checked_axes(tuple(steps))
            for axis, step in steps.items():
                if not isinstance(step, Integral) or isinstance(step, bool) or not step:
                    raise ValueError(f"The step along axis {axis} must be a whole number other than 0, got {step!r}.")
            move = _Shift(checked, tuple(stride * int(step) for step in steps.values()), closed)
            options = f", {stride=}" * (stride != 1) + f", {closed=}" * closed
            name = f"Symmetry.shifts({direction!r}{options})"
            generators.append(Generator(name, move, move, move.axes, steps=True))
        return cls(tuple(generators))

    @classmethod
    def reflection(cls, *axes: int, sign: int | tuple[int, int] = 1, periodic: bool = False) -> Symmetry:
        """Return the group of one flip of these axes, times a sign: one for both fields or a pair (input, output).

        Point i goes to n − 1 − i, which is right where the grid holds both ends or the centres of cells;
        `periodic` sends it to −i mod n, right for the points i/n of a period. No axes and sign=-1 is (a, u) ↦ (−a, −u).
        """
        pair = tuple(sign) if isinstance(sign, tuple | list) else (sign, sign)
        if len(pair) != 2 or not all(part in (-1, 1) for part in pair):
            raise ValueError(f"sign must be 1, -1 or a pair of them for input and output, got {sign!r}.")
        if not axes and pair == (1, 1):
            raise ValueError("reflection wants at least one axis or a sign of -1, got 0 axes and sign=1.")
        checked = _checked_axes(axes)
        parts = [*map(str, axes), *([f"{sign=}"] * (pair != (1, 1))), *([f"{periodic=}"] * periodic)]
        moves = [_Reflection(checked, int(part), periodic) for part in pair]
        return cls((Generator(f"Symmetry.reflection({', '.join(parts)})", moves[0], moves[1], checked),))

    @classmethod
    def of(cls, input_function: Move, output_function: Move) -> Symmetry:
        """Return the group generated by your own pair of functions of NumPy arrays (samples, *grid).

        Each must move the values of a field about and change no more than signs.
        """
        for name, function in (("input_function", input_function), ("output_function", output_function)):
            if not callable(function):
                raise ValueError(f"{name} must be a function of arrays (samples, *grid), got {function!r}.")
        names = (getattr(function, "__name__", repr(function)) for function in (input_function, output_function))
        return cls((Generator(f"Symmetry.of({', '.join(names)})", input_function, output_function),))

    @classmethod
    def of_group(cls, group: Group, name: str) -> Symmetry:
        """Return the symmetry of a group on its grids, under the name that it had."""
        tables = group.tables()
        pairs = zip(tables["input"], tables["output"], strict=True)
        return cls(tuple(Generator(name, _Gather(one), _Gather(other)) for one, other in pairs))

    def using(self, *, fit: int | None = None, predict: int | None = None) -> Symmetry:
        """Return the symmetry with this many elements as copies in the fit and averaged at prediction; None: all.

        The identity is always among them.
        """
        n_fit = None if fit is None else check_count(fit, "fit")
        return replace(self, n_fit=n_fit, n_predict=None if predict is None else check_count(predict, "predict"))

    def bind(self, input_grid: tuple[int, ...], output_grid: tuple[int, ...]) -> Group:
        """Return the group on fields of these shapes."""
        for generator in self.generators:
            for axis in generator.axes if generator.steps else ():
                if axis < -min(len(input_grid), len(output_grid)):
                    continue  # said better with the side that lacks the axis
                if input_grid[axis] != output_grid[axis]:
                    found = f"input and output have {input_grid[axis]} and {output_grid[axis]} points along axis {axis}"
                    raise ValueError(f"{generator.name} wants the same grid steps on both sides, but {found}.")
        grids = (("input", input_grid), ("output", output_grid))
        inputs, outputs = (np.stack([_tabulated(g, side, grid) for g in self.generators]) for side, grid in grids)
        return Group.generated(inputs, outputs)

    def rebound(self, input_grid: tuple[int, ...], output_grid: tuple[int, ...]) -> Group:
        """Return the group of a fitted model on other grids, or a refusal: what a file holds is bound to its own."""
        try:
            return self.bind(input_grid, output_grid)
        except ValueError as error:
            raise ValueError(
                f"The symmetry {self!r} cannot go to another grid ({str(error).rstrip('.')}): set the parameter "
                "`symmetry` to one that is stated without a grid."
            ) from None

    def __mul__(self, other: Symmetry) -> Symmetry:
        if not isinstance(other, Symmetry):
            return NotImplemented
        for factor in (self, other):
            if (factor.n_fit, factor.n_predict) != (None, None):
                raise ValueError(f"Multiply first, then say how many elements to use: got the factor {factor}.")
        return Symmetry(self.generators + other.generators)

    def __repr__(self) -> str:
        names = list(dict.fromkeys(generator.name for generator in self.generators))
        counts = {"fit": self.n_fit, "predict": self.n_predict}
        stated = ", ".join(f"{name}={count}" for name, count in counts.items() if count is not None)
        product = " * ".join(names)
        return f"{f'({product})' if ' * ' in product else product}.using({stated})" if stated else product


@dataclass(frozen=True)
class _Shift:
    """(g a)ᵢ = a_{(i + step) mod period}, the period being n points, or n − 1 where both its ends are held."""

    axes: tuple[int, ...]
    steps: tuple[int, ...]
    closed: bool

    def __call__(self, fields: Fields) -> Fields:
        for axis, step in zip(self.axes, self.steps, strict=True):
            points = fields.shape[axis]
            fields = np.take(fields, (np.arange(points) + step) % max(1, points - self.closed), axis=axis)
        return fields


@dataclass(frozen=True)
class _Reflection:
    """(g a)ᵢ = ± a_{n−1−i}, or ± a_{−i mod n} where periodic."""

    axes: tuple[int, ...]
    sign: int = 1
    periodic: bool = False

    def __call__(self, fields: Fields) -> Fields:
        flipped = np.flip(fields, self.axes)
        return self.sign * (np.roll(flipped, (1,) * len(self.axes), self.axes) if self.periodic else flipped)


@dataclass(frozen=True, eq=False)
class _Gather:
    """(g a)ᵢ = sᵢ a_{jᵢ} by the table sᵢ (jᵢ + 1)."""

    table: Table

    def __call__(self, fields: Fields) -> Fields:
        flat = fields.reshape(len(fields), -1)
        if flat.shape[1] != len(self.table):
            raise ValueError(f"it moves fields of {len(self.table)} values, found {flat.shape[1]}")
        return (np.sign(self.table) * flat[:, np.abs(self.table) - 1]).reshape(fields.shape)


@dataclass(frozen=True)
class _Exchange:
    """(g a)ᵢⱼ = aⱼᵢ."""

    first: int
    second: int

    def __call__(self, fields: Fields) -> Fields:
        return np.swapaxes(fields, self.first, self.second)


def _tabulated(generator: Generator, side: str, grid: tuple[int, ...]) -> Table:
    """Return the table of one side of a generator: what it makes of 1, …, n, checked on two random fields."""
    where = f"{generator.name} does not fit the grid {grid} of the {side}"
    if missing := [axis for axis in generator.axes if axis < -len(grid)]:
        raise ValueError(f"{where}: it wants an axis {missing[0]}, found {len(grid)} axes.")
    values = math.prod(grid)
    probes = normal((3, values), seed=0, stream=STREAM, place=place_of(None))
    probes[0] = np.arange(1, values + 1)
    try:
        moved = np.asarray(getattr(generator, side)(probes.reshape(-1, *grid).copy()))
    except (ValueError, IndexError) as error:
        raise ValueError(f"{where}: {str(error).rstrip('.')}.") from error
    if moved.shape != (len(probes), *grid):
        raise ValueError(f"{where}: from fields of shape {(len(probes), *grid)} it makes {moved.shape}.")
    flat = moved.reshape(len(probes), values)
    if flat.dtype == np.float64 and np.isin(np.abs(flat[0]), probes[0]).all():
        table: Table = flat[0].astype(np.int32)
        if np.array_equal(np.sign(table) * probes[:, np.abs(table) - 1], flat):
            return table
    raise ValueError(f"{generator.name} is no signed rearrangement of the values on the {side}'s grid {grid}.")


def _checked_axes(axes: tuple[Any, ...]) -> tuple[int, ...]:
    """Return axes counted from the last, since inputs and outputs may differ in their first ones."""
    for axis in axes:
        if not isinstance(axis, Integral) or isinstance(axis, bool) or int(axis) >= 0:
            raise ValueError(f"Axes are counted from the last, -1, and must be below 0, got {axis!r}.")
    if len(set(axes)) != len(axes):
        raise ValueError(f"Axes must differ from each other, got {axes}.")
    return tuple(int(axis) for axis in axes)
