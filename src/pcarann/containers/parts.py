"""What one side of a fit is made of: one array, or named parts, each (samples, *its own grid).

A mapping, a Dataset and a data frame have parts with names. `Side.of` looks at what was handed to `fit` and remembers
names, grids, columns and labels; `arrays` opens the same kind of thing again and refuses by name what does not fit;
`container` puts predicted arrays back into the kind of thing that was handed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import array_api_compat as compat
import numpy as np

from pcarann.backend.arrays import Array
from pcarann.containers.labels import Label, is_labelled, is_labelled_set, opened, sample_dim
from pcarann.validation import check_numeric, unstopped

__all__ = ["Opened", "Part", "Side", "refuse_other_samples", "said_of"]

Values = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Part:
    """One of them."""

    name: str
    grid: tuple[int, ...]
    """Shape of one sample; () for a number"""
    columns: tuple[str, ...] = ()
    """Of a table, where they have names"""
    label: Label | None = None
    holes: Values | None = None
    """Where the grid has no values in any sample, of the grid's shape"""


@dataclass(frozen=True, eq=False)
class Opened:
    """One side as it was handed over, opened."""

    arrays: dict[str, Array]
    """(samples, *grid) each"""
    samples: str = "sample"
    sample_coords: Mapping[str, Any] = field(default_factory=dict)
    labelled: bool = False
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[str, Label] = field(default_factory=dict)
    single: bool = False

    @property
    def first(self) -> Array:
        """Of the arrays: the kind of it is the kind that is handed out"""
        return next(iter(self.arrays.values()))


