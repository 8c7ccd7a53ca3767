"""Cost of stages against samples, points of the grid and features: measured, fitted with slopes, drawn.

    python benchmarks/growth_stages.py [--quick] [--axes samples points features] [--large] [-o results/speed]

Fields are smooth random ones, made on the fly; what is timed does not depend on what they say, but for the number of
stages, of which none is left out here. Each measurement has a process of its own. Peak memory is given twice: of the
whole process, with Python and the fields that it was handed, and of the fit beyond these. Slopes are those of `growth`.
`--large` adds 500 samples on 512² points.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from growth import slope, write
from measure import answer, in_fresh_process, measured

from pcarann import Channels, Grid, Staged
from pcarann.backend.arrays import place_of
from pcarann.benchmark.machine import machine_facts

__all__ = ["AXES", "Setup", "main", "point"]

Record = dict[str, Any]

CURVES = {"fit": "fit", "prediction": "prediction of 50"}
_PREDICTED = 50
_LIMIT = 7200.0
_WAVES = 6


@dataclass(frozen=True)
class Setup:
    """Sizes of one fit."""

    samples: int = 200
    side: int = 29
    """Points along each of two axes"""
    features: int = 120

    @property
    def points(self) -> int:
        """Of the grid"""
        return self.side**2


AXES: dict[str, tuple[Setup, str, tuple[int, ...]]] = {
    "samples": (Setup(), "samples", (100, 200, 400, 800, 1600)),
    "points": (Setup(samples=16), "side", (29, 64, 128, 256, 512)),
    "features": (Setup(), "features", (50, 100, 200, 400)),
}
"""What each begins with, what is changed, and to what"""
_LARGE = Setup(samples=500, side=512)
_SMALL = Setup(samples=12, side=9, features=8)
_QUICK = {"samples": (12, 24), "points": (9, 12), "features": (8, 16)}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Measure all axes; write one record, one table and one figure; return the path of the record."""
    options = _options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    record: Record = {"kind": "growth of stages", "quick": options.quick, "machine": machine_facts(None)}
    record["axes"] = {name: _axis(name, options) for name in options.axes}
    if options.large:
        record["large"] = _measured(_LARGE, 1)
    path: Path = options.output / "growth-stages-cpu.json"
    write(path, json.dumps(record, indent=1).encode() + b"\n")
    write(path.with_suffix(".md"), _table(record).encode())
    _draw(record, path)
    return path


def point(setup: Setup, repeats: int) -> Record:
    """Seconds and memory of a fit and of a prediction, in this process."""
    inputs, outputs = fields(setup)
    place = place_of(inputs)

    def fit() -> Staged:
        model = Staged(
            n_stages=2,
            n_features=setup.features,
            n_members=1,
            channels=Channels(single=True),
            grid=Grid(boundary="zero"),
        )
        return model.fit(inputs, outputs)

    model, fitting = measured(fit, place=place, repeats=repeats, slow=10.0)
    _, predicting = measured(lambda: model.predict(inputs[:_PREDICTED]), place=place)
    return {
        **asdict(setup),
        "points": setup.points,
        "seconds": {"fit": fitting["seconds"], "prediction": predicting["seconds"]},
        "cpu_seconds": fitting["cpu_seconds"],
        "peak_bytes": fitting["peak_bytes"],
        "process_bytes": fitting["baseline_bytes"] + fitting["peak_bytes"],
        "data_bytes": inputs.nbytes + outputs.nbytes,
        "stages": len(model.stages_.steps),
        "error": model.stages_.steps[-1].error,
    }


