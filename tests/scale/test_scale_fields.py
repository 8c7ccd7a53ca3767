import dask.array as da
import numpy as np
import pytest
from distributed import Client
from hypothesis import given
from hypothesis import strategies as st

from pcarann.scale.engine import Budget, Reading
from pcarann.scale.fields import checked_lazy, cut_along, matrix_of, rows_of


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(300, 20_000))
def test_cuts_cover_all_samples_once_and_fit(sizes, memory):
    matrix = da.zeros((sum(sizes), 3), chunks=(tuple(sizes), 3))
    if 2 * 24 * max(sizes) > memory:
        return
    cut = cut_along(matrix, 0, Budget(memory, 1, 1), "X") if sum(sizes) < 2 else quiet_cut(matrix, memory)
    assert [part.start for part in cut.parts[1:]] == [part.stop for part in cut.parts[:-1]]
    assert (cut.parts[0].start, cut.parts[-1].stop) == (0, sum(sizes))
    assert all(6 * 24 * (part.stop - part.start) <= max(memory, 6 * 24) for part in cut.parts)


def quiet_cut(matrix, memory):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cut_along(matrix, 0, Budget(memory, 1, 1), "X")


def test_fields_become_rows_without_cutting_samples():
    array = np.arange(24.0 * 5).reshape(5, 4, 3, 2)
    matrix = matrix_of(da.from_array(array, chunks=(2, 2, 1, 2)))
    assert matrix.chunks == ((2, 2, 1), (12, 12))
    assert np.array_equal(matrix.compute(), array.reshape(5, -1))
    assert np.array_equal(rows_of(matrix, [3, 0, 3]), array.reshape(5, -1)[[3, 0, 3]])


def blocks_of(array):
    return quiet_cut(matrix_of(array), 4000).blocks(matrix_of(array))


def test_one_task_reads_a_block_with_all_its_chunks(tmp_path):
    known = np.random.default_rng(0).normal(size=(60, 4))
    da.from_array(known, chunks=(6, 4)).to_zarr(str(tmp_path / "a.zarr"))
    blocks = blocks_of(da.from_zarr(str(tmp_path / "a.zarr")))
    assert len(blocks) > 2
    assert all(isinstance(block, Reading) for block in blocks)
    assert (np.concatenate([block() for block in blocks]) == known).all()


def test_arrays_in_memory_and_what_workers_hold_do_not_travel_with_every_block(tmp_path, cluster):
    known = np.random.default_rng(0).normal(size=(60, 4))
    np.save(tmp_path / "a.npy", known)
    mapped = da.from_array(np.load(tmp_path / "a.npy", mmap_mode="r"), chunks=(6, 4))
    with Client(cluster):
        for array in (mapped, da.from_array(known, chunks=(6, 4)).persist()):
            blocks = blocks_of(array)
            assert not any(isinstance(block, Reading) for block in blocks)
            assert (np.concatenate([block.compute() for block in blocks]) == known).all()


def test_what_several_blocks_need_is_not_made_for_each_of_them():
    made = []
    known = np.random.default_rng(0).normal(size=(60, 4))
    raw = da.map_blocks(
        lambda n: made.append(n) or known[6 * int(n[0, 0]) :][:6], da.arange(10, chunks=1)[:, None] + da.zeros((1, 1)),
        chunks=((6,) * 10, (4,)), dtype=float, meta=np.empty((0, 0)),
    )  # fmt: skip
    array = raw - raw.mean(axis=0)
    blocks = blocks_of(array)
    assert len(blocks) > 2
    assert not any(isinstance(block, Reading) for block in blocks)
    assert np.allclose(np.concatenate(da.compute(*blocks, scheduler="sync")), known - known.mean(axis=0))
    assert len(made) <= 20  # once for the mean, once for the blocks: Dask joins tasks of each


@pytest.mark.parametrize("kind", [str, object])
def test_blocks_that_are_not_what_their_array_declares_are_refused(kind):
    import dask

    values = np.arange(12.0).reshape(4, 3).astype(kind)
    lazy = da.from_delayed(dask.delayed(lambda: values)(), shape=(4, 3), dtype=np.float64)
    with pytest.raises(ValueError, match="X must hold real numbers"):
        checked_lazy(lazy, "X").compute()
