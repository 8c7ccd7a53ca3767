"""What compressed bytes unpack to is known before they do."""

import bz2
import gzip
import lzma
import zlib

import numcodecs
import numpy as np
import pytest

from pcarann.problems import DataFileError
from pcarann.problems.formats.unpacking import COMPRESSORS, could_swell, refuse_swelling

CODECS = {
    "blosc": numcodecs.Blosc().encode,
    "bz2": bz2.compress,
    "gzip": gzip.compress,
    "lz4": numcodecs.LZ4().encode,
    "lzma": lzma.compress,
    "zlib": zlib.compress,
    "zstd": numcodecs.Zstd().encode,
}
every_codec = pytest.mark.parametrize("name", COMPRESSORS)


@every_codec
@pytest.mark.parametrize("size", [100, 300, 70_000, 400_000])
def test_bytes_that_are_as_long_as_they_say_are_let_through(name, size):
    numbers = np.random.default_rng(0).integers(0, 3, size).astype("u1").tobytes()
    refuse_swelling(name, bytes(CODECS[name](numbers)), size, "it")


@every_codec
def test_bytes_that_unpack_to_more_are_refused(name):
    packed = bytes(CODECS[name](bytes(20_000_000)))
    assert len(packed) < 200_000
    with pytest.raises(DataFileError, match="it would unpack to more than"):
        refuse_swelling(name, packed, 1000, "it")


SKIPPED = bytes.fromhex("502a4d18 03000000 616263")


@pytest.mark.parametrize("name", ["bz2", "gzip", "lzma", "zstd"])
@pytest.mark.parametrize("small", [0, 10, 50_000])
def test_what_follows_the_first_stream_counts(name, small):
    first, more = (bytes(CODECS[name](bytes(n))) for n in (small, 20_000_000))
    between = {"gzip": bytes(20_000), "zstd": SKIPPED}.get(name, b"")
    refuse_swelling(name, between * (name == "zstd") + first + between + first, 2 * small, "it")
    with pytest.raises(DataFileError, match="it would unpack to more than"):
        refuse_swelling(name, first + between + more, 2 * small, "it")


def test_a_frame_that_is_skipped_hides_nothing():
    with pytest.raises(DataFileError, match="it would unpack to more than"):
        refuse_swelling("zstd", SKIPPED + bytes(CODECS["zstd"](bytes(20_000_000))), 1000, "it")


RAW = lzma.compress(bytes(20_000_000), lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2}])
FLAWED = bytearray(gzip.compress(bytes(20_000_000)))
FLAWED[3] |= 2  # Python's gzip does not look at the checksum of a header
FLAWED[10:10] = b"00"


@pytest.mark.parametrize(
    ("name", "packed"), [("lzma", RAW), ("zstd", b"\x27\xb5\x2f\xfd" * 9), ("gzip", bytes(FLAWED))]
)
def test_what_cannot_be_counted_is_refused(name, packed):
    with pytest.raises(DataFileError, match="it is damaged"):
        refuse_swelling(name, packed, 1000, "it")


@every_codec
def test_damaged_bytes_are_left_to_their_reader(name):
    packed = bytes(CODECS[name]((np.arange(1000) % 7).astype("u1").tobytes()))
    damaged = packed[:16] + bytes(255 for _ in packed[16:]) if name == "blosc" else packed[: len(packed) // 2]
    with pytest.raises((RuntimeError, EOFError, lzma.LZMAError, zlib.error, ValueError)):
        numcodecs.get_codec({"id": name}).decode(damaged)
    refuse_swelling(name, damaged, 1000, "it")


def test_a_dictionary_beyond_all_need_is_refused_before_it_is_made():
    large = bytearray(lzma.compress(bytes(1000), lzma.FORMAT_ALONE))
    refuse_swelling("lzma", bytes(large), 1000, "it")
    large[1:5] = (3 << 29).to_bytes(4, "little")
    with pytest.raises(DataFileError, match="it needs more than 256 MiB of memory to be unpacked"):
        refuse_swelling("lzma", bytes(large), 1000, "it")


def test_blosc_that_is_not_as_long_as_it_says_is_refused():
    packed = bytes(CODECS["blosc"](bytes(1000)))
    for damaged in (packed[:-1], packed + b"0", packed[:10]):
        with pytest.raises(DataFileError, match="is damaged"):
            refuse_swelling("blosc", damaged, 1000, "it")


def test_a_frame_that_says_no_size_is_refused():
    silent = bytes.fromhex("28b52ffd 00 58 010000".replace(" ", ""))
    with pytest.raises(DataFileError, match="it does not tell the size"):
        refuse_swelling("zstd", silent, 1000, "it")


def test_few_deflated_bytes_cannot_swell_far():
    assert not could_swell("gzip", 1000, 10**7)
    assert could_swell("gzip", 10**5, 10**7)
    assert could_swell("zstd", 10, 10**7)
