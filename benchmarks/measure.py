"""Seconds and memory of a call, in a process of its own.

A high-water mark of memory knows nothing of when it was set, and a library warmed up by one method helps the next: each
measurement therefore runs in a fresh process, which loads its data, notes what it occupies, resets the mark
(Linux allows it), and only then begins.
"""

from __future__ import annotations

import gc
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pcarann.backend.arrays import Place

__all__ = ["SLOW", "Record", "answer", "available_bytes", "in_fresh_process", "measured", "median_ms", "resident_bytes"]

Record = dict[str, Any]
Result = TypeVar("Result")

SLOW = 10.0
"""Seconds beyond which the literal algorithm and the peers run once"""

_MARK = "RESULT "


def measured(
    call: Callable[[], Result],
    *,
    place: Place,
    repeats: int = 1,
    warm_up: bool = False,
    slow: float = math.inf,
    beside: Callable[[], float] | None = None,
) -> tuple[Result, Record]:
    """Return the last result with the median seconds, all seconds, CPU seconds and the peak memory beyond the start.

    A call that takes more than `slow` seconds is not repeated. `beside` measures the rate of matrix products before and
    after each run: a shared machine is not the same from one minute to the next.
    """
    if warm_up:
        call()
    baseline = _reset_peak(place)
    wall, cpu = [], []
    rates = [beside()] if beside else []
    result: Any = None
    for _ in range(repeats):
        result = None  # one result at a time in memory
        gc.collect()
        place.wait()
        begun, worked = time.perf_counter(), time.process_time()
        result = call()
        place.wait()
        wall.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - worked)
        rates += [beside()] if beside else []
        if wall[-1] > slow:
            break
    record: Record = {
        "seconds": statistics.median(wall),
        "runs": wall,
        "cpu_seconds": statistics.median(cpu),
        "peak_bytes": max(0, _peak(place) - baseline),
        "baseline_bytes": baseline,
    }
    return result, record | ({"flops_per_second": statistics.fmean(rates)} if rates else {})


def in_fresh_process(script: Path, arguments: Record, *, limit: float) -> Record:
    """Run a script that answers one JSON argument with `answer`; say why where it fails or exceeds its seconds."""
    command = [sys.executable, str(script), json.dumps(arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"stopped after its limit of {limit:g} s"}
    answers = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if done.returncode or not answers:
        complaint = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        return {"failed": f"exit status {done.returncode}: {complaint}"}
    answered: Record = json.loads(answers[-1].removeprefix(_MARK))
    return answered


def answer(record: Record) -> None:
    """Hand a record to the process that asked."""
    sys.stdout.write(f"\n{_MARK}{json.dumps(record)}\n")


def resident_bytes() -> int:
    """Memory that this process occupies now."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return _high_water()
    return pages * os.sysconf("SC_PAGE_SIZE")


def available_bytes() -> int:
    """Memory that could still be taken; 0 where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable")), 0)


def _reset_peak(place: Place) -> int:
    gc.collect()
    if not place.on_host:
        place.xp.cuda.reset_peak_memory_stats(place.device)
        return int(place.xp.cuda.memory_allocated(place.device))
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return _high_water()  # the mark cannot be lowered: only what rises above it is seen
    return resident_bytes()


def _peak(place: Place) -> int:
    return _high_water() if place.on_host else int(place.xp.cuda.max_memory_allocated(place.device))


def _high_water() -> int:
    """Most memory occupied since the mark was reset.

    Not ru_maxrss where it can be avoided: a process inherits that of its parent, and no reset lowers it.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def median_ms(call: Callable[[], object], seconds: float) -> Record:
    """Milliseconds of warm calls."""
    for _ in range(3):
        call()
    wall: list[float] = []
    cpu: list[float] = []
    until = time.perf_counter() + seconds
    while len(wall) < 5 or (time.perf_counter() < until and len(wall) < 1000):
        begun, worked = time.perf_counter(), time.process_time()
        call()
        wall.append(1e3 * (time.perf_counter() - begun))
        cpu.append(1e3 * (time.process_time() - worked))
    return {"median": statistics.median(wall), "least": min(wall), "cpu": statistics.median(cpu), "calls": len(wall)}
