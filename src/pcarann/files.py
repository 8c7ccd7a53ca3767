"""Files that are whole or not there.

Writing goes to an unnamed or temporary file in the same folder, which replaces the old file in one step when it is
complete and on disk: a crash at any moment leaves the old file whole. The new file has the permissions of the old one,
and what is not a regular file, or is read-only, is never replaced.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["atomic_writer", "check_target"]

_RENAMING = """
import os, sys
descriptor, folder, draft, target = int(sys.argv[1]), *sys.argv[2:]
os.link(f"/proc/self/fd/{descriptor}", draft, src_dir_fd=os.open(folder, os.O_RDONLY), follow_symlinks=True)
os.replace(draft, target)
"""
_OTHERS = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path leads to, or say in one sentence why none can be written there."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {target.parent} to write {target.name} into.")
    _check_replaceable(path)
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"The folder {target.parent} cannot be written to.")
    return target


def _check_replaceable(path: str | os.PathLike[str]) -> None:
    """Refuse what is there already, unless it is a regular file that may be written to."""
    old = _status(path)
    if old is None:
        return
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(f"{os.fspath(path)} is a folder: name a file in it.")
    if not stat.S_ISREG(old.st_mode):
        kind = _OTHERS.get(stat.S_IFMT(old.st_mode), "something else")
        raise OSError(f"{os.fspath(path)} is {kind}: only a regular file can be replaced.")
    # The bits count for root too, whom the system would let write anything.
    if not old.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise PermissionError(f"{os.fspath(path)} is read-only: make it writable, or name another file.")


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of `path` only when it is complete and on disk.

    Where the system has unnamed files, not even kill −9 leaves a trace beside the old file.
    """
    target = check_target(path)
    draft = target.parent / f".{target.name[:40]}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        with _draft_file(draft) as file:
            _take_after(file.fileno(), _status(target))
            yield file
            file.flush()
            os.fsync(file.fileno())
            named = draft.exists() or not _replaced(file.fileno(), draft, target)
        if named:
            os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError), _opened(target.parent) as folder:
        os.fsync(folder)


def _status(path: str | os.PathLike[str]) -> os.stat_result | None:
    """Return what the system knows of the file that a path leads to, None where there is none."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _take_after(descriptor: int, old: os.stat_result | None) -> None:
    """Give a new file the owner, group and permissions of the old one, each where the system allows it."""
    if old is None or not hasattr(os, "fchmod"):
        return
    with contextlib.suppress(PermissionError):
        os.fchown(descriptor, -1, old.st_gid)
    with contextlib.suppress(PermissionError):
        os.fchown(descriptor, old.st_uid, -1)
    with contextlib.suppress(PermissionError):
        os.fchmod(descriptor, old.st_mode & 0o777)


def _draft_file(draft: Path) -> BinaryIO:
    """Open an unnamed file in the folder of `draft` where the system has them, the named draft elsewhere."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        try:
            return os.fdopen(os.open(draft.parent, os.O_TMPFILE | os.O_RDWR, 0o666), "wb")
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
                raise  # else: this file system has no unnamed files
    return open(draft, "xb")


def _replaced(descriptor: int, draft: Path, target: Path) -> bool:
    """Put an unnamed open file in the place of `target`; False where it could only be given the name of the draft.

    A new name is one step. An old file is replaced in two, the draft's name and its renaming: a process of its own,
    which outlives a kill of this one, takes both.
    """
    with _opened(target.parent) as folder, contextlib.suppress(FileExistsError):
        # CPython follows the link in /proc only on the call that takes a folder, although the path is absolute.
        os.link(f"/proc/self/fd/{descriptor}", target, src_dir_fd=folder, follow_symlinks=True)
        return True
    python = "python" in Path(sys.executable or "").name.lower()  # else what holds the interpreter would be started
    words = (str(descriptor), str(target.parent), str(draft), str(target))
    if python and _succeeded([sys.executable, "-I", "-S", "-c", _RENAMING, *words], descriptor):
        return True
    if not draft.exists():
        with _opened(target.parent) as folder:
            os.link(f"/proc/self/fd/{descriptor}", draft, src_dir_fd=folder, follow_symlinks=True)
    return False


def _succeeded(command: list[str], descriptor: int) -> bool:
    """Run a process that holds an open file too, and is no part of this one's session."""
    none = subprocess.DEVNULL
    with contextlib.suppress(OSError):
        done = subprocess.run(
            command, stdin=none, stdout=none, stderr=none, pass_fds=(descriptor,), start_new_session=True, check=False
        )
        return done.returncode == 0
    return False


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
