"""Tags of MATLAB's files: what is no variable, or ends before it says, is refused before SciPy reads it."""

import zlib

import numpy as np
import pytest
import scipy.io

from pcarann.problems import DataFileError, read
from pcarann.problems.formats import Leave
from pcarann.problems.formats.tags import check_tags


def tag(kind, size):
    return kind.to_bytes(4, "little") + size.to_bytes(4, "little")


NAMED = tag(6, 8) + bytes(8) + tag(5, 8) + bytes(8) + tag(1, 6) + b"inputs\0\0"
PACKED = {
    "no variable": zlib.compress(tag(9, 0)),
    "shorter than it says": zlib.compress(tag(14, 96) + NAMED + tag(9, 40) + bytes(8)),
    "cut off": zlib.compress(tag(14, 96) + NAMED + tag(9, 40) + bytes(range(40)))[:-20],
}


@pytest.mark.parametrize("kind", PACKED)
def test_a_packed_variable_that_is_damaged_is_refused(tmp_path, kind):
    content = PACKED[kind]
    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    (tmp_path / "a.mat").write_bytes(head + tag(15, len(content)) + content)
    with pytest.raises(DataFileError, match="damaged or cut short"):
        check_tags(tmp_path / "a.mat", "inputs", Leave())


def test_a_variable_without_a_name_is_looked_into_as_well(tmp_path):
    content = tag(6, 8) + bytes([6, *bytes(7)]) + tag(5, 8) + bytes([5, 0, 0, 0, 4, 0, 0, 0]) + tag(1, 0) + tag(0, 160)
    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    (tmp_path / "a.mat").write_bytes(head + tag(14, len(content) + 160) + content + bytes(160))
    with pytest.raises(DataFileError, match="damaged or cut short"):
        check_tags(tmp_path / "a.mat", "__function_workspace__", Leave())


def test_files_of_version_4_have_no_tags_and_are_read(tmp_path):
    a = np.arange(12.0).reshape(4, 3)
    scipy.io.savemat(tmp_path / "old.mat", {"inputs": a, "outputs": a + 1}, format="4")
    found = read(tmp_path / "old.mat")
    assert np.array_equal(found[0], a)
    assert np.array_equal(found[1], a + 1)
