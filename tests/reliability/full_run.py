"""Fuzz files, kill saves, and let threads and streams run, in full; what was seen goes to results/reliability.

python tests/reliability/full_run.py                      everything, as `make fuzz` does
python tests/reliability/full_run.py models --cases 500   one of them, with few cases

Ends with status 1 where anything ended as it should not.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # before NumPy comes: workers are forks
    os.environ.setdefault(name, "1")
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(path) for path in (HERE, HERE.parent) if str(path) not in sys.path]

from data_files import DataFiles  # noqa: E402
from endurance import killed_saves, soaked, threaded_updates  # noqa: E402
from model_files import ModelFiles  # noqa: E402
from workers import Trial, tallied, tried  # noqa: E402

from pcarann.benchmark.machine import machine_facts  # noqa: E402
from pcarann.files import atomic_writer  # noqa: E402

TRIALS: dict[str, Callable[[Path, int], Trial]] = {
    "models": ModelFiles.made,
    "data": lambda folder, seed: DataFiles.made(folder, seed, stores=False),
    "stores": lambda folder, seed: DataFiles.made(folder, seed, stores=True),
}
FULL = {"models": 100_000, "data": 90_000, "stores": 10_000, "kills": 1000, "threads": 10_000, "soak": 100_000}
"""What is run, and how often"""
SECONDS = 20.0  # of one case: a hundred times what a sound file takes, on a machine that has other work


def fuzzed(what: str, cases: int, workers: int, seed: int) -> dict[str, Any]:
    """Cases of one kind of files, tallied."""
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        trial = TRIALS[what](Path(folder) / "sources", seed)
        return tallied(tried(trial, cases, Path(folder), workers=workers, seconds=SECONDS))


def endured(what: str, times: int, seed: int) -> dict[str, Any]:
    """One of the long runs, with `faults` counted."""
    if what == "kills":
        with tempfile.TemporaryDirectory() as folder:
            found = killed_saves(times, Path(folder), seed)
        return found | {"cases": times, "faults": found["loaded"].get("another model", 0) + found["stray_files"]}
    if what == "threads":
        found = threaded_updates(times)
        wrong = found["lost"] != 0 or found["difference_from_one_thread"] > 1e-9
        return found | {"cases": found["updates"], "faults": found["faults"] + wrong}
    runs = [soaked(times), soaked(max(times // 10, 1), forgetting=0.999)]
    return {
        "cases": sum(run["updates"] for run in runs),
        "faults": sum(not _is_sound(run) for run in runs),
        "runs": runs,
    }


def _is_sound(run: dict[str, Any]) -> bool:
    """Symmetric and positive to rounding, near the fit to all at once, and no memory but that of the rows kept."""
    first, last = run["checks"][0]["resident_mb"], run["checks"][-1]["resident_mb"]
    rows = run["updates"] * 8 * 64 / 1e6  # latents of both sides and a weight, and room to grow
    positive = all(row["asymmetry"] < 1e-12 and row["smallest_eigenvalue"] > 0 for row in run["checks"])
    return positive and run["drift_from_all_at_once"] < 1e-8 and last - first < rows + 16


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for, and write a record of each; 0 where all ended as it should."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help=", ".join(FULL))
    parser.add_argument("--cases", type=int, help="of each")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "results" / "reliability")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.what) - set(FULL):
        parser.error(f"{', '.join(sorted(unknown))}: known are {', '.join(FULL)}")
    chosen.output.mkdir(parents=True, exist_ok=True)
    faults = 0
    for what in chosen.what or FULL:
        times, began = chosen.cases or FULL[what], time.perf_counter()
        found = (
            fuzzed(what, times, chosen.workers, chosen.seed) if what in TRIALS else endured(what, times, chosen.seed)
        )
        seconds = round(time.perf_counter() - began, 1)
        record = {"what": what, "seed": chosen.seed, "seconds": seconds, **found, "machine": machine_facts(None)}
        with atomic_writer(chosen.output / f"{what}.json") as file:
            file.write(json.dumps(record, indent=1).encode() + b"\n")
        sys.stdout.write(f"{what}: {found['cases']} cases, {found['faults']} faults, {seconds} s\n")
        sys.stdout.flush()
        faults += found["faults"]
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
