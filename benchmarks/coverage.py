"""Coverage of every kind of interval over many draws of calibration and test samples.

    python benchmarks/coverage.py [--quick] [--device cuda] [--repeats 400] [-o results/coverage]

A model is fitted once; samples that it never saw make a pool, of which calibration and test sets are drawn again and
again. One draw says little: with 150 calibration and 50 test samples, the share of whole fields inside a band of 90 %
has a standard deviation of about five points by chance alone. The mean over draws is what the method promises, and the
spread over draws is compared with that of exact exchangeability, a beta-binomial distribution.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import betabinom

from pcarann import Marching, PCARaNN, Staged
from pcarann.backend.arrays import to_host
from pcarann.benchmark.machine import machine_facts
from pcarann.benchmark.paper.configurations import PROBLEMS, Problem
from pcarann.benchmark.paper.runs import generate, paper_model
from pcarann.files import atomic_writer
from pcarann.uncertainty.conformal import RELATIVE_FLOOR, Calibration, Method, conformal_rank, nonconformity_scores

__all__ = ["drawn", "main", "scores_of"]

Values = np.ndarray[Any, np.dtype[Any]]
Record = dict[str, Any]

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
METHODS: tuple[Method, ...] = ("sample", "simultaneous", "pooled", "local")
CALIBRATION = (30, 150, 300)
TEST = 50
_POOL, _QUICK_POOL = 1000, 100
_VALUES = 2000  # of a field that are scored: evenly spaced ones of more, so that hundreds of draws take a minute


def main(arguments: Sequence[str] | None = None) -> list[Path]:
    """Fit every surrogate to every problem that it is for, and write one record for each problem."""
    options = _options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    paths = []
    for problem in (PROBLEMS[name] for name in options.problems):
        wanted = replace(problem.quick() if options.quick else problem, n_test=_QUICK_POOL if options.quick else _POOL)
        rows = _problem(wanted, options.device, options.repeats)
        record = {"kind": "coverage", "quick": options.quick, "machine": machine_facts(options.device), "rows": rows}
        paths.append(options.output / f"{problem.name}.json")
        with atomic_writer(paths[-1]) as file:
            file.write(json.dumps(record, indent=1).encode())
    return paths


def _problem(problem: Problem, device: str | None, repeats: int) -> list[Record]:
    train, _, pool = generate(problem, device=device).split(*problem.sizes)
    rows = []
    for name, model in _surrogates(problem, device):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(train.inputs, train.outputs)
            scores = scores_of(model, pool.inputs, pool.outputs)
        row = {"problem": problem.name, "surrogate": name, "train": len(train.inputs), "pool": len(scores)}
        rows.append(row | {"draws": drawn(scores, repeats), "per_point": per_point(scores)})
        print(problem.name, name, [round(one["mean"], 4) for one in rows[-1]["draws"] if one["level"] == 0.9])
    return rows


def _surrogates(problem: Problem, device: str | None) -> list[tuple[str, Any]]:
    members = problem.n_members
    kernel = PCARaNN(n_components=problem.n_components, regressor="kernel", n_members=members, device=device)
    found: list[tuple[str, Any]] = [
        ("random", paper_model(problem, "refined", members, device)),
        ("one member", paper_model(problem, "refined", 1, device)),
        ("kernel", kernel),
    ]
    if problem.name == "darcy":
        found.append(("stages", Staged(n_members=3, device=device)))
    if problem.name == "navier_stokes":
        step = PCARaNN(n_components=problem.n_components, widths=problem.widths, n_members=5, device=device)
        found.append(("march", Marching(step, choose=False)))
    return found


def scores_of(model: Any, inputs: Any, truth: Any) -> Values:
    """Scores of samples, (samples, values), as a calibration takes them."""
    found = model.predict_parts(inputs)
    truth = np.asarray(truth, dtype=np.float64).reshape(len(truth), -1)
    every = max(1, truth.shape[1] // _VALUES)
    beyond = None if found.beyond is None else _flat(found.beyond)[:, ::every]
    floor = RELATIVE_FLOOR * float(np.sqrt(np.mean(truth**2)))
    return np.asarray(
        nonconformity_scores(
            _flat(found.mean)[:, ::every], _flat(found.members)[:, ::every], truth[:, ::every], floor, beyond
        )
    )


def _flat(fields: Any) -> Values:
    return to_host(fields).reshape(len(fields), -1)


def drawn(scores: Values, repeats: int, seed: int = 0) -> list[Record]:
    """Mean and spread of the coverage over draws of calibration and test samples."""
    rng = np.random.default_rng(seed)
    rows = []
    for count in CALIBRATION:
        if count + TEST > len(scores):
            continue
        shares: dict[tuple[float, str], list[float]] = {(level, how): [] for level in LEVELS for how in METHODS}
        for _ in range(repeats):
            order = rng.permutation(len(scores))
            calibration, test = Calibration.of(scores[order[:count]], 1.0), scores[order[count : count + TEST]]
            for (level, how), found in shares.items():
                inside = test <= calibration.factor(round(1 - level, 6), how, scores.shape[1])
                found.append(float((inside.all(axis=1) if how == "simultaneous" else inside).mean()))
        rows += [_row(count, level, how, np.asarray(found)) for (level, how), found in shares.items()]
    return rows


def _row(count: int, level: float, how: str, found: Values) -> Record:
    row: Record = {"calibration": count, "test": TEST, "level": level, "method": how, "mean": float(found.mean())}
    row |= {"error": float(found.std() / np.sqrt(len(found))), "std": float(found.std())}
    row |= {"quantiles": [float(one) for one in np.quantile(found, [0.01, 0.05, 0.5, 0.95, 0.99])]}
    if how == "simultaneous":  # what exchangeable samples without ties would give
        k = conformal_rank(round(1 - level, 6), count, 1, "simultaneous")
        exact = betabinom(TEST, k, count + 1 - k) if k <= count else None
        row |= {"expected": exact.mean() / TEST if exact else 1.0, "expected_std": exact.std() / TEST if exact else 0.0}
    return row


def per_point(scores: Values) -> Record:
    """Coverage at single points of bands of 90 %, over the second half of the pool: with one factor, and with many."""
    half, found = len(scores) // 2, {}
    calibration = Calibration.of(scores[:half], 1.0)
    for how in ("sample", "local"):
        inside = (scores[half:] <= calibration.factor(0.1, how, scores.shape[1])).mean(axis=0)
        found[how] = [float(one) for one in np.quantile(inside, [0, 0.01, 0.1, 0.5, 0.9, 1])]
    return {"level": 0.9, "quantiles": found}


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device")
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--problems", nargs="*", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("-o", "--output", type=Path, default=Path("results/coverage"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    print(*main(), sep="\n")
