import sys

import numpy as np
import pytest

from pcarann.problems import read
from pcarann.problems.readers import DataFileError

A, U = np.random.default_rng(0).normal(size=(20, 4, 6)), np.random.default_rng(1).normal(size=(20, 3))


def written(tmp_path, ending):
    path = tmp_path / f"data{ending}"
    if ending == ".npy":
        np.save(path, A)
        np.save(tmp_path / "u.npy", U)
    elif ending == ".h5":
        with pytest.importorskip("h5py").File(path, "w") as file:
            file["inputs"], file["outputs"] = A, U
    else:
        xarray = pytest.importorskip("xarray")
        data = xarray.Dataset({"inputs": (("n", "x", "y"), A), "outputs": (("n", "z"), U)})
        data.to_netcdf(path) if ending == ".nc" else data.to_zarr(path, consolidated=False)
    return path


@pytest.mark.parametrize("ending", [".npy", ".h5", ".nc", ".zarr"])
def test_files_are_read_lazily_and_by_blocks(tmp_path, ending):
    path = written(tmp_path, ending)
    outputs = str(tmp_path / "u.npy") if ending == ".npy" else "outputs"
    a, u = read(path, outputs=outputs, chunks=6, samples=slice(2, 20), stride=(2,))
    assert (a.chunks[0], u.chunks) == ((6, 6, 6), ((6, 6, 6), (2,)))
    assert np.array_equal(a.compute(), A[2:, ::2])
    assert np.array_equal(u[5:9].compute(), U[2:, ::2][5:9])
    whole, _ = read(path, outputs=outputs, chunks="auto")
    assert np.array_equal(whole.compute(), A)


def test_files_that_cannot_be_read_by_blocks_are_refused(tmp_path):
    np.savez(tmp_path / "data.npz", inputs=A, outputs=U)
    with pytest.raises(DataFileError, match="cannot be read by blocks"):
        read(tmp_path / "data.npz", chunks=5)


def test_words_are_refused_by_blocks_too(tmp_path):
    np.save(tmp_path / "words.npy", np.array([["a"], ["b"]]))
    with pytest.raises(DataFileError, match="must hold real numbers, found <U1"):
        read(tmp_path / "words.npy", outputs=None, chunks=1)


def test_without_dask_blocks_are_refused_with_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.array", None)
    np.save(tmp_path / "a.npy", A)
    with pytest.raises(ImportError, match=r"chunks need Dask: install it with pip install 'pcarann\[scale\]'"):
        read(tmp_path / "a.npy", outputs=None, chunks=1)
