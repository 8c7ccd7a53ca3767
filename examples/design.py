"""A design by a surrogate: what an optimiser finds where nothing was ever solved, and a guard against it.

    least mass  m = Σ tᵢ² / 4  of a stepped cantilever of unit length with four square sections of thickness tᵢ,
    whose tip, under a force there, bends by no more than LIMIT:     w″ = (1 − x) / t(x)⁴,  w(0) = w′(0) = 0

The surrogate learned the deflection w(x) from designs with 0.75 ≤ tᵢ ≤ 1.35; the optimiser may go from 0.05 to 2, and
the best design is thinner at its tip than any of these. Beams bend as t⁻⁴, without bound. The surrogate, which never
saw a thin one, does not know, and an optimiser that trusts it makes the tip so thin that the beam bends far too much.

The guard goes from the best design that was solved towards the optimum only as far as inputs are not new (`novelty`).
There it asks the solver, for that design and for some around it of which most is to be learned (`next_points`), fits
again, and goes on until the optimum itself is known, and confirmed.

    python examples/design.py            seconds; writes design.png
    python examples/design.py --quick    fewer samples
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.optimize import Bounds, minimize

from pcarann import PCARaNN
from pcarann.sampling import next_points

Values = np.ndarray[Any, Any]
X = np.linspace(0, 1, 161)
SEEN, ALLOWED, LIMIT = (0.75, 1.35), (0.05, 2.0), 0.6
LEAST_P, CLOSE = 0.02, 0.02
"""p-value below which a design counts as new; relative error within which the solver confirms a prediction"""
AROUND, ASKED, ROUNDS = 0.04, 4, 25
"""Spread of candidates around a design, how many of them are solved beside it, and how often at most"""


def solve(design: Values) -> Values:
    """Deflection at all points of a beam with these thicknesses."""
    thickness = design[np.minimum((X * len(design)).astype(int), len(design) - 1)]
    slope = cumulative_trapezoid((1 - X) / thickness**4, X, initial=0)
    return np.asarray(cumulative_trapezoid(slope, X, initial=0))


def mass(design: Values) -> float:
    """The mean of the areas, m."""
    return float((design**2).mean())


def optimum(tip: Any, begin: Values) -> Values:
    """The lightest design whose predicted tip bends by no more than the limit, by gradients of the surrogate."""
    bends = {"fun": lambda t: np.log(LIMIT) - tip(t[None])[0], "jac": lambda t: -tip.gradient(t[None])[0]}
    options = {"bounds": Bounds(*ALLOWED), "constraints": {"type": "ineq", **bends}, "method": "SLSQP", "tol": 1e-8}
    return np.asarray(minimize(mass, begin, jac=lambda t: t / 2, **options).x)


def learned(designs: Values, seed: int = 0) -> PCARaNN:
    """A surrogate of log w, which is finite in ratios, away from the clamp."""
    fields = np.log([solve(design)[1:] for design in designs])
    return PCARaNN(0.999999, regressor="kernel", linear=True, n_members=4, random_state=seed).fit(designs, fields)


def guarded(model: PCARaNN, start: Values, wanted: Values) -> Values:
    """The point farthest from the start towards what is wanted where no input on the way is new."""
    way = start + np.linspace(0, 1, 101)[:, None] * (wanted - start)
    new = np.flatnonzero(model.novelty(way).p_value < LEAST_P)
    return way[max(new[0] - 1, 0) if len(new) else -1]


def designed(designs: Values, rng: np.random.Generator) -> tuple[Values, list[Values], bool]:
    """With the guard: the design, all that were asked for on the way, and whether the solver confirms it."""
    asked: list[Values] = []
    for _ in range(ROUNDS):
        model = learned(designs)
        tip = model.quantity(np.eye(len(X) - 1)[-1])
        safe = [one for one in designs if solve(one)[-1] <= LIMIT]
        best = min(safe, key=mass)
        wanted = optimum(tip, best)
        here = guarded(model, best, wanted)
        asked.append(here)
        predicted, true = float(np.exp(tip(here[None])[0])), solve(here)[-1]
        if np.allclose(here, wanted) and abs(predicted / true - 1) < CLOSE:
            return here, asked, bool(true <= (1 + CLOSE) * LIMIT)
        candidates = np.clip(here * (1 + AROUND * rng.normal(size=(200, len(here)))), *ALLOWED)
        designs = np.concatenate([designs, here[None], candidates[next_points(model, candidates, ASKED)]])
    return here, asked, False


def draw(designs: dict[str, Values], path: Path) -> None:
    """Thickness and true deflection of each design."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, design in designs.items():
        left.stairs(design, np.linspace(0, 1, 5), label=f"{name}, mass {mass(design):.3g}")
        right.semilogy(X[1:], solve(design)[1:])
    right.axhline(LIMIT, color="black", linestyle="--", label="limit at the tip")
    left.set(title="thickness", xlabel="x")
    right.set(title="deflection, solved", xlabel="x", ylim=(1e-4, None))
    figure.legend(loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=150)


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Design without the guard and with it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("-o", "--output", type=Path, default=Path(), help="folder")
    chosen = parser.parse_args(arguments)
    rng = np.random.default_rng(0)
    designs = rng.uniform(*SEEN, (30 if chosen.quick else 60, 4))
    tip = learned(designs).quantity(np.eye(len(X) - 1)[-1])
    trusting = optimum(tip, np.full(4, 1.0))
    careful, asked, confirmed = designed(designs, rng)
    for name, design in (("without the guard", trusting), ("with it", careful)):
        print(f"{name}: t = {design.round(3)}, mass {mass(design):.3f}, the tip bends by {solve(design)[-1]:.3g}")
    print(f"confirmed by the solver: {confirmed}, after {len(asked)} rounds")
    draw({"without the guard": trusting, "with the guard": careful}, chosen.output / "design.png")
    return {"trusting": trusting, "careful": careful, "asked": asked, "confirmed": confirmed}


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* lie outside the training data")
        main()
