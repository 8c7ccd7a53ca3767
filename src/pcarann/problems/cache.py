"""Simulated samples on disk, so that none is computed twice.

Sample i of a problem is a function of (name, seed, parameters, i) alone. The cache keeps runs of `BLOCK` samples,
whatever the batch size of the simulation and the device, one file each:

    ‹cache folder›/‹name›-‹hash of name, seed, parameters, format›/‹index›.block
    = SHA-256 of (key, index, content), then the content: the arrays of inputs and outputs in NumPy's format.

The last block may hold fewer samples; a longer run of the same problem completes it. Files are replaced in one step,
so that a reader, a second writer, Ctrl-C or kill −9 meet whole files or none. A file whose checksum is wrong counts
as absent and is written anew.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pcarann.files import atomic_writer
from pcarann.validation import unstopped

__all__ = ["BLOCK", "Assembly", "BlockCache", "cache_folder", "plain"]

BLOCK = 50  # samples in a file: a minute of Navier–Stokes on a CPU, which is what Ctrl-C may cost
_FORMAT = 1
_DIGEST = hashlib.sha256().digest_size

Fields = np.ndarray[Any, Any]


def cache_folder() -> Path:
    """Return the folder of all cached data: `PCARANN_CACHE`, or the platform's cache folder."""
    chosen = os.environ.get("PCARANN_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("pcarann", appauthor=False)


def plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters as JSON gives them back: NumPy's numbers and arrays, and tuples, become plain."""
    try:
        document: dict[str, Any] = json.loads(json.dumps(parameters, allow_nan=False, default=_plain_number))
    except (TypeError, ValueError) as error:
        raise ValueError(f"parameters must be numbers, strings, lists and dictionaries: {unstopped(error)}.") from None
    return document


class Assembly:
    """The samples 0, …, n − 1 on their way: arrays that fill up, and which samples are there."""

    def __init__(self, n: int) -> None:
        self.done = np.zeros(n, dtype=bool)
        self._pair: tuple[Fields, Fields] | None = None

    def put(self, where: range, inputs: Fields, outputs: Fields) -> None:
        """Write the fields of these samples."""
        if self._pair is None:
            n = len(self.done)
            first, second = (np.empty((n, *part.shape[1:]), part.dtype) for part in (inputs, outputs))
            self._pair = first, second
        for whole, part, name in zip(self._pair, (inputs, outputs), ("inputs", "outputs"), strict=True):
            wanted = (len(where), *whole.shape[1:])
            if part.shape != wanted:
                raise ValueError(f"Samples {where.start} to {where.stop - 1}: {name} {part.shape} instead of {wanted}.")
            whole[where.start : where.stop] = part
        self.done[where.start : where.stop] = True

    def get(self, where: range) -> tuple[Fields, Fields]:
        """Return the fields of these samples."""
        if self._pair is None:
            raise ValueError("There is no sample yet.")
        return self._pair[0][where.start : where.stop], self._pair[1][where.start : where.stop]

    def missing(self, size: int) -> list[range]:
        """Return the samples that are not there, in runs of at most `size`."""
        edges = np.flatnonzero(np.diff(np.concatenate([[True], self.done, [True]]))).tolist()
        runs = zip(edges[::2], edges[1::2], strict=True)
        return [range(i, min(i + size, stop)) for start, stop in runs for i in range(start, stop, size)]


@dataclass
class BlockCache:
    """The blocks of one problem with one seed and one set of parameters."""

    folder: Path
    key: bytes
    broken: bool = False

    @classmethod
    def of(cls, name: str, seed: int, parameters: dict[str, Any]) -> BlockCache:
        """Return the cache of this problem; nothing is read or written yet."""
        made_from = {"format": _FORMAT, "name": name, "parameters": plain(parameters), "seed": int(seed)}
        key = json.dumps(made_from, sort_keys=True).encode()
        readable = re.sub(r"[^\w-]+", "-", name)
        return cls(cache_folder() / f"{readable}-{hashlib.sha256(key).hexdigest()[:32]}", key)

    def fill(self, data: Assembly) -> None:
        """Copy what there is on disk; warn once where a file is damaged."""
        damaged = []
        for index, samples in self._blocks(range(len(data.done)), len(data.done)):
            try:
                found = self._load(index)
            except ValueError:
                damaged.append(self._path(index))
                continue
            if found is not None:
                known = min(len(found[0]), len(samples))
                data.put(samples[:known], found[0][:known], found[1][:known])
        if damaged:
            others = f" and {len(damaged) - 1} more" if damaged[1:] else ""
            warnings.warn(f"Cached data are damaged and made anew: {damaged[0]}{others}.", stacklevel=4)

    def keep(self, data: Assembly, new: range) -> None:
        """Write the blocks that the new samples complete; warn once where the disk refuses, and go on without."""
        for index, samples in self._blocks(new, len(data.done)):
            if self.broken or not data.done[samples.start : samples.stop].all():
                continue
            try:
                self._store(index, *data.get(samples))
            except OSError as error:
                self.broken = True
                warnings.warn(f"Data are not cached in {self.folder}: {unstopped(error)}.", stacklevel=4)

    def _blocks(self, samples: range, n: int) -> Iterator[tuple[int, range]]:
        """Yield the index and the samples of each block that these samples touch, out of n samples in all."""
        for index in range(samples.start // BLOCK, -(-samples.stop // BLOCK)):
            yield index, range(index * BLOCK, min((index + 1) * BLOCK, n))

    def _path(self, index: int) -> Path:
        return self.folder / f"{index:06d}.block"

    def _digest(self, index: int, content: bytes | memoryview) -> bytes:
        digest = hashlib.sha256(self.key + index.to_bytes(8, "little"))
        digest.update(content)
        return digest.digest()

    def _load(self, index: int) -> tuple[Fields, Fields] | None:
        """Return the block, or None where there is none; raise ValueError where it is damaged."""
        try:
            stored = self._path(index).read_bytes()
        except OSError:
            return None
        content = memoryview(stored)[_DIGEST:]
        if self._digest(index, content) != stored[:_DIGEST]:
            raise ValueError("The checksum does not match the content.")
        file = io.BytesIO(content)
        return np.load(file, allow_pickle=False), np.load(file, allow_pickle=False)

    def _store(self, index: int, inputs: Fields, outputs: Fields) -> None:
        content = io.BytesIO()
        np.save(content, inputs, allow_pickle=False)
        np.save(content, outputs, allow_pickle=False)
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_writer(self._path(index)) as file:
            file.write(self._digest(index, content.getbuffer()))
            file.write(content.getbuffer())


def _plain_number(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{value!r} is a {type(value).__name__}")
