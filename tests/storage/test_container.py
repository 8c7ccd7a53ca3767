"""A file is whole and sound, or refused in one sentence; nothing in it is ever run."""

import hashlib
import json
import os
import pickle

import numpy as np
import pytest

from pcarann import ModelFileError, load
from pcarann.storage.container import read, write
from pcarann.storage.formats import FORMAT_VERSION

DOCUMENT = {"format": FORMAT_VERSION, "zeros": "0" * 64, "list": [1, 2.5, None]}
TENSORS = {"a": np.arange(600.0).reshape(20, 30), "b": np.arange(12).reshape(3, 4).T}


@pytest.fixture
def path(tmp_path):
    where = tmp_path / "model.pcarann"
    write(where, DOCUMENT, TENSORS)
    return where


def test_document_and_arrays_come_back_in_any_order_of_memory(path):
    document, tensors = read(path)
    assert document == DOCUMENT
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert np.array_equal(tensors[name], tensor)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.99])
def test_a_file_cut_short_is_refused(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ModelFileError):
        read(path)


def test_any_flipped_byte_is_refused(path):
    content = path.read_bytes()
    header = int.from_bytes(content[:8], "little") + 8
    rng = np.random.default_rng(0)
    places = {*range(40), *rng.integers(0, header, 150), *rng.integers(header, len(content), 60), len(content) - 1}
    for place in places:
        for bit in (1, 128):
            damaged = bytearray(content)
            damaged[place] ^= bit
            path.write_bytes(damaged)
            with pytest.raises(ModelFileError):
                read(path)


@pytest.mark.parametrize(
    "content",
    [b"<!DOCTYPE html><html><body>404</body></html>", b"", b"\x00" * 100, b"\xff" * 100],
    ids=["html", "empty", "zeros", "ones"],
)
def test_other_files_are_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        read(path)


class Bomb:
    def __reduce__(self):
        return os.abort, ()


def test_a_renamed_pickle_is_refused_and_never_run(path):
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModelFileError):
        read(path)


def sealed(header: dict, data: bytes = b"") -> bytes:
    """A file with a sound checksum and any header."""
    header = {"__metadata__": {"sha256": "0" * 64, **header.pop("__metadata__", {})}, **header}
    text = json.dumps(header, separators=(",", ":")).encode()
    blank = len(text).to_bytes(8, "little") + text + data
    return blank.replace(b"0" * 64, hashlib.sha256(blank).hexdigest().encode(), 1)


@pytest.mark.parametrize(
    "content",
    [
        sealed({}),
        sealed({"__metadata__": {"pcarann": "[" * 100_000}}),
        sealed({"__metadata__": {"pcarann": "{}"}}),
        sealed({"__metadata__": {"pcarann": json.dumps({"format": 1})}}),
        sealed({"x": {"dtype": "F64", "shape": [10**12], "data_offsets": [0, 8 * 10**12]}}, b"12345678"),
        (1 << 62).to_bytes(8, "little") + b"{}" * 100,
    ],
    ids=["nothing in it", "deep JSON", "no format", "no parts", "giant shape", "giant header"],
)
def test_malicious_files_are_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        load(path)


def test_a_newer_format_asks_for_an_upgrade(path):
    path.write_bytes(sealed({"__metadata__": {"pcarann": json.dumps({"format": FORMAT_VERSION + 1})}}))
    with pytest.raises(ModelFileError, match="upgrade"):
        read(path)


def test_a_missing_file_and_a_folder_say_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing-here"):
        read(tmp_path / "nothing-here")
    with pytest.raises(ModelFileError, match="not a file"):
        read(tmp_path)


def test_writing_over_a_link_keeps_the_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", DOCUMENT, TENSORS)
    assert (tmp_path / "link").is_symlink()
    assert read(tmp_path / "real")[0] == DOCUMENT


@pytest.mark.parametrize(("where", "says"), [("", "folder"), ("none/model", "no folder")])
def test_writing_where_nothing_can_be_written_says_so(tmp_path, where, says):
    with pytest.raises(OSError, match=says):
        write(tmp_path / where, DOCUMENT, TENSORS)