def fields(setup: Setup) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Sums of a few waves with random weights, and a smooth function of them that vanishes at the boundary."""
    rng, x = np.random.default_rng(0), np.linspace(0.0, 1.0, setup.side)
    number = np.arange(_WAVES)
    waves = np.cos(np.pi * np.outer(number, x))
    sizes = 1.0 / (1.0 + number[:, None] ** 2 + number**2)
    inputs = np.empty((setup.samples, setup.side, setup.side))
    outputs = np.empty_like(inputs)
    bubble = np.outer(x * (1 - x), x * (1 - x))
    for one in range(setup.samples):
        weights = sizes * rng.standard_normal(sizes.shape)
        inputs[one] = waves.T @ weights @ waves
        outputs[one] = bubble * np.exp(0.5 * inputs[one])
    return inputs, outputs


def _axis(name: str, options: argparse.Namespace) -> Record:
    base, changed, sizes = AXES[name]
    if options.quick:
        base, sizes = _SMALL, _QUICK[name]
    tried = [_measured(replace(base, **{changed: size}), options.repeats) for size in sizes]
    rows, failed = ([row for row in tried if ("failed" in row) == lost] for lost in (False, True))
    along = [row[name] for row in rows]
    slopes = {curve: slope(along, [row["seconds"][curve] for row in rows]) for curve in CURVES}
    slopes["memory"] = slope(along, [row["peak_bytes"] + row["data_bytes"] for row in rows])
    return {"base": asdict(base), "sizes": along, "rows": rows, "slopes": slopes, "failed": failed}


def _measured(setup: Setup, repeats: int) -> Record:
    sys.stderr.write(f"{setup}\n")
    return asdict(setup) | in_fresh_process(Path(__file__), {"setup": asdict(setup), "repeats": repeats}, limit=_LIMIT)


def _table(record: Record) -> str:
    lines = [
        "| samples | points | features | fit | prediction of 50 | fields | peak beyond them | process |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = [row for axis in record["axes"].values() for row in axis["rows"]]
    for row in [*rows, *(row for row in [record.get("large", {})] if "seconds" in row)]:
        sizes = (f"{row[key] / 2**20:.0f} MiB" for key in ("data_bytes", "peak_bytes", "process_bytes"))
        seconds = (f"{row['seconds'][curve]:.2f} s" for curve in CURVES)
        cells = [row["samples"], f"{row['side']}²", row["features"], *seconds, *sizes]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "| against | fit | prediction | fields and memory of the fit |", "|---|---|---|---|"]
    for name, axis in record["axes"].items():
        lines.append(f"| {name} | {' | '.join(f'{one:.2f}' for one in axis['slopes'].values())} |")
    return "\n".join(lines) + "\n"


def _draw(record: Record, path: Path) -> None:
    """Seconds above, memory below, one column for each axis; PNG and SVG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    axes = record["axes"]
    figure = Figure(figsize=(4.2 * len(axes), 6.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, len(axes), squeeze=False)
    for (above, below), (name, axis) in zip(panels.T, axes.items(), strict=True):
        for curve, title in CURVES.items():
            seconds = [row["seconds"][curve] for row in axis["rows"]]
            above.loglog(axis["sizes"], seconds, "o-", label=f"{title}, slope {axis['slopes'][curve]:.2f}")
        for key, title in (("peak_bytes", "fit, beyond its fields"), ("data_bytes", "fields, inputs and outputs")):
            below.loglog(axis["sizes"], [row[key] / 2**20 for row in axis["rows"]], "o-", label=title)
        above.set(ylabel="seconds")
        below.set(xlabel=name, ylabel="MiB")
        for panel in (above, below):
            panel.xaxis.set_minor_formatter(NullFormatter())
            panel.set_xticks(axis["sizes"], [str(size) for size in axis["sizes"]])
            panel.legend(fontsize="small")
    for suffix in (".png", ".svg"):
        figure.savefig(path.with_suffix(suffix), dpi=150)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes: the numbers mean nothing")
    parser.add_argument("--axes", nargs="+", choices=list(AXES), default=list(AXES), metavar="AXIS")
    parser.add_argument("--large", action="store_true", help="500 samples on 512² points too: more than an hour")
    parser.add_argument("--repeats", type=int, default=3, help="of fits under ten seconds; the median counts (3)")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/speed"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1].startswith("{"):
        request = json.loads(sys.argv[1])
        answer(point(Setup(**request["setup"]), request["repeats"]))
    else:
        sys.stdout.write(f"{main()}\n")
