"""Arrays of the host that are needed wherever fields are: put there once, and kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcarann.backend.arrays import Array, place_of

__all__ = ["Table"]


class Table:
    """A constant array, handed out beside the arrays that it is to be computed with.

    >>> Table(np.array([1.0, 2.0])).beside(np.ones(3, dtype=np.float32)).dtype
    dtype('float32')
    """

    def __init__(self, host: np.ndarray[Any, Any]):
        self.host = np.array(host, order="C")  # its own: a table that others write to would be none
        self.host.flags.writeable = False
        self._there: dict[tuple[str, str, str], Array] = {}

    def beside(self, fields: Array) -> Array:
        """The array where fields are: whole numbers as they are, others in the precision of the fields."""
        place = place_of(fields)
        key = place.xp.__name__, str(place.device), str(fields.dtype)
        if key not in self._there:
            if self.host.dtype.kind == "i":
                self._there[key] = place.xp.asarray(self.host.copy(), device=place.device)
            else:
                self._there[key] = place.xp.astype(place.put(self.host), fields.dtype, copy=False)
        return self._there[key]

    def __reduce__(self) -> tuple[Any, ...]:
        return Table, (self.host,)