@dataclass(frozen=True, eq=False)
class Side:
    """All parts of inputs or outputs."""

    parts: tuple[Part, ...]
    single: bool
    """Whether there is one array, without a name"""
    samples: str = "sample"
    """The dimension that counts them, where arrays are labelled"""

    @classmethod
    def of(cls, value: Any, what: str, samples: str | None = None) -> tuple[Side, Opened]:
        """What was handed to `fit` as `what` ("X" or "y"), and the side that it makes.

        `samples` is the dimension that counts them on the other side, if that is labelled.
        """
        found = _opened(value, what, None if samples is None else cls((), False, samples))
        _refuse_other_counts(found.arrays, what)
        parts: list[Part] = []
        for name, array in found.arrays.items():
            if array.ndim < 1:
                raise ValueError(f"{said_of(what, name)} must have shape (samples, …), found one number.")
            label = found.labels.get(name)
            if label is not None:
                label.refuse_disorder(said_of(what, name))
            grid = tuple(int(n) for n in array.shape[1:])
            parts.append(Part(name, grid, found.columns.get(name, ()), label))
        return cls(tuple(parts), found.single, found.samples), found

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parts"""
        return tuple(part.name for part in self.parts)

    def refuse_clashes(self, samples: str) -> None:
        """Refuse labelled outputs that could not be handed out together, beside samples along this dimension."""
        coords: dict[str, Any] = {}
        labels = [part.label for part in self.parts if part.label is not None]
        for label, part in zip(labels, self.parts, strict=False):
            if samples in label.dims:
                raise ValueError(f"The dimension {samples!r} counts samples in X, but not in y: rename one of them.")
            for dim, size in zip(label.dims, part.grid, strict=True):
                one = label.coords.get(dim, ((), np.arange(size)))[1]
                if len(self.parts) > 1 and not np.array_equal(coords.setdefault(dim, one), one):
                    raise ValueError(f"Outputs have different coordinates along {dim!r}: rename it in one of them.")
            coords |= {name: values for name, (_, values) in label.coords.items()}
        if clash := [name for name in self.names if name in coords or name == samples]:
            raise ValueError(f"The output {clash[0]!r} is called as a dimension or a coordinate is: rename it.")

    def refuse_other_axes(self, inputs: Side) -> None:
        """Refuse labelled inputs that lie otherwise than these outputs, for stages, which see both at one point."""
        labels = [part.label for part in self.parts if part.label is not None]
        for part in inputs.parts if labels else ():
            if part.label is None:
                continue
            shared = [dim for dim in part.label.dims if dim in labels[0].dims]
            if shared != [dim for dim in labels[0].dims if dim in shared]:
                raise ValueError(
                    f"Stages need dimensions in one order, found {part.label.dims} in X and {labels[0].dims} in y: "
                    "transpose one of them."
                )
            for dim in shared:
                known, given = labels[0].along(dim), part.label.along(dim)
                if known is not None and given is not None and (known[0] < known[-1]) != (given[0] < given[-1]):
                    raise ValueError(f"Coordinates along {dim!r} rise on one side and fall on the other: sort them.")
            labels[0].refuse_elsewhere(part.label, said_of("X", part.name))

    def refuse_uneven(self, what: str, axes: Sequence[int], least: int) -> None:
        """Raise ValueError where a labelled part is unevenly spaced on an axis of `least` points or more.

        Axes are counted from the last one, as negative numbers.
        """
        for part in self.parts:
            if part.label is not None:
                there = [i for i in axes if -i <= len(part.grid) and part.grid[i] >= least]
                part.label.refuse_uneven(said_of(what, part.name), [part.label.dims[i] for i in there])

    def with_holes(self, holes: Mapping[str, Values]) -> Side:
        """The same where some grids have points without values."""
        return replace(self, parts=tuple(replace(part, holes=holes.get(part.name)) for part in self.parts))

    def on(self, grid: tuple[int, ...], points: bool) -> Side:
        """The same where its one part has another grid, or lies at points: what is not known of it goes."""
        part = self.parts[0]
        label = None if points else part.label
        if label is not None:
            changed = {dim for dim, old, new in zip(label.dims, part.grid, grid, strict=False) if old != new}
            kept = {name: coord for name, coord in label.coords.items() if not changed.intersection(coord[0])}
            label = replace(label, coords=kept) if len(grid) == len(part.grid) else None
        return replace(self, parts=(replace(part, grid=grid, label=label),))

    def opened(self, value: Any, what: str) -> Opened:
        """The same kind of thing again, or a refusal by name."""
        found = _opened(value, what, self)
        if self.single != found.single:
            wanted = "one array" if self.single else f"the parts {', '.join(self.names)}"
            raise ValueError(f"{what} must be {wanted}, as in fit, found {type(value).__name__}.")
        missing = [name for name in self.names if name not in found.arrays]
        extra = [name for name in found.arrays if name not in self.names]
        if missing or extra:
            found_out = [
                f"{', '.join(names)} {how}" for names, how in ((missing, "missing"), (extra, "unknown")) if names
            ]
            raise ValueError(f"{what} must have the parts {', '.join(self.names)}, found {'; '.join(found_out)}.")
        arrays = {}
        for part in self.parts:
            array, label = found.arrays[part.name], found.labels.get(part.name)
            said = said_of(what, part.name)
            if part.columns and found.columns.get(part.name, part.columns) != part.columns:
                raise ValueError(
                    f"The columns of {said} should be those of fit, in the same order: expected "
                    f"{', '.join(part.columns)}, found {', '.join(found.columns[part.name])}."
                )
            if label is not None and part.label is not None:
                part.label.refuse_other(label, said)
            if {tuple(array.shape[1:]), part.grid} == {(), (1,)}:
                array = array.reshape(-1, *part.grid)
            if tuple(array.shape[1:]) != part.grid:
                raise ValueError(f"{said} has samples of shape {tuple(array.shape[1:])}, expected {part.grid}.")
            arrays[part.name] = array
        _refuse_other_counts(arrays, what)
        return replace(found, arrays=arrays)

    def container(self, arrays: Mapping[str, Array], like: Opened) -> Any:
        """Arrays of all parts as the kind of thing that the inputs were handed over as."""
        if like.labelled and all(part.label is not None for part in self.parts):
            found = {
                part.name: part.label.applied(arrays[part.name], like.samples, like.sample_coords)
                for part in self.parts
                if part.label is not None
            }
            if self.single:
                return found[self.names[0]]
            import xarray

            return xarray.Dataset(found)
        return arrays[self.names[0]] if self.single else dict(arrays)


def _opened(value: Any, what: str, known: Side | None) -> Opened:
    """Any kind of thing as arrays of real numbers by name."""
    found = _taken_apart(value, what, known)
    return replace(found, arrays={name: check_numeric(one, said_of(what, name)) for name, one in found.arrays.items()})


def _taken_apart(value: Any, what: str, known: Side | None) -> Opened:
    orders = {} if known is None else {part.name: part.label.dims for part in known.parts if part.label is not None}
    if is_labelled_set(value):
        names = list(value.data_vars)
        if not names:
            raise ValueError(f"{what} is a Dataset without variables.")
        return _from_labelled({str(name): value[name] for name in names}, known, orders, single=False)
    if is_labelled(value):
        return _from_labelled({"": value}, known, orders, single=True)
    if isinstance(value, Mapping):
        return _from_mapping(value, what, known, orders)
    columns = getattr(value, "columns", None)
    if columns is not None:
        return Opened({"": _as_array(value, what)}, columns={"": tuple(str(c) for c in columns)}, single=True)
    if isinstance(value, tuple | list) and len({np.shape(part) for part in value if hasattr(part, "shape")}) > 1:
        raise ValueError(f"{what} is a {type(value).__name__} of arrays: hand them over by name, {{name: array, …}}.")
    array = value if compat.is_array_api_obj(value) else np.asarray(value)
    return Opened({"": array}, single=True)


def _from_labelled(arrays: dict[str, Any], known: Side | None, orders: Mapping[str, Any], single: bool) -> Opened:
    samples = sample_dim(list(arrays.values()), None if known is None else known.samples)
    opens = {name: opened(array, samples, orders.get(name)) for name, array in arrays.items()}
    own: dict[str, Any] = {}
    for name, (_, _, coords) in opens.items():
        refuse_other_samples(own.get(samples), coords.get(samples), name)
        own = coords | own
    return Opened(
        {name: array for name, (array, _, _) in opens.items()},
        samples,
        own,
        True,
        labels={name: label for name, (_, label, _) in opens.items()},
        single=single,
    )


def _from_mapping(value: Mapping[Any, Any], what: str, known: Side | None, orders: Mapping[str, Any]) -> Opened:
    if not value:
        raise ValueError(f"{what} is a mapping without parts.")
    if not all(isinstance(name, str) and name for name in value):
        raise ValueError(f"The parts of {what} must have names, found {', '.join(map(repr, value))}.")
    labelled = {name: part for name, part in value.items() if is_labelled(part)}
    found = _from_labelled(labelled, known, orders, single=False) if labelled else Opened({})
    arrays, columns = {}, {}
    for name, part in value.items():
        if name in labelled:
            arrays[name] = found.arrays[name]
            continue
        names = getattr(part, "columns", None)
        if names is not None:
            columns[name] = tuple(str(column) for column in names)
        arrays[name] = part if compat.is_array_api_obj(part) else _as_array(part, said_of(what, name))
        if arrays[name].ndim < 1:
            raise ValueError(f"{said_of(what, name)} is one number: it needs one for each sample.")
    return replace(found, arrays=arrays, columns=columns)


def _as_array(value: Any, said: str) -> Values:
    if hasattr(value, "tocsr") or isinstance(value, Mapping) or is_labelled_set(value) or value is None:
        raise ValueError(f"{said} must be an array, a labelled array or a table, found {type(value).__name__}.")
    try:
        found = np.asarray(value)
        if found.dtype.kind == "O":
            found = found.astype(np.float64)
    except (ValueError, TypeError) as refused:
        raise ValueError(f"{said} must hold real numbers: {unstopped(refused)}.") from None
    return found


def refuse_other_samples(known: Any, found: Any, what: str) -> None:
    """Refuse coordinates of samples that are others than those beside them: rows would not belong together."""
    if known is not None and found is not None and not np.array_equal(known.values, found.values):
        raise ValueError(f"The samples of {what} have other coordinates than those beside them: align them first.")


def _refuse_other_counts(arrays: Mapping[str, Array], what: str) -> None:
    counts = {name: int(array.shape[0]) for name, array in arrays.items() if array.ndim}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise ValueError(f"The parts of {what} must have the same number of samples, found {said}.")


def said_of(what: str, name: str) -> str:
    """A part as it is called in sentences."""
    return f"{what}[{name!r}]" if name else what
