"""Zarr stores: lost chunks, chunks that swell, codecs that are not known."""

import json
import os

import numcodecs
import numpy as np
import pytest
import xarray
import zarr

from pcarann.problems import DataFileError, read
from pcarann.problems.formats.stores import check_store

DATA = np.random.default_rng(0).standard_normal((12, 8))


def store(path, version=3, **options):
    group = zarr.open_group(path, mode="w", zarr_format=version)
    group.create_array("a", data=DATA, **{"chunks": (4, 4)} | options)
    return path


def named(path, version=3, **encoding):
    dataset = xarray.Dataset({"a": (("s", "x"), DATA)})
    dataset.to_zarr(path, consolidated=False, zarr_format=version, encoding={"a": {"chunks": (4, 4)} | encoding})
    return path


def chunks(path):
    """The files of the chunks of `a`."""
    found = [one for one in (path / "a").rglob("*") if one.is_file()]
    return sorted(one for one in found if not one.name.startswith(".") and one.name != "zarr.json")


every_store = pytest.mark.parametrize("make", [store, named])
every_version = pytest.mark.parametrize("version", [2, 3])


@every_store
@every_version
def test_a_lost_chunk_is_an_error_unless_fill_values_are_asked_for(tmp_path, make, version):
    path = make(tmp_path / "data.zarr", version)
    chunks(path)[-1].unlink()
    with pytest.raises(DataFileError, match=r"\[a\]: the chunk .*2.1 is not there.* fill=True"):
        read(path, "a", None)
    assert np.array_equal(read(path, "a[:8]", None)[0], DATA[:8])
    if make is store:
        found = read(path, "a", None, fill=True)[0]
        assert np.array_equal(found[:8], DATA[:8])
        assert not found[8:, 4:].any()


def test_a_chunk_of_zeros_that_was_not_written_is_read_where_that_is_asked_for(tmp_path):
    group = zarr.open_group(tmp_path / "data.zarr", mode="w")
    group.create_array("a", data=np.zeros((4, 3)))
    with pytest.raises(DataFileError, match=r"holds the fill value 0\.0 alone"):
        read(tmp_path / "data.zarr", "a", None)
    assert not read(tmp_path / "data.zarr", "a", None, fill=True)[0].any()


@every_store
def test_a_lost_shard_is_an_error(tmp_path, make):
    path = make(tmp_path / "data.zarr", shards=(8, 8))
    assert np.array_equal(read(path, "a", None)[0], DATA)
    chunks(path)[0].unlink()
    with pytest.raises(DataFileError, match="is not there"):
        read(path, "a", None)


@every_version
def test_one_giant_chunk_is_refused_whatever_is_selected(tmp_path, version):
    group = zarr.open_group(tmp_path / "data.zarr", mode="w", zarr_format=version)
    group.create_array("a", shape=(10, 10**8), chunks=(10, 10**8), dtype="f8")
    with pytest.raises(DataFileError, match=r"would unpack \d+ bytes into 8000000016.* limit='8001MB'"):
        read(tmp_path / "data.zarr", "a[:, 0:1]", None, samples=slice(0, 2), fill=True)


@every_version
@pytest.mark.parametrize("codec", ["zstd", "gzip", "blosc"])
def test_a_chunk_that_unpacks_to_more_than_it_says_is_refused(tmp_path, version, codec):
    codecs = {"zstd": numcodecs.Zstd(), "gzip": numcodecs.GZip(), "blosc": numcodecs.Blosc()}
    new = {"zstd": zarr.codecs.ZstdCodec(), "gzip": zarr.codecs.GzipCodec(), "blosc": zarr.codecs.BloscCodec()}
    path = store(tmp_path / "data.zarr", version, compressors=[(codecs if version == 2 else new)[codec]])
    assert np.array_equal(read(path, "a", None)[0], DATA)
    chunks(path)[0].write_bytes(bytes(codecs[codec].encode(bytes(60_000_000))))
    with pytest.raises(DataFileError, match=r"would unpack to more than"):
        read(path, "a", None, limit="10MB")


