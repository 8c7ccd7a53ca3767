"""A file is whole and sound, or refused in one sentence; nothing in it is ever run."""

import hashlib
import json
import os
import pickle
import socket
import tracemalloc

import numpy as np
import pytest
from safetensors.numpy import save as serialise

from pcarann import ModelFileError, load
from pcarann.storage.container import read, write
from pcarann.storage.formats import FORMAT_VERSION
from pcarann.storage.header import LARGEST_HEADER

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


@pytest.mark.parametrize("left", [1, 8, 60, -1])
def test_a_file_that_ends_within_its_header_is_said_to_be_cut_short(path, left):
    content = path.read_bytes()
    header = int.from_bytes(content[:8], "little") + 8
    path.write_bytes(content[: left % header])
    with pytest.raises(ModelFileError, match="or it is cut short"):
        read(path)


def test_a_header_that_is_too_large_is_refused_before_it_is_read(path):
    with open(path, "wb") as file:
        file.write((LARGEST_HEADER + 1).to_bytes(8, "little"))
        file.truncate(2 * LARGEST_HEADER)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="not a pcarann model file, or"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < LARGEST_HEADER / 8
    finally:
        tracemalloc.stop()


def test_a_header_that_ends_within_its_checksum_is_refused(path):
    path.write_bytes((14).to_bytes(8, "little") + b'{"sha256":"123' + b"0" * 50)
    with pytest.raises(ModelFileError):
        read(path)


def test_reading_takes_the_memory_of_the_arrays_once(path):
    data = bytes(8_000_000)
    said = {"dtype": "F64", "shape": [1000, 1000], "data_offsets": [0, len(data)]}
    path.write_bytes(sealed({"__metadata__": {"pcarann": json.dumps(DOCUMENT)}, "x": said}, data))
    tracemalloc.start()
    try:
        assert read(path)[1]["x"].nbytes == len(data)
        assert tracemalloc.get_traced_memory()[1] < 1.75 * len(data)
    finally:
        tracemalloc.stop()


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
    [b"<!DOCTYPE html><html><body>404</body></html>", b"", b"{}", b"\x00" * 8, b"\x00" * 100, b"\xff" * 100],
    ids=["html", "empty", "two bytes", "eight bytes", "zeros", "ones"],
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


@pytest.mark.parametrize("shape", [[0, 1 << 59], [0, 1 << 70], [0, 1 << 40, 1 << 40]])
def test_an_empty_array_with_giant_axes_is_refused(path, shape):
    said = {"dtype": "F64", "shape": shape, "data_offsets": [0, 0]}
    path.write_bytes(sealed({"__metadata__": {"pcarann": json.dumps(DOCUMENT)}, "x": said}))
    with pytest.raises(ModelFileError, match="too large"):
        read(path)


@pytest.mark.parametrize(("shape", "data"), [([0, (1 << 59) - 1], b""), ([1] * 32, b"8 bytes.")])
def test_arrays_of_any_shape_that_numpy_knows_are_read(path, shape, data):
    said = {"dtype": "F64", "shape": shape, "data_offsets": [0, len(data)]}
    path.write_bytes(sealed({"__metadata__": {"pcarann": json.dumps(DOCUMENT)}, "x": said}, data))
    assert read(path)[1]["x"].shape == tuple(shape)


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


@pytest.mark.parametrize("version", [1, FORMAT_VERSION])
def test_files_of_the_first_format_are_read_as_those_of_the_last(path, version):
    write(path, {"format": version}, TENSORS)
    assert read(path)[0] == {"format": version}


@pytest.mark.parametrize("version", [-5, 0, True, 1.5, "5", None])
@pytest.mark.parametrize("kind", [None, "stages"])
def test_a_format_that_does_not_exist_is_refused(path, version, kind):
    path.write_bytes(sealed({"__metadata__": {"pcarann": json.dumps({"format": version, "kind": kind})}}))
    with pytest.raises(ModelFileError):
        read(path)


