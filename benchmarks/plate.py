"""The plate of `examples/plate.py`, a field and two numbers to displacements on triangles: ours and what others offer.

    python benchmarks/plate.py --rivals PYTHON            everything; PYTHON has plate_requirements.txt
    python benchmarks/plate.py --methods channels --keep  one method anew, beside what is recorded of the others
    python benchmarks/plate.py --quick --methods channels the machinery in seconds; the numbers mean nothing

300 samples to train, 100 to calibrate, 100 to test, all of one seed. Rivals (`plate_rivals`) run in an environment of
their own and never see an output of the test set. Every method has one thread. Errors are means over test samples of
‖û − u‖ / ‖u‖, over nodes as they are and weighted by the area around each (the lumped mass). Intervals at 90 %: ours
are calibrated on the 100 samples kept for it, those of Gaussian processes are mean ± 1.645 standard deviations.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plate_rivals
from beside import example
from threadpoolctl import threadpool_limits

import pcarann
from pcarann import Fields, Mesh, PCARaNN
from pcarann.benchmark.machine import machine_facts
from pcarann.files import atomic_writer
from pcarann.metrics import coverage, mean_width, relative_l2

__all__ = ["METHODS", "channels", "main", "naive", "ours"]

Values = np.ndarray[Any, Any]
Inputs = dict[str, Values]
Record = dict[str, Any]

SEED, ALPHA, BUDGET = 0, 0.1, 60.0
SIZES, QUICK = (300, 100, 100), (60, 20, 20)
MODES = 20
NORMAL_QUANTILE = 1.6449
"""At 1 − α/2"""


class Plate(NamedTuple):
    """Parts of the samples: inputs by name, and displacements (samples, nodes, 2)."""

    mesh: Any
    train: tuple[Inputs, Values]
    calibration: tuple[Inputs, Values]
    test: tuple[Inputs, Values]

    @property
    def weights(self) -> Values:
        """Lumped masses: a third of the area of the triangles around each node."""
        corners = self.mesh.p[:, self.mesh.t]
        (a, b), (c, d) = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
        areas = np.repeat(np.abs(a * d - b * c) / 6, 3)
        return np.bincount(self.mesh.t.T.ravel(), weights=areas, minlength=self.mesh.p.shape[1])


class Found(NamedTuple):
    """What a method answers: means on the test inputs and the ends of their intervals, where it has them."""

    fit: Callable[[], Any]
    """Timed; returns a model"""
    predict: Callable[[Any], tuple[Values, Values | None, Values | None]]


def naive(plate: Plate) -> Found:
    """`pcarann.auto` on one array, all inputs side by side."""

    def stacked(inputs: Inputs) -> Values:
        return np.column_stack([inputs["conductivity"], inputs["angle"], inputs["temperature"]])

    def fit() -> Any:
        return pcarann.auto(stacked(plate.train[0]), plate.train[1], budget=BUDGET)

    return Found(fit, _calibrated(plate, stacked))


def channels(plate: Plate) -> Found:
    """Numbers as constant fields, a PCA and a weight for each channel.

    The kernel and its 20 modes, among random layers and 10, 20 or 40 modes, had the least error on the last 60 training
    samples; those seconds do not count.
    """

    def stacked(inputs: Inputs) -> Values:
        field = inputs["conductivity"]
        constant = [np.broadcast_to(inputs[name][:, None], field.shape) for name in ("angle", "temperature")]
        return np.stack([field, *constant], axis=1)

    def fit() -> Any:
        model = PCARaNN((MODES, 40), fields=Fields(channels=True), relevance="channels", regressor="kernel")
        return model.fit(stacked(plate.train[0]), plate.train[1])

    return Found(fit, _calibrated(plate, stacked))


def ours(plate: Plate) -> Found:
    """`pcarann.auto` on inputs by name, with the mesh."""
    mesh = Mesh(plate.mesh.p.T, plate.mesh.t.T)

    def fit() -> Any:
        return pcarann.auto(*plate.train, mesh=mesh, budget=BUDGET)

    return Found(fit, _calibrated(plate, lambda inputs: inputs))


def _calibrated(plate: Plate, stacked: Callable[[Inputs], Any]) -> Callable[[Any], Any]:
    def predict(model: Any) -> tuple[Values, Values, Values]:
        model.calibrate(stacked(plate.calibration[0]), plate.calibration[1])
        band = model.predict_interval(stacked(plate.test[0]), alpha=ALPHA)
        return model.predict(stacked(plate.test[0])), band.lower, band.upper

    return predict


METHODS: dict[str, Callable[[Plate], Found]] = {method.__name__: method for method in (naive, channels, ours)}


def load(sizes: Sequence[int], level: int) -> Plate:
    """Draw the samples."""
    solver = example("plate")
    inputs, outputs = solver.sample(sum(sizes), SEED, level=level)
    ends = np.cumsum([0, *sizes])
    parts = [slice(*ends[k : k + 2]) for k in range(3)]
    split = [({key: values[part] for key, values in inputs.items()}, outputs["displacement"][part]) for part in parts]
    return Plate(solver.mesh(level), *split)


def measure(name: str, plate: Plate) -> Record:
    """Fit one of ours under the clock with one thread, and judge it."""
    method = METHODS[name]
    found = method(plate)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant fields have fewer modes than are asked for
        begun, worked = time.perf_counter(), time.process_time()
        model = found.fit()
        seconds = {"seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time() - worked}
        record = judged(plate, *found.predict(model))
    report = {"report": str(model.auto_report_)} if hasattr(model, "auto_report_") else {}
    modes = {"modes": MODES} if name == "channels" else {}
    return record | seconds | modes | {"lines": plate_rivals.lines_of(method, _calibrated)} | report


def measure_rival(name: str, plate: Plate, python: str) -> Record:
    """Ask the other environment."""
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "given.npz", Path(folder) / "found.npz"
        inputs = {f"{part}_{key}": v for part in ("train", "test") for key, v in getattr(plate, part)[0].items()}
        np.savez(given, train_outputs=plate.train[1].reshape(len(plate.train[1]), -1), **inputs)
        command = [python, str(Path(plate_rivals.__file__)), name, str(given), str(answer)]
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | threads)
        if done.returncode:
            return {"failed": (done.stderr.strip().splitlines() or ["no answer"])[-1]}
        with np.load(answer) as found:
            values = dict(found)
    mean = values.pop("mean").reshape(plate.test[1].shape)
    std = values.pop("std", None)
    half = None if std is None else NORMAL_QUANTILE * std.reshape(mean.shape)
    ends = (None, None) if half is None else (mean - half, mean + half)
    return judged(plate, mean, *ends) | {key: value.item() for key, value in values.items()}


def judged(plate: Plate, mean: Values, lower: Values | None, upper: Values | None) -> Record:
    """Errors in both norms, and coverage and mean width of the intervals in units of the root mean square."""
    truth, roots = plate.test[1], np.sqrt(plate.weights)[:, None]
    record: Record = {"error": relative_l2(mean, truth), "error_by_area": relative_l2(roots * mean, roots * truth)}
    if lower is None or upper is None:
        return record
    width = mean_width(lower, upper) / float(np.sqrt((truth**2).mean()))
    each = [coverage(*(part[..., k] for part in (lower, upper, truth))) for k in range(truth.shape[-1])]
    return record | {"coverage": coverage(lower, upper, truth), "coverage_by_component": each, "width": width}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Run, write a record after every method and the table, and return the path of the table."""
    options = _options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    path, table = options.output / "plate.json", options.output / "plate.md"
    begun = time.perf_counter()
    sizes, level = (QUICK, 0) if options.quick else (SIZES, 2)
    plate = load(sizes, level)
    record: Record = {"kind": "plate", "quick": options.quick, "seed": SEED, "machine": machine_facts(None)}
    record["sizes"] = sizes
    record |= {"nodes": plate.mesh.p.shape[1], "sampling_seconds": time.perf_counter() - begun}
    record["methods"] = json.loads(path.read_text())["methods"] if options.keep else {}
    for name in options.methods:
        rival = name in plate_rivals.METHODS
        found = measure_rival(name, plate, options.rivals) if rival else measure(name, plate)
        record["methods"][name] = found
        sys.stderr.write(f"{name:12} {found.get('failed') or {k: v for k, v in found.items() if k != 'report'}}\n")
        _write(path, json.dumps(record, indent=1) + "\n")
        _write(table, report(record))
    return table


