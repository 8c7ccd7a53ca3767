"""How often the posterior of `examples/inversion.py` holds the truth, with the surrogate's own error and without it.

    python benchmarks/inversion.py            100 synthetic inversions, some minutes
    python benchmarks/inversion.py --quick    the machinery in seconds; the numbers mean nothing

Truths come from the prior and measurements from the solver, with noise, so that 90 % intervals of the posterior hold
90 % of all parameters where the likelihood is right. All inversions are drawn from side by side, each by its own
walkers (differential evolution, ter Braak 2006, as emcee's `DEMove`), so that a step is two calls of the quantity.
Whether chains are long enough is told by the spread of the walkers' means beside that of the draws (R̂).
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from beside import example

from pcarann.benchmark.machine import machine_facts
from pcarann.files import atomic_writer

__all__ = ["evolved", "main", "shrinkage"]

Values = np.ndarray[Any, Any]
ROOT = Path(__file__).resolve().parents[1]
LEVEL, WALKERS = 0.9, 48
SIZES, QUICK = (100, 600, 300, 3000), (2, 60, 40, 10)
"""Inversions, samples to train and to calibrate, steps"""


def evolved(density: Callable[[Values], Values], begun: Values, steps: int, rng: np.random.Generator) -> Values:
    """Draws (steps, problems, walkers, parameters) of many posteriors; `density` gives the logarithm of all of them.

    Half of the walkers of a problem move at a time, along differences of two of the other half:
    θ + γ (θ₁ − θ₂) + e with γ = 2.38 / √(2 d), and γ = 1 at every tenth step, which lets walkers change modes.
    """
    problems, walkers, size = begun.shape
    now, height, found = begun.copy(), density(begun), np.empty((steps, *begun.shape))
    each, half = np.arange(problems)[:, None], walkers // 2
    for step in range(steps):
        for mine in (slice(0, half), slice(half, walkers)):
            others = now[:, half:] if mine.start == 0 else now[:, :half]
            first = rng.integers(half, size=(problems, half))
            second = (first + rng.integers(1, half, size=first.shape)) % half
            gamma = 1.0 if step % 10 == 9 else 2.38 / np.sqrt(2 * size)
            moved = now[:, mine] + gamma * (others[each, first] - others[each, second])
            moved += 1e-5 * rng.normal(size=moved.shape)
            new = density(moved)
            taken = np.log(rng.uniform(size=new.shape)) < new - height[:, mine]
            now[:, mine] = np.where(taken[..., None], moved, now[:, mine])
            height[:, mine] = np.where(taken, new, height[:, mine])
        found[step] = now
    return found


def shrinkage(draws: Values) -> Values:
    """R̂ of (steps, problems, walkers, parameters), over walkers and halves of their chains: (problems, parameters)."""
    halves = np.concatenate(np.split(draws[: len(draws) // 2 * 2], 2), axis=2)
    within, between = halves.var(axis=0, ddof=1).mean(axis=1), halves.mean(axis=0).var(axis=1, ddof=1)
    return np.asarray(np.sqrt(1 + between / np.where(within > 0, within, 1.0)))


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Invert again and again, count, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "results" / "inversion")
    chosen = parser.parse_args(arguments)
    count, train, kept, steps = QUICK if chosen.quick else SIZES
    case, rng = example("inversion"), np.random.default_rng(0)
    quantity, error = case.learned(rng, train, kept)
    truths = case.prior(rng, count)
    noise = case.NOISE**2 * np.eye(len(case.SENSORS))
    signals = np.array([case.solve(truth).ravel()[case.SENSORS] for truth in truths])
    measured = signals + case.NOISE * rng.normal(size=signals.shape)
    low_high = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    found: dict[str, Any] = {}
    for name, covariance in (("with_model_error", noise + error), ("without", noise)):
        posteriors = [case.Posterior(quantity, one, covariance) for one in measured]
        begun = np.array([posterior.begun(rng, WALKERS)[1] for posterior in posteriors])
        draws = evolved(lambda p, c=covariance: case.together(quantity, measured, c, p), begun, steps, rng)[
            steps // 4 :
        ]
        low, high = np.quantile(draws, low_high, axis=(0, 2))
        held = (low <= truths) & (truths <= high)
        found[name] = {
            "coverage": float(held.mean()),
            "of_each": dict(zip(case.NAMES, held.mean(axis=0).tolist(), strict=True)),
            "mean_width": dict(zip(case.NAMES, (high - low).mean(axis=0).tolist(), strict=True)),
            "largest_shrinkage": float(shrinkage(draws).max()),
            "median_shrinkage": float(np.median(shrinkage(draws))),
        }
        sys.stdout.write(f"{name}: {held.mean():.3f} of {LEVEL:g}, R̂ up to {found[name]['largest_shrinkage']:.3f}\n")
        sys.stdout.flush()
    record = {"inversions": count, "level": LEVEL, "walkers": WALKERS, "steps": steps, "train": train, "kept": kept}
    record |= {"noise": case.NOISE, "model_error": np.sqrt(np.diag(error)).tolist(), "found": found}
    record |= {"machine": machine_facts(None)}
    chosen.output.mkdir(parents=True, exist_ok=True)
    with atomic_writer(chosen.output / "inversion.json") as file:
        file.write(json.dumps(record, indent=1).encode() + b"\n")
    return record


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* lie outside the training data")  # walkers may try what they like
        main()
