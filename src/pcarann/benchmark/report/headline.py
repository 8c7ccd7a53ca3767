"""The headline: accuracy against training time, all methods, one panel for each problem.

Colour is the method, shape the machine, and hollow markers are the paper's. Names stand beside markers, not in a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from pcarann.benchmark.paper.configurations import BASELINES, PROBLEMS, Problem
from pcarann.benchmark.records import Record, best_runs, place_title, places, select, times_of
from pcarann.drawing import BLUE, DARK, GREEN, GREY, ORANGE, PURPLE, RED, SKY, blank, style

__all__ = ["headline"]


_End = tuple[float, float, str]


@dataclass
class _Trace:
    """One method in one panel."""

    title: str
    colour: str
    ends: list[_End] = field(default_factory=list)
    """(seconds, error, place), ours first; the paper's place is called so"""
    curves: list[list[tuple[float, float]]] = field(default_factory=list)
    stress: bool = False
    """Larger markers, and the name in bold"""


def headline(records: Sequence[Record], columns: int = 2) -> Any:
    """Accuracy against training time for all methods, one panel for each problem.

    One column is for narrow screens.
    """
    rows = -(-len(PROBLEMS) // columns)
    with style():
        figure = blank(4.4 * columns if columns > 1 else 4, 3.3 * rows + 0.6)
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True)
        figure.supylabel("relative L² error on the test set", fontsize=10)
        _draw_key(figure, places(records))
        traces = {name: _traces(records, problem) for name, problem in PROBLEMS.items()}
        for axis, (name, found) in zip(axes.flat, traces.items(), strict=True):
            _draw_panel(axis, found)
            axis.set_title(PROBLEMS[name].title, fontweight="bold")
        for axis in axes[-1]:
            axis.set_xlabel("training time, s")
        for axis in axes[:, 0]:
            axis.set_xlim(left=0.7 * axis.get_xlim()[0])  # room for names to the left
        figure.draw_without_rendering()  # labels are placed where the axes end up, and there these stay
        figure.set_layout_engine("none")
        for axis, found in zip(axes.flat, traces.values(), strict=True):
            _place_labels(axis, found)
        return figure


COLOURS = {
    "stages": RED,
    "best": BLUE,
    "refined": SKY,
    "energy": "#90A8B5",
    "fno": ORANGE,
    "fno_symmetric": "#E69F00",
    "deeponet": GREEN,
    "pca_nn": PURPLE,
    "kernel": DARK,
    "random_features": "#8C6D31",
}
MARKERS = {"cpu": "o", "paper": "D"}
_TITLES = BASELINES | {
    "stages": "stages",
    "best": "PCA–RaNN, best latent",
    "refined": "PCA–RaNN refined",
    "energy": "PCA–RaNN EM",
    "fno_symmetric": "FNO + symmetry",
    "kernel": "kernel ridge",
    "random_features": "random features",
}


def _traces(records: Sequence[Record], problem: Problem) -> list[_Trace]:
    results = problem.paper.results
    found = []
    for method, colour in COLOURS.items():
        trace = _Trace(_TITLES[method], colour, stress=method in ("stages", "best"))
        trace.ends += _best_ends(records, problem, method) if trace.stress else []
        for run in select(records, kind="pcarann", problem=problem.name, variant=method):
            trace.ends.append((run["seconds"]["ensemble"], run["errors"]["ensemble"], run["place"]))
        for run in select(records, kind="baseline", problem=problem.name, method=method):
            trace.ends.append((run["seconds"], run["error"], run["place"]))
            trace.curves.append([(t, e) for t, e in run["curve"] if t > 0 and e and e > 0])
        if method in results:
            trace.ends.append((results[method].seconds, results[method].error, "paper"))
        if trace.ends:
            found.append(trace)
    return found


def _best_ends(records: Sequence[Record], problem: Problem, kind: str) -> list[_End]:
    """Stages or the best latent model on each machine, means over data seeds."""
    runs = best_runs(records, problem.name, kind=kind)
    times = times_of(runs)
    return [(time, fmean(run["error"] for run in select(runs, place=place)), place) for place, time in times.items()]


def _draw_panel(axis: Any, traces: Sequence[_Trace]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set(xscale="log", yscale="log")
    for trace in traces:
        for curve in trace.curves:
            axis.plot(*zip(*curve, strict=True) if curve else ([], []), color=trace.colour, linewidth=1.1, alpha=0.75)
        for t, e, place in trace.ends:
            fill = "white" if place == "paper" else trace.colour
            size, layer = (8.5, 4) if trace.stress else (6, 3)
            look = {"color": trace.colour, "markerfacecolor": fill, "markersize": size, "zorder": layer}
            axis.plot(t, e, MARKERS.get(place, "s"), **look)
    errors = [e for trace in traces for _, e, _ in trace.ends]
    axis.set_ylim(min(errors) / 1.5, 2 * max(errors))  # curves come in from above
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if max(errors) > 5 * min(errors) else (1, 2, 3, 5, 7)))
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}" if value < 1e4 else f"{value:,.0f}"))
        side.set_minor_locator(NullLocator())
    axis.grid(color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)


