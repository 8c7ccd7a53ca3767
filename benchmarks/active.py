"""Samples that a surrogate chooses for itself (`pcarann.sampling.next_points`), against samples that come by chance.

    layer     −ε v″ + b v′ = 1, v = 0 at both ends: boundary layers, ever thinner as ε, log-uniform, falls
    reaction  −ε v″ + h v = 1 + s sin πx, v = 0 at both ends: a layer at each end, ε log-uniform down to 1e-4
    fin       −k v″ + h v = q, v = 0 on the left, v′ = 0 on the right: k, h, q lognormal, few of them large
    smooth    −v″ + v³ = f with a smooth Gaussian field f: every sample is like every other, and nothing is to be gained

20 samples by chance, then batches of 10 out of 1500 candidates, each solved before the next is chosen. Errors are those
of predictions in the mean square over 400 other samples and all points, relative, as medians over seeds. A share is
that of all samples after which a way is as good as random ones are at their best; 1.5 says that it never is.

    python benchmarks/active.py            all ways on all problems, some minutes
    python benchmarks/active.py --ways interval --problems layer fin --start 100 -o results/active/other_seeds.json
                                           one way again, on seeds by which it was not chosen
    python benchmarks/active.py --quick    seconds: the numbers mean nothing
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import beside
import numpy as np

from pcarann.benchmark.machine import machine_facts
from pcarann.files import atomic_writer

__all__ = ["PROBLEMS", "WAYS", "main", "share"]

Values = np.ndarray[Any, Any]
ROOT = Path(__file__).resolve().parents[1]
WAYS = ("random", "error", "interval", "variance")
SEEDS, ROUNDS = 5, 14


example = beside.example("active")
X, diffusion = example.X, example.diffusion


def reaction(rng: np.random.Generator, count: int) -> tuple[Values, Values]:
    """Inputs (log ε, h, s) and solutions."""
    low, high = np.array([np.log(1e-4), 1, -1]), np.array([0, 5, 1])
    inputs, one = rng.uniform(low, high, (count, 3)), np.ones(len(X) - 2)
    load = np.sin(np.pi * X[1:-1])
    return inputs, np.array([diffusion(np.exp(e) * one, 0 * one, h * one, 1 + s * load) for e, h, s in inputs])


def fin(rng: np.random.Generator, count: int) -> tuple[Values, Values]:
    """Inputs (k, h, q) and solutions."""
    inputs = np.exp(rng.normal(size=(count, 3)))
    one = np.ones(len(X) - 2)
    return inputs, np.array([diffusion(k * one, 0 * one, 5 * h * one, q * one, free=True) for k, h, q in inputs])


def smooth(rng: np.random.Generator, count: int) -> tuple[Values, Values]:
    """Inputs f on the grid and solutions, by Newton's method."""
    waves = np.arange(1, 13)
    inputs = (rng.normal(size=(count, 12)) * 60 / (1 + waves**2)) @ np.sin(np.pi * waves[:, None] * X)
    one, found = np.ones(len(X) - 2), []
    for f in inputs:
        v = np.zeros(len(X))
        for _ in range(8):
            v = diffusion(one, 0 * one, 3 * v[1:-1] ** 2, f[1:-1] + 2 * v[1:-1] ** 3)
        found.append(v)
    return inputs, np.array(found)


PROBLEMS: dict[str, Callable[..., tuple[Values, Values]]] = {
    "layer": example.layer,
    "reaction": reaction,
    "fin": fin,
    "smooth": smooth,
}


def share(ours: Values, chance: Values) -> float:
    """Samples after which ours are as good as chance ever is, over all samples; 1.5 where they never are."""
    counts = example.FIRST + example.BATCH * np.arange(len(ours))
    reached = np.flatnonzero(ours <= chance.min())
    return float(counts[reached[0]] / counts[-1]) if len(reached) else 1.5


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Compare ways on problems, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--ways", nargs="+", choices=WAYS[1:], default=WAYS[1:], help="beside random")
    parser.add_argument("--problems", nargs="+", choices=tuple(PROBLEMS), default=tuple(PROBLEMS))
    parser.add_argument("--start", type=int, default=0, help="first of the seeds")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "results" / "active" / "active.json")
    chosen = parser.parse_args(arguments)
    rounds, ways = (1, WAYS[:2]) if chosen.quick else (ROUNDS, ("random", *chosen.ways))
    seeds = [chosen.start + i for i in range(1 if chosen.quick else SEEDS)]
    medians: dict[str, dict[str, list[float]]] = {}
    shares: dict[str, dict[str, float]] = {}
    for name in chosen.problems:
        runs = {by: [example.errors(PROBLEMS[name], by, seed, rounds) for seed in seeds] for by in ways}
        medians[name] = {by: np.median(found, axis=0).tolist() for by, found in runs.items()}
        chance = np.array(medians[name]["random"])
        shares[name] = {by: share(np.array(curve), chance) for by, curve in medians[name].items()}
        sys.stdout.write(f"{name:8} {'  '.join(f'{by} {part:.2f}' for by, part in shares[name].items())}\n")
        sys.stdout.flush()
    record = {"seeds": seeds, "first": example.FIRST, "batch": example.BATCH, "errors": medians, "shares": shares}
    record |= {"machine": machine_facts(None)}
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    with atomic_writer(chosen.output) as file:
        file.write(json.dumps(record, indent=1).encode() + b"\n")
    return record


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* lie outside the training data|relative error .*")
        main()
