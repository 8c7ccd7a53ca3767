"""A symmetry of one's own: two coupled rods that may be exchanged, and turned end to end.

    −(eᵃ u′)′ + c (u − v) = 1,   −(eᵇ v′)′ + c (v − u) = 1   on (0, 1),   u = v = 0 at both ends

Exchanging a and b exchanges u and v. No ready-made symmetry says so; two functions do, one of the inputs and one of the
outputs. With the reflection of x there are four elements, and each solution is worth four.

    python examples/own_symmetry.py [FOLDER]        writes own_symmetry.png
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from pcarann import PCARaNN, Symmetry
from pcarann.drawing import BLUE, GREY, blank, save, style
from pcarann.metrics import relative_l2

COUPLING, POINTS, WAVES = 20.0, 49, 6
COUNTS = (25, 50, 100, 200, 400)

Field = np.ndarray[Any, Any]


def sample(count: int, seed: int) -> tuple[Field, Field]:
    """Logarithms of conductivities (a, b), and (u, v), each (samples, 2, 49)."""
    rng, x = np.random.default_rng(seed), np.linspace(0, 1, POINTS)
    cosines = np.array([np.cos(np.pi * k * x) / (1 + k) for k in range(WAVES)])
    a = rng.normal(size=(count, 2, WAVES)) @ cosines
    return a, np.array([solve(one) for one in a])


def solve(a: Field) -> Field:
    """(u, v) of (a, b), by finite differences."""
    n, h = POINTS - 2, 1 / (POINTS - 1)
    system = COUPLING * np.kron([[1, -1], [-1, 1]], np.eye(n))
    for rod, flow in enumerate(np.exp((a[:, 1:] + a[:, :-1]) / 2) / h**2):
        own = slice(rod * n, (rod + 1) * n)
        system[own, own] += np.diag(flow[1:] + flow[:-1]) - np.diag(flow[1:-1], 1) - np.diag(flow[1:-1], -1)
    return np.pad(np.linalg.solve(system, np.ones(2 * n)).reshape(2, n), ((0, 0), (1, 1)))


def exchanged(fields: Field) -> Field:
    """The other rod first, of fields (samples, 2, 49)."""
    return fields[:, [1, 0]]


def main(folder: Path = Path(), *, counts: tuple[int, ...] = COUNTS) -> dict[str, list[float]]:
    """Fit with and without the symmetry to more and more samples, and draw the errors."""
    (X, y), (test, truth) = sample(counts[-1], 0), sample(200, 1)
    symmetry = Symmetry.of(exchanged, exchanged) * Symmetry.reflection(-1)
    errors = {
        name: [
            relative_l2(
                PCARaNN((2 * WAVES, 24), regressor="kernel", n_members=1, symmetry=given)
                .fit(X[:n], y[:n])
                .predict(test),
                truth,
            )
            for n in counts
        ]
        for name, given in (("without", None), ("with its symmetry", symmetry))
    }
    draw(folder / "own_symmetry.png", counts, errors)
    return errors


def draw(path: Path, counts: tuple[int, ...], errors: dict[str, list[float]]) -> None:
    """Errors against the number of samples."""
    with style():
        figure = blank(4.5, 3)
        axis = figure.subplots()
        for (name, values), colour in zip(errors.items(), (GREY, BLUE), strict=True):
            axis.loglog(counts, values, ".-", color=colour, label=name)
        axis.set(xlabel="training samples", ylabel="relative error", xticks=counts, xticklabels=counts)
        axis.minorticks_off()
        axis.legend()
        save(figure, path)


if __name__ == "__main__":
    for name, errors in main(Path(*sys.argv[1:])).items():
        print(f"{name:18}", *(f"{error:.2e}" for error in errors))
