"""What one call of `predict` costs: seconds of a warm call with one sample, on one core and on two.

    python benchmarks/latency.py [--quick] [--cases sensors burgers …] [--calls 100000] [-o results/latency]

Models have the sizes of the paper's problems (widths, members, modes, grids) and are fitted to random fields of low
rank with given scales: what a call costs does not depend on what fields say. Each is fitted once and saved; a fresh
process for each number of cores loads it and measures it as it comes, after `prepare`, and in single precision. Beside
the median of many calls stand the fastest one and the median of the processor's own time, which other work on the
machine disturbs less. `--calls` with one sample are made to see whether memory grows, and one batch of 100 000 samples
to see what it takes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measure import Record, answer, in_fresh_process, measured, median_ms, resident_bytes

from pcarann import Marching, PCARaNN, Staged, load
from pcarann.backend.arrays import place_of
from pcarann.benchmark.machine import machine_facts
from pcarann.benchmark.paper.configurations import PROBLEMS
from pcarann.files import atomic_writer

__all__ = ["CASES", "fitted", "main", "table"]

Values = np.ndarray[Any, np.dtype[np.float64]]

CASES = ("sensors", "burgers", "darcy", "navier_stokes", "marching", "staged")
GRIDS = {
    "burgers": ((101,), (101, 101)),
    "darcy": ((29, 29), (29, 29)),
    "navier_stokes": ((10, 64, 64), (10, 64, 64)),
}
TARGETS = {"sensors": (2.0, None), "burgers": (5.0, 10.0), "darcy": (5.0, 10.0), "navier_stokes": (60.0, None)}
"""Milliseconds of one call, and of one with spread"""
_SCALES = {"burgers": (0.1, 0.1), "darcy": (0.02, 0.02), "navier_stokes": (0.02, 0.02)}
_BATCH = 100_000
_SECONDS = 1.0  # of calls for one median, at most


def main(arguments: Sequence[str] | None = None) -> Path:
    """Measure all cases; write one record and one table after each of them; return the path of the record."""
    options = _options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    path: Path = options.output / "latency-cpu.json"
    record: Record = {"kind": "latency", "quick": options.quick, "machine": machine_facts(None)}
    record |= {"memory": options.memory, "load": [os.getloadavg()[0]] * 2, "rows": []}
    with tempfile.TemporaryDirectory() as folder:
        for case in options.cases:
            model = Path(folder) / case
            sys.stderr.write(f"{case}\n")
            np.save(model.with_suffix(".npy"), fitted(case, model, quick=options.quick))
            for cores in (1, 2):
                calls = options.calls if case == "sensors" and cores == 1 else 0
                asked = {"model": str(model), "cores": cores, "memory": options.memory, "calls": calls}
                os.environ["OMP_NUM_THREADS"] = str(cores)  # read by the process that starts next
                found = in_fresh_process(Path(__file__), asked | {"quick": options.quick}, limit=options.limit)
                record["rows"].append({"case": case, "cores": cores, **found})
            record["load"][1] = os.getloadavg()[0]
            _write(path, record)
    return path


def _write(path: Path, record: Record) -> None:
    for target, text in ((path, json.dumps(record, indent=1) + "\n"), (path.with_suffix(".md"), table(record))):
        with atomic_writer(target) as file:
            file.write(text.encode())


def fitted(case: str, path: Path, *, quick: bool = False) -> Values:
    """Fit the model of a case and save it; return one input."""
    rng = np.random.default_rng(0)
    model: Any
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case == "sensors":
            X = rng.uniform(-1, 1, (300, 5))
            y = np.sin(X @ rng.standard_normal((5, 20)))
            model = PCARaNN(widths=(40, 20), n_members=2) if quick else PCARaNN()
            model.fit(X, y).calibrate(X[:100] + 0.01, y[:100])
        elif case in GRIDS:
            X, y = _fields(case, quick)
            problem = PROBLEMS[case].quick() if quick else PROBLEMS[case]
            model = PCARaNN(problem.n_components, problem.widths, problem.n_members, scales=_SCALES[case])
            model.fit(X, y).calibrate(X[:60] + 1e-3, y[:60])
        else:
            X = rng.standard_normal((200, 6)) @ np.cos(np.outer(np.arange(6), np.linspace(0, 6, 64)))
            steps = np.stack([X * 0.95**t for t in range(11)], axis=1)
            if case == "marching":
                model = Marching(PCARaNN(n_members=2 if quick else 20, scales="energy"), choose=False)
                X = steps[:, :1]
                model.fit(X, steps[:, 1:]).calibrate(X[:60], steps[:60, 1:])
            else:
                model = Staged(n_features=10 if quick else 40, n_members=2, n_stages=2).fit(X, np.tanh(X))
                model.calibrate(X[:60], np.tanh(X[:60]))
    model.save(path)
    one: Values = X[:1]
    return one


def table(record: Record) -> str:
    """The record as Markdown."""
    lines = [
        "# One call with one sample",
        "",
        "Milliseconds, median of many calls (fastest; processor's time). "
        f"Load of the machine before and after: {record['load'][0]:.1f}, {record['load'][1]:.1f}. "
        f"`prepare(memory={record['memory']!r})`.",
        "",
        "| model | cores | | predict | with spread | interval | hidden weights kept | target |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        target = "/".join(f"{n:g}" for n in TARGETS.get(row["case"], ()) if n) or "–"
        if "failed" in row:
            lines.append(f"| {row['case']} | {row['cores']} | | {row['failed']} | | | | {target} |")
            continue
        for name, found in row["modes"].items():
            cells = [_cell(found[call]) for call in ("predict", "spread", "interval")]
            kept = f"{found['bytes_kept'] / 1e6:.3g} MB" if found["bytes_kept"] is not None else "–"
            lines.append(f"| {row['case']} | {row['cores']} | {name} | {' | '.join(cells)} | {kept} | {target} |")
    for row in record["rows"]:
        if row.get("calls"):
            lines += ["", f"{row['calls']} calls of `{row['case']}`: memory grew by {row['grown_bytes'] / 1e6:.2g} MB."]
        if row.get("batch"):
            peak, seconds = row["batch"]["peak_bytes"] / 1e6, row["batch"]["seconds"]
            lines += [
                "",
                f"{_BATCH} samples of it in one call: {seconds:.2g} s, {peak:.3g} MB at the peak.",
            ]
    return "\n".join([*lines, ""])


def _cell(found: Record) -> str:
    return f"{found['median']:.2f} ({found['least']:.2f}; {found['cpu']:.2f})"


def _fields(case: str, quick: bool) -> tuple[Values, Values]:
    """Smooth random fields of rank 160 with a little noise, on the grids of the problem."""
    rng = np.random.default_rng(1)
    samples, grids = (60 if quick else 1000), GRIDS[case]
    latents = rng.standard_normal((samples, 160)) * 0.97 ** np.arange(160)
    found = []
    for z, grid in zip((latents, np.tanh(latents)), grids, strict=True):
        values = int(np.prod(grid))
        fields = z @ rng.standard_normal((160, values)) + 1e-3 * rng.standard_normal((samples, values))
        found.append(fields.reshape(samples, *grid))
    return found[0], found[1]


def _measure(asked: Record) -> Record:
    """All that is measured of one model in this process."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: asked["cores"]])
    warnings.simplefilter("ignore")
    model, X = load(asked["model"]), np.load(Path(asked["model"]).with_suffix(".npy"))
    seconds = 0.1 if asked["quick"] else _SECONDS
    found: Record = {"modes": {"as it comes": _calls(model, X, seconds)}}
    model.prepare(asked["memory"])
    found["modes"]["prepared"] = _calls(model, X, seconds)
    if asked["calls"]:
        model.predict(X)
        before = resident_bytes()
        for _ in range(asked["calls"]):
            model.predict(X)
        found |= {"calls": asked["calls"], "grown_bytes": resident_bytes() - before}
        many = np.repeat(X, _BATCH, axis=0)
        found["batch"] = measured(lambda: model.predict(many), place=place_of(X), warm_up=False)[1]
    if not isinstance(model, Staged):
        model.prepare(asked["memory"], single=True)
        found["modes"]["single precision"] = _calls(model, X, seconds)
        found["told"] = str(model.prepared_)
    return found


def _calls(model: Any, X: Values, seconds: float) -> Record:
    told = model.prepared_.bytes_kept if hasattr(model, "prepared_") else None
    return {
        "predict": median_ms(lambda: model.predict(X), seconds),
        "spread": median_ms(lambda: model.predict(X, return_std=True), seconds),
        "interval": median_ms(lambda: model.predict_interval(X), seconds),
        "bytes_kept": told,
    }


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What one call of predict costs.")
    parser.add_argument("--quick", action="store_true", help="tiny sizes; the numbers mean nothing")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--calls", type=int, default=100_000, help="with one sample, to see whether memory grows")
    parser.add_argument("--memory", default="2GB", help="that prepare may take")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds of one process, at most")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/latency"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        answer(_measure(json.loads(sys.argv[1])))
    else:
        main()