def _draw_key(figure: Any, where: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    marks = [(place_title(place), MARKERS.get(place, "s"), GREY) for place in where]
    marks.append(("paper, RTX A6000", MARKERS["paper"], "white"))
    handles = [
        Line2D([], [], linestyle="", marker=mark, color=GREY, markerfacecolor=fill, label=title)
        for title, mark, fill in marks
    ]
    handles.append(Line2D([], [], color=GREY, linewidth=1.1, label="validation error in training"))
    figure.legend(handles=handles, loc="outside upper center", ncols=2 if figure.get_figwidth() < 6 else len(handles))


_OFFSETS = [
    (distance * x, distance * y)
    for distance in (6, 11, 17, 24, 32, 42)
    for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1), (0.8, 0.8), (0.8, -0.8), (-0.8, 0.8), (-0.8, -0.8))
]
"""Points from a marker to its label, the nearest first"""
_NEAR = 12
"""Farther names have a line to their marker"""


def _place_labels(axis: Any, traces: Sequence[_Trace]) -> None:
    """Write each method's name beside one of its markers, where it covers least; the colour names its others."""
    marks = [axis.transData.transform(end[:2]) for trace in traces for end in trace.ends]
    lines = [axis.transData.transform(_dense(curve)) for trace in traces for curve in trace.curves if curve]
    crowd = np.concatenate([np.repeat(marks, 10, axis=0), *lines])  # rather a line than a marker
    taken: list[Any] = []
    for trace in sorted(traces, key=lambda trace: len(trace.ends)):  # the least free first
        size = _label(axis, trace, trace.ends[0][:2], (0, 0), measure=True)
        spots = [(end[:2], offset) for near in (True, False) for end, offset in _spots(trace, near)]
        covers = [_cover(axis, point, offset, size) for point, offset in spots]
        costs = [_cost(axis, box, leader, crowd, taken) for box, leader in covers]
        best = costs.index(min(costs))
        _label(axis, trace, *spots[best])
        taken.append(covers[best][0])
        crowd = np.concatenate([crowd, covers[best][1]])


def _spots(trace: _Trace, near: bool) -> Iterator[tuple[_End, tuple[float, float]]]:
    """Where a name may stand: by our markers first, then by the paper's."""
    for of_paper in (False, True):
        for offset in _OFFSETS:
            for end in trace.ends:
                if (end[2] == "paper") == of_paper and (np.hypot(*offset) <= _NEAR) == near:
                    yield end, offset


def _cover(
    axis: Any, point: tuple[float, float], offset: tuple[float, float], size: tuple[float, float]
) -> tuple[Any, np.ndarray[Any, Any]]:
    """Pixels under a label, which hangs on the side or corner that faces its marker, and those of the way there."""
    from matplotlib.transforms import Bbox

    start = axis.transData.transform(point)
    end = start + np.array(offset) * axis.figure.dpi / 72
    corner = end - np.array(size) * (1 - np.sign(offset)) / 2
    return Bbox([corner, corner + np.array(size)]), np.linspace(start, end, 9)[1:]


def _cost(axis: Any, box: Any, leader: Any, crowd: np.ndarray[Any, Any], taken: Sequence[Any]) -> float:
    """How much a label would hide or be hidden by."""
    covered = _inside(box.padded(0.05 * axis.figure.dpi), crowd)  # half a marker more
    crossed = sum(_inside(other, leader) > 0 or box.overlaps(other) for other in taken)
    outside = _inside(axis.bbox, box.get_points()) < 2
    return float(1000 * outside + 100 * crossed + covered)


def _inside(box: Any, points: np.ndarray[Any, Any]) -> int:
    return int(np.all((box.min <= points) & (points <= box.max), axis=1).sum())


def _dense(curve: Sequence[tuple[float, float]]) -> np.ndarray[Any, Any]:
    """Points along a curve, close enough that no label slips in between."""
    t, e = np.log(np.array(curve)).T
    at = np.linspace(0, len(t) - 1, 8 * len(t))
    return np.exp([np.interp(at, np.arange(len(t)), t), np.interp(at, np.arange(len(t)), e)]).T


def _label(
    axis: Any, trace: _Trace, point: tuple[float, float], offset: tuple[float, float], measure: bool = False
) -> tuple[float, float]:
    """Write a label, with a thin line to its marker when that is some way off; return its size in pixels."""
    from matplotlib.colors import to_rgb

    across = ("right", "center", "left")[int(np.sign(offset[0])) + 1]
    up = ("top", "center", "bottom")[int(np.sign(offset[1])) + 1]
    line = {"arrowstyle": "-", "color": trace.colour, "linewidth": 0.7, "shrinkB": 3}
    look = {"ha": across, "va": up, "fontsize": 8.5, "fontweight": "bold" if trace.stress else "normal"}
    far = np.hypot(*offset) > _NEAR
    text = axis.annotate(
        trace.title, point, offset, textcoords="offset points", arrowprops=line if far else None, **look
    )
    text.set_color([0.75 * part for part in to_rgb(trace.colour)])  # darker: thin strokes need the contrast
    text.set_in_layout(False)
    box = text.get_window_extent(axis.figure.canvas.get_renderer())
    if measure:
        text.remove()
    return box.width, box.height
