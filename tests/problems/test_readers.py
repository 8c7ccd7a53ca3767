"""Readers: every format gives the same fields, lazily, and bad files end in one sentence."""

import importlib
import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import xarray
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from pcarann.problems import DataFileError, read
from pcarann.problems.readers import describe, files_read
from pcarann.problems.selection import parse_index, select, slices

FORMATS = (".npz", ".mat", "73.mat", ".h5", ".nc", "3.nc", ".zarr", "plain2.zarr", "plain3.zarr")


def fields():
    rng = np.random.default_rng(0)
    return rng.standard_normal((12, 6, 7)), rng.standard_normal((12, 6, 7, 5))


def write_matlab_73(path, **arrays):
    """Write HDF5 as MATLAB does: a block of 512 bytes in front, axes reversed, the class as an attribute."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=np.ascontiguousarray(array.T)).attrs["MATLAB_class"] = np.bytes_("double")
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


def write(folder, ending, a, u):
    path = folder / f"data{ending}"
    if ending == ".npz":
        np.savez(path, a=a, u=u)
    elif ending == ".mat":
        scipy.io.savemat(path, {"a": a, "u": u}, do_compression=True)
    elif ending == "73.mat":
        write_matlab_73(path, a=a, u=u)
    elif ending == ".h5":
        with h5py.File(path, "w") as file:
            file["a"], file["u"] = a, u
    elif ending.startswith("plain"):
        group = zarr.open_group(path, mode="w", zarr_format=int(ending[5]))
        group.create_array("a", data=a, chunks=(5, 4, 4))
        group.create_array("u", data=u, chunks=(5, 4, 4, 2))
    else:
        dataset = xarray.Dataset({"a": (("s", "x", "y"), a), "u": (("s", "x", "y", "t"), u)})
        if ending == ".zarr":
            dataset.to_zarr(path, consolidated=False)
        else:
            dataset.to_netcdf(path, engine="scipy" if ending == "3.nc" else "h5netcdf")
    return path


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_gives_back_the_fields(tmp_path, ending):
    a, u = fields()
    found = read(write(tmp_path, ending, a, u), "a", "u")
    assert np.array_equal(found[0], a)
    assert np.array_equal(found[1], u)


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_reads_ranges_strides_and_indices_as_numpy_would(tmp_path, ending):
    a, u = fields()
    path = write(tmp_path, ending, a, u)
    found = read(path, "a", "u[..., 1:4]", samples=slice(2, 11, 2), stride=(2, 3))
    assert np.array_equal(found[0], a[2:11:2, ::2, ::3])
    assert np.array_equal(found[1], u[2:11:2, ::2, ::3, 1:4])


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_can_leave_one_side_out(tmp_path, ending):
    a, u = fields()
    path = write(tmp_path, ending, a, u)
    assert read(path, "a", None)[1] is None
    assert read(path, None, "u")[0] is None


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_lists_its_keys_where_one_is_missing(tmp_path, ending):
    path = write(tmp_path, ending, *fields())
    with pytest.raises(DataFileError, match=r"has no array 'b': it holds a, u\.$"):
        read(path, "a", "b")


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_is_described_by_shape_and_type(tmp_path, ending):
    a, u = fields()
    facts = describe(write(tmp_path, ending, a, u))
    assert facts["a"].startswith(f"12×6×7 float64, from {a.min():.4g} to {a.max():.4g}")
    assert facts["u"].startswith("12×6×7×5 float64")


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_refuses_nan_with_count_and_first_sample(tmp_path, ending):
    a, u = fields()
    u[7, 0, 0, :3] = np.nan
    path = write(tmp_path, ending, a, u)
    with pytest.raises(DataFileError, match=r"\[u\]: 3 values are NaN or infinite, the first in sample 7"):
        read(path, "a", "u")


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_refuses_a_different_number_of_samples(tmp_path, ending):
    a, u = fields()
    path = write(tmp_path, ending, a, u)
    with pytest.raises(DataFileError, match="5 inputs and 12 outputs"):
        read(path, "a[:5]", "u")


@pytest.mark.parametrize("ending", [e for e in FORMATS if not e.endswith(".zarr")])
@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"\x89HDF\r\n\x1a\n" + bytes(600), b"PK\x03\x04"])
def test_a_file_that_is_something_else_is_refused(tmp_path, ending, content):
    path = tmp_path / f"data{ending}"
    path.write_bytes(content)
    with pytest.raises(DataFileError):
        read(path, "a", "u")


@pytest.mark.parametrize("ending", [e for e in FORMATS if not e.endswith(".zarr")])
def test_a_file_cut_short_is_refused(tmp_path, ending):
    path = write(tmp_path, ending, *fields())
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DataFileError):
        read(path, "a", "u")


def test_the_public_darcy_file_is_read_with_its_keys_and_axes(tmp_path):
    coeff = np.where(np.random.default_rng(0).random((4, 421, 421)) < 0.5, 3.0, 12.0)
    sol = np.random.default_rng(1).random((4, 421, 421))
    scipy.io.savemat(tmp_path / "piececonst_r421_N1024.mat", {"coeff": coeff, "sol": sol, "Kcoeff": coeff})
    a, u = read(tmp_path / "piececonst_r421_N1024.mat", "coeff", "sol", stride=15)
    assert a.shape == (4, 29, 29)
    assert np.array_equal(a, coeff[:, ::15, ::15])
    assert np.array_equal(u, sol[:, ::15, ::15])


def test_the_public_navier_stokes_file_is_read_in_the_order_of_matlab(tmp_path):
    u = np.random.default_rng(0).random((20, 64, 64, 50)).astype(np.float32)
    path = tmp_path / "ns_V1e-3_N5000_T50.mat"
    write_matlab_73(path, u=u, t=np.arange(1.0, 51.0)[None])
    with h5py.File(path) as file:
        assert file["u"].shape == (50, 64, 64, 20)
    a, later = read(path, "u[..., 0:10]", "u[..., 10:20]", samples=slice(0, 15))
    assert np.array_equal(a, u[:15, :, :, :10])
    assert np.array_equal(later, u[:15, :, :, 10:20])
    assert a.flags.c_contiguous


def test_fortran_order_makes_no_difference_in_npz(tmp_path):
    a, u = fields()
    np.savez_compressed(tmp_path / "data.npz", inputs=np.asfortranarray(a), outputs=np.asfortranarray(u))
    found = read(tmp_path / "data.npz", samples=slice(3, 9), stride=2)
    assert np.array_equal(found[1], u[3:9, ::2, ::2, ::2])


def test_npy_files_are_mapped_not_read(tmp_path):
    a, u = fields()
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "u.npy", u)
    found = read(tmp_path / "a.npy", outputs=str(tmp_path / "u.npy"), samples=slice(4), stride=(3,))
    assert isinstance(found[0], np.memmap)
    assert np.array_equal(found[0], a[:4, ::3])
    assert np.array_equal(found[1], u[:4, ::3])


def test_one_npy_file_can_hold_both_sides(tmp_path):
    _, u = fields()
    np.save(tmp_path / "u.npy", u)
    found = read(tmp_path / "u.npy", "[..., 0]", "[..., 1:3]")
    assert np.array_equal(found[0], u[..., 0])
    assert np.array_equal(found[1], u[..., 1:3])


def test_a_missing_npy_file_of_outputs_is_named(tmp_path):
    np.save(tmp_path / "a.npy", fields()[0])
    with pytest.raises(DataFileError, match=r"no data file nowhere\.npy for the outputs"):
        read(tmp_path / "a.npy", outputs="nowhere.npy")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataFileError, match=r"There is no data file .*none\.npz"):
        read(tmp_path / "none.npz")


def test_an_unknown_ending_lists_the_known_ones(tmp_path):
    (tmp_path / "data.csv").write_text("1,2")
    with pytest.raises(
        DataFileError, match=r"'\.csv': \.npz, \.npy, \.mat, \.h5, \.hdf5, \.nc, \.zarr, \.vtu, .* can be read"
    ):
        read(tmp_path / "data.csv")


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path):
    (tmp_path / "data.npz").mkdir()
    with pytest.raises(DataFileError, match="is a folder"):
        read(tmp_path / "data.npz")


def test_a_key_that_contains_brackets_is_taken_as_it_stands(tmp_path):
    a, _ = fields()
    np.savez(tmp_path / "data.npz", **{"u[m/s]": a, "u": 2 * a})
    assert np.array_equal(read(tmp_path / "data.npz", "u[m/s]", None)[0], a)


@pytest.mark.parametrize("index", ["__import__('os')", "1.5", "a", "None", "0:b", "", "9" * 30, "[0]", "0:1:2:3"])
def test_an_index_of_anything_but_integers_and_slices_is_refused(index):
    with pytest.raises(DataFileError, match="is no index"):
        parse_index(index)


@pytest.mark.parametrize(
    "key", ["u[..., ...]", "u[0, 0, 0, 0, 0]", "u[99]", "u[..., 0:99]", "u[::-1]", "u[::0]", "u[0:2"]
)
def test_an_index_that_does_not_fit_is_refused(tmp_path, key):
    path = write(tmp_path, ".npz", *fields())
    with pytest.raises(DataFileError):
        read(path, key, None)


def test_an_index_that_leaves_one_number_is_refused(tmp_path):
    with pytest.raises(DataFileError, match="is one number"):
        read(write(tmp_path, ".npz", *fields()), "u[0, 0, 0, 0]", None)


def test_more_samples_than_there_are_is_refused_with_both_numbers(tmp_path):
    with pytest.raises(DataFileError, match="0:100 reaches beyond the 12 there are"):
        read(write(tmp_path, ".h5", *fields()), "a", "u", samples=slice(0, 100))


def test_an_empty_range_of_samples_is_refused(tmp_path):
    with pytest.raises(DataFileError, match="nothing is selected"):
        read(write(tmp_path, ".h5", *fields()), "a", "u", samples=slice(3, 3))


@pytest.mark.parametrize("stride", [0, -1, 1.5, True, (2, 0)])
def test_a_stride_that_is_no_positive_number_is_refused(tmp_path, stride):
    with pytest.raises(ValueError, match="stride must be whole numbers of at least 1"):
        read(write(tmp_path, ".npz", *fields()), "a", "u", stride=stride)


def test_a_stride_with_more_numbers_than_axes_is_refused(tmp_path):
    with pytest.raises(DataFileError, match=r"stride has 3 numbers, but the grid of .* has 2 axes"):
        read(write(tmp_path, ".npz", *fields()), "a", "u", stride=(1, 1, 1))


bound = st.none() | st.integers(-6, 6)
part = st.integers(-6, 6) | st.builds(slice, bound, bound, st.none() | st.integers(1, 3))


@settings(deadline=None, max_examples=150)
@given(
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple),
    before=st.lists(part, max_size=2),
    after=st.lists(part, max_size=2),
    samples=st.none() | st.builds(slice, bound, bound, st.none() | st.integers(1, 3)),
    stride=st.integers(1, 3),
    fortran=st.booleans(),
)
def test_what_is_selected_equals_numpy_indexing_or_is_refused(shape, before, after, samples, stride, fortran):
    from pcarann.problems.formats.npz import _stream

    array = np.arange(np.prod(shape)).reshape(shape)
    try:
        selection = select(shape, (*before, ..., *after), samples, stride, "array")
    except DataFileError:
        return
    expected = array[(*before, ..., *after)]
    expected = expected[slice(None) if samples is None else samples]
    expected = expected[(slice(None), *[slice(None, None, stride)] * (expected.ndim - 1))]
    assert np.array_equal(array[slices(selection)], expected)
    if fortran:
        file = io.BytesIO(array.tobytes(order="F"))
        assert np.array_equal(_stream(file, shape[::-1], array.dtype, selection[::-1], "file").T, expected)
    else:
        assert np.array_equal(_stream(io.BytesIO(array.tobytes()), shape, array.dtype, selection, "file"), expected)


def peak_bytes(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("ending", [".npz", "73.mat", ".h5", ".nc", ".npy"])
def test_memory_follows_what_is_asked_for_not_the_file(tmp_path, ending):
    u = np.zeros((400, 200, 200))  # 128 MB
    path = tmp_path / f"data{ending}"
    if ending == ".npy":
        np.save(path, u)
    elif ending == "73.mat":
        write_matlab_73(path, u=u)
    elif ending == ".npz":
        np.savez(path, u=u)
    elif ending == ".nc":
        xarray.Dataset({"u": (("s", "x", "y"), u)}).to_netcdf(path, engine="h5netcdf")
    else:
        with h5py.File(path, "w") as file:
            file["u"] = u
    del u
    read(path, "[:2]", None)  # imports are not counted
    peak = peak_bytes(lambda: read(path, "", None, samples=slice(0, 400, 40), stride=2))
    assert peak < 30e6  # the part asked for is 0.8 MB, a slab of a stream 8 MB


def test_a_missing_package_is_one_sentence_with_the_command(tmp_path, monkeypatch):
    path = write(tmp_path, ".h5", *fields())
    original = importlib.import_module

    def without_h5py(name, *rest):
        if name == "h5py":
            raise ModuleNotFoundError(name)
        return original(name, *rest)

    monkeypatch.setattr("pcarann.problems.formats.import_module", without_h5py)
    with pytest.raises(ImportError, match=r"needs h5py: install it with pip install 'pcarann\[formats\]'"):
        read(path, "a", "u")


class Trap:
    """An object whose unpickling leaves a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_objects_in_npz_are_refused_unopened(tmp_path):
    np.savez(tmp_path / "data.npz", inputs=np.array([Trap(tmp_path / "sprung")] * 3), outputs=np.ones((3, 2)))
    with pytest.raises(DataFileError, match=r"\[inputs\] holds objects, which are never read"):
        read(tmp_path / "data.npz")
    assert not (tmp_path / "sprung").exists()


