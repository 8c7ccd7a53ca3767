"""Changes that files are given: single bytes, JSON documents, and arrays."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from copy import deepcopy
from json import dumps, loads
from typing import Any

import numpy as np

__all__ = ["BYTES", "changed_bytes", "changed_document", "changed_tensors", "deep"]

_SPECIAL = (0, 1, 0x7F, 0x80, 0xFF, 0x22, 0x5B, 0x7B, 0x2C)
_WIDE = (0, 1, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


# Bytes


def _flipped(content: bytearray, draw: random.Random, _: bytes) -> None:
    for _ in range(draw.choice((1, 1, 1, 2, 8, 64))):
        content[_place(content, draw)] ^= 1 << draw.randrange(8)


def _special(content: bytearray, draw: random.Random, _: bytes) -> None:
    for _ in range(draw.choice((1, 1, 4))):
        content[_place(content, draw)] = draw.choice(_SPECIAL)


def _number(content: bytearray, draw: random.Random, _: bytes) -> None:
    """A whole number of 2, 4 or 8 bytes, in either order."""
    kind = draw.choice("HIQ")
    wide = struct.pack(draw.choice("<>") + kind, draw.choice(_WIDE) % 256 ** struct.calcsize(kind))
    at = _place(content, draw)
    content[at : at + len(wide)] = wide


def _cut(content: bytearray, draw: random.Random, _: bytes) -> None:
    del content[_place(content, draw) :]


def _removed(content: bytearray, draw: random.Random, _: bytes) -> None:
    at = _place(content, draw)
    del content[at : at + draw.choice((1, 2, 8, 100))]


def _inserted(content: bytearray, draw: random.Random, _: bytes) -> None:
    at = _place(content, draw)
    content[at:at] = draw.randbytes(draw.choice((1, 2, 8, 100)))


def _repeated(content: bytearray, draw: random.Random, _: bytes) -> None:
    at, size = _place(content, draw), draw.choice((1, 8, 64, 1000))
    content[at:at] = content[at : at + size] * draw.choice((1, 2, 50))


def _moved(content: bytearray, draw: random.Random, _: bytes) -> None:
    size, here, there = draw.choice((8, 64, 512)), _place(content, draw), _place(content, draw)
    content[here : here + size] = content[there : there + size]


def _spliced(content: bytearray, draw: random.Random, other: bytes) -> None:
    """The beginning of this file, the end of another."""
    content[_place(content, draw) :] = other[draw.randrange(len(other)) :]


def _zeroed(content: bytearray, draw: random.Random, _: bytes) -> None:
    at, size = _place(content, draw), draw.choice((8, 64, 1000))
    content[at : at + size] = bytes(len(content[at : at + size]))


def _appended(content: bytearray, draw: random.Random, _: bytes) -> None:
    content += draw.randbytes(draw.choice((1, 8, 1000)))


def _place(content: bytearray, draw: random.Random) -> int:
    """Anywhere, but often near the beginning or the end, where formats keep what they say of the rest."""
    size = max(len(content), 1)
    near = min(size, draw.choice((16, 128, 1024, size)))
    at = draw.randrange(near)
    return min(at if draw.random() < 0.8 else size - 1 - at, max(len(content) - 1, 0))


BYTES: dict[str, Callable[[bytearray, random.Random, bytes], None]] = {
    "bits flipped": _flipped,
    "bytes set": _special,
    "numbers set": _number,
    "cut short": _cut,
    "bytes removed": _removed,
    "bytes inserted": _inserted,
    "bytes repeated": _repeated,
    "bytes moved": _moved,
    "spliced": _spliced,
    "zeroed": _zeroed,
    "bytes appended": _appended,
}


def changed_bytes(content: bytes, way: str, draw: random.Random, other: bytes) -> bytes:
    """A file with some of its bytes changed in one of these ways."""
    found = bytearray(content)
    if found:
        BYTES[way](found, draw, other)
    return bytes(found)


# JSON documents

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 2**31, 2**53 + 1, 2**63, 10**30, -(2**63), 10**400),
    *(0.0, -0.0, 0.5, 1e-300, 1e300, float("inf"), float("-inf"), float("nan")),
    *("", "a", "0" * 64, "\x00", "\ud800", "é" * 300, "stages", "random", "kernel", "../../x"),
    *([], {}, [[]], [None], [0], [-1], [1.5], [10**9, 10**9], ["a"], {"a": {}}),
)


def deep(levels: int) -> Any:
    """Lists in lists."""
    found: Any = []
    for _ in range(levels):
        found = [found]
    return found


def changed_document(document: Any, draw: random.Random) -> Any:
    """A document with one place of it changed; what is handed in is changed too."""
    places = list(_places(document))
    if not places:
        return deepcopy(draw.choice(_VALUES))
    parent, key = draw.choice(places)
    value, way = parent[key], draw.randrange(8)
    if way == 0:
        del parent[key]
    elif way == 1:
        other, place = draw.choice(places)
        parent[key] = loads(dumps(other[place]))  # a copy: the place itself could be inside of it
    elif way == 2 and isinstance(value, int | float):
        parent[key] = draw.choice(
            (value + 1, value - 1, -value, value * 2, value * 1000, float(min(value, 1e300)), str(value)[:99])
        )
    elif way == 3 and isinstance(value, list):
        parent[key] = draw.choice((value[1:], value[:-1], value * 2, value * 1000, value[::-1], [*value, 1], [value]))
    elif way == 4 and isinstance(parent, dict):
        parent[draw.choice(("odd", "format", "kind", "marching", "model", "packing", "options", ""))] = value
    elif way == 5 and isinstance(value, str):
        parent[key] = draw.choice((value * 2, value[:-1], value.upper(), value + "\x00", [value]))
    elif way == 6 and draw.random() < 0.2:
        parent[key] = deep(draw.choice((5, 50, 100)))
    else:
        parent[key] = deepcopy(draw.choice(_VALUES))  # what is put there may be changed next
    return document


def _places(value: Any) -> Any:
    """Every place of a document: what holds it, and where."""
    waiting = [value]
    while waiting:  # what was nested before may be too deep for calls
        one = waiting.pop()
        keys = one if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for key in keys:
            yield one, key
            waiting.append(one[key])


# Arrays

_NUMBERS = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, -1e308, 1e-308, 1e100, 2.0**53, -(2.0**63))
_DTYPES = ("f2", "f4", "f8", "i1", "i4", "i8", "u1", "u8", "?")


def changed_tensors(tensors: dict[str, np.ndarray], draw: random.Random) -> None:
    """One array of a model is changed."""
    name = draw.choice(sorted(tensors))
    array, way = tensors[name], draw.randrange(12)
    with np.errstate(all="ignore"):
        if way == 0:
            del tensors[name]
        elif way == 1:
            tensors[name] = tensors[draw.choice(sorted(tensors))]
        elif way == 2:
            tensors[name] = array.astype(draw.choice(_DTYPES))
        elif way == 3:
            tensors[name] = np.full_like(array, _as(array, draw.choice(_NUMBERS)))
        elif way == 4 and array.ndim:
            rows = draw.choice((0, 1, len(array) - 1, len(array) + 1, 2 * len(array), 1000))
            tensors[name] = np.resize(array, (max(rows, 0), *array.shape[1:])) if array.size else array
        elif way == 5:
            tensors[name] = draw.choice(
                (array.T, array.reshape(-1), array[None], array[..., None], array[:0] if array.ndim else array)
            )
        elif way == 6:
            tensors[draw.choice(("odd", "weights", "input.weights", "latent.linear", "latent.relevance"))] = array
        elif way == 7:
            tensors[name] = np.asarray(_as(array, draw.choice(_NUMBERS)))
        elif way == 8 and array.size:
            tensors[name] = array.reshape(-1)[::-1].reshape(array.shape)
        elif way == 9:
            tensors[name] = array * array.dtype.type(draw.choice((0, 2, 3)))
        elif array.size:
            changed = array.copy()
            changed.reshape(-1)[draw.randrange(array.size)] = _as(array, draw.choice(_NUMBERS))
            tensors[name] = changed


def _as(array: np.ndarray, number: float) -> Any:
    return np.asarray(number).astype(array.dtype)[()]
