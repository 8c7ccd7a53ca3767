"""Every fault has tests that exist, and the page on reliability says what a run of them found."""

import importlib
import sys

import pytest

from faults import FAULTS, Fault, shown_by
from house import ROOT


@pytest.fixture(scope="module")
def reliability():
    sys.path.insert(0, str(ROOT / "website"))
    yield importlib.import_module("reliability")
    sys.path.remove(str(ROOT / "website"))


def test_there_are_as_many_faults_as_rows_and_each_is_another():
    assert len({fault.happens for fault in FAULTS}) == len(FAULTS) == 35


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.happens[:40])
def test_every_fault_has_tests_that_are_there(fault):
    found = shown_by(fault, ROOT / "tests")
    assert found
    assert all(found.values()), found


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.happens[:40])
def test_every_record_that_is_named_is_there(fault):
    assert all((ROOT / "results" / "reliability" / f"{name}.json").exists() for name in fault.records)


def test_words_that_no_test_has_find_none():
    assert shown_by(Fault("", "", ("test_faults.py::no such words",)), ROOT / "tests") == {
        "test_faults.py::no such words": []
    }


REPORT = """<testsuites><testsuite>
<testcase classname="tests.storage.test_limits" name="test_the_shape_of_a_number_is_empty"/>
<testcase classname="tests.storage.test_limits" name="test_a_limit_that_is_none_is_refused[-1]"/>
<testcase classname="tests.storage.test_limits" name="test_a_limit_that_is_none_is_refused[much]"><failure/></testcase>
<testcase classname="tests.storage.test_limits" name="test_a_limit_that_is_none_is_refused[None]"><skipped/></testcase>
</testsuite></testsuites>"""


def test_the_page_counts_what_passed_failed_and_was_left_out(reliability, tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    page = reliability.written(reliability.results(tmp_path / "report.xml"))
    row = next(line for line in page.splitlines() if line.startswith("| 35 |"))
    assert row.endswith("| 4 | 2 passed, 1 failed, 1 skipped |")
    row = next(line for line in page.splitlines() if line.startswith("| 30 |"))
    assert row.endswith("| 0 | not run |")


def test_the_page_tells_all_records(reliability):
    page = reliability.PAGE.read_text(encoding="utf-8")
    assert reliability.long_runs(reliability.RECORDS) in page, "run: make reliability"
