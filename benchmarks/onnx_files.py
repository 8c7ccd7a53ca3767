"""ONNX files beside the models they were made of: how far their outputs differ, and what one call costs.

    python benchmarks/onnx_files.py [--quick] [--cases burgers darcy …] [-o results/onnx]

Each of the paper's problems is fitted and calibrated as in the paper, and written in double and in single precision.
Differences are the largest over test samples, relative to the predicted field; those of the model itself, asked for the
same samples one by one and together, stand beside them: where readouts amplify rounding, no file can be nearer. Calls
with one sample are timed on one core, by onnxruntime with one thread: a file of the mean alone, then one of everything.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from measure import Record, answer, in_fresh_process, median_ms

from pcarann import PCARaNN, Refine
from pcarann.benchmark.machine import machine_facts
from pcarann.benchmark.paper.configurations import PROBLEMS
from pcarann.export import to_onnx
from pcarann.files import atomic_writer

__all__ = ["CASES", "main", "table"]

Values = np.ndarray[Any, np.dtype[Any]]

CASES = tuple(PROBLEMS)
PARTS = {"": "mean", ".std": "std", ".lower": "lower", ".upper": "upper"}
_COMPARED = 16  # test samples
_SECONDS = 1.0  # of calls for one median, at most


def main(arguments: Sequence[str] | None = None) -> Path:
    """Compare and time all cases; write one record and one table after each of them; return the path of the record."""
    options = _options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    path: Path = options.output / "onnx-cpu.json"
    record: Record = {"kind": "onnx", "quick": options.quick, "machine": machine_facts(None)}
    record |= {"onnxruntime": onnxruntime.__version__, "load": [os.getloadavg()[0]] * 2, "rows": []}
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes that start next
    for case in options.cases:
        sys.stderr.write(f"{case}\n")
        found = in_fresh_process(Path(__file__), {"case": case, "quick": options.quick}, limit=options.limit)
        record["rows"].append({"case": case, **found})
        record["load"][1] = os.getloadavg()[0]
        for target, text in ((path, json.dumps(record, indent=1) + "\n"), (path.with_suffix(".md"), table(record))):
            with atomic_writer(target) as file:
                file.write(text.encode())
    return path


def table(record: Record) -> str:
    """The record as Markdown."""
    lines = [
        "# ONNX files beside their models",
        "",
        "Largest difference of a test sample, relative to its predicted field, between onnxruntime and `predict`; the "
        "model itself, asked one by one and together.",
        "",
        "| problem | | file | mean | std | lower | upper | p-value | of the model itself |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        if "failed" in row:
            lines.append(f"| {row['case']} | | {row['failed']} | | | | | | |")
            continue
        for name, found in row["files"].items():
            errors = " | ".join(f"{found['errors'][part]:.1e}" for part in (*PARTS.values(), "novelty"))
            lines.append(f"| {row['case']} | {name} | {found['bytes'] / 1e6:.3g} MB | {errors} | {row['own']:.1e} |")
    before, after = record["load"]
    lines += [
        "",
        "One sample on one core, milliseconds, median (fastest; processor's time) of many calls. Load of the machine "
        f"before and after: {before:.1f}, {after:.1f}.",
        "",
        "| problem | | mean | all outputs |",
        "|---|---|---|---|",
    ]
    for row in record["rows"]:
        lines += [f"| {row['case']} | {name} | {_cell(pair[0])} | {_cell(pair[1])} |" for name, pair in _times(row)]
    return "\n".join([*lines, ""])


def _times(row: Record) -> list[tuple[str, list[Record]]]:
    files = {f"onnxruntime, {name}": found["calls"] for name, found in row.get("files", {}).items()}
    return list((row.get("calls", {}) | files).items())


def _cell(found: Record) -> str:
    return f"{found['median']:.2f} ({found['least']:.2f}; {found['cpu']:.2f})"


def _measure(asked: Record) -> Record:
    """All that is measured of one case in this process."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    warnings.simplefilter("ignore")
    model, X = _fitted(asked["case"], asked["quick"])
    seconds = 0.05 if asked["quick"] else _SECONDS
    found: Record = {"calls": {"as it comes": _own_calls(model, X[:1], seconds)}, "files": {}}
    for name, kind in (("double", np.float64), ("single", np.float32)):
        given, calls = X.astype(kind), []
        for mean_only in (True, False):
            session, size = _session(model, single=kind is np.float32, mean_only=mean_only)
            calls.append(median_ms(lambda run=session.run, one=given[:1]: run(None, {"inputs": one}), seconds))
        found["files"][name] = {"bytes": size, "errors": _errors(session, model, given), "calls": calls}
        del session
    together = model.predict(X)
    model.prepare("2GB")
    apart = np.concatenate([model.predict(X[i : i + 1]) for i in range(len(X))])
    found["own"] = _difference(apart, together, together)
    found["calls"]["prepared"] = _own_calls(model, X[:1], seconds)
    return found


def _fitted(case: str, quick: bool) -> tuple[PCARaNN, Values]:
    """The model of a problem, and some of its test inputs."""
    problem = PROBLEMS[case].quick() if quick else PROBLEMS[case]
    data = import_module(f"pcarann.problems.{case}").generate(sum(problem.sizes), seed=0, **problem.options)
    train, calibration, test = data.split(*problem.sizes)
    scales = "energy" if quick else Refine(ridge=problem.refine_ridge)
    model = PCARaNN(problem.n_components, problem.widths, problem.n_members, scales=scales)
    model.fit(train.inputs, train.outputs).calibrate(calibration.inputs, calibration.outputs)
    return model, test.inputs[:_COMPARED]


def _session(model: PCARaNN, **how: Any) -> tuple[Any, int]:
    """An ONNX file of a model, opened, and its bytes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        to_onnx(model, path, **how)
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]), path.stat().st_size


def _errors(session: Any, model: PCARaNN, given: Values) -> Record:
    outputs = dict(zip([one.name for one in session.get_outputs()], session.run(None, {"inputs": given}), strict=True))
    X = given.astype(np.float64)
    band, p = model.predict_interval(X), model.novelty(X).p_value
    errors = {
        name: _difference(outputs[f"outputs{suffix}"], getattr(band, name), band.mean) for suffix, name in PARTS.items()
    }
    return errors | {"novelty": float(np.abs(outputs["novelty"] - p).max())}


def _difference(found: Values, wanted: Values, fields: Values) -> float:
    """The largest over samples, relative to fields."""
    rows = len(wanted)
    missed = np.linalg.norm((found - wanted).reshape(rows, -1), axis=1)
    return float((missed / np.linalg.norm(fields.reshape(rows, -1), axis=1)).max())


def _own_calls(model: PCARaNN, one: Values, seconds: float) -> list[Record]:
    return [median_ms(lambda: model.predict(one), seconds), median_ms(lambda: model.predict_interval(one), seconds)]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="ONNX files beside the models they were made of.")
    parser.add_argument("--quick", action="store_true", help="tiny sizes; the times mean nothing")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds of one process, at most")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/onnx"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        answer(_measure(json.loads(sys.argv[1])))
    else:
        main()
