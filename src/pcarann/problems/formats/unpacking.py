"""How large compressed bytes become, known before they are unpacked.

A chunk says its shape, and the bytes of it may unpack to anything: libraries unpack them first and compare afterwards.
zstd, Blosc and LZ4 say the size at their beginning and keep to it; deflate, bzip2 and LZMA do not, and are unpacked a
piece at a time, as far as they may go, where they could go further. Streams and frames that follow the first count too.
"""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable
from typing import Any

from pcarann.problems.selection import DataFileError

__all__ = ["COMPRESSORS", "could_swell", "refuse_swelling"]

COMPRESSORS = ("blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd")
"""Those whose sizes are known here"""
_SLACK = 1 << 16  # bytes that a wrapping may add to those of a chunk
_FED, _PIECE = 1 << 14, 1 << 20  # bytes that are given at a time, and that come back at most
_DICTIONARY = 1 << 28  # bytes that LZMA may keep to look back into: four times those of its highest preset
_STEEPEST = 1032  # of deflate
_STARTS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(47),
    "zlib": lambda: zlib.decompressobj(47),
    "bz2": bz2.BZ2Decompressor,
    "lzma": lambda: lzma.LZMADecompressor(memlimit=_DICTIONARY),
}
_PADDING = re.compile(rb"\0*")  # between members of gzip
_ZSTD, _SINGLE, _SUMMED = 0xFD2FB528, 0x20, 0x04
_SKIPPED = range(0x184D2A50, 0x184D2A60)  # zstd's frames that hold something else


def could_swell(name: str, packed: int, harmless: int) -> bool:
    """Whether so many bytes could unpack to more than so many."""
    return name not in ("gzip", "zlib") or packed * _STEEPEST > harmless


def refuse_swelling(name: str, packed: bytes, most: int, where: str) -> None:
    """Refuse bytes that unpack to more than so many, by little more than a wrapping."""
    if name == "blosc" and (len(packed) < 16 or int.from_bytes(packed[12:16], "little") != len(packed)):
        raise DataFileError(f"{where} is damaged.")  # Blosc itself would read behind its end
    most = most + most // 16 + _SLACK
    if name in _STARTS:
        fits = _fits_unpacked(name, packed, most, where)
    else:
        fits = {"zstd": _zstd_size, "blosc": _blosc_size, "lz4": _lz4_size}[name](packed, where) <= most
    if not fits:
        raise DataFileError(f"{where} would unpack to more than the {most} bytes of its chunk: no real data do.")


def _fits_unpacked(name: str, packed: bytes, most: int, where: str) -> bool:
    """Unpack piece by piece, one stream after another, keeping nothing."""
    deflated = name in ("gzip", "zlib")
    wide, total, at, rest, streams = _STARTS[name](), 0, 0, b"", 0
    while total <= most:
        if not rest and (deflated or wide.needs_input):
            rest = packed[at : at + _FED]
            at += len(rest)
        ended = not rest and at == len(packed)
        try:
            found = len(wide.decompress(rest, _PIECE))
        except (zlib.error, OSError, ValueError, lzma.LZMAError, EOFError) as error:
            if "Memory usage limit" in str(error):
                needs = f"needs more than {_DICTIONARY >> 20} MiB of memory"
                raise DataFileError(f"{where} {needs} to be unpacked: no real data do.") from None
            if streams and name != "gzip":
                return True  # what follows the last stream is not read
            kind = ", or raw LZMA, which is not read" if name == "lzma" else ""
            raise DataFileError(f"{where} cannot be read: it is damaged{kind}.") from None
        total += found
        rest = wide.unconsumed_tail if deflated else b""
        if wide.eof:
            at -= len(wide.unused_data)
            if name == "gzip" and (padding := _PADDING.match(packed, at)):
                at = padding.end()
            wide, rest, streams = _STARTS[name](), b"", streams + 1
        elif ended and not found:
            return total <= most
    return False


def _zstd_size(packed: bytes, where: str) -> int:
    """What all frames say together; those that are cut off are left to their reader."""
    total, at = 0, 0
    while at < len(packed):
        magic = int.from_bytes(packed[at : at + 4], "little")
        if magic in _SKIPPED:
            at += 8 + int.from_bytes(packed[at + 4 : at + 8], "little")
            continue
        if magic != _ZSTD:
            raise DataFileError(f"{where} cannot be read: it is damaged.")
        told = packed[at + 4] if at + 4 < len(packed) else _SINGLE
        at += 5 + (0 if told & _SINGLE else 1) + (0, 1, 2, 4)[told & 3]
        size = (1 if told & _SINGLE else 0, 2, 4, 8)[told >> 6]
        if not size:
            raise DataFileError(f"{where} does not tell the size that it unpacks to: not read.")
        total += int.from_bytes(packed[at : at + size], "little") + (256 if size == 2 else 0)
        at = _behind_blocks(packed, at + size) + (4 if told & _SUMMED else 0)
    return total


def _behind_blocks(packed: bytes, at: int) -> int:
    """Where the blocks of a frame of zstd end."""
    last = 0
    while not last and at < len(packed):
        head = int.from_bytes(packed[at : at + 3], "little")
        last, kind = head & 1, head >> 1 & 3
        at += 3 + (1 if kind == 1 else head >> 3)  # one byte that is repeated, or so many
    return at


def _blosc_size(packed: bytes, where: str) -> int:
    return int.from_bytes(packed[4:8], "little")


def _lz4_size(packed: bytes, where: str) -> int:
    return int.from_bytes(packed[:4], "little")
