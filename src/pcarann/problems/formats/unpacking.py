"""How large compressed bytes become, known before they are unpacked.

A chunk says its shape, and the bytes of it may unpack to anything: libraries unpack them first and compare afterwards.
zstd, Blosc and LZ4 say the size at their beginning and keep to it; deflate, bzip2 and LZMA do not, and are unpacked a
piece at a time, as far as they may go, where they could go further.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import Any

from pcarann.problems.selection import DataFileError

__all__ = ["COMPRESSORS", "could_swell", "refuse_swelling"]

COMPRESSORS = ("blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd")
"""Those whose sizes are known here"""
_SLACK = 1 << 16  # bytes that a wrapping may add to those of a chunk
_PIECE = 1 << 20
_STEEPEST = 1032  # of deflate
_ZSTD, _SINGLE = b"\x28\xb5\x2f\xfd", 0x20


def could_swell(name: str, packed: int, harmless: int) -> bool:
    """Whether so many bytes could unpack to more than so many."""
    return name not in ("gzip", "zlib") or packed * _STEEPEST > harmless


def refuse_swelling(name: str, packed: bytes, most: int, where: str) -> None:
    """Refuse bytes that unpack to more than so many, by little more than a wrapping."""
    if name == "blosc" and (len(packed) < 16 or int.from_bytes(packed[12:16], "little") != len(packed)):
        raise DataFileError(f"{where} is damaged.")  # Blosc itself would read behind its end
    most = most + most // 16 + _SLACK
    if name in ("gzip", "zlib", "bz2", "lzma"):
        fits = _fits_unpacked(name, packed, most)
    else:
        size = {"zstd": _zstd_size, "blosc": _blosc_size, "lz4": _lz4_size}[name](packed)
        fits = size is not None and size <= most
    if not fits:
        raise DataFileError(f"{where} would unpack to more than the {most} bytes of its chunk: no real data do.")


def _fits_unpacked(name: str, packed: bytes, most: int) -> bool:
    """Unpack piece by piece, keeping nothing."""
    wide: Any = {
        "gzip": lambda: zlib.decompressobj(47),
        "zlib": lambda: zlib.decompressobj(47),
        "bz2": bz2.BZ2Decompressor,
        "lzma": lzma.LZMADecompressor,
    }[name]()
    total, rest = 0, packed
    while total <= most:
        try:
            found = len(wide.decompress(rest, _PIECE))
        except (zlib.error, OSError, ValueError, lzma.LZMAError, EOFError):
            return True  # it is damaged, which its reader says
        total += found
        rest = wide.unconsumed_tail if name in ("gzip", "zlib") else b""
        if wide.eof or (not found and not rest):
            return total <= most
    return False


def _zstd_size(packed: bytes) -> int | None:
    """What the first frame says, None where it says nothing."""
    if packed[:4] != _ZSTD or len(packed) < 6:
        return 0  # it is damaged, which its reader says
    told = packed[4]
    at = 5 + (0 if told & _SINGLE else 1) + (0, 1, 2, 4)[told & 3]
    size = (1 if told & _SINGLE else 0, 2, 4, 8)[told >> 6]
    if not size:
        return None
    return int.from_bytes(packed[at : at + size], "little") + (256 if size == 2 else 0)


def _blosc_size(packed: bytes) -> int:
    return int.from_bytes(packed[4:8], "little")


def _lz4_size(packed: bytes) -> int:
    return int.from_bytes(packed[:4], "little")
