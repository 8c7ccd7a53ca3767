"""What users hand over, checked: fields, parameters, seeds.

Each check ends in one sentence that names the argument and gives what was found beside what was wanted. Nothing
is repaired silently, and nothing of the user's is written to.
"""

from __future__ import annotations

import math
import mmap
import re
import secrets
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral, Real
from typing import Any

import array_api_compat as compat
import numpy as np

from pcarann.backend.arrays import Array, Place, largest, to_host

__all__ = [
    "check_components",
    "check_fields",
    "check_memory",
    "check_number",
    "check_numeric",
    "check_pair_lengths",
    "check_seed",
    "column_names",
    "first_sample",
    "in_block",
    "nonfinite",
    "refuse_cut_map",
    "refuse_grid",
    "required",
    "shown",
    "unmasked",
    "unstopped",
    "warn_user",
]


_MEMORY = re.compile(r"\s*(\d+\.?\d*)\s*([kmg]?b)\s*|\s*(\d+)\s*", re.IGNORECASE)
_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_RANGES = 5  # of samples that a message names
_SHOWN = 80  # characters of a value in a message
_first: ContextVar[int | None] = ContextVar("first", default=None)
_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def in_block(first: int, *, quiet: bool = True) -> Iterator[None]:
    """Inside, samples are those from `first` on of many more, and are named so; nothing is said of them if `quiet`."""
    tokens = _first.set(first), _quiet.set(quiet)
    try:
        yield
    finally:
        _first.reset(tokens[0])
        _quiet.reset(tokens[1])


def first_sample() -> int:
    """The number of the first sample of a block among all; 0 outside of blocks."""
    return _first.get() or 0


def check_fields(
    value: Any,
    name: str,
    place: Place,
    *,
    grid: tuple[int, ...] | None = None,
    scalar: bool = False,
    least: int = 1,
    owner: str = "PCARaNN",
) -> tuple[Array, tuple[int, ...]]:
    """Return the fields as a float64 (samples, values) matrix at `place`, and the shape of one field.

    `grid` is the shape that the `owner` wants; `scalar` allows one number per sample, shape (samples,).
    """
    array = check_numeric(value, name)
    shape = tuple(int(n) for n in array.shape)
    if len(shape) < (1 if scalar else 2):
        raise ValueError(
            f"Expected 2D array, got {len(shape)}D array instead: {name} must have shape (samples, …), found {shape}. "
            "Reshape your data using array.reshape(-1, 1) for one value a sample or (1, -1) for one sample."
        )
    if shape[0] < least:
        raise ValueError(f"{name}: found {shape[0]} sample(s) (shape={shape}) while a minimum of {least} is required.")
    if not math.prod(shape[1:]):
        raise ValueError(f"{name}: 0 feature(s) (shape={shape}) while a minimum of 1 is required.")
    if grid is not None:
        refuse_grid(shape[1:], grid, name, owner)
    matrix = place.xp.reshape(place.put(array), (shape[0], -1))
    _refuse_nonfinite(matrix, name, place)
    return matrix, shape[1:]


def refuse_grid(found: tuple[int, ...], grid: tuple[int, ...], name: str, owner: str) -> None:
    """Refuse fields of another shape than the `owner` wants."""
    if found == grid:
        return
    if len(grid) == len(found) == 1 and name == "X":
        raise ValueError(f"X has {found[0]} features, but {owner} is expecting {grid[0]} features as input.")
    wanted = f"{owner} is expecting {grid}: are inputs and outputs swapped?"
    raise ValueError(f"{name} has fields of shape {found}, but {wanted}")


def column_names(value: Any, grid: tuple[int, ...]) -> tuple[str, ...]:
    """Names of the columns of a table that has them, as a data frame does."""
    names = getattr(value, "columns", None)
    if names is None or len(grid) != 1 or len(names) != grid[0]:
        return ()
    return tuple(str(name) for name in names)


