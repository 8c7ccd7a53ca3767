"""Cost against samples, field size, members and widths: measured, fitted with slopes, drawn.

    python benchmarks/growth.py [--quick] [--axes samples values …] [-o results/speed]

Fields are smooth random ones of low rank plus a little noise, so that every mode asked for exists; what is timed does
not depend on what the fields say. Slopes are those of log seconds against log size over the larger half of the
sizes. Beside each, the slope of the counted operations (`floor`) over the same sizes says what arithmetic alone
would give.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import floor
import numpy as np
from measure import measured

from pcarann.backend.arrays import place_of
from pcarann.benchmark.machine import machine_facts
from pcarann.files import atomic_writer
from pcarann.operator import PCARaNN

__all__ = ["AXES", "Setup", "main", "slope", "write"]

Record = dict[str, Any]

CURVES = ("PCA", "members", "fit", "prediction")
_PREDICTED = 200


@dataclass(frozen=True)
class Setup:
    """Sizes of one fit."""

    samples: int = 1000
    values: int = 1000
    """Of an input field, and of an output field"""
    members: int = 2
    width: int = 500
    """n₁ = n₂"""
    components: int = 50

    def sizes(self) -> floor.Sizes:
        """As the floor wants them."""
        widths = (self.width, self.width)
        return floor.Sizes(
            self.samples, self.values, self.values, self.components, self.components, widths, self.members
        )


AXES: dict[str, tuple[Setup, tuple[int, ...]]] = {
    "samples": (Setup(), (1000, 2000, 5000, 10_000, 20_000, 50_000)),
    "values": (Setup(samples=200), (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)),
    "members": (Setup(), (1, 2, 5, 10, 20, 40)),
    "width": (Setup(), (250, 500, 1000, 2000, 4000, 8000)),
}
_SMALL = Setup(samples=60, values=50, members=2, width=20, components=5)
_QUICK = {"samples": (60, 120), "values": (50, 100), "members": (1, 2), "width": (20, 40)}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Measure all axes; write one record and one figure; return the path of the record."""
    options = _options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    axes = {name: _axis(name, quick=options.quick, repeats=options.repeats) for name in options.axes}
    rate = floor.Products(place_of(None), 200 if options.quick else 3000).rate(25)
    record = {
        "kind": "growth",
        "quick": options.quick,
        "machine": machine_facts(None),
        "flops_per_second": rate,
        "axes": axes,
    }
    path: Path = options.output / "growth-cpu.json"
    write(path, json.dumps(record, indent=1).encode() + b"\n")
    write(path.with_suffix(".md"), _table(record).encode())
    _draw(record, path)
    return path


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Least-squares slope of log cost against log size over the larger half of the sizes, two at least.

    >>> round(slope([1, 2, 4, 8], [9.0, 4.0, 16.0, 64.0]), 12)
    2.0
    """
    first = min(len(sizes) // 2, len(sizes) - 2)
    return float(np.polyfit(np.log(sizes[first:]), np.log(costs[first:]), 1)[0])


def _axis(name: str, *, quick: bool, repeats: int) -> Record:
    base, points = (_SMALL, _QUICK[name]) if quick else AXES[name]
    rows = [_point(replace(base, **{name: size}), repeats) for size in points]
    slopes = {curve: slope(points, [row["seconds"][curve] for row in rows]) for curve in CURVES}
    counted = {curve: slope(points, [row["flops"][curve] for row in rows]) for curve in CURVES}
    return {"base": vars(base), "sizes": list(points), "rows": rows, "slopes": slopes, "counted_slopes": counted}


def _point(setup: Setup, repeats: int) -> Record:
    sys.stderr.write(f"{setup}\n")
    inputs, outputs = _fields(setup, 0), _fields(setup, 1)
    few = inputs[: min(_PREDICTED, setup.samples)]
    place = place_of(inputs)

    def fit() -> PCARaNN:
        widths = (setup.width, setup.width)
        model = PCARaNN(setup.components, widths, setup.members, scales="energy")
        return model.fit(inputs, outputs)

    stages = []
    for _ in range(repeats):
        model, record = measured(fit, place=place)
        stages.append(model.fit_seconds_ | {"call": record["seconds"], "peak_bytes": record["peak_bytes"]})
    _, predicting = measured(lambda: model.predict(few), place=place, repeats=repeats)
    median = {key: statistics.median(stage[key] for stage in stages) for key in stages[0]}
    seconds = {
        "PCA": median["inputs_pca"] + median["outputs_pca"],
        "members": median["members"],
        "fit": median["call"],
        "prediction": predicting["seconds"],
    }
    return {**vars(setup), "seconds": seconds, "flops": _counts(setup, len(few)), "peak_bytes": median["peak_bytes"]}


def _counts(setup: Setup, predicted: int) -> dict[str, float]:
    sizes = setup.sizes()
    reduction = 2 * floor.total(floor.pca(setup.samples, setup.values, setup.components))
    members = setup.members * floor.total(floor.member(sizes))
    prediction = floor.total(floor.prediction(predicted, sizes))
    return {"PCA": reduction, "members": members, "fit": reduction + members, "prediction": prediction}


def _fields(setup: Setup, seed: int) -> np.ndarray[Any, Any]:
    """Random combinations of waves of falling size, and noise a thousand times smaller."""
    rng = np.random.default_rng(seed)
    order = np.arange(1, setup.components + 1)[:, None]
    waves = np.cos(order * np.pi * np.linspace(0.0, 1.0, setup.values)) / order
    fields = rng.standard_normal((setup.samples, setup.components)) @ waves
    fields += 1e-3 * rng.standard_normal(fields.shape, dtype=np.float32)
    return np.asarray(fields)


def _table(record: Record) -> str:
    lines = ["| against | curve | measured slope | slope of the counted operations |", "|---|---|---|---|"]
    for name, axis in record["axes"].items():
        for curve in CURVES:
            lines.append(f"| {name} | {curve} | {axis['slopes'][curve]:.2f} | {axis['counted_slopes'][curve]:.2f} |")
    return "\n".join(lines) + "\n"


def _draw(record: Record, path: Path) -> None:
    """One panel per axis, PNG and SVG: measured points, and the floor dashed in the same colour."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    axes = record["axes"]
    figure = Figure(figsize=(4.2 * len(axes), 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    panels = np.atleast_1d(figure.subplots(1, len(axes)))
    for panel, (name, axis) in zip(panels, axes.items(), strict=True):
        for number, curve in enumerate(CURVES):
            label = f"{curve}, slope {axis['slopes'][curve]:.2f}"
            seconds = [row["seconds"][curve] for row in axis["rows"]]
            lowest = [row["flops"][curve] / record["flops_per_second"] for row in axis["rows"]]
            panel.loglog(axis["sizes"], seconds, "o-", color=f"C{number}", label=label)
            panel.loglog(axis["sizes"], lowest, "--", color=f"C{number}", linewidth=0.8)
        panel.set(xlabel=name, ylabel="seconds (dashed: floor)")
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.legend(fontsize="small")
    for suffix in (".png", ".svg"):
        figure.savefig(path.with_suffix(suffix), dpi=150)


def write(path: Path, content: bytes) -> None:
    """Write a file that is whole or not there."""
    with atomic_writer(path) as file:
        file.write(content)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes: the numbers mean nothing")
    parser.add_argument("--axes", nargs="+", choices=list(AXES), default=list(AXES), metavar="AXIS")
    parser.add_argument("--repeats", type=int, default=3, help="of each point; the median counts (3)")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/speed"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.stdout.write(f"{main()}\n")
