"""Where a command may write.

An existing file is replaced only where it evidently is what the command writes, or with --force. A file that the same
command reads is never replaced: files are compared by what they are to the system, not by how their paths are spelled,
so that neither links nor letter case nor an index behind the name hide one.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from pcarann.cli.kinds import PICTURE, Kind
from pcarann.files import check_target

__all__ = ["check_folder", "check_output", "check_picture", "force_option"]

force_option = click.option(
    "--force", is_flag=True, help="Replace an existing file whatever it holds, unless this command reads it."
)


def check_output(output: Path, kind: Kind, force: bool, sources: Iterable[Path] = ()) -> None:
    """Refuse, before any work is done, a file that cannot be written, is being read, or holds something else."""
    target = check_target(output)
    for source in sources:
        if _is_in(target, source):
            raise ValueError(f"{output} is being read: name another file to write.")
    if target.exists() and not force and not kind.recognises(output):
        raise ValueError(f"{output} exists and is not evidently {kind.name}: name another file, or add --force.")


def check_picture(output: Path, option: str, force: bool, sources: Iterable[Path] = ()) -> None:
    """Refuse, before any work is done, a picture that cannot be written."""
    if output.suffix not in (".png", ".svg", ".pdf"):
        raise click.UsageError(f"{option} must end in .png, .svg or .pdf.")
    check_output(output, PICTURE, force, sources)


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made since there is a file in its place, or on the way to it."""
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise NotADirectoryError(f"{place} is a file: name a folder to write into.")


def _is_in(target: Path, source: Path) -> bool:
    """Whether a file is what is read, or lies in it where that is a zarr store."""
    places = (target, *target.parents) if source.suffix.lower() == ".zarr" else (target,)
    return source.exists() and any(place.exists() and place.samefile(source) for place in places)
