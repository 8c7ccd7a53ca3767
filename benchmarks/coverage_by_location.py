"""Coverage of 90 % bands at locations where it is low, by method: a rim of the domain, a jump that moves.

Prints the table of docs/uncertainty.md: means over repetitions with 100 calibration and 300 test samples.
"""

from __future__ import annotations

import numpy as np

from pcarann import PCARaNN

_POINTS = np.linspace(0, 1, 64)
_METHODS = ("sample", "local", "simultaneous")


def samples(kind: str, seed: int, count: int = 600):
    """Parameters (count, 3), fields (count, 64), and which of their values lie at the location."""
    z, x = np.random.default_rng(seed).uniform(-1, 1, (count, 3)), _POINTS
    wave = np.sin(np.pi * x * (1 + z[:, :1] / 2) + z[:, 1:2]) + z[:, 2:] * x
    if kind == "rim":
        u = np.tanh(wave) * np.sin(np.pi * x) + np.sign(np.sin(8 * z[:, :1])) * np.exp(-x / 0.03)
        return z, u, np.broadcast_to(x < 0.08, u.shape)
    jump = 0.5 + 0.15 * z[:, :1]
    return z, np.tanh((x - jump) / 0.01) + 0.3 * wave, np.abs(x - jump) < 0.05


def main(repetitions: int = 12) -> None:
    """Print coverage and width, of the whole field and at the location."""
    for kind in ("rim", "moving jump"):
        found: dict[str, list[tuple[float, ...]]] = {method: [] for method in _METHODS}
        for seed in range(repetitions):
            z, u, there = samples(kind, seed)
            model = PCARaNN(n_components=(3, 30), widths=(100, 50), n_members=10, ridge="gcv").fit(z[:200], u[:200])
            model.calibrate(z[200:300], u[200:300])
            for method in _METHODS:
                band = model.predict_interval(z[300:], 0.1, method)
                inside, width = (band.lower <= u[300:]) & (u[300:] <= band.upper), band.upper - band.lower
                at = there[300:]
                found[method].append((inside.mean(), inside[at].mean(), width.mean(), width[at].mean()))
        for method, rows in found.items():
            all_points, location, width, there_width = np.mean(rows, axis=0)
            print(
                f"{kind:12} {method:13} coverage {all_points:.3f}, at the location {location:.3f}; "
                f"width {width:.3f}, at the location {there_width:.3f}"
            )


if __name__ == "__main__":
    main()
