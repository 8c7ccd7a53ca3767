"""Rough inputs: where many modes matter, stages that see space beat a latent model.

    −∇·(eᵃ ∇u) = 1   on (0, 1)²,   u = 0 on the boundary

The field a is rough: its amplitudes fall as slowly as 1/|k|^1.5, so that the leading modes hold little of it. A latent
model sees nothing else; stages look at every point and what surrounds it.

    python examples/rough.py [FOLDER]        writes rough.png
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.fft import idctn

from pcarann import PCARaNN, Staged
from pcarann.drawing import blank, draw_field, save, style
from pcarann.metrics import relative_l2
from pcarann.problems.darcy import solve

POINTS = 33

Field = np.ndarray[Any, Any]


def sample(count: int, seed: int, points: int = POINTS) -> tuple[Field, Field]:
    """Fields a and solutions u, (samples, points, points) each."""
    k = np.arange(points)
    amplitude = (1 + k[:, None] ** 2 + k**2) ** -0.75
    a = idctn(np.random.default_rng(seed).normal(size=(count, points, points)) * amplitude, axes=(1, 2), norm="ortho")
    a *= 0.7 / a.std()
    return a, solve(np.exp(a), np.ones_like(a), tolerance=1e-8)


def main(folder: Path = Path(), *, train: int = 200, points: int = POINTS, features: int = 60) -> dict[str, float]:
    """Fit a latent model and stages, and draw their errors on one sample."""
    (X, y), (test, truth) = sample(train, 0, points), sample(100, 1, points)
    models = {
        "latent": PCARaNN(n_components=(0.95, 0.9999), regressor="kernel", n_members=2),
        "stages": Staged(n_features=features, n_members=2, n_stages=4),
    }
    found = {name: model.fit(X, y).predict(test) for name, model in models.items()}
    draw(folder / "rough.png", test, truth, found)
    return {name: relative_l2(one, truth) for name, one in found.items()}


def draw(path: Path, test: Field, truth: Field, found: dict[str, Field]) -> None:
    """Input, solution and both errors of the sample in the middle of the latent model's errors."""
    middle = int(np.argsort(relative_l2(found["latent"], truth, per_sample=True))[len(truth) // 2])
    errors = {name: one[middle] - truth[middle] for name, one in found.items()}
    most = max(np.abs(one).max() for one in errors.values())
    with style():
        figure = blank(9, 2.3)
        axes = figure.subplots(1, 4)
        draw_field(axes[0], test[middle])
        draw_field(axes[1], truth[middle])
        for axis, error in zip(axes[2:], errors.values(), strict=True):
            draw_field(axis, error, limits=(-most, most), error=True)
        for axis, title in zip(axes, ("a", "u", *(f"error, {name}" for name in errors)), strict=True):
            axis.set(title=title, xlabel="", ylabel="", xticks=[], yticks=[])
        save(figure, path)


if __name__ == "__main__":
    for name, error in main(Path(*sys.argv[1:])).items():
        print(f"{name:8} {error:.2%}")