def test_objects_in_npy_are_refused_unopened(tmp_path):
    np.save(tmp_path / "data.npy", np.array([Trap(tmp_path / "sprung")] * 3), allow_pickle=True)
    with pytest.raises(DataFileError, match="holds objects"):
        read(tmp_path / "data.npy")
    assert not (tmp_path / "sprung").exists()


def test_objects_in_npz_do_not_stand_in_the_way_of_numbers(tmp_path):
    np.savez(tmp_path / "data.npz", inputs=np.ones((3, 2)), notes=np.array([{"by": "me"}]))
    assert read(tmp_path / "data.npz", "inputs", None)[0].shape == (3, 2)
    assert describe(tmp_path / "data.npz")["notes"] == "1 object"


def npy_header(shape):
    text = str({"descr": "<f8", "fortran_order": False, "shape": shape}).ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


@pytest.mark.parametrize("shape", [(10**9, 10**9), (5, 3), (2, 2), (-2, -3), (-1,)])
def test_a_lying_npy_header_is_refused(tmp_path, shape):
    (tmp_path / "data.npy").write_bytes(npy_header(shape) + bytes(48))
    with pytest.raises(DataFileError, match=r"claims shape .* but holds 48 bytes"):
        read(tmp_path / "data.npy")


@pytest.mark.parametrize("shape", [(10**9, 10**9), (5, 3), (2, 2), (-2, -3)])
def test_a_lying_header_in_npz_is_refused(tmp_path, shape):
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
        archive.writestr("inputs.npy", npy_header(shape) + bytes(48))
    with pytest.raises(DataFileError, match=r"claims shape .* but holds 48 bytes"):
        read(tmp_path / "data.npz", "inputs", None)


