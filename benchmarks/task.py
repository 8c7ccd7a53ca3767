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

from pcarann.backend.arrays import place_of

__all__ = ["TASKS", "run_task"]

TASKS = ours.TASKS | rivals.TASKS | peers.TASKS


def run_task(task: str, *, problem: str, quick: bool, device: str | None, repeats: int) -> Record:
    """Measure one stage of one problem; matrix products have run in the process before it, whoever is measured."""
    size = 200 if quick else 3000 if device is None else 8192
    products = floor.Products(place_of(None, device), size)
    return TASKS[task](load_case(problem, quick=quick, device=device, repeats=repeats, products=products))


if __name__ == "__main__":
    answer(run_task(**json.loads(sys.argv[1])))
