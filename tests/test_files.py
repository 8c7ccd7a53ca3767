"""Files are replaced whole, with the permissions they had, and only where they are files."""

import errno
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from functools import partial

import pytest

from pcarann.files import atomic_writer, check_target


def write(path, content=b"new"):
    with atomic_writer(path) as file:
        file.write(content)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("bits", [0o600, 0o640, 0o664, 0o755])
def test_a_replaced_file_keeps_its_permissions(tmp_path, bits):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(bits)
    write(path)
    assert path.read_bytes() == b"new"
    assert mode(path) == bits


def test_permissions_are_kept_where_the_system_has_no_unnamed_files(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o600)
    write(path)
    assert path.read_bytes() == b"new"
    assert mode(path) == 0o600


def test_a_file_replaced_through_a_link_keeps_its_permissions(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o600)
    link.symlink_to(path)
    write(link)
    assert link.is_symlink()
    assert mode(path) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write for others")
def test_root_leaves_a_file_to_its_owner(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    os.chown(path, 1234, 2345)
    write(path)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "file")
    finally:
        os.umask(before)
    assert mode(tmp_path / "file") == 0o640


def test_a_named_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match=r"pipe is a named pipe: only a regular file can be replaced\.$"):
        write(tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_link_to_a_named_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    with pytest.raises(OSError, match="link is a named pipe"):
        check_target(tmp_path / "link")


def test_a_socket_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the path of a socket may have a hundred letters only
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
        with pytest.raises(OSError, match="is a socket"):
            write("socket")


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="needs /dev/null")
def test_a_device_is_refused():
    with pytest.raises(OSError, match="/dev/null is a device"):
        check_target("/dev/null")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
def test_a_device_of_ones_own_is_refused(tmp_path):
    try:
        os.mknod(tmp_path / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this root cannot make a device")
    with pytest.raises(OSError, match="is a device"):
        write(tmp_path / "null")
    assert stat.S_ISCHR((tmp_path / "null").stat().st_mode)


def test_a_pipe_behind_a_descriptor_is_refused():
    reading, writing = os.pipe()
    try:
        with pytest.raises(OSError, match="is a named pipe"):
            check_target(f"/proc/self/fd/{writing}")
    finally:
        os.close(reading)
        os.close(writing)


def test_a_read_only_file_is_refused_even_for_root(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(PermissionError, match=r"is read-only: make it writable, or name another file\.$"):
        write(path)
    assert path.read_bytes() == b"old"


def test_links_in_a_circle_are_refused(tmp_path):
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(OSError, match="links"):
        write(tmp_path / "circle")
    assert (tmp_path / "circle").is_symlink()


def test_a_name_that_is_too_long_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(OSError, match="too long"):
        check_target(tmp_path / ("x" * 300))


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127, "模" * 85], ids=["ascii", "accents", "chinese"])
def test_the_longest_names_can_be_written(tmp_path, name):
    write(tmp_path / name)
    assert os.listdir(tmp_path) == [name]


@pytest.fixture
def path(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    return tmp_path / "file"


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_beside_it(path):
    def fail_half_way():
        with atomic_writer(path) as file:
            file.write(b"half of it")
            raise OSError("disk full")

    with pytest.raises(OSError, match="full"):
        fail_half_way()
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == [path.name]


def test_kill_9_while_writing_keeps_the_old_file_and_leaves_nothing_beside_it(path):
    code = (
        "import sys, time\n"
        "from pcarann.files import atomic_writer\n"
        "with atomic_writer(sys.argv[1]) as file:\n"
        "    file.write(b'x' * 100000); file.flush(); print('writing', flush=True); time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "writing\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    time.sleep(0.05)
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="needs unnamed files")
@pytest.mark.parametrize("old", [True, False], ids=["replaced", "new"])
def test_kill_9_at_any_call_of_the_system_leaves_the_old_file_or_the_new_one_alone(tmp_path, old):
    """The process is killed before its n-th link or rename, for every n that there is."""
    code = (
        "import os, signal, sys\n"
        "from pcarann import files\n"
        "left = int(sys.argv[2])\n"
        "def counted(call):\n"
        "    def instead(*args, **kwargs):\n"
        "        global left\n"
        "        left -= 1\n"
        "        if left < 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return call(*args, **kwargs)\n"
        "    return instead\n"
        "os.link, os.replace, os.unlink = map(counted, (os.link, os.replace, os.unlink))\n"
        "with files.atomic_writer(sys.argv[1]) as file: file.write(b'new')\n"
    )
    path = tmp_path / "file"
    for calls in range(4):
        path.unlink(missing_ok=True)
        if old:
            path.write_bytes(b"old")
        done = subprocess.run([sys.executable, "-c", code, str(path), str(calls)], check=False)
        names = os.listdir(tmp_path)
        assert names == [path.name] if old or done.returncode == 0 else not names
        if names:
            assert path.read_bytes() == b"new" if done.returncode == 0 else path.read_bytes() in (b"old", b"new")
    assert done.returncode == 0


def test_a_file_is_replaced_where_no_helper_can_be_started(path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    write(path)
    assert path.read_bytes() == b"new"
    assert os.listdir(path.parent) == [path.name]


def test_a_file_system_without_unnamed_files_gets_a_named_draft(tmp_path, monkeypatch):
    real = os.open

    def refused(path, flags, *more, number=errno.EOPNOTSUPP, **others):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(number, "refused")
        return real(path, flags, *more, **others)

    monkeypatch.setattr(os, "open", refused)
    write(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    monkeypatch.setattr(os, "open", partial(refused, number=errno.EDQUOT))
    with pytest.raises(OSError, match="refused"):
        write(tmp_path / "other")


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(PermissionError, match=f"The folder {tmp_path} cannot be written to"):
        check_target(tmp_path / "file")