def test_an_honest_header_of_the_same_make_is_read(tmp_path):
    (tmp_path / "data.npy").write_bytes(npy_header((2, 3)) + bytes(48))
    assert read(tmp_path / "data.npy")[0].shape == (2, 3)


def test_a_zip_bomb_is_refused(tmp_path):
    path, n = tmp_path / "data.npz", (2**31 - 128) // 8
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inputs.npy", npy_header((n, 1)) + bytes(10**6))
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = struct.pack("<I", 2**31)  # the size when unpacked
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=r"would unpack .* into 2147483648"):
        read(path, "inputs", None)


def test_a_member_shorter_than_it_claims_is_refused(tmp_path):
    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inputs.npy", npy_header((10**6, 1)) + bytes(10**5))
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = struct.pack("<I", 128 + 8 * 10**6)
    path.write_bytes(content)
    with pytest.raises(DataFileError):
        read(path, "inputs", None)


def test_an_hdf5_bomb_is_refused(tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_dataset("inputs", shape=(10**6, 10**6), dtype="f8", chunks=(100, 100), compression="gzip")
    with pytest.raises(DataFileError, match="would unpack"):
        read(tmp_path / "data.h5", "inputs", None)


def outside(tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["u"] = np.ones((3, 2))
    return tmp_path / "secret.h5"


@pytest.mark.parametrize("ending", [".h5", ".mat", ".nc"])
def test_an_external_link_is_refused(tmp_path, ending):
    with h5py.File(tmp_path / f"data{ending}", "w") as file:
        file["inputs"] = h5py.ExternalLink(str(outside(tmp_path)), "u")
    with pytest.raises(DataFileError, match=r"a link to another file, '.*secret\.h5', which is not followed"):
        read(tmp_path / f"data{ending}", "inputs", None)


def test_a_soft_link_that_leads_out_is_refused(tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["group/door"] = h5py.ExternalLink(str(outside(tmp_path)), "/")
        file["inputs"] = h5py.SoftLink("/group/door/u")
    with pytest.raises(DataFileError, match="a link to another file"):
        read(tmp_path / "data.h5", "inputs", None)


def test_a_soft_link_inside_the_file_is_followed(tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["group/u"] = np.ones((3, 2))
        file["inputs"] = h5py.SoftLink("/group/u")
        file["nowhere"] = h5py.SoftLink("/gone")
        file["circle"] = h5py.SoftLink("/circle")
    assert read(tmp_path / "data.h5", "inputs", "group/u")[0].shape == (3, 2)
    assert list(describe(tmp_path / "data.h5")) == ["group/u", "inputs"]


@pytest.mark.parametrize("ending", [".h5", ".nc"])
def test_a_virtual_dataset_is_refused(tmp_path, ending):
    layout = h5py.VirtualLayout((3, 2), dtype="f8")
    layout[:] = h5py.VirtualSource(outside(tmp_path), "u", shape=(3, 2))
    with h5py.File(tmp_path / f"data{ending}", "w") as file:
        file.create_virtual_dataset("inputs", layout)
    with pytest.raises(DataFileError, match="is a virtual dataset"):
        read(tmp_path / f"data{ending}", "inputs", None)


def test_numbers_kept_in_another_file_are_refused(tmp_path):
    (tmp_path / "raw").write_bytes(np.ones(6).tobytes())
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_dataset("inputs", (3, 2), "f8", external=[(str(tmp_path / "raw"), 0, 48)])
    with pytest.raises(DataFileError, match="keeps its numbers in another file"):
        read(tmp_path / "data.h5", "inputs", None)


def test_objects_in_hdf5_are_refused(tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_dataset("inputs", (3,), dtype=h5py.vlen_dtype(np.float64))
    with pytest.raises(DataFileError, match="holds objects"):
        read(tmp_path / "data.h5", "inputs", None)


def test_cells_and_structures_in_mat_are_refused(tmp_path):
    cells = np.array([np.ones(2), np.ones(3)], dtype=object)
    scipy.io.savemat(tmp_path / "data.mat", {"inputs": cells, "outputs": {"u": np.ones(3)}, "text": "abc"})
    for key, reason in (("inputs", "holds objects"), ("outputs", "holds objects"), ("text", "must hold real numbers")):
        with pytest.raises(DataFileError, match=reason):
            read(tmp_path / "data.mat", key, None)


@pytest.mark.parametrize("ending", [".npz", ".mat", ".h5"])
def test_complex_numbers_are_refused(tmp_path, ending):
    path = tmp_path / f"data{ending}"
    waves = np.ones((3, 2)) * 1j
    if ending == ".npz":
        np.savez(path, inputs=waves)
    elif ending == ".mat":
        scipy.io.savemat(path, {"inputs": waves})
    else:
        with h5py.File(path, "w") as file:
            file["inputs"] = waves
    with pytest.raises(DataFileError, match="must hold real numbers, found complex128"):
        read(path, "inputs", None)


def test_a_zarr_store_with_a_pickle_codec_is_refused_unread(tmp_path):
    store = tmp_path / "data.zarr"
    (store / "x").mkdir(parents=True)
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    array = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "order": "C", "fill_value": None}
    array |= {"compressor": None, "filters": [{"id": "p\u0069ckle", "protocol": 5}]}
    (store / "x" / ".zarray").write_text(json.dumps(array))
    (store / "x" / ".zattrs").write_text('{"_ARRAY_DIMENSIONS": ["x"]}')
    (store / "x" / "0").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    with pytest.raises(DataFileError, match="could run code"):
        read(store, "x", None)
    assert not (tmp_path / "sprung").exists()


def test_packed_integers_in_netcdf_are_unpacked(tmp_path):
    a = np.round(fields()[0], 2)
    packed = {"a": {"dtype": "int16", "scale_factor": 0.01, "add_offset": 1.0, "_FillValue": -32768}}
    xarray.Dataset({"a": (("s", "x", "y"), a)}).to_netcdf(tmp_path / "data.nc", engine="h5netcdf", encoding=packed)
    assert np.allclose(read(tmp_path / "data.nc", "a", None)[0], a, atol=1e-12)


def test_a_zarr_store_with_a_symbolic_link_is_refused(tmp_path):
    store = write(tmp_path, ".zarr", *fields())
    (store / "link").symlink_to(tmp_path)
    with pytest.raises(DataFileError, match="is a symbolic link"):
        read(store, "a", "u")


def test_an_array_deep_in_a_zarr_store_is_read_by_its_path(tmp_path):
    group = zarr.open_group(tmp_path / "data.zarr", mode="w").create_group("run/one")
    group.create_array("u", data=fields()[0])
    assert np.array_equal(read(tmp_path / "data.zarr", "run/one/u", None)[0], fields()[0])


def test_a_zarr_store_that_is_one_array_has_the_name_of_its_folder(tmp_path):
    zarr.save(tmp_path / "data.zarr", fields()[0])
    assert np.array_equal(read(tmp_path / "data.zarr", "data[2:5]", None)[0], fields()[0][2:5])


def test_a_zarr_bomb_without_named_dimensions_is_refused(tmp_path):
    group = zarr.open_group(tmp_path / "data.zarr", mode="w")
    group.create_array("inputs", shape=(10**6, 10**6), chunks=(100, 100), dtype="f8")
    with pytest.raises(DataFileError, match="would unpack"):
        read(tmp_path / "data.zarr", "inputs", None)


def test_of_a_zarr_store_without_named_dimensions_only_the_chunks_wanted_are_read(tmp_path):
    path = write(tmp_path, "plain3.zarr", *fields())
    for chunk in (path / "a" / "c" / "1").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(b"damaged")
    assert np.array_equal(read(path, "a[:5]", None)[0], fields()[0][:5])
    with pytest.raises(DataFileError, match="cannot be read"):
        read(path, "a", None)


def test_a_pickle_codec_without_named_dimensions_is_refused_unread(tmp_path):
    store = tmp_path / "data.zarr"
    (store / "x").mkdir(parents=True)
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    array = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "order": "C", "fill_value": None}
    array |= {"compressor": None, "filters": [{"id": "pickle", "protocol": 5}]}
    (store / "x" / ".zarray").write_text(json.dumps(array))
    (store / "x" / "0").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    with pytest.raises(DataFileError, match="could run code"):
        read(store, "x", None)
    assert not (tmp_path / "sprung").exists()


def test_packed_numbers_without_named_dimensions_are_not_taken_as_they_lie(tmp_path):
    group = zarr.open_group(tmp_path / "data.zarr", mode="w")
    group.create_array("inputs", data=np.ones((3, 2), "i2")).attrs["scale_factor"] = 0.01
    with pytest.raises(DataFileError, match=r"\[inputs\] is packed \(scale_factor\)"):
        read(tmp_path / "data.zarr", "inputs", None)


def test_a_pipe_in_a_zarr_store_is_refused(tmp_path):
    store = write(tmp_path, "plain3.zarr", *fields())
    os.mkfifo(store / "b")
    with pytest.raises(DataFileError, match="b is not a regular file"):
        read(store, "a", "u")


@pytest.mark.parametrize("name", ["flow.vtp", "flow.PVD", "case.foam", "part.stl"])
def test_a_mesh_of_another_kind_is_called_a_mesh(tmp_path, name):
    (tmp_path / name).write_text('<VTKFile type="UnstructuredGrid">')
    with pytest.raises(DataFileError, match=r"is a mesh of a kind \(\w+\) that is not read: convert it to \.vtu"):
        describe(tmp_path / name)


def test_a_file_without_an_ending_is_said_to_have_none(tmp_path):
    (tmp_path / "data").write_text("1,2,3")
    with pytest.raises(DataFileError, match=r"data has no ending: \.npz, .* can be read"):
        read(tmp_path / "data")


def test_the_files_that_are_read_are_those_without_their_index(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.npy", "u.npy"):
        np.save(name, np.ones((3, 2)))
    assert files_read("a.npy", "u.npy[0:2]") == (Path("a.npy"), Path("u.npy"))
    assert files_read("a.npy", "outputs") == (Path("a.npy"), Path("a.npy"))
    assert files_read("data.npz", "u.npy") == (Path("data.npz"),)
    assert files_read("data.npz", {"u": "sol", "v": "other.h5:v[0:2]"}) == tuple(
        map(Path, ("data.npz", "data.npz", "other.h5"))
    )


# Several parts by name


def test_parts_are_read_by_name_from_one_file(tmp_path):
    a, u = fields()
    np.savez(tmp_path / "data.npz", k=a, f=2 * a, u=u)
    inputs, outputs = read(tmp_path / "data.npz", {"perm": "k", "force": "f[:, 0]"}, "u", samples=slice(2, 5))
    assert list(inputs) == ["perm", "force"]
    assert np.array_equal(inputs["perm"], a[2:5])
    assert np.array_equal(inputs["force"], 2 * a[2:5, 0])
    assert np.array_equal(outputs, u[2:5])


def test_parts_are_read_from_several_files(tmp_path):
    a, u = fields()
    np.savez(tmp_path / "data.npz", k=a)
    np.save(tmp_path / "f.npy", 3 * a)
    other = write(tmp_path, ".h5", a, u)
    keys = {"k": "k", "f": f"{tmp_path / 'f.npy'}[:, :2]", "a": f"{other}:a[..., 0:3]"}
    inputs, outputs = read(tmp_path / "data.npz", keys, {"u": f"{other}:u", "v": f"{other}:u[..., 0]"})
    assert np.array_equal(inputs["f"], 3 * a[:, :2])
    assert np.array_equal(inputs["a"], a[..., 0:3])
    assert np.array_equal(outputs["u"], u)
    assert np.array_equal(outputs["v"], u[..., 0])


def test_parts_with_other_numbers_of_samples_are_named(tmp_path):
    np.savez(tmp_path / "data.npz", k=np.ones((5, 2)), u=np.ones((4, 2)))
    with pytest.raises(DataFileError, match="5 inputs a and 4 inputs b and 4 outputs were found"):
        read(tmp_path / "data.npz", {"a": "k", "b": "u"}, "u")


def test_a_part_that_is_not_there_is_named(tmp_path):
    np.savez(tmp_path / "data.npz", k=np.ones((5, 2)))
    with pytest.raises(DataFileError, match="no array 'q': it holds k"):
        read(tmp_path / "data.npz", {"a": "q"}, None)
    with pytest.raises(DataFileError, match=r"no data file .*none\.h5"):
        read(tmp_path / "data.npz", {"a": "none.h5:q"}, None)


@pytest.mark.parametrize("ending", [".npz", ".npy", ".mat", ".h5", ".nc"])
def test_a_named_pipe_is_not_waited_for(tmp_path, ending):
    os.mkfifo(tmp_path / f"data{ending}")
    with pytest.raises(DataFileError, match="is not a regular file"):
        read(tmp_path / f"data{ending}")


def test_a_large_array_is_described_without_its_numbers(tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_dataset("u", shape=(10**5, 10**5), dtype="f4", chunks=(100, 100))
    assert describe(tmp_path / "data.h5") == {"u": "100000×100000 float32"}


def test_a_bad_array_is_described_as_such(tmp_path):
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
        archive.writestr("bad.npy", npy_header((5, 3)) + bytes(48))
        archive.writestr("good.npy", npy_header((2, 3)) + bytes(48))
    facts = describe(tmp_path / "data.npz")
    assert facts["bad"].startswith("not readable: ")
    assert facts["good"] == "2×3 float64, from 0 to 0"


# What is unpacked is bounded, and what is lost is missed


def test_a_bomb_below_a_ratio_of_a_thousand_is_refused(tmp_path):
    path, rng = tmp_path / "data.npz", np.random.default_rng(0)
    content = bytes(60_000_000)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inputs.npy", npy_header((7_500_000, 1)) + content)
    with pytest.raises(DataFileError, match=r"would unpack \d+ bytes into 60000128, .* limit='61MB'"):
        read(path, "inputs", None, limit="50MB")
    assert read(path, "inputs", None, limit="61MB")[0].shape == (7_500_000, 1)
    np.savez_compressed(path, inputs=rng.integers(0, 4, (1000, 100)).astype(float))
    assert read(path, "inputs", None, limit=0)[0].shape == (1000, 100)


def test_an_hdf5_file_with_one_giant_chunk_is_refused_whatever_is_selected(tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_dataset("inputs", shape=(10, 10**7), dtype="f8", chunks=(10, 10**7), compression="gzip")
    with pytest.raises(DataFileError, match="would unpack"):
        read(tmp_path / "data.h5", "inputs[:2, 0:1]", None, fill=True)


@pytest.mark.parametrize("ending", [".h5", ".nc", ".mat"])
def test_a_lost_chunk_of_hdf5_is_an_error_unless_fill_values_are_asked_for(tmp_path, ending):
    path = tmp_path / f"data{ending}"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("inputs", shape=(8, 6), dtype="f8", chunks=(4, 6), fillvalue=0.0)
        dataset[:4] = 1.0
        file.create_dataset("never", shape=(8, 6), dtype="f8")
        if ending == ".nc":
            for axis, name in enumerate("xy"):
                file[name] = np.arange(dataset.shape[axis])
                file[name].make_scale(name)
                for one in ("inputs", "never"):
                    file[one].dims[axis].attach_scale(file[name])
    matlab = ending == ".mat"
    with pytest.raises(DataFileError, match=r"\[inputs\]: the chunk at \(4, 0\) is not there.* fill=True"):
        read(path, "inputs", None)
    assert read(path, "inputs[:, :4]" if matlab else "inputs[:4]", None)[0].all()
    assert read(path, "inputs", None, fill=True)[0].sum() == 24
    with pytest.raises(DataFileError, match="was never written"):
        read(path, "never", None)
    assert not read(path, "never", None, fill=True)[0].any()


@pytest.mark.parametrize("more", [{}, {"fletcher32": True}, {"fletcher32": True, "shuffle": True}])
def test_a_deflated_chunk_that_unpacks_to_more_than_it_says_is_refused(tmp_path, more):
    import zlib

    with h5py.File(tmp_path / "data.h5", "w") as file:
        dataset = file.create_dataset("inputs", shape=(8, 6), dtype="f8", chunks=(4, 6), compression="gzip", **more)
        dataset[:] = 1.0
        dataset.id.write_direct_chunk((4, 0), zlib.compress(bytes(60_000_000)) + b"sums" * ("fletcher32" in more))
    with pytest.raises(DataFileError, match=r"chunk at \(4, 0\), would unpack to more than"):
        read(tmp_path / "data.h5", "inputs", None, limit="10MB")
    assert read(tmp_path / "data.h5", "inputs[:4]", None, limit="10MB")[0].all()


def test_chunks_of_hdf5_that_were_not_deflated_or_have_a_checksum_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("pcarann.problems.formats.hdf5.could_swell", lambda *_: True)
    options = {"chunks": (4, 6), "compression": "gzip", "fletcher32": True, "shuffle": True}
    with h5py.File(tmp_path / "data.h5", "w") as file:
        dataset = file.create_dataset("inputs", data=np.ones((8, 6)), **options)
        dataset.id.write_direct_chunk((4, 0), np.full((4, 6), 2.0).tobytes(), filter_mask=7)
    found = read(tmp_path / "data.h5", "inputs", None)[0]
    assert (found[:4] == 1).all()
    assert (found[4:] == 2).all()


def test_a_filter_of_hdf5_that_is_not_known_is_refused(tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((4, 2))
        plist.set_filter(40000, h5py.h5z.FLAG_OPTIONAL, ())
        space = h5py.h5s.create_simple((4, 2))
        h5py.h5d.create(file.id, b"inputs", h5py.h5t.NATIVE_DOUBLE, space, plist)
    with pytest.raises(DataFileError, match="filter 40000, which is not known"):
        read(tmp_path / "data.h5", "inputs", None)


@pytest.mark.parametrize("limit", [-5, "much", None])
def test_a_limit_that_is_none_is_refused(tmp_path, limit):
    with pytest.raises(ValueError, match="memory must be a number of bytes"):
        read(write(tmp_path, ".npz", *fields()), "a", None, limit=limit)


def test_the_chunks_that_a_selection_touches_are_counted_as_they_are():
    from pcarann.problems.formats import chunks_touched

    shape, chunk = (13, 7), (3, 2)
    for selection in ((range(13), range(7)), (range(1, 13, 5), range(0, 7, 3)), (4, range(2, 3)), (range(12, 13), 6)):
        rows, columns = (([p] if isinstance(p, int) else list(p)) for p in selection)
        expected = {(i // chunk[0], j // chunk[1]) for i in rows for j in columns}
        assert set(chunks_touched(selection, chunk)) == expected
        assert all(i * c < n for numbers in expected for i, c, n in zip(numbers, chunk, shape, strict=True))


# What fuzzing found


def mat_tag(path, packed, change):
    """A `.mat` file with the bytes of its one variable changed, compressed again where it was."""
    scipy.io.savemat(path, {"a": np.arange(12.0).reshape(3, 4)}, do_compression=False)
    head, element = path.read_bytes()[:128], bytearray(path.read_bytes()[128:])
    change(element)
    if packed:
        inner = zlib.compress(bytes(element))
        element = struct.pack("<II", 15, len(inner)) + inner
    path.write_bytes(head + bytes(element))


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("kind", [0, 8, 127, 2**16 - 1])
def test_numbers_of_a_type_that_matlab_has_not_are_refused_and_end_no_process(tmp_path, packed, kind):
    def change(element):
        struct.pack_into("<I", element, 8 + 16 + 16 + 8, kind)  # behind the tag, flags, dimensions and the name

    mat_tag(tmp_path / "a.mat", packed, change)
    with pytest.raises(DataFileError, match="damaged or cut short"):
        read(tmp_path / "a.mat", "a", None)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_numbers_longer_than_their_variable_are_refused(tmp_path, packed):
    def change(element):
        struct.pack_into("<I", element, 8 + 16 + 16 + 8 + 4, 2**31)

    mat_tag(tmp_path / "a.mat", packed, change)
    with pytest.raises(DataFileError):
        read(tmp_path / "a.mat", "a", None)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_a_sound_variable_is_read_whatever_stands_in_others(tmp_path, packed):
    path = tmp_path / "a.mat"
    long = "a_name_of_more_than_four_letters"
    scipy.io.savemat(
        path, {"words": "text", "a": np.arange(12.0).reshape(3, 4), long: np.eye(3)}, do_compression=packed
    )
    assert np.array_equal(read(path, "a", long)[0], np.arange(12.0).reshape(3, 4))


def test_a_header_of_brackets_is_no_lack_of_memory(tmp_path):
    header = b"[" * 500 + b"\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    with pytest.raises(DataFileError, match=r"is not a NumPy array: [^.]"):
        read(tmp_path / "a.npy", outputs=None)


@pytest.mark.filterwarnings("ignore:The 'phony_dims'")
def test_a_great_many_words_in_netcdf_are_left_unread(tmp_path):
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["a"] = np.ones((3, 4))
        file.create_dataset("words", (10**9, 10**6), h5py.string_dtype(), chunks=(1, 1))
    assert read(tmp_path / "a.nc", "a", None)[0].shape == (3, 4)
