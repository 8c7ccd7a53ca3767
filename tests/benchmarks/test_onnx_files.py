"""The benchmark of ONNX files: it runs in quick form, and its table says what its record holds."""

from __future__ import annotations

import json

import benchmarks_path  # noqa: F401
import pytest

# isort: split
pytest.importorskip("onnxruntime")
import onnx_files


def test_the_quick_form_writes_a_record_and_its_table(tmp_path):
    path = onnx_files.main(["--quick", "--cases", "backward_heat", "-o", str(tmp_path)])
    record = json.loads(path.read_text())
    (row,) = record["rows"]
    assert list(row["files"]) == ["double", "single"]
    assert row["files"]["double"]["errors"]["mean"] < 1e-6
    assert all(call["median"] > 0 for calls in row["calls"].values() for call in calls)
    assert path.with_suffix(".md").read_text() == onnx_files.table(record)


def test_a_process_that_failed_is_listed_with_its_reason():
    record = {"load": [0.0, 0.0], "rows": [{"case": "darcy", "failed": "stopped"}]}
    assert "| darcy | | stopped | | | | | | |" in onnx_files.table(record)
