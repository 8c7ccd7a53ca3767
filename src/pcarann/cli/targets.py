"""Where a command may write.

An existing file is replaced only where it evidently is what the command writes, or with --force. A file that the same
command reads is never replaced: files are compared by what they are to the system, not by how their paths are spelled,
so that neither links nor letter case nor an index behind the name hide one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from glob import escape
from pathlib import Path
from typing import Any

import click

from pcarann.cli.kinds import PICTURE, Kind
from pcarann.cli.output import say
from pcarann.files import check_target

__all__ = ["Target", "check_folder", "target_option"]


@dataclass(frozen=True)
class Target:
    """A file to write."""

    path: Path
    option: str
    """That named it"""
    force: bool

    def check(self, kind: Kind, sources: Iterable[Path] = ()) -> None:
        """Refuse, before any work is done, a file that cannot be written, is being read, or holds something else."""
        target = check_target(self.path)
        for source in sources:
            if _is_in(target, source):
                raise ValueError(f"{self.path} is being read: name another file to write.")
        if target.exists() and not self.force and not kind.recognises(self.path):
            raise ValueError(f"{self.path} exists and is not evidently {kind.name}: name another file, or add --force.")

    def check_picture(self, sources: Iterable[Path] = ()) -> None:
        """Refuse, before any work is done, a picture that cannot be written."""
        if self.path.suffix not in (".png", ".svg", ".pdf"):
            raise click.UsageError(f"{self.option} must end in .png, .svg or .pdf.")
        self.check(PICTURE, sources)


def target_option(*names: str, about: str, **settings: Any) -> Callable[..., Any]:
    """An option, -o unless named, for a file to write, and --force; the command receives one `target`, or None."""
    names = names or ("-o", "--output")

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_target(target: Path | None, force: bool, **others: Any) -> Any:
            if target is None:
                return command(target=None, **others)
            before = _known(target)
            try:
                return command(target=Target(target, names[0], force), **others)
            except KeyboardInterrupt:
                say(_left(target, before))
                raise

        force_option = click.option(
            "--force", is_flag=True, help="Replace an existing file whatever it holds, unless this command reads it."
        )
        named = click.option(*names, "target", type=click.Path(path_type=Path), help=about, **settings)
        return named(force_option(with_target))

    return decorate


def _known(path: Path) -> dict[Path, tuple[int, int]]:
    """The file of this name, and those of a series that is numbered behind it, by what changes when one is written."""
    found = [path, *path.parent.glob(f"{escape(path.stem)}_*{escape(path.suffix)}")]
    return {one: (one.stat().st_ino, one.stat().st_mtime_ns) for one in found if one.exists()}


def _left(path: Path, before: dict[Path, tuple[int, int]]) -> str:
    """What an interrupted command leaves, in one sentence."""
    if path.suffix == ".zarr" and path.is_dir():
        return f"{path} holds the blocks that were finished: the same command goes on from there."
    written = sorted(one for one, known in _known(path).items() if known != before.get(one))
    if not written:
        return "Nothing was written."
    names = f"{written[0]} … {written[-1]}" if len(written) > 1 else str(written[0])
    return f"{len(written)} file(s) had been written: {names}."


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made since there is a file in its place, or on the way to it."""
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise NotADirectoryError(f"{place} is a file: name a folder to write into.")


def _is_in(target: Path, source: Path) -> bool:
    """Whether a file is what is read, or lies in it where that is a zarr store or a folder of meshes."""
    places = (target, *target.parents) if source.is_dir() else (target,)
    return source.exists() and any(place.exists() and place.samefile(source) for place in places)
