"""HDF5 files with a heap that never ends are refused before the HDF5 library walks through it."""

import time

import numpy as np
import pytest

from pcarann.problems import DataFileError, read
from pcarann.problems.formats import heaps
from pcarann.problems.formats.heaps import refuse_endless_heaps

h5py = pytest.importorskip("h5py")
A, U = np.arange(30.0).reshape(5, 6), np.arange(20.0).reshape(5, 4)


def written(path, width=8):
    """Two arrays, and words of any length, which lie in a heap."""
    settings = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    settings.set_sizes(8, width)
    with h5py.File(h5py.h5f.create(bytes(path), fcpl=settings)) as file:
        file["a"], file["u"] = A, U
        file["a"].attrs["said"] = ["some", "words", "x" * 100]
    return path


def damaged(path, at, number):
    """With another number so many bytes behind the beginning of the heap."""
    content = bytearray(path.read_bytes())
    begin = content.index(b"GCOL") + at
    content[begin : begin + 8] = number.to_bytes(8, "little")
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("width", [4, 8])
def test_a_sound_file_is_read(tmp_path, width):
    path = written(tmp_path / "d.h5", width)
    assert b"GCOL" in path.read_bytes()
    assert np.array_equal(read(path, "a", "u")[0], A)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(heaps, "_PATIENCE", 4.0)


def test_an_object_that_leads_nowhere_is_refused(tmp_path):
    path = damaged(written(tmp_path / "d.h5"), 24, 2**64 - 16)
    with pytest.raises(DataFileError, match=r"d\.h5 cannot be read: a heap in it is damaged"):
        read(path, "a", "u")


@pytest.mark.parametrize("size", [2**64 - 1, 2**63, 5000], ids=["back", "far", "outside"])
def test_an_object_that_leads_out_of_its_heap_ends(tmp_path, size):
    path = damaged(written(tmp_path / "d.h5"), 24, size)
    try:
        assert np.array_equal(read(path, "a", "u")[0], A)
    except DataFileError as error:
        assert "d.h5" in str(error)  # noqa: PT017


def test_what_only_looks_like_a_damaged_heap_is_read(tmp_path):
    path = written(tmp_path / "d.h5")
    with h5py.File(path, "a") as file:
        file["notes"] = np.frombuffer(b"GCOL\1\0\0\0" + (64).to_bytes(8, "little") + b"\xff" * 64, "u1")
    assert np.array_equal(read(path, "a", "u")[0], A)


def test_heaps_inside_heaps_are_looked_through_in_time(tmp_path):
    path = written(tmp_path / "d.h5")
    parts = [(1).to_bytes(8, "little") + (16).to_bytes(8, "little") + b"GCOL\1\0\0\0" for _ in range(4000)]
    nested = b"".join(part + (32 * (4000 - i) - 16).to_bytes(8, "little") for i, part in enumerate(parts))
    with h5py.File(path, "a") as file:
        file["notes"] = np.frombuffer(nested, "u1")
    begun = time.perf_counter()
    assert np.array_equal(read(path, "a", "u")[0], A)
    assert time.perf_counter() - begun < 5


def test_free_space_of_no_size_is_refused(tmp_path):
    path = damaged(damaged(written(tmp_path / "d.h5"), 16, 0), 24, 0)
    with pytest.raises(DataFileError, match="a heap in it is damaged"):
        read(path, "a", "u")


def test_a_netcdf_file_in_which_the_library_would_loop_is_refused(tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    path = tmp_path / "d.nc"
    xarray.Dataset({"a": (("s", "x"), A), "u": (("s", "y"), U)}).to_netcdf(path, engine="h5netcdf")
    assert np.array_equal(read(path, "a", "u")[0], A)
    damaged(damaged(path, 16, 0), 24, 0)
    with pytest.raises(DataFileError, match="a heap in it is damaged"):
        read(path, "a", "u")


def test_a_heap_that_is_longer_than_the_file_is_left_to_the_library(tmp_path):
    refuse_endless_heaps(damaged(written(tmp_path / "d.h5"), 8, 2**40))
