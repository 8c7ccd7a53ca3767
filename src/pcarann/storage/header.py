"""The header of a model file: eight bytes of length, and a JSON document that names every array with its place."""

from __future__ import annotations

from pathlib import Path

__all__ = ["LARGEST_HEADER", "read_header"]

LARGEST_HEADER = 1 << 23  # bytes; a real header is a few kilobytes, and as objects it takes twenty times as much


def read_header(path: Path) -> bytes:
    """Return the JSON document at the beginning of a model file, or whatever stands in its place."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return file.read(min(length, LARGEST_HEADER))
