"""The one seam to NumPy, torch and CuPy.

Everything below the estimator is written against the Array API standard and runs where its arrays are.
This module says where that is (`Place`), moves arrays there and back, and holds the few kernels that the
standard lacks: triangular solves, a Cholesky factorisation that reports failure instead of raising, R without Q,
products and tanh in given memory, shifts of unsigned words, and quantiles of rows. No other module mentions a
backend by name.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

import array_api_compat as compat
import numpy as np

__all__ = [
    "Array",
    "Place",
    "cholesky",
    "concurrently",
    "contiguous",
    "cuts",
    "in_pieces",
    "inverse_of_lower",
    "largest",
    "place_of",
    "product_into",
    "row_quantiles",
    "shifted_right",
    "single_threaded",
    "solve_cholesky",
    "solve_lower",
    "taken",
    "tanh_inplace",
    "to_host",
    "triangle",
]

Array: TypeAlias = Any
"""An array of any library that follows the Array API standard."""

Item = TypeVar("Item")
Result = TypeVar("Result")

_WORKING_BYTES = 2 << 30  # memory that concurrent calls may take together
_SOLVED_AT_ONCE = 32  # unknowns of a triangular system that are not halved further
_LOOKED_AT = 1 << 21  # numbers at a time on a CPU
_GPU_STREAMS = 2  # more of them wait for each other: Python makes the launches one at a time


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
        if self.on_host or not compat.is_torch_namespace(xp):
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
    def on_host(self) -> bool:
        """Whether arrays here are in the memory of the CPU."""
        return str(self.device).lower().startswith("cpu")

    def wait(self) -> None:
        """Block until all queued work is done, so that a clock read next is honest."""
        if not self.on_host and compat.is_torch_namespace(self.xp):
            self.xp.cuda.synchronize(self.device)
        elif not self.on_host and compat.is_cupy_namespace(self.xp):
            self.xp.cuda.get_current_stream().synchronize()


def place_of(array: Array, device: str | None = None) -> Place:
    """Return the place of an array, or the one that `device` asks for.

    >>> place_of([[1.0, 2.0]]).device
    'cpu'
    """
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
    if compat.is_cupy_array(array):
        return np.asarray(array.get())
    return np.asarray(array)


def contiguous(array: Array) -> Array:
    """Return the array in C order. BLAS rounds differently for other layouts, and a file knows only this one."""
    if compat.is_torch_array(array):
        return array.contiguous()
    if compat.is_numpy_array(array):
        return np.ascontiguousarray(array)
    return array


def concurrently(
    function: Callable[[Item], Result], items: Iterable[Item], *, place: Place, bytes_each: int
) -> Iterator[Result]:
    """Yield function(item) in order, several at a time on the cores of a CPU or the streams of a GPU.

    Half of a member's fit is sorting, tanh and random numbers, which NumPy does on one core. A core for each call,
    with single-threaded linear algebra, keeps all cores busy, and rounds alike on any number of cores.
    """
    listed = list(items)
    most = max(1, _WORKING_BYTES // bytes_each)
    if place.on_host and compat.is_numpy_namespace(place.xp) and min(_cores(), most, len(listed)) > 1:
        with single_threaded(place), ThreadPoolExecutor(min(_cores(), most, len(listed))) as pool:
            yield from pool.map(function, listed)
    elif not place.on_host and compat.is_torch_namespace(place.xp) and min(most, len(listed)) > 1:
        kept = []  # torch would hand the memory of a dropped result to its stream while others still read it
        with ThreadPoolExecutor(min(_GPU_STREAMS, most, len(listed))) as pool:
            for result in pool.map(_on_own_stream(function, place), listed):
                kept.append(result)
                yield result
    else:
        yield from map(function, listed)


def _on_own_stream(function: Callable[[Item], Result], place: Place) -> Callable[[Item], Result]:
    """Return the function on a CUDA stream of its own: one member alone cannot keep a GPU busy."""
    cuda = place.xp.cuda
    here = cuda.current_stream(place.device)
    free: SimpleQueue[Any] = SimpleQueue()
    for stream in _streams(place, threading.get_ident()):
        free.put(stream)

    def call(item: Item) -> Result:
        stream = free.get()
        stream.wait_stream(here)
        try:
            with cuda.stream(stream):
                return function(item)
        finally:
            here.wait_stream(stream)
            free.put(stream)

    return call


@cache
def _streams(place: Place, thread: int) -> list[Any]:
    """As many streams as a thread uses at a time, always the same ones: torch keeps the memory of each apart."""
    place.xp.linalg.inv(place.eye(1))  # torch loads its linear algebra at first use, which two threads must not do
    return [place.xp.cuda.Stream(place.device) for _ in range(_GPU_STREAMS)]


@contextmanager
def single_threaded(place: Place, when: bool = True) -> Iterator[None]:
    """Keep the linear algebra of NumPy on one thread: small matrices lose more to waiting than they gain."""
    if not (when and place.on_host and compat.is_numpy_namespace(place.xp)):
        yield
        return
    with _one_blas_thread:
        yield


class _OneBlasThread:
    """The limit belongs to the process: the first to enter sets it, the last to leave lifts it."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._controller: Any = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                if self._controller is None:  # looking the libraries up takes milliseconds
                    from threadpoolctl import ThreadpoolController

                    self._controller = ThreadpoolController()
                self._limit = self._controller.limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


