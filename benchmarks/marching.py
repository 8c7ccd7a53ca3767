"""Flows rolled out as given and as chosen: relative error at the last step, and its mean over all steps.

python benchmarks/marching.py      prints the table of docs/options.md, in a minute or two on one core
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from pcarann import Marching, PCARaNN
from pcarann.problems import navier_stokes

__all__ = ["FLOWS", "advection_diffusion", "compared", "errors", "fitzhugh_nagumo"]

Values = np.ndarray[Any, np.dtype[np.float64]]


def fitzhugh_nagumo(n: int, *, step: float, seed: int = 0, points: int = 64, times: int = 11) -> Values:
    """uₜ = u_xx / 2 + u − u³/3 − v, vₜ = 0.08 (u + 0.7 − 0.8 v) on [0, 20), periodic: (n, times, 2, points)."""
    rng, length, inner = np.random.default_rng(seed), 20.0, round(100 * step)
    modes, x = np.arange(1, 7), length * np.arange(points) / points
    angles = 2 * np.pi * np.outer(modes, x) / length

    def field() -> Values:
        a, b = rng.normal(size=(2, n, len(modes))) / (1 + 0.3 * modes**1.5)
        waves: Values = a @ np.cos(angles) + b @ np.sin(angles)
        return waves

    u = field() + 0.5 * rng.normal(size=(n, 1))
    v, h = 0.4 * field(), step / inner
    decay = np.exp(-0.5 * h * (2 * np.pi * np.fft.rfftfreq(points, length / points)) ** 2)
    snapshots = [np.stack([u, v], axis=1)]
    for _ in range(times - 1):
        for _ in range(inner):
            u, v = u + h * (u - u**3 / 3 - v), v + h * 0.08 * (u + 0.7 - 0.8 * v)
            u = np.fft.irfft(np.fft.rfft(u) * decay, points)
        snapshots.append(np.stack([u, v], axis=1))
    return np.stack(snapshots, axis=1)


def advection_diffusion(n: int, *, seed: int = 0, points: int = 64, times: int = 11) -> Values:
    """uₜ + u_x = u_xx / 20 on a circle, solved exactly: (n, times, points)."""
    rng, modes = np.random.default_rng(seed), np.arange(1, 9)
    x, t = 2 * np.pi * np.arange(points) / points, 0.1 * np.arange(times)
    first = (rng.normal(size=(n, 8)) + 1j * rng.normal(size=(n, 8))) / modes
    later = first[:, None] * np.exp((-1j * modes - 0.05 * modes**2) * t[:, None])
    fields: Values = (later @ np.exp(1j * np.outer(modes, x))).real
    return fields


def _navier_stokes(n: int) -> Values:
    data = navier_stokes.generate(n, seed=0)
    return np.concatenate([data.inputs, data.outputs], axis=1)[..., ::2, ::2]


FLOWS: dict[str, tuple[Callable[[], Values], int, int, dict[str, Any]]] = {
    "FitzHugh–Nagumo, step 1": (lambda: fitzhugh_nagumo(250, step=1.0), 200, 1, {"n_members": 10}),
    "FitzHugh–Nagumo, step 0.5": (lambda: fitzhugh_nagumo(250, step=0.5), 200, 1, {"n_members": 10}),
    "advection and diffusion": (lambda: advection_diffusion(250), 200, 1, {"n_members": 10}),
    "Navier–Stokes 32²": (lambda: _navier_stokes(60), 45, 10, {"n_components": 0.99999, "n_members": 4}),
}
"""Trajectories, how many of them are learned from, snapshots that are given, and parameters of the step"""


def errors(found: Values, truth: Values) -> Values:
    """Relative errors at each step, (trajectories, steps)."""
    axes = tuple(range(2, truth.ndim))
    ratio: Values = np.sqrt(((found - truth) ** 2).sum(axis=axes) / (truth**2).sum(axis=axes))
    return ratio


def compared(flow: Values, learned: int, given: int, **parameters: Any) -> dict[bool, tuple[float, float, float]]:
    """Median error at the last step, mean over all steps, and seconds of the fit, without and with the choice."""
    rows: dict[bool, tuple[float, float, float]] = {}
    for choose in (False, True):
        begun = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = Marching(PCARaNN(**parameters), choose=choose)
            model.fit(flow[:learned, :given], flow[:learned, given:])
            seconds = time.perf_counter() - begun
            found = errors(model.predict(flow[learned:, :given]), flow[learned:, given:])
        rows[choose] = float(np.median(found[:, -1])), float(found.mean()), seconds
    return rows


def main() -> None:
    """Print the table."""
    out = sys.stdout.write
    out(
        "| flow | `choose=False`: last step, mean, seconds | `choose=True`: last step, mean, seconds |\n|---|---|---|\n"
    )
    for name, (make, learned, given, parameters) in FLOWS.items():
        flow = make()
        for linear in (False, True):
            rows = compared(flow, learned, given, linear=linear, **parameters)
            cells = [f"{last:.2g}, {mean:.2g}, {seconds:.1f} s" for last, mean, seconds in rows.values()]
            out(f"| {name}{', `linear=True`' * linear} | {cells[0]} | {cells[1]} |\n")


if __name__ == "__main__":
    main()
