"""Noisy data: a ridge by generalised cross-validation is worth what the noise would cost.

    −ℓ² u″ + u = tanh a   on a circle

Outputs are measured with white noise. Least squares (the default of random layers) fits the noise as soon as there are
about as many features as samples; `ridge="gcv"` weighs both from one factorisation, and knows nothing of the noise.
Errors are those against the solution without noise.

    python examples/noisy.py [FOLDER]        writes noisy.png
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from pcarann import PCARaNN
from pcarann.drawing import BLUE, DARK, GREY, ORANGE, blank, save, style
from pcarann.metrics import relative_l2

LENGTH, POINTS, WAVES = 0.1, 64, 6
NOISES = (0.0, 0.01, 0.03, 0.1, 0.3)

Field = np.ndarray[Any, Any]


def sample(count: int, seed: int) -> tuple[Field, Field]:
    """Inputs a and solutions u, (samples, 64) each."""
    rng, x = np.random.default_rng(seed), 2 * np.pi * np.arange(POINTS) / POINTS
    a = sum(
        rng.normal(size=(count, 1)) * np.cos(k * x + rng.uniform(0, 6.3, (count, 1))) / k**1.5
        for k in range(1, WAVES + 1)
    )
    waves = 2 * np.pi * np.fft.rfftfreq(POINTS, 1 / POINTS)
    return a, np.fft.irfft(np.fft.rfft(np.tanh(a)) / (1 + (LENGTH * waves) ** 2))


def main(folder: Path = Path(), *, train: int = 300, noises: tuple[float, ...] = NOISES) -> dict[str, list[float]]:
    """Fit both ways at every level of noise, and draw errors and one prediction."""
    X, clean = sample(train, 0)
    test, truth = sample(200, 1)
    errors: dict[str, list[float]] = {"least squares": [], 'ridge="gcv"': []}
    for noise in noises:
        y = clean + noise * clean.std() * np.random.default_rng(2).normal(size=clean.shape)
        predictions = {}
        for name, ridge in zip(errors, (None, "gcv"), strict=True):
            model = PCARaNN(n_components=2 * WAVES, widths=(150, 100), n_members=4, ridge=ridge).fit(X, y)
            predictions[name] = model.predict(test)
            errors[name].append(relative_l2(predictions[name], truth))
    draw(folder / "noisy.png", noises, errors, y[0], predictions, truth)
    return errors


def draw(
    path: Path,
    noises: tuple[float, ...],
    errors: dict[str, list[float]],
    noisy: Field,
    found: dict[str, Field],
    truth: Field,
) -> None:
    """Errors against the noise, and a test sample at the strongest."""
    x = np.arange(POINTS) / POINTS
    with style():
        figure = blank(7, 2.8)
        left, right = figure.subplots(1, 2)
        right.plot(x, truth[0], color=DARK, label="solution")
        for (name, values), colour in zip(errors.items(), (ORANGE, BLUE), strict=True):
            left.plot(noises, values, ".-", color=colour, label=name)
            right.plot(x, found[name][0], color=colour, linewidth=1)
        spread = np.std(noisy)
        left.plot(noises, noises, ":", color=GREY, label="the noise itself")
        left.set(xlabel="noise of the data", ylabel="relative error", yscale="log")
        left.set_xscale("symlog", linthresh=0.01)
        left.set_xlim(0)
        left.legend(fontsize=7)
        right.set(xlabel="x", title=f"u, learned with {noises[-1]:.0%} noise", ylim=(-3 * spread, 3 * spread))
        save(figure, path)


if __name__ == "__main__":
    for name, errors in main(Path(*sys.argv[1:])).items():
        print(f"{name:14}", *(f"{error:.1e}" for error in errors))