def required(y: Any) -> Any:
    """Return the targets, or refuse where there are none."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None.")
    return y


def warn_user(*messages: str) -> None:
    """Warn at the line that called into this package, however deep the cause lies."""
    if _quiet.get():
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("pcarann."):
        level, frame = level + 1, frame.f_back
    for message in messages:
        warnings.warn(message, stacklevel=level)


def check_pair_lengths(inputs: int, outputs: int) -> None:
    """Refuse inputs and outputs of different length."""
    if inputs != outputs:
        raise ValueError(f"X and y must have the same number of samples, found {inputs} and {outputs}.")


def check_components(value: Any) -> tuple[int | float, int | float]:
    """Return n_components as a pair (input, output) of numbers of modes or shares of energy."""
    pair = tuple(value) if isinstance(value, tuple | list | np.ndarray) else (value, value)
    if len(pair) != 2:
        raise ValueError(f"n_components must be a number or a pair (input, output), got {value!r}.")
    return _component(pair[0]), _component(pair[1])


def check_number(
    value: Any, name: str, *, least: float = -math.inf, above: float = -math.inf, most: float = math.inf
) -> float:
    """Return a finite real number in the stated range."""
    fits = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or not least <= value <= most or not value > above:
        wanted = f"above {above:g}" if above > -math.inf else f"at least {least:g}"
        wanted += f" and at most {most:g}" if most < math.inf else ""
        raise ValueError(f"{name} must be a number {wanted}, got {value!r}.")
    return float(value)


def check_memory(value: Any) -> int:
    """Return bytes, given as a whole number or in words.

    >>> check_memory("1.5 GB"), check_memory("500MB"), check_memory("4096"), check_memory(4096)
    (1500000000, 500000000, 4096, 4096)
    """
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0:
        return int(value)
    found = _MEMORY.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"memory must be a number of bytes, or text such as '1GB' or '500MB', got {value!r}.")
    return int(found[3]) if found[3] else int(float(found[1]) * _UNITS[found[2].lower()])


def check_count(value: Any, name: str, *, least: int = 1) -> int:
    """Return a whole number of at least 1, or `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> Any:
    """Return one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {shown(value)}.")
    return value


def check_kind(value: Any, name: str, kind: type) -> Any:
    """Return None or an object of a kind."""
    if value is not None and not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise ValueError(f"{name} must be None or {article} {kind.__name__}, got {shown(value)}.")
    return value


def check_weights(value: Any, name: str, grid: tuple[int, ...], place: Place) -> Array | None:
    """Return quadrature weights as a (values,) vector; None stays None."""
    if value is None:
        return None
    weights = np.array(to_host(value), dtype=np.float64)
    if weights.shape != grid:
        raise ValueError(f"{name} must have the shape of one field, {grid}, found {weights.shape}.")
    if not (np.isfinite(weights).all() and (weights > 0).all()):
        raise ValueError(f"{name} must be positive and finite everywhere.")
    return place.put(weights.reshape(-1))


def check_seed(value: Any) -> int:
    """Return a seed: the integer itself, or one drawn from the generator given; None draws a fresh one."""
    if value is None:
        return secrets.randbits(63)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, np.random.RandomState):
        return int(value.randint(2**31 - 1))
    if isinstance(value, np.random.Generator):
        return int(value.integers(2**63 - 1))
    raise ValueError(f"random_state must be None, an integer or a NumPy random generator, got {value!r}.")


def check_numeric(value: Any, name: str) -> Array:
    """Return an array of real numbers, or refuse."""
    if (isinstance(value, Mapping) or hasattr(value, "data_vars")) and not hasattr(value, "tocsr"):
        raise ValueError(f"{name} must be one array, as in fit, found {type(value).__name__}.")
    value = unmasked(value, name)
    if hasattr(value, "tocsr"):
        raise TypeError(f"{name} is a sparse matrix, but dense data is required: use {name}.toarray().")
    if hasattr(value, "requires_grad"):
        _check_tensor(value, name)
    array = value if compat.is_array_api_obj(value) else _as_array(value, name)
    known = isinstance(array, np.ndarray)
    if array.dtype.kind == "c" if known else compat.array_namespace(array).isdtype(array.dtype, "complex floating"):
        raise ValueError(f"Complex data not supported: {name} has dtype {array.dtype}.")
    if not known:
        return array
    refuse_cut_map(array, name)
    if array.dtype.kind == "O" and array.ndim <= 2:
        return _numbers_of_objects(array, name)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers, found dtype {array.dtype}.")
    return array


def refuse_cut_map(array: np.ndarray[Any, Any], name: str) -> None:
    """Refuse an array in a file that was cut short since it was mapped: to read it would end the process."""
    base: Any = array
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    mapped = getattr(base, "_mmap", None)
    if base is None or mapped is None:
        return
    first = base.offset - base.offset % mmap.ALLOCATIONGRANULARITY
    if mapped.size() < first + len(mapped):
        raise ValueError(
            f"{name} lies in the file {base.filename}, which was cut short: it has {mapped.size()} bytes, and "
            f"{first + len(mapped)} are wanted."
        )


def unmasked(value: Any, name: str) -> Any:
    """Return what has no masked value, a masked array as a plain one, or refuse."""
    if _is_masked(value):
        raise ValueError(f"{name} is a masked array: fill or drop the masked values first.")
    return np.asarray(value) if isinstance(value, np.ma.MaskedArray) else value


def _is_masked(value: Any) -> bool:
    """Whether a value is masked here, or in a list of arrays, which NumPy would join without their masks."""
    if not isinstance(value, list | tuple):
        return isinstance(value, np.ma.MaskedArray) and bool(np.ma.is_masked(value))
    kinds = set(map(type, value))  # a million numbers are of one kind, and not looked at one by one
    return any(issubclass(kind, list | tuple | np.ma.MaskedArray) for kind in kinds) and any(map(_is_masked, value))


def _as_array(value: Any, name: str) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} must be one array: its rows have different lengths.") from None


def _check_tensor(tensor: Any, name: str) -> None:
    """Refuse tensors that hold no numbers of their own, and say what becomes of gradients."""
    if str(tensor.layout) != "torch.strided" or getattr(tensor, "is_quantized", False) or tensor.is_meta:
        kind = "sparse" if "sparse" in str(tensor.layout) else "quantized" if tensor.is_quantized else "a meta tensor"
        raise TypeError(f"{name} is {kind}, but a dense tensor is required: use {name}.to_dense() or what holds it.")
    if tensor.requires_grad:
        warn_user(f"{name} requires gradients, which end here: it is detached. `as_torch()` carries them.")


def _numbers_of_objects(array: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """The numbers of a table of mixed columns, which arrives as objects; anything in it that is no number is named."""
    if not array.ndim:
        raise ValueError(f"{name} must be an array, found {type(array.item()).__name__}.")
    kinds = {kind for kind in set(map(type, array.flat)) if kind is not type(None) and not issubclass(kind, Real)}
    for place, item in zip(np.ndindex(array.shape), array.flat, strict=True) if kinds else ():
        if type(item) not in kinds:
            continue
        where = f"at sample {place[0]}" + (f", column {place[1]}" if len(place) > 1 else "")
        if type(item).__name__ == "NAType":
            raise ValueError(f"{name} has a missing value (NA) {where}: fill or drop such samples first.")
        if isinstance(item, str | bytes | complex):
            raise ValueError(f"{name} must hold real numbers, found {item!r:.60} {where}.")
        if not hasattr(item, "__float__"):
            said = f"each argument must be no string or container but a number, found {item!r:.60} {where}"
            raise TypeError(f"{name} must hold real numbers: {said}.")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers: {unstopped(error)}.") from None


def _refuse_nonfinite(matrix: Array, name: str, place: Place) -> None:
    xp = place.xp
    if math.isfinite(largest(matrix)):
        return
    finite = xp.isfinite(matrix)
    rows = np.flatnonzero(~np.asarray(to_host(xp.all(finite, axis=1))))
    if (before := _first.get()) is not None:
        raise ValueError(f"{name} contains NaN or infinity in sample {before + int(rows[0])}.")
    raise ValueError(nonfinite(name, int(xp.sum(xp.astype(~finite, xp.int64))), rows, int(matrix.shape[0])))


def nonfinite(name: str, values: int, rows: Any, samples: int | None = None) -> str:
    """The sentence on so many values that are not finite: which of the samples have them, and how to drop these.

    >>> print(nonfinite("y", 9, [3, 4, 5, 9], 40).partition(". ")[0])
    y contains NaN or infinity: 9 value(s) in 4 of 40 samples (3-5, 9)
    """
    ranges: list[list[int]] = []
    for row in map(int, rows):
        if ranges and row == ranges[-1][1] + 1:
            ranges[-1][1] = row
        else:
            ranges.append([row, row])
    told = [str(a) if a == b else f"{a}-{b}" for a, b in ranges[:_RANGES]] + ["…"] * (len(ranges) > _RANGES)
    where = f"{len(rows)} of {samples} samples ({', '.join(told)})" if samples else f"sample {', '.join(told)}"
    drop = f"keep = np.isfinite({name}).reshape(len({name}), -1).all(axis=1), then X[keep] and y[keep]"
    return f"{name} contains NaN or infinity: {values} value(s) in {where}. To drop these, use {drop}."


def shown(value: Any) -> str:
    """A value as it is shown in a message: at most 80 characters."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def unstopped(error: Any) -> str:
    """The text of an error without its full stop, to be put into a sentence."""
    return str(error).rstrip().removesuffix(".")


def _component(value: Any) -> int | float:
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1:
        return int(value)
    if isinstance(value, Real) and not isinstance(value, Integral) and 0 < float(value) < 1:
        return float(value)
    raise ValueError(
        f"n_components must be whole numbers of at least 1 or shares of energy strictly between 0 and 1, got {value!r}."
    )