def report(record: Record) -> str:
    """The table in Markdown."""
    quick = " **Quick mode: these numbers mean nothing.**" if record["quick"] else ""
    sizes = ", ".join(map(str, record["sizes"]))
    heading = (
        f"Displacements of the plate, {record['nodes']} nodes, {sizes} samples to train, calibrate and test: mean "
        "relative L² error over nodes and by area, coverage and mean width of 90 % intervals (in root mean squares of "
        "the displacement; of Gaussian processes as they are, not calibrated), seconds to train with one thread of a "
        "shared machine (CPU seconds in brackets), and lines of the functions that a user writes. `naive` and `ours` "
        f"have a budget of {BUDGET:g} s. How many components of the field are read, rivals choose within their seconds "
        "where a range stands in `plate_rivals.METHODS`; the others take 20, and for `channels` this was settled "
        f"before.{quick}"
    )
    columns = ["method", "error", "error by area", "coverage", "width", "seconds (CPU)", "lines", "components"]
    rows = [_row(name, found) for name, found in record["methods"].items()]
    return (
        heading
        + "\n\n"
        + "\n".join(f"| {' | '.join(row)} |" for row in [columns, ["---"] * len(columns), *rows])
        + "\n"
    )


def _row(name: str, found: Record) -> list[str]:
    if "failed" in found:
        return [name, f"– ({found['failed']})", *["–"] * 6]
    interval = [f"{found['coverage']:.2f}", f"{found['width']:.3f}"] if "coverage" in found else ["–", "–"]
    errors = [f"{found[key]:.2e}" for key in ("error", "error_by_area")]
    seconds = f"{found['seconds']:.1f} ({found['cpu_seconds']:.1f})"
    return [name, *errors, *interval, seconds, str(found["lines"]), str(found.get("modes", "–"))]


def _write(path: Path, text: str) -> None:
    with atomic_writer(path) as file:
        file.write(text.encode())


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = [*METHODS, *plate_rivals.METHODS]
    parser.add_argument("--quick", action="store_true", help="few samples on a coarse mesh")
    parser.add_argument("--methods", nargs="+", choices=names, default=names, metavar="METHOD", help=", ".join(names))
    parser.add_argument("--keep", action="store_true", help="what was recorded of other methods stays")
    parser.add_argument("--rivals", default=sys.executable, help="the Python that has EZyRB and SMT (this one)")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/plate"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.stdout.write(f"{main()}\n")
