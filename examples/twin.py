"""A digital twin of a heated rod whose material drifts: predict, observe, adapt, with intervals that stay valid.

    −(k(x) (1 + c u) u′)′ = f(x),   u(0) = u(1) = 0        k = eᵃ

Inputs are the values of the log conductivity a at four places and two numbers of the load f, the output is the
temperature u along the rod. The coefficient c, which nobody measures, is 0 in the training. In the stream it jumps
to 1, goes on slowly to 3, and is back at once: what the model learned is not true for long. One sample comes at a time;
it is predicted with an interval, then measured. Three ways to go on from the same calibrated model:

    frozen              neither the model nor its calibration changes
    adapted, fixed      the model adapts (`partial_fit`), and the intervals of its first calibration are kept
    adapted, following  the model adapts, and so do its intervals: what `partial_fit` does

    python examples/twin.py -o results/twin        writes twin.json and twin.png; --quick takes seconds

>>> u = solve(np.zeros((1, 4)), np.array([[1.0, 0.0]]), np.zeros(1))[0]      # k = 1, f = 1: u = x (1 − x) / 2
>>> bool(np.allclose(u, X * (1 - X) / 2, atol=1e-12))
True
"""

from __future__ import annotations

import argparse
import json
import warnings
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pcarann import Adapt, PCARaNN
from pcarann.uncertainty.monitor import Monitor

__all__ = ["coefficient", "draw", "experiment", "rolling", "sample", "solve", "summary"]

Values = np.ndarray[Any, Any]

POINTS, ALPHA, WINDOW = 65, 0.1, 100
X = np.linspace(0, 1, POINTS)
WAYS = ("frozen", "adapted, fixed", "adapted, following")


def solve(log_k: Values, load: Values, c: Values) -> Values:
    """Temperatures (samples, points): v = u + c u²/2 obeys −(k v′)′ = f, which is integrated twice.

    Between points k is the harmonic mean, with which the scheme is exact at the points for constant k and f.
    """
    k = np.exp(np.stack([np.interp(X, np.linspace(0, 1, 4), one) for one in log_k]))
    f = load[:, :1] + load[:, 1:] * np.sin(2 * np.pi * X)
    h = X[1]
    resistance = h * (1 / k[:, 1:] + 1 / k[:, :-1]) / 2
    heat = np.cumsum(h * (f[:, 1:] + f[:, :-1]) / 2, axis=1) - h * (f[:, 1:] + f[:, :-1]) / 4  # through each interval
    flux = (heat * resistance).sum(axis=1, keepdims=True) / resistance.sum(axis=1, keepdims=True) - heat
    v = np.concatenate([np.zeros((len(f), 1)), np.cumsum(flux * resistance, axis=1)], axis=1)
    c = c[:, None]
    return np.where(c == 0, v, 2 * v / (1 + np.sqrt(np.clip(1 + 2 * c * v, 0, None))))


def sample(count: int, seed: int, c: Any = 0.0, *, noise: float = 0.003) -> tuple[Values, Values]:
    """Inputs (samples, 6) and measured outputs (samples, points), for a coefficient or one for each sample."""
    rng = np.random.default_rng(seed)
    log_k, load = rng.uniform(-0.6, 0.6, (count, 4)), rng.uniform([4.0, -4.0], [10.0, 4.0], (count, 2))
    u = solve(log_k, load, np.broadcast_to(np.asarray(c, dtype=float), (count,)))
    shift = noise * rng.normal(size=(count, 3)) @ np.sin(np.pi * np.arange(1, 4)[:, None] * X)
    return np.concatenate([log_k, load], axis=1), u + shift


def coefficient(steps: int) -> Values:
    """c along the stream: 0, a jump to 1, a slow way to 3, and back at once."""
    quarter = steps // 4
    parts = (np.zeros(quarter), np.ones(quarter), np.linspace(1, 3, quarter), np.zeros(steps - 3 * quarter))
    return np.concatenate(parts)


def rolling(values: Values, window: int = WINDOW) -> Values:
    """Means over the last so many values, from the first whole window on."""
    sums = np.cumsum(np.insert(np.asarray(values, dtype=float), 0, 0.0))
    return (sums[window:] - sums[:-window]) / window


