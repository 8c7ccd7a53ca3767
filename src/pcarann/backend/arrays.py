"""The one seam to NumPy and torch.

Everything below the estimator is written against the Array API standard and runs where its arrays are.
This module says where that is (`Place`), moves arrays there and back, and holds the few operations that the
standard lacks: products and tanh in given memory, shifts of unsigned words, and quantiles of rows; `linalg` beside it
has those on matrices. No other module computes with one library in one way and with another in another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import array_api_compat as compat
import numpy as np

from pcarann.backend.patience import look_up

__all__ = [
    "Array",
    "Place",
    "contiguous",
    "cuts",
    "largest",
    "place_of",
    "product_into",
    "row_quantiles",
    "shifted_right",
    "taken",
    "tanh_inplace",
    "to_host",
]

Array: TypeAlias = Any
"""An array of any library that follows the Array API standard."""

_LOOKED_AT = 1 << 21  # numbers at a time on a CPU


@dataclass(frozen=True)
class Place:
    """Where arrays live: a namespace `xp` of the Array API and one of its devices."""

    xp: Any
    device: Any

    def put(self, array: Array) -> Array:
        """Return the array here, in float64, copied only where it must be."""
        xp = self.xp
        if _is_array(array) and compat.array_namespace(array) is xp:
            array = array.detach() if compat.is_torch_array(array) else array
            array = compat.to_device(array, self.device) if compat.device(array) != self.device else array
            return xp.astype(array, xp.float64, copy=False)
        # Byte-swapped numbers and negative strides are NumPy's alone: other libraries refuse them.
        host = np.ascontiguousarray(to_host(array), dtype=np.float64)
        host = host if host.flags.writeable or xp is np else host.copy()
        if not self.on_cuda:
            return xp.asarray(host, device=self.device)
        # CUDA takes the numbers before the call returns, and need not wait for what is queued on the device.
        return xp.asarray(host).to(self.device, non_blocking=True)

    def zeros(self, *shape: int) -> Array:
        """Return float64 zeros of this shape, here."""
        return self.xp.zeros(shape, dtype=self.xp.float64, device=self.device)

    def empty(self, *shape: int) -> Array:
        """Return uninitialised float64 memory of this shape, here."""
        return self.xp.empty(shape, dtype=self.xp.float64, device=self.device)

    def eye(self, n: int) -> Array:
        """Return the identity matrix, here."""
        return self.xp.eye(n, dtype=self.xp.float64, device=self.device)

    @property
    def computing(self) -> Place:
        """Where arrays from here are computed with: NumPy on a CPU, which shares the memory of torch's tensors.

        Torch works on one member at a time there, and needs several times as long.
        """
        torch_on_host = self.on_host and compat.is_torch_namespace(self.xp)
        return place_of(None) if torch_on_host else self

    @property
    def by_numpy(self) -> bool:
        """Whether NumPy computes here, which leaves it to its caller to use all cores."""
        return bool(compat.is_numpy_namespace(self.xp))

    @property
    def on_host(self) -> bool:
        """Whether arrays here are in the memory of the CPU."""
        return str(self.device).lower().startswith("cpu")

    @property
    def on_cuda(self) -> bool:
        """Whether arrays here are torch's, on a GPU."""
        return bool(compat.is_torch_namespace(self.xp)) and not self.on_host

    def wait(self) -> None:
        """Block until all queued work is done, so that a clock read next is honest."""
        if self.on_cuda:
            self.xp.cuda.synchronize(self.device)


def place_of(array: Array, device: str | None = None) -> Place:
    """Return the place of an array, or the one that `device` asks for.

    >>> place_of([[1.0, 2.0]]).device
    'cpu'
    """
    if device is None and type(array) is np.ndarray:  # by far the most, and a call asks a hundred times
        return _numpy_place()
    library = array if _is_array(array) else np.empty(0)
    xp = compat.array_namespace(library)
    if device is None:
        return Place(xp, compat.device(library))
    if not isinstance(device, str):
        raise ValueError(f"device must be None or a string such as 'cpu' or 'cuda:0', got {device!r}.")
    if device == "cpu":
        if compat.is_torch_array(library):
            return Place(xp, xp.device("cpu"))
        return Place(compat.array_namespace(np.empty(0)), "cpu")
    if device.split(":")[0] != "cuda":
        raise ValueError(f"device must be None, 'cpu', 'cuda' or 'cuda:N', got {device!r}.")
    return _cuda_place(device)


