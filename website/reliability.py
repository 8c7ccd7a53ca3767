"""Write docs/reliability.md from a run of the tests, as pytest records it, and from the records of `make fuzz`.

python website/reliability.py                   names the tests that faults are shown by
python website/reliability.py build/tests.xml   writes the page from a run of them with --junitxml
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from faults import FAULTS, Fault, shown_by  # noqa: E402

PAGE = ROOT / "docs" / "reliability.md"
RECORDS = ROOT / "results" / "reliability"
_OPENING = """# Reliability

What can go wrong, what must follow, and which tests show it. This page is written by `make reliability` from a run of
these tests and from the records in [results/reliability](../results/reliability), which `make fuzz` writes; nothing in
it is written by hand.

"Refused" means: a clear error at the call, naming what is wrong, and the model, file or data that was there before is
unchanged. A case is one run of one test with its parameters.
"""

Cases = dict[tuple[str, str], Counter[str]]
"""Results of every test function, by the file it stands in and its name"""


def results(report: Path) -> Cases:
    """Read what pytest recorded."""
    found: Cases = {}
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.get("classname", "").split(".")
        name = case.get("name", "").partition("[")[0]
        ends = {child.tag for child in case}
        result = "failed" if ends & {"failure", "error"} else "skipped" if "skipped" in ends else "passed"
        found.setdefault(("/".join(file).removeprefix("tests/") + ".py", name), Counter())[result] += 1
    return found


def _counted(fault: Fault, cases: Cases) -> Counter[str]:
    total: Counter[str] = Counter()
    for said, names in shown_by(fault, ROOT / "tests").items():
        for name in names:
            total += cases.get((said.partition("::")[0], name), Counter())
    return total


def _told(counted: Counter[str]) -> str:
    if not counted:
        return "not run"
    return ", ".join(f"{counted[name]} {name}" for name in ("passed", "failed", "skipped") if counted[name])


def table(cases: Cases) -> str:
    """A row for each fault."""
    lines = ["| # | what happens | what must follow | tests | cases | result |", "|---|---|---|---|---|---|"]
    for number, fault in enumerate(FAULTS, 1):
        counted = _counted(fault, cases)
        files = sorted({said.partition("::")[0] for said in fault.tests})
        named = ", ".join(f"[{Path(file).stem}](../tests/{file})" for file in files)
        named += "".join(f", [{name}](#{name})" for name in fault.records)
        told = f"{sum(counted.values())} | {_told(counted)}"
        lines.append(f"| {number} | {fault.happens} | {fault.follows} | {named} | {told} |")
    return "\n".join(lines)


def long_runs(folder: Path) -> str:
    """What `make fuzz` saw."""
    parts = []
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        parts.append(f"### {record['what']}\n\n{_record(record)}")
    return "\n\n".join(parts)


def _record(record: dict[str, Any]) -> str:
    cores, python = record["machine"]["cores"], record["machine"]["python"]
    head = (
        f"{record['cases']} cases, {record['faults']} faults; {record['seconds']} s on {cores} cores, Python {python}."
    )
    if "outcomes" in record:
        rows = [f"| {name} | {count} |" for name, count in record["outcomes"].items()]
        return "\n".join([head, "", "| outcome | cases |", "|---|---|", *rows])
    if "loaded" in record:
        loaded = ", ".join(f"the {name} model {count} times" for name, count in record["loaded"].items())
        return f"{head} {record['kills']} kills: {loaded}; {record['stray_files']} stray files."
    if "learned" in record:
        return (
            f"{head} {record['threads']} threads, {record['learned']} of {record['updates']} samples learned, beside "
            f"{record['calibrations']} calibrations and {record.get('bands', 0)} bands; predictions differ from those "
            f"of one thread by {record['difference_from_one_thread']:.1e}."
        )
    runs = [
        f"{run['updates']} updates with forgetting {run['forgetting']}: drift from all samples at once "
        f"{run['drift_from_all_at_once']:.1e}, smallest eigenvalue of a covariance "
        f"{min(row['smallest_eigenvalue'] for row in run['checks']):.1e}, memory from "
        f"{run['checks'][0]['resident_mb']:.0f} MB to {run['checks'][-1]['resident_mb']:.0f} MB"
        for run in record["runs"]
    ]
    return f"{head} {'; '.join(runs)}."


def wanted() -> list[str]:
    """The tests that faults are shown by, as pytest names them."""
    found = [
        f"tests/{said.partition('::')[0]}::{name}"
        for fault in FAULTS
        for said, names in shown_by(fault, ROOT / "tests").items()
        for name in names
    ]
    return list(dict.fromkeys(found))


def written(cases: Cases, folder: Path = RECORDS) -> str:
    """The page."""
    return f"{_OPENING}\n## Faults\n\n{table(cases)}\n\n## Long runs\n\n{long_runs(folder)}\n"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(print(*wanted()))
    PAGE.write_text(written(results(Path(sys.argv[1]))), encoding="utf-8")
