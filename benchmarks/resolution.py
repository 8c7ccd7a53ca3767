"""Models that were trained on one grid and predict on another, on Darcy flow.

    python benchmarks/resolution.py                                     stages, stages with the symmetry, latent
    python benchmarks/resolution.py --methods stages --trained 57       trained at 57²
    python benchmarks/resolution.py --fno --methods fno --device cuda   a Fourier neural operator, beside what is there
    python benchmarks/resolution.py --quick                             tiny: the numbers mean nothing

Coefficients and solutions are those of a solver on 169² nodes: of both, every 6th, 3rd and 2nd node is kept, so that a
sample at 29² is a restriction of the one at 57² and of the one at 85², inputs and truth alike. (The public data keep
every 15th node of 421, among which the 57² points are not.)

Beside the error of `model.on(shape)` for coefficients on that grid stands that of its prediction on the grid of the
training, interpolated by cubic splines, and what the interpolation of the truth itself would miss. Stages go only to
grids that hold the points of the training: from 57² neither to 29² nor to 85². Intervals are calibrated on the grid of
the training, on samples of their own: their coverage on other grids says whether they stay. One record is kept for all
runs: a method is replaced when it is measured again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pcarann.backend.arrays import place_of
from pcarann.backend.concurrency import in_pieces
from pcarann.benchmark.machine import machine_facts
from pcarann.files import atomic_writer
from pcarann.latent.resampled import Target
from pcarann.metrics import coverage, relative_l2
from pcarann.operator import PCARaNN
from pcarann.problems.darcy import permeabilities, solve
from pcarann.spatial.channels import Channels
from pcarann.staged import Staged
from pcarann.symmetry.generators import Symmetry

__all__ = ["GRIDS", "METHODS", "darcy", "main"]

Fields = np.ndarray[Any, Any]
Record = dict[str, Any]
Data = dict[int, tuple[Fields, Fields]]
"""Inputs and outputs for each number of points along an axis"""

GRIDS = (29, 57, 85)
FINE = 169
LEVEL = 0.9
"""Of the intervals"""
TITLES = {
    "stages": "stages",
    "symmetric": "stages, dihedral symmetry",
    "latent": "PCARaNN",
    "fno": "FNO",
}


def darcy(samples: range, seed: int = 0) -> Data:
    """Samples on all grids, restrictions of one solution each."""
    place = place_of(None)

    def piece(part: range) -> tuple[Fields, ...]:
        a = permeabilities(part, place, seed=seed, fine=FINE)
        u = solve(a, np.ones_like(a), tolerance=1e-10)
        return tuple(np.ascontiguousarray(side[:, ::step, ::step]) for step in _steps() for side in (a, u))

    found = in_pieces(piece, samples, place=place, size=4, bytes_each=20 * 8 * 421**2)
    return {n: (found[2 * i], found[2 * i + 1]) for i, n in enumerate(GRIDS)}


def _steps() -> list[int]:
    return [(FINE - 1) // (n - 1) for n in GRIDS]


def stages(quick: bool, device: str | None) -> Any:
    """Stages as they come."""
    return Staged(n_features=8, n_members=2, n_stages=1, channels=Channels()) if quick else Staged(device=device)


def symmetric(quick: bool, device: str | None) -> Any:
    """The same with the moves of the square."""
    return stages(quick, device).set_params(symmetry=Symmetry.dihedral())


def latent(quick: bool, device: str | None) -> Any:
    """The latent model as it comes."""
    return PCARaNN(n_components=(8, 8), widths=(20, 10), n_members=2) if quick else PCARaNN(device=device)


def fno(quick: bool, device: str | None) -> Any:
    """The paper's network, normalised by channels: weights that see any grid."""
    from pcarann.baselines.fno import FNO

    if quick:
        return FNO(modes=(3, 3), width=6, layers=2, projection=8, epochs=1, device=device)
    return FNO(modes=(12, 12), width=32, epochs=300, device=device)


