"""Labels of an array as xarray has them, kept apart from its numbers.

Samples are the dimension that is called so (`SAMPLES`), or else the first one. Coordinates of the others belong to the
grid: they are checked where the same array is handed over again, and stand on what is handed out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Label", "is_labelled", "is_labelled_set", "opened", "sample_dim"]

SAMPLES = ("sample", "samples", "case", "cases", "run", "runs", "realization", "realisation", "draw")
"""Names of a dimension that counts samples"""
_SAME = 1e-6  # of the extent of an axis: coordinates that differ by rounding in single precision

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

    def refuse_other(self, found: Label, what: str) -> None:
        """Refuse an array with other dimensions, or other coordinates along them."""
        if set(found.dims) != set(self.dims):
            raise ValueError(f"{what} has the dimensions {found.dims}, the model was fitted with {self.dims}.")
        for dim in self.dims:
            known, given = self.along(dim), found.along(dim)
            if known is None or given is None:
                continue
            extent = float(np.ptp(known)) or 1.0
            if known.shape != given.shape or np.abs(known - given).max() > _SAME * extent:
                raise ValueError(
                    f"{what} has other coordinates along {dim!r} than the model was fitted with: interpolate it, or "
                    "see model.on."
                )

    def applied(self, array: Any, samples: str, sample_coords: Mapping[str, Any]) -> Any:
        """The (samples, *grid) array with this label, and with the coordinates of these samples."""
        import xarray

        coords = {name: (dims, values) for name, (dims, values) in self.coords.items()}
        return xarray.DataArray(
            array, dims=(samples, *self.dims), coords=coords | dict(sample_coords), name=self.name, attrs=self.attrs
        )


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
    shared = [dim for dim in arrays[0].dims if all(dim in array.dims for array in arrays)]
    if not shared:
        names = ", ".join(str(array.name) for array in arrays)
        raise ValueError(f"{names} share no dimension that could count samples.")
    wanted = [dim for dim in shared if dim == known] or [dim for dim in shared if str(dim).lower() in SAMPLES]
    found: str = (wanted or shared)[0]
    return found


def opened(array: Any, samples: str, order: tuple[str, ...] | None = None) -> tuple[Values, Label, dict[str, Any]]:
    """Numbers with samples first, the label, and the coordinates that depend on the sample.

    `order` is that of the other dimensions, where it is known.
    """
    dims = tuple(dim for dim in array.dims if dim != samples)
    if order is not None and set(order) == set(dims):
        dims = order
    array = array.transpose(samples, *dims)
    own = {str(name): coord for name, coord in array.coords.items() if samples in coord.dims}
    coords = {
        str(name): (tuple(str(dim) for dim in coord.dims), np.asarray(coord.values))
        for name, coord in array.coords.items()
        if samples not in coord.dims
    }
    label = Label(None if array.name is None else str(array.name), dims, coords, dict(array.attrs))
    return array.data, label, own
