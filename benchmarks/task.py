"""One measurement: `python benchmarks/task.py '{"task": "ours.em", "problem": "darcy", …}'` in a process of its own."""

from __future__ import annotations

import json
import sys

import floor
import ours
import peers
import rivals
from cases import load_case
from measure import Record, answer

__all__ = ["TASKS", "run_task"]

TASKS = ours.TASKS | rivals.TASKS | peers.TASKS


def run_task(task: str, *, problem: str, quick: bool, device: str | None, repeats: int) -> Record:
    """Measure one stage of one problem, and the rate of matrix products just before and just after.

    A shared machine is not the same from one minute to the next: the floor belongs to the minute of the stage.
    """
    case = load_case(problem, quick=quick, device=device, repeats=repeats)
    size = 200 if quick else 3000 if device is None else 8192
    before = floor.gemm_rate(case.place, size=size)
    record = TASKS[task](case)
    return record | {"flops_per_second": (before + floor.gemm_rate(case.place, size=size)) / 2}


if __name__ == "__main__":
    answer(run_task(**json.loads(sys.argv[1])))