def entry(**changes):
    return {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]} | changes


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ({"x": entry(dtype="BF16", shape=[4])}, "unknown dtype BF16"),
        ({"x": entry(dtype="F8_E4M3", shape=[8])}, "unknown dtype"),
        ({"x": entry(dtype=["F64"])}, "cannot be read"),
        ({"x": entry(shape=[-1])}, "has no shape"),
        ({"x": entry(shape=[True])}, "has no shape"),
        ({"x": entry(shape=[2])}, "but 8 bytes"),
        ({"x": entry(shape=[1] * 33)}, "but 8 bytes"),
        ({"x": entry(), "y": entry()}, "not the 8 bytes"),
        ({"x": entry(data_offsets=[8, 16])}, "not the 8 bytes"),
        ({"x": entry(shape=[0], data_offsets=[0, 0])}, "not the 8 bytes"),
        ({}, "not the 8 bytes"),
        ({"x": entry(dtype="BOOL", shape=[8])}, "neither true nor false"),
        ({"x": {"dtype": "F64"}}, "cannot be read"),
        ({"x": None}, "cannot be read"),
    ],
)
def test_arrays_that_are_not_the_bytes_of_the_file_are_refused(path, header, says):
    metadata = {"__metadata__": {"pcarann": json.dumps({"format": FORMAT_VERSION})}}
    path.write_bytes(sealed(metadata | header, b"\x02" * 8))
    with pytest.raises(ModelFileError, match=says):
        read(path)


def test_a_named_pipe_is_not_waited_for_and_nothing_stays_open(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    original, opened = os.open, []
    monkeypatch.setattr(os, "open", lambda *given: opened.append(original(*given)) or opened[-1])
    with pytest.raises(ModelFileError, match="is not a file"):
        read(tmp_path / "pipe")
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(opened[0])


def test_a_socket_is_not_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
        with pytest.raises(ModelFileError, match="socket is not a file"):
            read("socket")


def test_a_path_through_a_file_is_told_as_the_system_tells_it(path):
    with pytest.raises(NotADirectoryError):
        read(path / "inside")


def test_a_file_is_opened_once(path, tmp_path, monkeypatch):
    """One that takes its place while it is read is not what is handed out."""
    write(tmp_path / "other", DOCUMENT | {"zeros": "other"}, {"a": np.zeros(3)})
    opened = []

    def swapped(name, *rest, **options):
        opened.append(name)
        descriptor = original(name, *rest, **options)
        os.replace(tmp_path / "other", path)
        return descriptor

    original = os.open
    monkeypatch.setattr(os, "open", swapped)
    document, tensors = read(path)
    assert opened == [path]
    assert document == DOCUMENT
    assert np.array_equal(tensors["a"], TENSORS["a"])


def test_every_type_that_is_written_comes_back(path):
    kinds = [np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.bool_]
    kinds += [np.uint8, np.uint16, np.uint32, np.uint64]
    stored = {np.dtype(kind).name: np.arange(3).astype(kind) for kind in kinds} | {"empty": np.zeros((0, 3))}
    write(path, DOCUMENT, stored | {"scalar": np.array(2.5)})
    found = read(path)[1]
    assert all(
        found[name].dtype == array.dtype and np.array_equal(found[name], array) for name, array in stored.items()
    )
    assert found["scalar"].shape == ()
    assert found["scalar"] == 2.5


def test_arrays_of_another_program_are_not_said_to_be_damaged(path):
    path.write_bytes(serialise({"weights": np.ones(100)}))
    with pytest.raises(ModelFileError, match=r"is not a pcarann model file\.$"):
        read(path)


@pytest.mark.parametrize("document", [[], "words", None, 5])
def test_a_document_that_describes_nothing_is_refused(path, document):
    write(path, document, {"a": np.ones(3)})
    with pytest.raises(ModelFileError, match=r"is not a pcarann model file\.$"):
        read(path)
