"""Models by name, each read again when its file changes.

A new file is read aside, and takes the place of the old model with one assignment: every request is answered by one
model, the old one or the new one. A file that cannot be read leaves the old model where it is, and is said.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pcarann.loading import load
from pcarann.serving.answers import Catalogue
from pcarann.serving.limits import Refused

__all__ = ["Entry", "Shelf", "named"]

logger = logging.getLogger("pcarann.serving")

_NAME = re.compile(r"[\w.+-]+")  # what can stand in an address as it is

Stamp = tuple[int, int, int]
"""When a file was written, its size, and what it is to the system"""


@dataclass(frozen=True)
class Entry:
    """A model in service."""

    name: str
    path: Path
    stamp: Stamp | None
    """Of the file that was last looked at; None where there was none"""
    catalogue: Catalogue
    mark: str
    """Of the file that it was read from: another file has another one, also after the server was started again"""
    version: int = 1
    """Counts the files that it was read from"""
    trouble: str = ""
    """Why the file as it is now could not be read; "" where it was"""

    @property
    def model(self) -> Any:
        """The surrogate itself"""
        return self.catalogue.model


def named(paths: Iterable[Path]) -> dict[str, Path]:
    """Files by the name that their models go by, the file's name without its ending; or a refusal."""
    found: dict[str, Path] = {}
    for path in paths:
        if path.is_dir():
            raise ValueError(f"{path} is a folder, no model file.")
        if not _NAME.fullmatch(path.stem):
            raise ValueError(f"{path} cannot be served: of its name {path.stem!r} an address is made, rename the file.")
        if path.stem in found:
            raise ValueError(f"{found[path.stem]} and {path} would both be served as {path.stem}: rename one of them.")
        found[path.stem] = path
    if not found:
        raise ValueError("There is no model to serve.")
    return found


class Shelf:
    """Models by name.

    `open` makes a model of a path. `told` is called with the name of a model whose file has changed, and whether it
    could be read.
    """

    def __init__(
        self,
        paths: Mapping[str, Path],
        *,
        open: Callable[[Path], Any] = load,
        told: Callable[[str, bool], None] = lambda name, loaded: None,
    ):
        self._open, self.told = open, told
        self._entries = {name: self._read(name, path) for name, path in paths.items()}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All that are in service"""
        return tuple(self._entries.values())

    def entry(self, name: str, version: str | None = None) -> Entry:
        """The model of a name, or a refusal; only its last version is kept, called by its number or its mark."""
        found = self._entries.get(name)
        if found is None:
            raise Refused(404, f"There is no model {name[:100]}: {', '.join(self._entries)}.")
        if version is not None and version not in (str(found.version), found.mark):
            raise Refused(404, f"There is no version {version[:20]} of {name}: it is {found.version} now.")
        return found

    def look(self) -> None:
        """Read files that have changed since the last look; for one thread at a time."""
        for entry in self.entries:
            stamp = _stamp(entry.path)
            if stamp != entry.stamp:
                self._renew(entry, stamp)

    def _renew(self, entry: Entry, stamp: Stamp | None) -> None:
        try:
            found = self._read(entry.name, entry.path)
        except Exception as error:  # whatever is in that file, the server goes on
            trouble = " ".join(str(error).split()) or type(error).__name__
            logger.error("%s stays at version %d: %s", entry.name, entry.version, trouble)
            self._entries[entry.name] = replace(entry, stamp=stamp, trouble=trouble)
            self.told(entry.name, False)
            return
        self._entries[entry.name] = replace(found, version=entry.version + 1)
        logger.info("%s was read again: version %d.", entry.name, entry.version + 1)
        self.told(entry.name, True)

    def _read(self, name: str, path: Path) -> Entry:
        stamp = _stamp(path)
        mark = hashlib.sha256(repr(stamp).encode()).hexdigest()[:16]
        return Entry(name, path, stamp, Catalogue.of(self._open(path)), mark)


def _stamp(path: Path) -> Stamp | None:
    """None where there is no file to be seen."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
