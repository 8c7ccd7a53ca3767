"""Where to solve next: a surrogate that chooses its own samples, against one whose samples come by chance.

    −ε v″ + b v′ = 1,  v = 0 at both ends:  boundary layers, ever thinner as ε, log-uniform, falls

A batch is chosen out of 1500 candidates by `next_points`, solved, and the surrogate fitted again. The error is that of
the prediction in the mean square over samples and points, relative. `benchmarks/active.py` has more problems and seeds,
and one where nothing is to be gained.

    python examples/active.py            a minute; writes active.png
    python examples/active.py --quick    seconds
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import solve_banded

from pcarann import PCARaNN
from pcarann.sampling import next_points

Values = np.ndarray[Any, Any]
X = np.linspace(0, 1, 129)
CANDIDATES, TESTED, FIRST, BATCH = 1500, 400, 20, 10


def diffusion(k: Values, b: Values, h: Values, f: Values, free: bool = False) -> Values:
    """−k v″ + b v′ + h v = f at the inner points, k with the Scharfetter–Gummel factor; the right end 0 or `free`."""
    step = X[1]
    peclet = np.maximum(np.abs(b) * step / (2 * k), 1e-8)
    k = k * peclet / np.tanh(peclet) / step**2
    bands = np.stack([np.r_[0, (b / (2 * step) - k)[:-1]], 2 * k + h, np.r_[(-b / (2 * step) - k)[1:], 0]])
    if free:
        bands[1, -1] -= k[-1]
    inner = solve_banded((1, 1), bands, f)
    return np.r_[0, inner, inner[-1] if free else 0]


def layer(rng: np.random.Generator, count: int) -> tuple[Values, Values]:
    """Inputs (log ε, b) and solutions."""
    inputs = np.stack([rng.uniform(np.log(5e-3), 0, count), rng.uniform(0.5, 2.5, count)], axis=1)
    one = np.ones(len(X) - 2)
    return inputs, np.array([diffusion(np.exp(e) * one, b * one, 0 * one, one) for e, b in inputs])


def errors(problem: Callable[..., tuple[Values, Values]], by: str, seed: int, rounds: int) -> list[float]:
    """Relative error at the start and after each batch, chosen by these scores or at random."""
    rng = np.random.default_rng(seed)
    (inputs, truth), (new, wanted) = problem(rng, CANDIDATES), problem(rng, TESTED)
    chosen, found = list(range(FIRST)), []
    for left_to_go in range(rounds, -1, -1):
        model = PCARaNN(0.999999, regressor="kernel", n_members=4, random_state=seed).fit(inputs[chosen], truth[chosen])
        found.append(float(np.linalg.norm(model.predict(new) - wanted) / np.linalg.norm(wanted)))
        if left_to_go:
            left = np.setdiff1d(np.arange(CANDIDATES), chosen)
            picked = np.arange(BATCH) if by == "random" else next_points(model, inputs[left], BATCH, by=by)
            chosen += left[picked].tolist()
    return found


def draw(curves: dict[str, list[float]], path: Path) -> None:
    """Errors against samples."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.6), layout="constrained")
    axis = figure.subplots()
    for by, curve in curves.items():
        style, name = ("--", "by chance") if by == "random" else ("-", f"next_points, by={by!r}")
        axis.semilogy(FIRST + BATCH * np.arange(len(curve)), curve, style, label=name)
    axis.set(title="boundary layers", xlabel="samples solved", ylabel="relative error")
    axis.legend()
    figure.savefig(path, dpi=150)


def main(arguments: list[str] | None = None) -> dict[str, list[float]]:
    """Compare both ways, as medians over seeds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("-o", "--output", type=Path, default=Path(), help="folder")
    chosen = parser.parse_args(arguments)
    seeds, rounds = (1, 2) if chosen.quick else (3, 12)
    curves = {
        by: np.median([errors(layer, by, seed, rounds) for seed in range(seeds)], axis=0).tolist()
        for by in ("random", "error")
    }
    for by, curve in curves.items():
        print(f"{by:7} {' '.join(f'{error:.2g}' for error in curve)}")
    draw(curves, chosen.output / "active.png")
    return curves


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* lie outside the training data|relative error .*")
        main()
