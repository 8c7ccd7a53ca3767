"""The benchmark of lazy fits: it runs in quick form, and its table says what its record holds."""

from __future__ import annotations

import json

from benchmarks_path import benchmark_of


def test_the_quick_form_writes_a_record_and_its_table(tmp_path):
    scale = benchmark_of("scale")
    path = scale.main(["--quick", "--parts", "wide", "-o", str(tmp_path)])
    record = json.loads(path.read_text())
    (row,) = record["rows"]
    assert row["part"] == "wide"
    assert row["r2"] > 0.5
    assert row["peak_client"] >= row["peak_before"] > 0
    assert path.with_suffix(".md").read_text() == scale.table(record)


def test_blocks_from_the_host_are_fitted_as_well_as_what_is_on_the_device(tmp_path):
    scale = benchmark_of("scale")
    record = json.loads(scale.main(["--quick", "--parts", "device", "-o", str(tmp_path)]).read_text())
    inside, blocks, _ = record["rows"]
    assert (inside["case"], blocks["case"]) == ("in its memory", "by blocks")
    assert abs(inside["r2"] - blocks["r2"]) < 1e-6


def test_generated_fields_are_functions_of_their_number():
    scale = benchmark_of("scale")
    whole = scale.generated(40, 64, 1).compute()
    assert (whole[30:] == scale.generated(10, 64, 1, first=30).compute()).all()
    assert (whole == scale.generated(40, 64, 1, along=1).compute()).all()