METHODS: dict[str, Callable[[bool, str | None], Any]] = {
    method.__name__: method for method in (stages, symmetric, latent, fno)
}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Run, write record and table, and return the path of the table."""
    options = _options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "resolution.json"
    record: Record = {"kind": "resolution", "quick": options.quick, "n_train": options.n, "n_test": options.n_test}
    kept = json.loads(path.read_text()) if path.exists() else {}
    same = all(kept.get(name) == value for name, value in record.items())
    record["runs"] = kept["runs"] if same else {}
    begun = time.perf_counter()
    data = darcy(range(options.n + 2 * options.n_test))
    sys.stderr.write(f"{'data':24} {time.perf_counter() - begun:6.1f} s\n")
    record["interpolated_truth"] = _interpolated_truth(data, options)
    for method in options.methods:
        for trained in options.trained:
            found = _run(method, trained, data, options)
            record["runs"][f"{method} {trained}"] = found | {"machine": machine_facts(options.device)}
            _write(path, json.dumps(record, indent=1) + "\n")
            _write(path.with_suffix(".md"), _table(record))
    return path.with_suffix(".md")


def _run(method: str, trained: int, data: Data, options: argparse.Namespace) -> Record:
    """Train on one grid, predict on all."""
    rows = slice(0, options.n), slice(options.n, options.n + options.n_test), slice(options.n + options.n_test, None)
    (a, u), began = data[trained], time.perf_counter()
    model = METHODS[method](options.quick, options.device).fit(a[rows[0]], u[rows[0]])
    record: Record = {"method": method, "trained": trained, "fit_seconds": time.perf_counter() - began, "grids": {}}
    if method != "fno":
        model.calibrate(a[rows[1]], u[rows[1]])
    here = model.predict(a[rows[2]])
    for n, (inputs, truth) in data.items():
        began = time.perf_counter()
        found = _predicted(model, method, n, trained, inputs[rows[2]], truth[rows[2]])
        found["predict_seconds"] = time.perf_counter() - began
        found["interpolated"] = relative_l2(_splined(here, n), truth[rows[2]])
        record["grids"][str(n)] = found
        said = ", ".join(f"{name} {value:.3g}" for name, value in found.items() if name != "refused")
        sys.stderr.write(f"{method:10} {trained} to {n}: {said}\n")
    return record


def _predicted(model: Any, method: str, n: int, trained: int, inputs: Fields, truth: Fields) -> Record:
    """The error on a grid, and the share of it that intervals hold."""
    if method == "fno":
        return {"error": relative_l2(model.predict(inputs), truth)}
    try:
        there = model if n == trained else model.on((n, n), inputs=(n, n) if method == "latent" else None)
    except ValueError as error:
        return {"refused": str(error)}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* outside .* training data")
        band = there.predict_interval(inputs, 1 - LEVEL)
    return {"error": relative_l2(band.mean, truth), "coverage": coverage(band.lower, band.upper, truth)}


def _interpolated_truth(data: Data, options: argparse.Namespace) -> Record:
    rows = slice(options.n + options.n_test, None)
    return {
        f"{trained} to {n}": relative_l2(_splined(data[trained][1][rows], n), data[n][1][rows])
        for trained in GRIDS
        for n in GRIDS
    }


def _splined(fields: Fields, n: int) -> Fields:
    shape = fields.shape[1:]
    return Target((n, n))(fields.reshape(len(fields), -1), shape).reshape(-1, n, n)


def _table(record: Record) -> str:
    lines = [
        f"# Trained on one grid, predicting on another: Darcy, {record['n_train']} samples\n",
        "Mean relative L² errors in percent on "
        f"{record['n_test']} samples, for coefficients on the grid of the prediction, against the solver's solution "
        "there; in brackets the prediction on the grid of the training, interpolated. Coverage is that of intervals of "
        f"level {LEVEL:.0%}, calibrated on the grid of the training.\n",
        f"| method | trained at | {' | '.join(f'{n}²' for n in GRIDS)} | coverage | fit, s |",
        f"|---|---|{'---|' * len(GRIDS)}---|---|",
    ]
    for found in record["runs"].values():
        cells, covered = [], []
        for n in GRIDS:
            one = found["grids"][str(n)]
            beside = "" if n == found["trained"] else f" ({100 * one['interpolated']:.2f})"
            cells.append((f"{100 * one['error']:.2f}" if "error" in one else "–") + beside)
            covered.append(f"{100 * one['coverage']:.0f} %" if "coverage" in one else "–")
        title = TITLES[found["method"]]
        row = [title, f"{found['trained']}²", *cells, ", ".join(covered), f"{found['fit_seconds']:.0f}"]
        lines.append(f"| {' | '.join(row)} |")
    truth = record["interpolated_truth"]
    missed = ", ".join(f"{100 * truth[f'29 to {n}']:.2f} at {n}²" for n in GRIDS[1:])
    lines.append(f"\nThe truth at 29² itself, interpolated, misses {missed}.")
    return "\n".join(lines) + "\n"


def _write(path: Path, text: str) -> None:
    with atomic_writer(path) as file:
        file.write(text.encode())


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    own = [name for name in METHODS if name != "fno"]
    parser.add_argument("--quick", action="store_true", help="tiny sizes: the numbers mean nothing")
    parser.add_argument("--methods", nargs="*", choices=list(METHODS), default=own, metavar="METHOD")
    parser.add_argument("--fno", action="store_true", help="the Fourier neural operator too, which wants a GPU")
    parser.add_argument("--trained", nargs="+", type=int, choices=GRIDS, default=[GRIDS[0]], metavar="POINTS")
    parser.add_argument("--device", default=None)
    parser.add_argument("-n", type=int, default=1000, help="training samples (1000)")
    parser.add_argument("--n-test", type=int, default=100, help="test samples, and as many for calibration (100)")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/resolution"))
    options = parser.parse_args(arguments)
    if options.quick:
        options.n, options.n_test = 12, 20
    if options.fno and "fno" not in options.methods:
        options.methods = [*options.methods, "fno"]
    return options


if __name__ == "__main__":
    sys.stdout.write(main().read_text())
