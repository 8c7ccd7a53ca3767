"""MATLAB's files of version 5, tag by tag: SciPy takes types and lengths in them for what they say.

A file is a header of 128 bytes and elements, each a tag and its bytes. A variable is an element whose bytes are
elements again: flags, dimensions, name, and its numbers. A type that does not exist makes SciPy end the process, so
that the tags of a variable are looked at before it is read.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import BinaryIO

from pcarann.problems.formats import Leave
from pcarann.problems.selection import DataFileError

__all__ = ["check_tags"]

_MATRIX, _PACKED = 14, 15
_KNOWN = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13, _MATRIX, 16, 17, 18}
_NAME = 2  # behind flags and dimensions
_PIECE = 1 << 20


class _Packed:
    """The bytes of a compressed element, unpacked as they are asked for."""

    def __init__(self, packed: bytes):
        self._stream, self._rest = zlib.decompressobj(), packed

    def read(self, size: int) -> bytes:
        """The next bytes, fewer at the end."""
        found = b""
        while len(found) < size and (self._rest or not self._stream.eof):
            piece = self._stream.decompress(self._rest, size - len(found))
            self._rest = self._stream.unconsumed_tail
            if not piece and not self._rest:
                break
            found += piece
        return found


def check_tags(path: Path, name: str, leave: Leave) -> None:
    """Refuse a file in which a variable of this name has types that do not exist, or is longer than it can be."""
    with open(path, "rb") as file:
        head = file.read(128)
        if len(head) < 128 or 0 in head[:4]:  # of version 4, which has no tags
            return
        order = "little" if head[126:128] == b"IM" else "big"
        left = path.stat().st_size - 128
        while left >= 8:
            kind, size = (int.from_bytes(file.read(4), order) for _ in range(2))  # type: ignore[arg-type]
            left -= 8 + size
            after = file.tell() + size
            if left < 0 or kind not in (_MATRIX, _PACKED):
                raise _damaged(path)
            if kind == _MATRIX:
                _check_variable(file, size, order, name, path)
            else:
                inner = _Packed(file.read(size))
                kind, unpacked = (int.from_bytes(inner.read(4), order) for _ in range(2))  # type: ignore[arg-type]
                leave.check(unpacked, size, str(path))
                if kind != _MATRIX:
                    raise _damaged(path)
                _check_variable(inner, unpacked, order, name, path)
            file.seek(after)


def _check_variable(file: BinaryIO | _Packed, left: int, order: str, name: str, path: Path) -> None:
    """Go through the elements of a variable; those of other names are not looked into."""
    count = 0
    while left >= 8:
        tag = file.read(8)
        kind, size = (int.from_bytes(part, order) for part in (tag[:4], tag[4:]))  # type: ignore[arg-type]
        small = kind >> 16
        left -= 8
        content = tag[4 : 4 + small] if small else b""
        if not small:
            padded = size + -size % 8 if left >= size + -size % 8 else size
            left -= padded
            content = file.read(padded)[:size] if count == _NAME and size <= _PIECE and left >= 0 else b""
            skipped = count == _NAME and size <= _PIECE
            if left < 0 or (not skipped and not _skipped(file, padded)):
                raise _damaged(path)
        if (kind & 0xFFFF) not in _KNOWN or small > 4 or len(tag) < 8:
            raise _damaged(path)
        if count == _NAME and content not in (b"", name.encode("latin1", "replace")):  # SciPy gives an empty one a name
            return
        count += 1


def _skipped(file: BinaryIO | _Packed, size: int) -> bool:
    """Whether there were so many bytes to leave out."""
    while size:
        piece = len(file.read(min(size, _PIECE)))
        if not piece:
            return False
        size -= piece
    return True


def _damaged(path: Path) -> DataFileError:
    return DataFileError(f"{path} cannot be read as .mat: it is damaged or cut short.")
