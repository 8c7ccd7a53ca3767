"""Labels of an array as xarray has them, kept apart from its numbers.

Samples are the dimension that is called so (`SAMPLES`), or else the first one. Coordinates of the others belong to the
grid: they are checked where the same array is handed over again, and stand on what is handed out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import array_api_compat as compat
import numpy as np

__all__ = ["Label", "as_numbers", "is_labelled", "is_labelled_set", "opened", "sample_dim", "uneven_step"]

SAMPLES = ("sample", "samples", "case", "cases", "run", "runs", "realization", "realisation", "draw")
"""Names of a dimension that counts samples"""
_SAME = 1e-6  # of the extent of an axis: coordinates that differ by rounding in single precision
_EVEN = 0.05  # of the median step: largest difference between steps of evenly spaced coordinates
_ROUNDINGS = 8  # roundings of the largest coordinate by which a step may differ

Values = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class Label:
    """What stands beside the numbers of one field."""

    name: str | None
    dims: tuple[str, ...]
    """Without that of the samples"""
    coords: Mapping[str, tuple[tuple[str, ...], Values]] = field(default_factory=dict)
    """Those that do not depend on the sample, with their dimensions"""
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def along(self, dim: str) -> Values | None:
        """The coordinates of one dimension, if it has some that are numbers."""
        dims, values = self.coords.get(dim, ((), np.empty(0)))
        return values if dims == (dim,) and values.dtype.kind in "fiu" else None

    @property
    def axes(self) -> list[Values | None]:
        """Coordinates along every axis of the grid"""
        return [self.along(dim) for dim in self.dims]

    def refuse_disorder(self, what: str) -> None:
        """Refuse coordinates that repeat or are not sorted."""
        for dim in self.dims:
            values = self.along(dim)
            if values is None or len(values) < 2:
                continue
            steps = np.diff(values.astype(np.float64))
            if not np.isfinite(values).all() or (steps == 0).any():
                raise ValueError(f"The coordinates of {what} along {dim!r} repeat or are not finite.")
            if not ((steps > 0).all() or (steps < 0).all()):
                raise ValueError(f"The coordinates of {what} along {dim!r} are not sorted: use sortby({dim!r}) first.")

    def refuse_uneven(self, what: str, dims: Sequence[str]) -> None:
        """Raise ValueError where coordinates along one of these dimensions are not evenly spaced."""
        for dim in dims:
            along, values = self.coords.get(dim, ((), np.empty(0)))
            numbers = as_numbers(values) if along == (dim,) else None
            if numbers is None or uneven_step(numbers, values.dtype) is None:
                continue
            steps = np.abs(np.diff(numbers))
            raise ValueError(
                f"The coordinates of {what} along {dim!r} are not evenly spaced (steps from {steps.min():.3g} to "
                f"{steps.max():.3g}), but stages assume even spacing: interpolate X and y to np.linspace, pass the "
                "points as a Mesh, or use PCARaNN."
            )

    def refuse_elsewhere(self, inputs: Label, what: str) -> None:
        """Raise ValueError where inputs have other coordinates than these outputs along a dimension that both have.

        With another number of points, which stages interpolate, both must have the same first and last coordinate.
        """
        for dim in self.dims:
            (own, mine), (other, theirs) = (one.coords.get(dim, ((), np.empty(0))) for one in (self, inputs))
            if own != (dim,) or other != (dim,) or not mine.size or not theirs.size:
                continue
            ends = mine.shape != theirs.shape and min(mine.size, theirs.size) > 1
            if mine.shape == theirs.shape or ends:
                pair = [one[[0, -1]] if ends else one for one in (mine, theirs)]
                if not _alike(*pair):
                    raise ValueError(
                        f"{what} and y have different coordinates along {dim!r}: stages see both at the same points, "
                        "so interpolate one of them."
                    )

    def agrees_with(self, other: Label) -> bool:
        """Whether dimensions are the same, and coordinates along them where both have some."""
        pairs = [(self.coords.get(dim), other.coords.get(dim)) for dim in self.dims]
        return self.dims == other.dims and all(a is None or b is None or _alike(a[1], b[1]) for a, b in pairs)

    def refuse_other(self, found: Label, what: str) -> None:
        """Refuse an array with other dimensions, or other coordinates along them."""
        if set(found.dims) != set(self.dims):
            raise ValueError(f"{what} has the dimensions {found.dims}, the model was fitted with {self.dims}.")
        for dim in self.dims:
            known, given = (one.coords.get(dim, ((), None)) for one in (self, found))
            if known[1] is not None and given[1] is not None and not _alike(known[1], given[1]):
                raise ValueError(
                    f"{what} has other coordinates along {dim!r} than the model was fitted with: interpolate it, or "
                    "see model.on."
                )

    def laid_out(self, array: Any, what: str) -> Any:
        """The numbers of a labelled array on this grid, or of a stack of them, with the axes in the order of this."""
        others = [dim for dim in array.dims if dim not in self.dims]
        stack = others if len(others) == 1 and len(array.dims) > len(self.dims) else []
        dims = tuple(str(dim) for dim in array.dims if dim not in stack)
        coords = {str(dim): ((str(dim),), np.asarray(array.coords[dim].values)) for dim in dims if dim in array.coords}
        self.refuse_other(Label(None, dims, coords), what)
        return _numbers(array.transpose(*stack, *self.dims))

    def applied(self, array: Any, samples: str, sample_coords: Mapping[str, Any]) -> Any:
        """The (samples, *grid) array with this label, and with the coordinates of these samples."""
        import xarray

        coords = {name: (dims, values) for name, (dims, values) in self.coords.items()}
        return xarray.DataArray(
            array, dims=(samples, *self.dims), coords=coords | dict(sample_coords), name=self.name, attrs=self.attrs
        )


def _alike(known: Values, given: Values) -> bool:
    """Whether coordinates are the same, numbers but for rounding."""
    if known.shape != given.shape:
        return False
    if known.dtype.kind not in "fiu" or given.dtype.kind not in "fiu":
        return bool(np.array_equal(known, given))
    extent = float(np.ptp(known)) if known.size else 1.0
    return bool(np.abs(known - given).max(initial=0.0) <= _SAME * (extent or 1.0))


def as_numbers(values: Values) -> Values | None:
    """Coordinates as float64; dates and durations as seconds after the first one; None for words."""
    if values.dtype.kind in "fiu":
        return values.astype(np.float64)
    if not values.size:
        return None
    try:
        since: Any = values - values.flat[0]
        seconds: Values = since.astype("timedelta64[ns]") / np.timedelta64(1, "s")
    except (TypeError, ValueError):
        return None
    return seconds


def uneven_step(numbers: Values, dtype: np.dtype[Any]) -> int | None:
    """Position of the first step that differs from the median one by more than 5 % and rounding; None where none does.

    `dtype` is that of the coordinates before they became float64.

    >>> uneven_step(np.array([0.0, 0.1, 0.2, 0.5, 0.6]), np.dtype(np.float64))
    2
    """
    steps = np.diff(numbers)
    if not len(steps):
        return None
    usual = float(np.median(steps))
    rounding = _ROUNDINGS * float(np.finfo(dtype).eps) * float(np.abs(numbers).max()) if dtype.kind == "f" else 0.0
    off = ~(np.abs(steps - usual) <= _EVEN * abs(usual) + min(rounding, 0.25 * abs(usual)))
    return int(np.argmax(off)) if off.any() or not usual else None


def is_labelled(value: Any) -> bool:
    """Whether it is a labelled array."""
    return hasattr(value, "dims") and hasattr(value, "coords") and hasattr(value, "transpose") and not _has_parts(value)


def is_labelled_set(value: Any) -> bool:
    """Whether it is a set of labelled arrays."""
    return hasattr(value, "dims") and _has_parts(value)


def _has_parts(value: Any) -> bool:
    return hasattr(value, "data_vars")


def sample_dim(arrays: Sequence[Any], known: str | None = None) -> str:
    """The dimension that counts samples: the one known, one that is called so, or the first that all of them have."""
    every = [dim for array in arrays for dim in array.dims]
    called = [dim for dim in every if dim == known] or [dim for dim in every if str(dim).lower() in SAMPLES]
    for array in arrays if called else ():
        if called[0] not in array.dims:
            raise ValueError(
                f"{array.name} has the dimensions {array.dims}, without {called[0]!r}, which counts samples."
            )
    if called:
        return str(called[0])
    shared = [dim for dim in arrays[0].dims if all(dim in array.dims for array in arrays)]
    if not shared:
        names = ", ".join(str(array.name) for array in arrays)
        raise ValueError(f"{names} share no dimension that could count samples.")
    return str(shared[0])


def opened(array: Any, samples: str, order: tuple[str, ...] | None = None) -> tuple[Values, Label, dict[str, Any]]:
    """Numbers with samples first, the label, and the coordinates that depend on the sample.

    `order` is that of the other dimensions, where it is known.
    """
    dims = tuple(dim for dim in array.dims if dim != samples)
    if order is not None and set(order) == set(dims):
        dims = order
    array = array.transpose(samples, *dims)
    own = {str(name): coord for name, coord in array.coords.items() if coord.dims == (samples,)}
    coords = {
        str(name): (tuple(str(dim) for dim in coord.dims), np.asarray(coord.values))
        for name, coord in array.coords.items()
        if samples not in coord.dims
    }
    label = Label(None if array.name is None else str(array.name), dims, coords, dict(array.attrs))
    return _numbers(array), label, own


def _numbers(array: Any) -> Values:
    found: Values = array.data if compat.is_array_api_obj(array.data) else array.values
    return found
