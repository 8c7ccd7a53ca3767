"""The learning curves of the best models: error against the number of training samples, both on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pcarann.benchmark.paper.configurations import PROBLEMS, Problem
from pcarann.benchmark.records import Record, learning_curve
from pcarann.drawing import BLUE, GREY, ORANGE, blank, style

__all__ = ["has_learning_curves", "learning_curves"]

_CURVES = (
    (None, "with symmetry", {"color": BLUE, "marker": "o"}),
    ("without symmetry", "without symmetry", {"color": ORANGE, "marker": "s", "linestyle": "--"}),
)
_PAPER = {"color": GREY, "marker": "D", "markerfacecolor": "white", "linestyle": ""}


def has_learning_curves(records: Sequence[Record]) -> bool:
    """Whether any problem was run with several numbers of samples."""
    return bool(_panels(records))


@style()
def learning_curves(records: Sequence[Record]) -> Any:
    """Error against the number of training samples with and without the symmetry, a panel for each problem."""
    panels = _panels(records)
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = blank(4.2 * columns, 2.9 * rows + 0.6)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis, (problem, curves) in zip(axes.flat, panels, strict=False):
        _draw_panel(axis, problem, curves)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    figure.supylabel("relative L² error on the test set", fontsize=9)
    figure.supxlabel("training samples N", fontsize=9)
    known = {label: line for axis in figure.axes for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(known.values(), known.keys(), loc="outside upper center", ncols=len(known) if columns > 1 else 1)
    return figure


def _panels(records: Sequence[Record]) -> list[tuple[Problem, list[dict[int, float]]]]:
    found = [
        (problem, [learning_curve(records, problem.name, change) for change, _, _ in _CURVES])
        for problem in PROBLEMS.values()
    ]
    return [(problem, curves) for problem, curves in found if max(map(len, curves)) > 1]


def _draw_panel(axis: Any, problem: Problem, curves: Sequence[dict[int, float]]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set(xscale="log", yscale="log")
    for curve, (_, label, look) in zip(curves, _CURVES, strict=True):
        axis.plot(list(curve), list(curve.values()), label=label, markersize=4.5, linewidth=1.3, **look)
    sizes = sorted(set().union(*curves))
    if problem.n_train in sizes:
        axis.plot(problem.n_train, problem.paper.ensemble["refined"].error, label="paper’s PCA–RaNN", **_PAPER)
    low, high = axis.get_ylim()
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 10 * low else (1, 2, 3, 5, 7)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_xticks(sizes, [str(size) for size in sizes])
    for side in (axis.xaxis, axis.yaxis):
        side.set_minor_locator(NullLocator())
    axis.grid(color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.set_title(problem.title, fontweight="bold")
