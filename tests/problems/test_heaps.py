"""HDF5 files with a heap that never ends are refused before the HDF5 library walks through it."""

import numpy as np
import pytest

from pcarann.problems import DataFileError, read
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


@pytest.mark.parametrize("size", [2**64 - 16, 2**64 - 1, 2**63, 5000], ids=["nowhere", "back", "far", "outside"])
def test_an_object_that_leads_nowhere_or_out_of_its_heap_is_refused(tmp_path, size):
    path = damaged(written(tmp_path / "d.h5"), 24, size)
    with pytest.raises(DataFileError, match=r"d\.h5 cannot be read: a heap in it is damaged"):
        read(path, "a", "u")


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