def experiment(
    steps: int, *, train: int = 400, calibration: int = 200, members: int = 8, seed: int = 0
) -> dict[str, Any]:
    """Coverage and error of each sample for each way, the forgetting in use, and the monitor at the end."""
    model = PCARaNN(
        n_components=(6, 16), widths=(150, 100), n_members=members, ridge="gcv", adapt=Adapt(forgetting="auto")
    )
    model.fit(*sample(train, seed)).calibrate(*sample(calibration, seed + 1))
    fixed = model.fitted_.calibration
    inputs, outputs = sample(steps, seed + 2, coefficient(steps))
    models = {way: deepcopy(model) for way in WAYS}
    found: dict[str, Any] = {way: {"coverage": [], "error": [], "width": []} for way in WAYS}
    forgetting, alarms = [], []
    for x, u in zip(inputs[:, None, :], outputs[:, None, :], strict=True):
        for way, one in models.items():
            band = one.predict_interval(x, alpha=ALPHA)
            found[way]["coverage"].append(float(((band.lower <= u) & (u <= band.upper)).mean()))
            found[way]["error"].append(float(np.linalg.norm(band.mean - u) / np.linalg.norm(u)))
            found[way]["width"].append(float((band.upper - band.lower).mean()))
            if way != "frozen":
                one.partial_fit(x, u)
            if way == "adapted, fixed":
                one.fitted_ = replace(one.fitted_, calibration=fixed)
        state = models["adapted, following"].monitor
        forgetting.append(state.forgetting)
        alarms.append(state.alarm is not None)
    return {**found, "forgetting": forgetting, "alarm": alarms, "monitor": models["adapted, following"].monitor}


def summary(found: dict[str, Any], window: int) -> dict[str, Any]:
    """What a run has shown: how far rolling coverage went from its level, the errors, and the alarms."""
    told: dict[str, Any] = {"level": 1 - ALPHA, "window": window, "steps": len(found["forgetting"])}
    for way in WAYS:
        off = rolling(found[way]["coverage"], window) - (1 - ALPHA)
        told[way] = {
            "rolling_coverage": [round(float(1 - ALPHA + end), 4) for end in (off.min(), off.max())],
            "largest_departure": round(float(np.abs(off).max()), 4),
            "mean_error": round(float(np.mean(found[way]["error"])), 5),
        }
    monitor: Monitor = found["monitor"]
    told["alarms"] = [[one.began, one.raised, one.ended] for one in monitor.alarms]
    told["forgetting"] = sorted(set(found["forgetting"]))
    return told


def draw(found: dict[str, Any], window: int, path: Path) -> None:
    """Coefficient, rolling coverage and rolling error along the stream, as a picture."""
    from matplotlib.figure import Figure

    steps = len(found["forgetting"])
    at = np.arange(window, steps + 1)
    figure = Figure(figsize=(7, 6), layout="constrained")
    top, middle, bottom = figure.subplots(3, sharex=True, height_ratios=[1, 2, 2])
    top.plot(np.arange(1, steps + 1), coefficient(steps), color="0.3")
    top.set_ylabel("c")
    for way, colour in zip(WAYS, ("0.6", "tab:orange", "tab:blue"), strict=True):
        dashes = "--" if way == WAYS[-1] else "-"  # both adapted models make the same errors: the first is seen between
        middle.plot(at, rolling(found[way]["coverage"], window), color=colour, label=way)
        bottom.plot(at, rolling(found[way]["error"], window), color=colour, ls=dashes)
    middle.axhspan(1 - ALPHA - 0.03, 1 - ALPHA + 0.03, color="tab:blue", alpha=0.12, label="level ± 3 points")
    middle.set(ylabel=f"coverage, last {window}", ylim=(0, 1.02))
    bottom.set(ylabel=f"relative error, last {window}", yscale="log", xlabel="sample of the stream")
    figure.legend(*middle.get_legend_handles_labels(), loc="outside upper center", fontsize="small", ncols=4)
    for one in found["monitor"].alarms:
        for axes in (top, middle, bottom):
            axes.axvspan(one.raised, one.ended or steps, color="tab:red", alpha=0.08)
        top.annotate("drift alarm", (one.raised, 0.85), xycoords=("data", "axes fraction"), color="tab:red", fontsize=8)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a short stream")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=Path(), help="folder")
    chosen = parser.parse_args()
    window, given = WINDOW, {"steps": 1200}
    if chosen.quick:
        window, given = 20, {"steps": 80, "train": 120, "calibration": 60, "members": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the alarm stands in the picture
        run = experiment(seed=chosen.seed, **given)
    told = summary(run, window)
    chosen.output.mkdir(parents=True, exist_ok=True)
    (chosen.output / "twin.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    draw(run, window, chosen.output / "twin.png")
    print(json.dumps(told, indent=1))
    print(run["monitor"])
