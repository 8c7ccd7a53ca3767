"""Files that are whole or not there.

Writing goes to an unnamed or temporary file in the same folder, which replaces the old file in one step when it is
complete and on disk: a crash at any moment leaves the old file whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["atomic_writer", "check_target"]


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path leads to, or say in one sentence why none can be written there."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: name a file in it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {target.parent} to write {target.name} into.")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"The folder {target.parent} cannot be written to.")
    return target


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of `path` only when it is complete and on disk.

    Where the system has unnamed files, not even kill −9 leaves a trace beside the old file.
    """
    target = check_target(path)
    draft = target.parent / f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        with _draft_file(draft) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if not draft.exists():
                _give_name(file.fileno(), draft)
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _draft_file(draft: Path) -> BinaryIO:
    """Open an unnamed file in the folder of `draft` where the system has them, the named draft elsewhere."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        try:
            return os.fdopen(os.open(draft.parent, os.O_TMPFILE | os.O_RDWR, 0o666), "wb")
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
                raise  # else: this file system has no unnamed files
    return open(draft, "xb")


def _give_name(descriptor: int, draft: Path) -> None:
    """Link an unnamed open file into its folder."""
    folder = os.open(draft.parent, os.O_RDONLY)
    try:
        # CPython follows the link in /proc only on the call that takes a folder, although the path is absolute.
        os.link(f"/proc/self/fd/{descriptor}", draft, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
