"""Counter-based uniform numbers, identical on every backend.

The i-th number of a stream is a pure function of (seed, stream, i): the SplitMix64 generator of Steele, Lea
and Flood (2014), evaluated at its counter,

    z ← key + (i + 1) · 0x9E3779B97F4A7C15
    z ← (z ⊕ z ≫ 30) · 0xBF58476D1CE4E5B9
    z ← (z ⊕ z ≫ 27) · 0x94D049BB133111EB
    u = ((z ⊕ z ≫ 31) ≫ 11) · 2⁻⁵³ ∈ [0, 1),

all modulo 2⁶⁴. The key is the same mixing, folded over the seed and the stream's integers. Integer arithmetic
and one exact conversion make every bit the same on NumPy and torch, so that hidden weights never need to
be stored or copied to a device.
"""

from __future__ import annotations

import math

from pcarann.backend.arrays import Array, Place, place_of, shifted_right

__all__ = ["key_of", "normal", "permutation", "spread", "uniform"]

_GOLDEN = 0x9E3779B97F4A7C15
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_WORD = (1 << 64) - 1
_BLOCK = 1 << 16  # numbers at a time on a CPU: few enough for the cache, enough that threads do not wait for Python
_SPREAD_STREAM = (-8,)
_FEW = 1 << 14  # drawn on the CPU for a GPU too: one copy is cheaper than twenty launches


def uniform(
    shape: tuple[int, ...],
    *,
    seed: int,
    stream: tuple[int, ...],
    place: Place,
    low: float = 0.0,
    high: float = 1.0,
) -> Array:
    """Return numbers uniform in [low, high), a function of (seed, stream, index) alone.

    >>> from pcarann.backend.arrays import place_of
    >>> print(uniform((2,), seed=0, stream=(0, 1), place=place_of([0.0])).round(4))
    [0.7468 0.7585]
    """
    size = math.prod(shape)
    if not place.on_host and size <= _FEW:
        return place.put(uniform(shape, seed=seed, stream=stream, place=place_of(None), low=low, high=high))
    key = key_of(seed, stream)
    numbers = place.empty(size)
    block = min(_BLOCK, size) if place.on_host else size
    xp = place.xp
    # Counters times the odd constant; signed 64-bit integers wrap like unsigned ones.
    counters = xp.arange(1, block + 1, dtype=xp.int64, device=place.device) * _signed(_GOLDEN)
    scratch = xp.empty_like(counters)
    for start in range(0, size, block or 1):
        part = numbers[start : min(start + block, size)]
        count = part.shape[0]
        words = counters[:count] + _signed(key + start * _GOLDEN & _WORD)
        part[...] = xp.astype(_mixed(words, scratch[:count]), xp.float64)
        part *= 2.0**-53 * (high - low)
        part += low
    return xp.reshape(numbers, shape)


def normal(shape: tuple[int, ...], *, seed: int, stream: tuple[int, ...], place: Place) -> Array:
    """Return standard normal numbers by Box and Muller, a function of (seed, stream, index) up to rounding.

    >>> from pcarann.backend.arrays import place_of
    >>> print(normal((2,), seed=0, stream=(0, 1), place=place_of([0.0])).round(3))
    [ 0.859 -0.674]
    """
    size = math.prod(shape)
    xp = place.xp
    pairs = uniform((2, size), seed=seed, stream=stream, place=place)
    radius = xp.sqrt(-2.0 * xp.log1p(-pairs[0, :]))
    return xp.reshape(radius * xp.cos(2.0 * math.pi * pairs[1, :]), shape)


def permutation(n: int, *, seed: int, stream: tuple[int, ...]) -> list[int]:
    """Return a random order of 0, …, n − 1, made on the host so that every backend shuffles alike."""
    keys = uniform((n,), seed=seed, stream=stream, place=place_of(None))
    return [int(i) for i in keys.argsort(kind="stable")]


def spread(n: int, count: int, *, seed: int = 0) -> list[int]:
    """Return `count` of the rows 0, …, n − 1 in ascending order, chosen at random; all of them where there are no more.

    Samples often come sorted, as a sweep of a parameter does: the first few would say nothing of the others.

    >>> spread(10, 3), spread(3, 10)
    ([1, 3, 9], [0, 1, 2])
    """
    if n <= count:
        return list(range(n))
    return sorted(permutation(n, seed=seed, stream=_SPREAD_STREAM)[:count])


def _mixed(z: Array, scratch: Array) -> Array:
    """Mix 64-bit words, in their memory, down to their upper 53 bits."""
    for shift, factor in _MIX:
        z ^= shifted_right(z, shift, scratch)
        z *= _signed(factor)
    z ^= shifted_right(z, 31, scratch)
    return shifted_right(z, 11, scratch)


def key_of(seed: int, stream: tuple[int, ...]) -> int:
    """The 64 bits that a stream begins with: the mixing, folded over the seed and the integers of the stream."""
    key = 0
    for part in (seed, *stream):
        key = (key + part + 1) * _GOLDEN & _WORD
        for shift, factor in _MIX:
            key = (key ^ key >> shift) * factor & _WORD
        key ^= key >> 31
    return key


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
