"""Which things of a user are lazy: Dask arrays, and labelled arrays that hold one. Nothing here imports Dask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["has_lazy_parts", "is_lazy", "lazy_array", "refuse_lazy"]


def lazy_array(value: Any) -> Any:
    """The Dask array that a thing is or holds; None where there is none.

    >>> import numpy as np
    >>> lazy_array(np.ones(3)) is None
    True
    """
    inner = getattr(value, "data", None) if hasattr(value, "dims") and hasattr(value, "coords") else value
    kinds = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(inner).__mro__)
    return inner if any(kind == "dask.array.core.Array" for kind in kinds) else None


def has_lazy_parts(value: Any) -> bool:
    """Whether it is a mapping or a labelled set, of which a part is lazy."""
    parts = getattr(value, "data_vars", value)
    if hasattr(value, "tocsr"):  # some sparse matrices are mappings
        return False
    return isinstance(parts, Mapping) and any(lazy_array(parts[name]) is not None for name in parts)


def is_lazy(*values: Any) -> bool:
    """Whether one of these things is lazy, or has a part that is."""
    return any(lazy_array(value) is not None or has_lazy_parts(value) for value in values)


def refuse_lazy(who: str, *values: Any) -> None:
    """Refuse lazy things on behalf of who works in memory."""
    if is_lazy(*values):
        raise ValueError(f"{who} works in memory: hand over X.compute(), y.compute(), or fit PCARaNN to lazy arrays.")
