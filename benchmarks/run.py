"""Speed of every stage on the four problems: ours, the literal algorithm, peers, and the arithmetic's floor.

    python benchmarks/run.py                    everything, on the CPU
    python benchmarks/run.py --device cuda      ours and the floor, data already on the device
    python benchmarks/run.py --quick            the machinery in seconds; the numbers mean nothing

Each measurement has a process of its own. For each problem there is one JSON record, and for the run one Markdown
file of ratios.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import report
from measure import in_fresh_process
from task import TASKS, run_task

from pcarann.benchmark.machine import package_version
from pcarann.benchmark.paper.configurations import PROBLEMS
from pcarann.benchmark.paper.runs import header
from pcarann.files import atomic_writer

__all__ = ["main"]

Record = dict[str, Any]
Ask = Callable[[str, str], Record]
"""From a task and a problem to what was measured"""

STAGES = {
    "em": ("em",),
    "bfgs": ("bfgs", "bfgs_from_zero"),
    "single": ("single",),
    "predict": ("predict", "predict_many"),
    "calibrate": ("calibrate",),
    "adapt": ("adapt",),
}
_ALONE = {"predict_many": "navier_stokes"}
"""Stages measured on one problem only"""


def main(arguments: Sequence[str] | None = None) -> Path:
    """Run, write records and table, and return the path of the table."""
    options = _options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    records: list[Record] = []
    for name in options.problems:
        record = _problem_record(name, options)
        records.append(record)
        _write(options.output / f"{name}-{record['place']}.json", json.dumps(record, indent=1) + "\n")
    table: Path = options.output / f"speed-{records[0]['place']}.md"
    _write(table, report.report(records))
    return table


def _problem_record(name: str, options: argparse.Namespace) -> Record:
    problem = PROBLEMS[name].quick() if options.quick else PROBLEMS[name]
    ask = _asker(options)
    record = {
        **header("speed", problem, options.device),
        "repeats": options.repeats,
        "peer_versions": {package: package_version(package) for package in ("ezyrb", "torch")},
        "stages": {},
    }
    for stage in (stage for chosen in options.stages if chosen != "peers" for stage in STAGES[chosen]):
        if _ALONE.get(stage, name) == name:
            record["stages"][stage] = _stage(stage, name, ask, literal=options.device is None)
    em = record["stages"].get("em", {}).get("literal", {})
    if "single" in record["stages"] and "single_seconds" in em:  # one member of the same literal run
        record["stages"]["single"]["literal"] = em | {"seconds": em["single_seconds"]}
    if "peers" in options.stages and options.device is None:
        record["peers"] = {task.removeprefix("peer."): ask(task, name) for task in TASKS if task.startswith("peer.")}
    return record


def _stage(stage: str, problem: str, ask: Ask, *, literal: bool) -> Record:
    found = {"ours": ask(f"ours.{stage}", problem)}
    if literal and f"literal.{stage}" in TASKS:
        found["literal"] = ask(f"literal.{stage}", problem)
    return found


def _asker(options: argparse.Namespace) -> Ask:
    """Measure in a fresh process; quick mode stays in this one, since it only shows that everything runs."""
    script = Path(__file__).with_name("task.py")

    def ask(task: str, problem: str) -> Record:
        request = {"problem": problem, "quick": options.quick, "device": options.device, "repeats": options.repeats}
        begun = time.perf_counter()
        if options.quick:
            record = run_task(task, **request)
        else:
            record = in_fresh_process(script, {"task": task, **request}, limit=options.limit)
        said = record.get("failed") or f"{record.get('seconds', 0.0):.3g} s"
        sys.stderr.write(f"{problem:14} {task:28} {said}  ({time.perf_counter() - begun:.0f} s in all)\n")
        return record

    return ask


def _write(path: Path, text: str) -> None:
    with atomic_writer(path) as file:
        file.write(text.encode())


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    stages = [*STAGES, "peers"]
    parser.add_argument("--quick", action="store_true", help="tiny sizes, in one process")
    parser.add_argument("--device", help="cuda or cuda:N: ours and the floor alone")
    parser.add_argument("--stages", nargs="+", choices=stages, default=stages, metavar="STAGE", help=", ".join(stages))
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS), metavar="PROBLEM")
    parser.add_argument("--repeats", type=int, help="of ours; the median counts (5, quick: 1)")
    parser.add_argument("--limit", type=float, default=1800.0, help="most seconds of one measurement (1800)")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/speed"))
    options = parser.parse_args(arguments)
    options.repeats = options.repeats or (1 if options.quick else 5)
    options.device = None if options.device == "cpu" else options.device
    return options


if __name__ == "__main__":
    sys.stdout.write(f"{main()}\n")