def test_a_chunk_of_a_shard_that_unpacks_to_more_than_it_says_is_refused(tmp_path):
    path = store(tmp_path / "data.zarr", shards=(8, 8))
    file, bomb = chunks(path)[0], bytes(numcodecs.Zstd().encode(bytes(60_000_000)))
    content = file.read_bytes()
    index = np.frombuffer(content[-68:-4], "<u8").reshape(-1, 2).copy()
    index[0] = len(content) - 68, len(bomb)
    body = content[:-68] + bomb + index.tobytes()
    file.write_bytes(body + np.uint32(numcodecs.CRC32C().encode(index.tobytes())[:4].view("u4")[0]).tobytes())
    with pytest.raises(DataFileError, match="would unpack to more than"):
        read(path, "a", None)


def change(path, function):
    said = next(one for one in (path / "a" / "zarr.json", path / "a" / ".zarray") if one.exists())
    document = json.loads(said.read_text())
    function(document)
    said.write_text(json.dumps(document))


@pytest.mark.parametrize("name", ["msgpack2", "json2", "categorize", "my-own"])
def test_a_codec_that_is_not_known_is_refused(tmp_path, name):
    old, new = store(tmp_path / "old.zarr", 2), store(tmp_path / "new.zarr", 3)
    change(old, lambda document: document.update(filters=[{"id": name}]))
    change(new, lambda document: document["codecs"].append({"name": f"numcodecs.{name}"}))
    for path in (old, new):
        with pytest.raises(DataFileError, match=f"names the codec '{name}', which is not known here"):
            read(path, "a", None)


def test_chunks_that_are_packed_twice_are_refused(tmp_path):
    path = store(tmp_path / "data.zarr", 3)
    change(path, lambda document: document["codecs"].append({"name": "gzip", "configuration": {"level": 5}}))
    with pytest.raises(DataFileError, match="packs chunks twice"):
        read(path, "a", None)


def test_what_a_user_wrote_beside_an_array_names_no_codec(tmp_path):
    path = store(tmp_path / "data.zarr", 3)
    zarr.open_group(path)["a"].attrs["filters"] = [{"id": "of my own"}]
    assert np.array_equal(read(path, "a", None)[0], DATA)


def test_metadata_as_large_as_data_are_refused(tmp_path):
    path = store(tmp_path / "data.zarr", 2)
    (path / ".zmetadata").write_text(" " * (1 << 24) + "{}")
    with pytest.raises(DataFileError, match="bytes of metadata"):
        read(path, "a", None)


@pytest.mark.parametrize("where", ["a", "a/c", "a/c/0"])
def test_a_pipe_anywhere_in_a_store_is_refused(tmp_path, where):
    path = store(tmp_path / "data.zarr", 3)
    os.mkfifo(path / where / "9")
    with pytest.raises(DataFileError, match="9 is not a regular file"):
        read(path, "a", None)


def test_the_size_of_a_store_is_that_of_its_files(tmp_path):
    path = store(tmp_path / "data.zarr")
    assert check_store(path) == sum(one.stat().st_size for one in path.rglob("*") if one.is_file())


@pytest.mark.parametrize("packed", [zarr.codecs.ZstdCodec(), zarr.codecs.GzipCodec()])
def test_checksums_behind_packed_bytes_are_none_of_them(tmp_path, monkeypatch, packed):
    monkeypatch.setattr("pcarann.problems.formats.stores.could_swell", lambda *_: True)
    path = store(tmp_path / "data.zarr", compressors=[packed, zarr.codecs.Crc32cCodec()])
    assert np.array_equal(read(path, "a", None)[0], DATA)


def test_raw_lzma_is_refused(tmp_path):
    raw = numcodecs.LZMA(format=3, filters=[{"id": 33, "preset": 1}])
    with pytest.raises(DataFileError, match="names the codec 'raw lzma'"):
        read(store(tmp_path / "data.zarr", 2, compressors=raw), "a", None)
    path = store(tmp_path / "other.zarr", 2, compressors=numcodecs.LZMA())
    assert np.array_equal(read(path, "a", None)[0], DATA)