def to_host(array: Array) -> np.ndarray[Any, Any]:
    """Return a NumPy array of the same numbers (the array itself where it is one)."""
    if compat.is_torch_array(array):
        array = array.detach().cpu()
        # NumPy has no such numbers of 16 bits.
        return np.asarray((array.float() if str(array.dtype) == "torch.bfloat16" else array).numpy())
    return np.asarray(array)


def contiguous(array: Array) -> Array:
    """Return the array in C order. BLAS rounds differently for other layouts, and a file knows only this one."""
    if compat.is_torch_array(array):
        return array.contiguous()
    if compat.is_numpy_array(array):
        return np.ascontiguousarray(array)
    return array


def cuts(n: int, size: int) -> Iterator[slice]:
    """Cut n rows into blocks of `size`, the last of them shorter.

    >>> list(cuts(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    for start in range(0, n, size):
        look_up()
        yield slice(start, min(start + size, n))


def largest(matrix: Array) -> float:
    """Return the largest |value| of a (samples, values) matrix; NaN where it holds one."""
    place = place_of(matrix)
    xp = place.xp
    size = max(1, _LOOKED_AT // max(int(matrix.shape[1]), 1)) if place.on_host else int(matrix.shape[0])
    found = 0.0
    for rows in cuts(int(matrix.shape[0]), max(1, size)):
        part = matrix[rows, :]
        least, most = float(xp.min(part)), float(xp.max(part))
        if least != least or most != most:
            return float("nan")
        found = max(found, -least, most)
    return found


def taken(rows: Array, indices: list[int]) -> Array:
    """Return these rows of a matrix, the matrix itself where they are all of it in order."""
    if len(indices) == rows.shape[0] and indices == list(range(len(indices))):
        return rows
    place = place_of(rows)
    return place.xp.take(rows, place.xp.asarray(indices, dtype=place.xp.int64, device=place.device), axis=0)


def product_into(out: Array, left: Array, right: Array) -> Array:
    """Return the matrix product in the memory of `out`, where the library can without a copy."""
    if compat.is_numpy_array(out):
        return np.matmul(left, right, out=out)
    if compat.is_torch_array(out):
        return compat.array_namespace(out).matmul(left, right, out=out)
    out[...] = left @ right
    return out


def tanh_inplace(array: Array) -> Array:
    """Return tanh of the array, in its own memory."""
    if compat.is_numpy_array(array):
        return np.tanh(array, out=array)
    if compat.is_torch_array(array):
        return array.tanh_()
    array[...] = compat.array_namespace(array).tanh(array)
    return array


def shifted_right(words: Array, bits: int, scratch: Array) -> Array:
    """Return signed 64-bit words shifted to the right, zeros moving in, where the standard drags the sign along.

    NumPy writes them into `scratch`.
    """
    if compat.is_numpy_array(words):
        np.right_shift(words.view(np.uint64), np.uint64(bits), out=scratch.view(np.uint64))
        return scratch
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def row_quantiles(array: Array, levels: Array) -> Array:
    """Return for row i of a (rows, samples) array its quantile at `levels[i]`, linearly interpolated.

    >>> row_quantiles(np.array([[0.0, 2.0, 1.0], [4.0, 2.0, 0.0]]), np.array([0.5, 0.75]))
    array([1., 3.])
    """
    xp = compat.array_namespace(array)
    last = array.shape[1] - 1
    ordered = xp.sort(array, axis=1, stable=False)  # the stable default is six times slower on a CPU
    position = levels * last
    below = xp.astype(xp.floor(position), xp.int64)
    fraction = position - xp.floor(position)
    low = xp.take_along_axis(ordered, below[:, None], axis=1)[:, 0]
    high = xp.take_along_axis(ordered, xp.clip(below + 1, max=last)[:, None], axis=1)[:, 0]
    return low + fraction * (high - low)


@cache
def _numpy_place() -> Place:
    return Place(compat.array_namespace(np.empty(0)), "cpu")


def _is_array(value: Any) -> bool:
    return bool(compat.is_array_api_obj(value))


def _cuda_place(device: str) -> Place:
    """Return a CUDA device through torch, or say in one sentence what is missing."""
    try:
        import torch
    except ImportError:
        message = f"device={device!r} needs PyTorch: install it with pip install 'pcarann[torch]'."
        raise ValueError(message) from None
    if not torch.cuda.is_available():
        raise ValueError(f"device={device!r} was asked for, but PyTorch sees no CUDA GPU: use device='cpu'.")
    number = int(device.partition(":")[2] or torch.cuda.current_device())
    if number >= torch.cuda.device_count():
        raise ValueError(f"device={device!r} was asked for, but there are {torch.cuda.device_count()} GPUs.")
    xp = compat.array_namespace(torch.empty(0))
    return Place(xp, torch.device("cuda", number))
