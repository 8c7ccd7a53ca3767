"""What a zarr store may hold, looked at before anything in it is unpacked.

A store is a folder of files, and its metadata say which codecs unpack them: some would run code, and any codec that a
package has registered could be named. Those that are known here are allowed, in a pipeline of one compressor at most.
"""

from __future__ import annotations

import json
import lzma
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pcarann.problems.formats import Leave, chunks_touched
from pcarann.problems.formats.unpacking import COMPRESSORS, could_swell, refuse_swelling
from pcarann.problems.selection import DataFileError, Selection

__all__ = ["check_array", "check_store"]

_PLAIN = (
    *("adler32", "astype", "bitround", "bytes", "crc32", "crc32c", "delta", "endian", "fixedscaleoffset"),
    *("fletcher32", "jenkins_lookup3", "packbits", "quantize", "shuffle", "transpose", "vlen-bytes", "vlen-utf8"),
)
_BEFORE, _BEHIND = {"adler32", "crc32"}, {"crc32c", "fletcher32", "jenkins_lookup3"}  # where a checksum is put
_SHARDS = "sharding_indexed"
_METADATA = (".zarray", ".zmetadata", "zarr.json")
_LARGEST = 1 << 24  # bytes of one file of metadata
_INDEX = 16  # bytes of an entry in the index of a shard: where a chunk begins, and its length
_CHECKSUM = 4
_NOWHERE = (1 << 64) - 1


def check_store(path: Path) -> int:
    """Return the bytes of a zarr store; refuse what is no regular file in it, links out of it, and unknown codecs."""
    size = 0
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            item = Path(folder, name)
            if item.is_symlink():
                raise DataFileError(f"{item} is a symbolic link, which is not followed.")
            if not (item.is_dir() or item.is_file()):
                raise DataFileError(f"{item} is not a regular file: the store is not read.")
            if name in _METADATA:
                _check_codecs(item)
            size += item.stat().st_size if item.is_file() else 0
    return size


def check_array(array: Any, path: Path, selection: Selection, size: int, leave: Leave, where: str) -> None:
    """Refuse chunks of a zarr array that are lost, or unpack to more than they say."""
    chunk = tuple(int(n) for n in (array.shards or array.chunks))
    leave.check_chunks(selection, np.dtype(array.dtype), chunk, size, where)
    folder = path / array.path
    said = next(folder / name for name in ("zarr.json", ".zarray") if (folder / name).is_file())
    used = _compressors(json.loads(said.read_bytes()), where)
    for numbers in chunks_touched(selection, chunk):
        key = array.metadata.encode_chunk_key(numbers)
        if (folder / key).is_file():
            for name, sums in used:
                _check_chunk(name, sums, folder / key, array, leave, f"{where}, chunk {key},")
        elif not leave.fill:
            raise DataFileError(
                f"{where}: the chunk {key} is not there. If it was left out because it holds the fill value "
                f"{array.fill_value} alone, read with fill=True."
            )


def _compressors(document: Any, where: str) -> set[tuple[str, tuple[int, int]]]:
    """Those that an array is packed by, and how many bytes of checksums stand before and behind what they gave."""
    found = set()
    for names in _pipelines(document):
        for at, name in enumerate(names):
            if name in COMPRESSORS:
                if others := set(names[at + 1 :]) - _BEFORE - _BEHIND:
                    raise DataFileError(f"{where} changes packed bytes by {min(others)!r}: not read.")
                before = len([one for one in names[at + 1 :] if one in _BEFORE])
                found.add((name, (_CHECKSUM * before, _CHECKSUM * (len(names) - at - 1 - before))))
    return found


def _check_chunk(name: str, sums: tuple[int, int], file: Path, array: Any, leave: Leave, where: str) -> None:
    """Refuse a chunk, or those of a shard, that unpack to more than an array of them."""
    most = math.prod(array.chunks) * np.dtype(array.dtype).itemsize
    if not could_swell(name, file.stat().st_size, max(leave.limit, most)):
        return
    packed = file.read_bytes()
    count = math.prod(array.shards) // math.prod(array.chunks) if array.shards else 0
    for piece in _pieces(packed, count) if array.shards else [packed]:
        refuse_swelling(name, piece[sums[0] : max(0, len(piece) - sums[1])], most, where)


def _pieces(packed: bytes, count: int) -> Iterator[bytes]:
    """The chunks of a shard, whose index stands at one of its ends, with a checksum behind it or without."""
    length = _INDEX * count
    for start in {0, len(packed) - length, len(packed) - length - _CHECKSUM}:
        if start < 0 or start + length > len(packed):
            continue
        for begin, size in np.frombuffer(packed, "<u8", 2 * count, start).reshape(-1, 2).tolist():
            if begin != _NOWHERE and begin + size <= len(packed):
                yield packed[begin : begin + size]


def _check_codecs(item: Path) -> None:
    if item.stat().st_size > _LARGEST:
        raise DataFileError(f"{item} is {item.stat().st_size} bytes of metadata: the store is not read.")
    for names in _pipelines(json.loads(item.read_bytes())):
        for name in names:
            if "pickle" in name.lower():
                raise DataFileError(f"{item} names a codec that unpickles objects, which could run code: not read.")
            if name not in (*_PLAIN, *COMPRESSORS, _SHARDS):
                raise DataFileError(f"{item} names the codec {name!r}, which is not known here: not read.")
        if len([name for name in names if name in COMPRESSORS]) > 1:
            raise DataFileError(f"{item} packs chunks twice ({', '.join(names)}): not read.")


def _pipelines(document: Any) -> Iterator[list[str]]:
    """The codecs of every array in a document, by name; what a user has written beside them is none."""
    if isinstance(document, list):
        for part in document:
            yield from _pipelines(part)
    if not isinstance(document, dict):
        return
    old = [*(document.get("filters") or []), document.get("compressor")]
    if names := [_name(codec) for codec in old if codec]:
        yield names
    for key in ("codecs", "index_codecs"):
        if document.get(key):
            yield [_name(codec) for codec in document[key]]
    for key, part in document.items():
        if key not in ("attributes", ".zattrs") and not key.endswith("/.zattrs"):
            yield from _pipelines(part)


def _name(codec: Any) -> str:
    found = (codec.get("id") or codec.get("name")) if isinstance(codec, dict) else codec
    name = str(found).removeprefix("numcodecs.")
    said = codec.get("configuration") or codec if isinstance(codec, dict) else {}
    return "raw lzma" if name == "lzma" and said.get("format") == lzma.FORMAT_RAW else name  # how long is not known
