"""Pictures of the best models: error against the number of training samples, and what each stage corrects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pcarann.benchmark.paper.configurations import PROBLEMS, Problem
from pcarann.benchmark.records import Fields, Record, learning_curve
from pcarann.drawing import BLUE, GREY, ORANGE, blank, style

__all__ = ["has_learning_curves", "learning_curves", "stage_corrections"]

_CURVES = (
    (None, "with symmetry", {"color": BLUE, "marker": "o"}),
    ("without symmetry", "without symmetry", {"color": ORANGE, "marker": "s", "linestyle": "--"}),
)
_POSITIVE, _SIGNED = "viridis", "RdBu_r"
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


@style()
def stage_corrections(fields: Fields) -> Any:
    """One sample: input and truth; above, what each stage adds to the mean field; below, the error that is left."""
    after, truth = fields["after"], fields["truth"]
    columns = len(after) + 1
    figure = blank(1.75 * columns, 4.6)
    axes = figure.subplots(2, columns, squeeze=False)
    _draw_field(figure, axes[0, 0], fields, fields["input"], "input a", _POSITIVE)
    _draw_field(figure, axes[1, 0], fields, truth, "truth u", _POSITIVE)
    _draw_field(figure, axes[0, 1], fields, after[0], "start: mean field û₀", _POSITIVE)
    for stage, change in enumerate(np.diff(after, axis=0), start=1):
        _draw_field(figure, axes[0, stage + 1], fields, change, f"stage {stage} adds", _SIGNED)
    for left, error, axis in zip(after - truth, fields["errors"], axes[1, 1:], strict=True):
        _draw_field(figure, axis, fields, left, f"error left: {_percent(error)}", _SIGNED)
    return figure


def _draw_field(figure: Any, axis: Any, fields: Fields, field: np.ndarray[Any, Any], title: str, cmap: str) -> None:
    """A field with a scale of its own, even about zero where it is signed."""
    top = float(np.abs(field).max()) or 1.0
    low = -top if cmap == _SIGNED else min(0.0, float(field.min()))
    extent = (*fields["axis_x"][[0, -1]], *fields["axis_y"][[0, -1]])
    image = axis.imshow(field.T, origin="lower", extent=extent, cmap=cmap, vmin=low, vmax=top, interpolation="nearest")
    axis.set_title(title, loc="center")
    axis.set(xticks=[], yticks=[])
    for side in axis.spines.values():
        side.set_visible(False)
    bar = figure.colorbar(image, ax=axis, location="bottom", shrink=0.9, pad=0.03, aspect=14)
    shown = float(f"{0.9 * top:.1g}")
    bar.set_ticks([-shown, 0, shown] if low < 0 else [0, shown], labels=_ticks(shown, signed=low < 0))
    bar.ax.tick_params(labelsize=7, length=2)
    bar.outline.set_visible(False)


def _ticks(size: float, *, signed: bool) -> list[str]:
    label = f"{size:g}" if size >= 0.01 else f"{size:.0e}".replace("e-0", "e-")
    return [f"−{label}", "0", label] if signed else ["0", label]


def _percent(share: float) -> str:
    """Two digits.

    >>> _percent(0.3123), _percent(0.0403)
    ('31 %', '4.0 %')
    """
    return f"{100 * share:#.2g}".rstrip(".") + " %"