_one_blas_thread = _OneBlasThread()


def cuts(n: int, size: int) -> Iterator[slice]:
    """Cut n rows into blocks of `size`, the last of them shorter.

    >>> list(cuts(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    for start in range(0, n, size):
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
    if len(indices) == rows.shape[0] and all(i == index for i, index in enumerate(indices)):
        return rows
    place = place_of(rows)
    return place.xp.take(rows, place.xp.asarray(indices, dtype=place.xp.int64, device=place.device), axis=0)


def in_pieces(
    function: Callable[[range], tuple[Array, ...]], samples: range, *, place: Place, size: int, bytes_each: int
) -> tuple[Array, ...]:
    """Return function(samples), made of pieces of `size` samples on a CPU, several at a time, and whole on a GPU.

    A piece stays in the cache of a core, while a GPU wants all samples in one launch.
    """
    size = size if place.on_host else max(1, len(samples))
    pieces = [samples[start : start + size] for start in range(0, len(samples), size)]
    parts = list(concurrently(function, pieces, place=place, bytes_each=size * bytes_each))
    return parts[0] if len(parts) == 1 else tuple(place.xp.concat(arrays) for arrays in zip(*parts, strict=True))


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


def cholesky(matrix: Array) -> Array | None:
    """Return L with L Lᵀ = matrix, or None where the matrix is not numerically positive definite."""
    xp = compat.array_namespace(matrix)
    if compat.is_torch_array(matrix):
        factor, info = xp.linalg.cholesky_ex(matrix)
        return None if int(info) else factor
    try:
        factor = xp.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    return factor if bool(xp.all(xp.isfinite(factor))) else None


def solve_lower(lower: Array, rhs: Array, *, transposed: bool = False) -> Array:
    """Solve L z = rhs, or Lᵀ z = rhs, for a lower triangular L and a matrix rhs."""
    xp = compat.array_namespace(lower)
    if compat.is_torch_array(lower):
        return xp.linalg.solve_triangular(lower.mT if transposed else lower, rhs, upper=transposed)
    if compat.is_cupy_array(lower):
        from cupyx.scipy.linalg import solve_triangular as cupy_solve

        return cupy_solve(lower, rhs, lower=True, trans=int(transposed))
    return _substituted(lower, rhs, transposed, xp)


def _substituted(lower: Array, rhs: Array, transposed: bool, xp: Any) -> Array:
    """Solve by halves, so that nearly all the work is matrix products.

    SciPy's triangular solve holds Python's lock, so that members fitted side by side wait for each other, and brings a
    second BLAS, whose threads take the cores from NumPy's.
    """
    n = int(lower.shape[0])
    if n <= _SOLVED_AT_ONCE:
        return xp.linalg.solve(lower.T if transposed else lower, rhs)
    parts = slice(0, n // 2), slice(n // 2, n)
    first, last = reversed(parts) if transposed else parts
    between = lower[parts[1], parts[0]]
    head = _substituted(lower[first, first], rhs[first, :], transposed, xp)
    rest = rhs[last, :] - (between.T if transposed else between) @ head
    tail = _substituted(lower[last, last], rest, transposed, xp)
    return xp.concat([tail, head] if transposed else [head, tail], axis=0)


def triangle(matrix: Array) -> Array:
    """Return R of a QR factorisation, without the twice as dear Q where the library allows that."""
    xp = compat.array_namespace(matrix)
    if compat.is_numpy_array(matrix):
        return np.linalg.qr(matrix, mode="r")
    return xp.linalg.qr(matrix, mode="r" if compat.is_torch_array(matrix) else "reduced")[1]


def inverse_of_lower(lower: Array) -> Array | None:
    """Return L⁻¹ on a GPU; None on a CPU.

    A triangular solve on a GPU is a long chain of small kernels: one inverse and matrix products are faster from the
    second solve on. On a CPU the two cost the same, and the solves are more accurate.
    """
    if compat.is_torch_array(lower) and compat.device(lower).type != "cpu":
        return solve_lower(lower, place_of(lower).eye(lower.shape[0]))
    return None


def solve_cholesky(lower: Array, rhs: Array) -> Array:
    """Solve L Lᵀ z = rhs."""
    return solve_lower(lower, solve_lower(lower, rhs), transposed=True)


def _is_array(value: Any) -> bool:
    return bool(compat.is_array_api_obj(value))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
