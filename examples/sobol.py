"""Which parameter matters where: Sobol indices of a cooling fin, from a surrogate of 200 solutions.

    −(k u′)′ + h u = q   on (0, 1),   k = k₀ (1 + c x),   u(0) = T,   −k u′(1) = b u(1)

Five numbers vary. A Sobol index takes thousands of solutions; the surrogate gives them from 200, at every point of the
fin at once. SALib and OpenTURNS are handed its predictions as they would be handed the solver's.

    python examples/sobol.py [FOLDER]        writes sobol.png
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from SALib.analyze import sobol as analysis
from SALib.sample import sobol as design
from scipy.linalg import solve_banded

from pcarann import PCARaNN
from pcarann.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, blank, save, style
from pcarann.metrics import relative_l2

RANGES = {
    "conductivity": (0.5, 2.0),
    "slope": (0.0, 2.0),
    "film": (1.0, 20.0),
    "base": (50.0, 100.0),
    "tip": (0.0, 3.0),
}
SOURCE, POINTS = 100.0, 101
PROBLEM = {"num_vars": len(RANGES), "names": list(RANGES), "bounds": list(map(list, RANGES.values()))}

Field = np.ndarray[Any, Any]


def solve(parameters: Field) -> Field:
    """Temperatures (samples, 101) of fins with these parameters (samples, 5), by linear elements."""
    return np.array([_solve(*one) for one in parameters])


def _solve(k: float, slope: float, film: float, base: float, tip: float) -> Field:
    x, h = np.linspace(0, 1, POINTS, retstep=True)
    flow = k * (1 + slope * (x[1:] + x[:-1]) / 2) / h  # of each element
    mass = h * np.r_[0.5, np.ones(POINTS - 2), 0.5]
    diagonal = np.r_[flow, 0] + np.r_[0, flow] + film * mass
    diagonal[-1] += tip
    load = SOURCE * mass
    load[1] += flow[0] * base
    bands = np.zeros((3, POINTS - 1))
    bands[0, 1:], bands[1], bands[2, :-1] = -flow[1:], diagonal[1:], -flow[1:]
    return np.r_[base, solve_banded((1, 1), bands, load[1:])]


def draw_parameters(count: int, seed: int) -> Field:
    """Parameters (samples, 5), uniform in their ranges."""
    low, high = np.array(list(RANGES.values())).T
    return np.random.default_rng(seed).uniform(low, high, (count, len(low)))


def by_salib(values: Field) -> tuple[Field, Field]:
    """First and total indices (5,) of one quantity on SALib's design."""
    found = analysis.analyze(PROBLEM, values, calc_second_order=False, num_resamples=2, seed=0)
    return found["S1"], found["ST"]


def by_openturns(function: Any, base: int) -> tuple[Field, Field]:
    """First and total indices (5,) of one quantity of the parameters, on OpenTURNS' own design."""
    import openturns as ot

    ranges = ot.JointDistribution([ot.Uniform(*each) for each in RANGES.values()])
    points = ot.SobolIndicesExperiment(ot.LowDiscrepancyExperiment(ot.SobolSequence(), ranges, base)).generate()
    values = function(np.array(points))
    found = ot.SaltelliSensitivityAlgorithm(points, ot.Sample(values[:, None]), base)
    return np.array(found.getFirstOrderIndices()), np.array(found.getTotalOrderIndices())


def main(folder: Path = Path(), *, train: int = 200, base: int = 1024, openturns: bool = True) -> dict[str, Any]:
    """Fit, have both libraries find the indices, compare with no more solutions than the surrogate had, and draw."""
    X = draw_parameters(train, 0)
    model = PCARaNN(n_components=(5, 0.999999), regressor="kernel", n_members=1).fit(X, solve(X))
    test = draw_parameters(100, 1)
    points = design.sample(PROBLEM, base, calc_second_order=False, seed=0)
    few = design.sample(PROBLEM, 2 ** int(np.log2(train / (len(RANGES) + 2))), calc_second_order=False, seed=1)
    fields, truth, direct = model.predict(points), solve(points), solve(few)
    found = {
        "error": relative_l2(model.predict(test), solve(test)),
        "surrogate": by_salib(fields.mean(axis=1)),
        "solver": by_salib(truth.mean(axis=1)),
        "solver, few": by_salib(direct.mean(axis=1)),
        "solutions": (train, len(points), len(few)),
    }
    if openturns:
        found["openturns"] = by_openturns(lambda X: model.predict(X).mean(axis=1), base)
    draw(folder / "sobol.png", fields, truth, direct)
    return found


def draw(path: Path, *fields: Field) -> None:
    """Total indices along the fin: of the surrogate, of the solver, and of no more solutions than it was fitted to."""
    where = np.arange(5, POINTS, 5)
    lines = [np.array([by_salib(one[:, k])[1] for k in where]) for one in fields]
    with style():
        figure = blank(7, 3)
        for axis, other, title in zip(
            figure.subplots(1, 2, sharey=True), lines[1:], ("solver", "few solutions"), strict=True
        ):
            for k, (name, colour) in enumerate(zip(RANGES, (BLUE, ORANGE, GREEN, PURPLE, GREY), strict=True)):
                axis.plot(where / 100, lines[0][:, k], color=colour, label=name)
                axis.plot(where / 100, other[:, k], ".", color=colour, markersize=4)
            axis.set(xlabel="x", title=f"surrogate (lines) and {title} (dots)", ylim=(-0.05, 1.15))
        figure.axes[0].set_ylabel("total Sobol index of u(x)")
        figure.axes[0].legend(fontsize=7)
        save(figure, path)


if __name__ == "__main__":
    for name, value in main(Path(*sys.argv[1:])).items():
        print(f"{name:12}", *np.round(value, 4) if name != "error" else [f"{value:.2e}"])
