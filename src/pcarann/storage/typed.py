"""Plain values of a document, checked against the types that their records declare.

`record(FitReport, described, "its report")` builds a dataclass from a JSON object: every field must be there unless it
has a default, no other may be, and every value must have the declared type. New fields of a record are covered without
a line here.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

__all__ = ["checked", "record", "seconds_of"]

_LONGEST = 10_000  # characters of a text
_MOST = 1 << 20  # entries of a list or an object
_LARGEST = 1 << 64  # whole numbers, seeds among them

Record = TypeVar("Record")


def record(kind: type[Record], described: Any, what: str) -> Record:
    """Return the dataclass that a JSON object describes, every field of its declared type; or raise ValueError.

    A record that cannot be printed is refused as well: that is what it is for.
    """
    if not isinstance(described, dict):
        raise ValueError(f"{what} must be an object, found {_shown(described)}")
    hints = get_type_hints(kind)
    known = {field.name: field for field in fields(kind) if field.init}  # type: ignore[arg-type]
    if unknown := [name for name in described if name not in known]:
        raise ValueError(f"{what} has the unknown field {unknown[0][:100]!r}")
    found = {}
    for name, field in known.items():
        if name in described:
            found[name] = checked(described[name], hints[name], f"{name} of {what}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{what} has no {name}")
    made = kind(**found)
    try:
        str(made)
    except Exception as error:
        raise ValueError(f"{what} cannot be printed ({type(error).__name__}: {str(error)[:100]})") from None
    return made


def checked(value: Any, kind: Any, what: str) -> Any:
    """Return a JSON value as a declared type, lists as the tuples that they were; or raise ValueError.

    >>> checked([1, 2.5], tuple[float, ...], "ridges")
    (1.0, 2.5)
    """
    if kind is Any:
        return value
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(value, parts, what)
    if origin is Literal:
        if any(value == one and type(value) is type(one) for one in parts):
            return value
    elif origin in (tuple, list) or kind in (tuple, list):
        return _listed(value, origin or kind, parts, what)
    elif origin in (dict, Mapping) or (origin is not None and issubclass(origin, Mapping)):
        return _named(value, parts, what)
    elif is_dataclass(kind):
        return record(kind, value, what)  # type: ignore[arg-type]
    elif _fits(value, kind):
        return float(value) if kind is float else value
    raise ValueError(f"{what} must be {_called(kind)}, found {_shown(value)}")


def seconds_of(described: Any) -> dict[str, float]:
    """Durations by name: numbers of at least 0."""
    found: dict[str, float] = checked(described, dict[str, float], "its seconds")
    if not all(0 <= one < float("inf") for one in found.values()):
        raise ValueError("its seconds must be numbers of at least 0")
    return found


def _fits(value: Any, kind: Any) -> bool:
    if kind is float:  # NaN and infinity are errors of models that diverge
        return isinstance(value, float) or (_is_whole(value) and abs(value) <= _LARGEST)
    if kind is int:
        return _is_whole(value) and abs(value) <= _LARGEST
    if kind is str:
        return isinstance(value, str) and len(value) <= _LONGEST
    return kind in (bool, type(None)) and isinstance(value, kind)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _one_of(value: Any, kinds: tuple[Any, ...], what: str) -> Any:
    refusals = []
    for kind in kinds:
        try:
            return checked(value, kind, what)
        except ValueError as error:
            refusals.append(str(error))
    raise ValueError(refusals[0])


def _listed(value: Any, origin: Any, kinds: tuple[Any, ...], what: str) -> Any:
    if not isinstance(value, list | tuple) or len(value) > _MOST:
        raise ValueError(f"{what} must be a list, found {_shown(value)}")
    if origin is tuple and kinds and kinds[-1] is not Ellipsis:
        if len(value) != len(kinds):
            raise ValueError(f"{what} must have {len(kinds)} entries, found {len(value)}")
        return tuple(checked(one, kind, what) for one, kind in zip(value, kinds, strict=True))
    kind = kinds[0] if kinds else Any
    return origin(checked(one, kind, what) for one in value)


def _named(value: Any, kinds: tuple[Any, ...], what: str) -> Any:
    if not isinstance(value, dict) or len(value) > _MOST:
        raise ValueError(f"{what} must be an object, found {_shown(value)}")
    return {checked(name, str, what): checked(one, kinds[-1], f"{what}[{name[:100]!r}]") for name, one in value.items()}


def _called(kind: Any) -> str:
    names = {float: "a number", int: "a whole number", str: "text", bool: "true or false", type(None): "null"}
    return names.get(kind, f"one of {', '.join(map(repr, get_args(kind)))}" if get_args(kind) else str(kind))


def _shown(value: Any) -> str:
    return repr(value)[:60] if isinstance(value, str | int | float | bool | None) else type(value).__name__
