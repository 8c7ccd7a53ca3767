"""The benchmark of single calls: it runs in quick form, and its table says what its record holds."""

from __future__ import annotations

import json

import benchmarks_path  # noqa: F401

# isort: split
import latency


def test_the_quick_form_writes_a_record_and_its_table(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # which is changed on the way
    path = latency.main(["--quick", "--cases", "sensors", "--calls", "5", "-o", str(tmp_path)])
    record = json.loads(path.read_text())
    assert [(row["case"], row["cores"]) for row in record["rows"]] == [("sensors", 1), ("sensors", 2)]
    for row in record["rows"]:
        assert list(row["modes"]) == ["as it comes", "prepared", "single precision"]
        assert all(row["modes"]["prepared"][call]["median"] > 0 for call in ("predict", "spread", "interval"))
    assert record["rows"][0]["calls"] == 5
    assert path.with_suffix(".md").read_text() == latency.table(record)


def test_a_process_that_failed_is_listed_with_its_reason():
    record = {"load": [0.0, 0.0], "memory": "1GB", "rows": [{"case": "darcy", "cores": 2, "failed": "stopped"}]}
    assert "| darcy | 2 | | stopped | | | | 5/10 |" in latency.table(record)
