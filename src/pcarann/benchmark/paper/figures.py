"""The paper's figures from records and fields: intervals, online adaptation, representative samples.

Truth and prediction share one colour scale; signed fields are red and blue about zero. All coordinates are
dimensionless. The first axis of a field is x, the second y; that of Burgers is (t, x).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pcarann.benchmark.paper.configurations import LATER_WINDOW, PROBLEMS
from pcarann.benchmark.records import Fields, Record, first, place_title, select
from pcarann.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, blank, style

__all__ = [
    "adaptation",
    "darcy_panel",
    "reliability",
    "representative_backward_heat",
    "representative_burgers",
    "representative_darcy",
    "representative_navier_stokes",
]

SIGNED, POSITIVE, ERROR = "RdBu_r", "viridis", "cividis"
_COLOURS = dict(zip(PROBLEMS, (BLUE, ORANGE, GREEN, PURPLE), strict=True))
_MARKS = dict(zip(PROBLEMS, "osD^", strict=True))


@style()
def reliability(records: Sequence[Record]) -> Any:
    """Coverage against the level asked for, and how far it is from it, for the refined ensembles."""
    figure = blank(8.4, 3.9)
    left, right = figure.subplots(1, 2)
    left.plot([0, 100], [0, 100], color=GREY, linestyle="--", linewidth=1)
    right.axhline(0, color=GREY, linestyle="--", linewidth=1)
    for name, problem in PROBLEMS.items():
        record = first(records, kind="pcarann", problem=name, variant="refined")
        if record:
            levels, shares = (100 * np.asarray(record["intervals"][key]) for key in ("levels", "coverages"))
            look = {"color": _COLOURS[name], "marker": _MARKS[name], "markersize": 3.5, "linewidth": 1.2}
            left.plot(levels, shares, label=problem.title, **look)
            right.plot(levels, shares - levels, **look)
    left.set(title="a  coverage", xlabel="level asked for, %", ylabel="share of values covered, %")
    left.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")
    right.set(title="b  coverage minus level", xlabel="level asked for, %", ylabel="percentage points", xlim=(0, 100))
    low, high = right.get_ylim()
    right.set_ylim(min(low, -3), max(high, 3))
    left.legend(loc="upper left")
    return figure


@style()
def darcy_panel(fields: Fields) -> Any:
    """The sample of median error: truth, mean, a slice with its 95 % interval, and the ensemble's deviation."""
    figure = blank(8.4, 7.2, "compressed")
    axes = figure.subplots(2, 2)
    names = ("truth", "mean", "std", "lower", "upper")
    truth, mean, std, lower, upper = (fields[name][_median(fields)] for name in names)
    limits = _limits(POSITIVE, truth, mean)
    _square(axes[0, 0], truth, fields, title="a  truth, u(x, y)", **limits)
    image = _square(axes[0, 1], mean, fields, title="b  mean of the ensemble", **limits)
    figure.colorbar(image, ax=axes[0], pad=0.02, label="u")
    x, middle = fields["axis_x"], int(np.abs(fields["axis_y"] - 0.5).argmin())
    slices = axes[1, 0]
    slices.fill_between(x, lower[:, middle], upper[:, middle], color=BLUE, alpha=0.25, lw=0, label="95 % interval")
    slices.plot(x, truth[:, middle], color=ORANGE, label="truth")
    slices.plot(x, mean[:, middle], color=BLUE, linestyle="--", label="mean")
    slices.set(title=f"c  slice at y = {fields['axis_y'][middle]:.2g}", xlabel="x", ylabel="u")
    slices.set(xlim=(0, 1), box_aspect=1)
    slices.set_ylim(top=1.35 * upper[:, middle].max())  # room for the legend
    slices.legend(loc="upper center", ncols=3, columnspacing=1.2, handlelength=1.6)
    image = _square(axes[1, 1], std, fields, title="d  deviation of the ensemble", cmap=ERROR, vmin=0)
    figure.colorbar(image, ax=axes[1], pad=0.02, label="deviation of u")
    return figure


@style()
def adaptation(records: Sequence[Record]) -> Any:
    """Error at t = 30 and seconds against new samples, by recursion and by batch refit."""
    figure = blank(8.4, 3.7)
    left, right = figure.subplots(1, 2)
    runs = select(records, kind="adaptation")
    for run in runs[:1]:
        _draw_adapted_errors(left, run["rows"])
    for run, dashes in zip(runs, ("-", "--", ":", "-."), strict=False):
        _draw_adaptation_times(right, run["rows"], dashes, f" {place_title(run['place'])}")
    if not runs or runs[0]["rows"][-1]["samples"] == LATER_WINDOW.counts[-1]:
        _draw_paper_adaptation(left, right)
    left.set(title="a  error at t = 30", xlabel="new samples", ylabel="relative L² error")
    left.set_ylim(0, 1.12 * left.get_ylim()[1])
    right.set(title="b  time of one update", xlabel="new samples", ylabel="seconds", yscale="log")
    right.yaxis.set_major_formatter("{x:g}")
    for axis, loc, anchor in ((left, "best", None), (right, "center left", (1, 0.5))):
        if axis.get_legend_handles_labels()[0]:
            axis.legend(loc=loc, bbox_to_anchor=anchor)
    return figure


def _draw_adapted_errors(axis: Any, rows: Sequence[Record]) -> None:
    samples, before = [row["samples"] for row in rows], rows[0]["error_last"]
    axis.axhline(before, color=GREY, linestyle="--", linewidth=1)
    axis.annotate("not adapted", (samples[-1], before), (0, 3), textcoords="offset points", ha="right", color=GREY)
    batch = {row["samples"]: row["batch_error_last"] for row in rows if "batch_error_last" in row}
    axis.plot(
        list(batch), list(batch.values()), color=ORANGE, linestyle="", marker="x", markersize=7, label="batch refit"
    )
    axis.plot(samples, [row["error_last"] for row in rows], color=BLUE, marker="o", markersize=4, label="recursion")


def _draw_adaptation_times(axis: Any, rows: Sequence[Record], dashes: str, place: str) -> None:
    for key, title, colour in (("batch", "batch refit", ORANGE), ("recursive", "recursion", BLUE)):
        found = {row["samples"]: row[f"{key}_seconds"] for row in rows if f"{key}_seconds" in row}
        look = {"color": colour, "linestyle": dashes, "marker": "o", "markersize": 4}
        axis.plot(list(found), list(found.values()), label=title + place, **look)


def _draw_paper_adaptation(left: Any, right: Any) -> None:
    ends, hollow = (0, LATER_WINDOW.counts[-1]), {"marker": "D", "markerfacecolor": "white", "linestyle": ""}
    left.plot(ends, LATER_WINDOW.last_time_errors, color=GREY, label="paper", zorder=3, **hollow)
    right.plot(ends[1], LATER_WINDOW.batch_seconds, color=ORANGE, label="batch refit, paper", **hollow)
    right.plot(ends[1], LATER_WINDOW.recursive_seconds, color=BLUE, label="recursion, paper", **hollow)


@style()
def representative_burgers(fields: Fields) -> Any:
    """Samples of least, median and largest error: initial state, truth, prediction, absolute error."""
    figure = blank(8.4, 10)
    axes = figure.subplots(4, 3, sharex=True, sharey="row")
    for axis, state in zip(axes[0], fields["inputs"], strict=True):
        axis.plot(fields["axis_x"], state, color=BLUE)
    extent = (*fields["axis_x"][[0, -1]], *fields["axis_t"][[0, -1]])
    where: dict[str, Any] = {"extent": extent, "aspect": "auto"}
    _draw_block(figure, axes[1:3], (fields["truth"], fields["mean"]), SIGNED, "u", **where)
    _draw_block(figure, axes[3:], (_error(fields),), ERROR, "error of u", each=True, **where)
    _name_axes(axes, ("a  initial state\nu₀(x)", "b  truth\nt", "c  prediction\nt", "d  absolute error\nt"))
    _name_errors(axes[0], fields)
    return figure


@style()
def representative_darcy(fields: Fields) -> Any:
    """Samples of least, median and largest error: permeability, truth, prediction, absolute error."""
    figure = blank(8.4, 9.9, "compressed")
    axes = figure.subplots(4, 3, sharex=True, sharey=True)
    inputs, truth, mean, error = map(_upright, (fields["inputs"], fields["truth"], fields["mean"], _error(fields)))
    where: dict[str, Any] = {"extent": _extent(fields)}
    for axis, permeability in zip(axes[0], inputs, strict=True):
        image = axis.imshow(permeability, cmap="Greys", vmin=0, vmax=15, **where, **_PIXELS)
    figure.colorbar(image, ax=axes[0], ticks=[3, 12], pad=0.02, label="a", boundaries=[0, 7.5, 15], values=[3, 12])
    _draw_block(figure, axes[1:3], (truth, mean), POSITIVE, "u", **where)
    _draw_block(figure, axes[3:], (error,), ERROR, "error of u", each=True, **where)
    _name_axes(axes, ("a  permeability\ny", "b  truth\ny", "c  prediction\ny", "d  absolute error\ny"))
    _name_errors(axes[0], fields)
    return figure


@style()
def representative_navier_stokes(fields: Fields) -> Any:
    """The sample of median error at t = 11, 15, 20: truth, prediction, absolute error."""
    return _snapshots(fields, (11, 15, 20), "ω", each=False)


@style()
def representative_backward_heat(fields: Fields) -> Any:
    """The sample of median error at t = 0, 0.45, 0.95, each on its own scale: heat decays by a factor of ten."""
    return _snapshots(fields, (0, 0.45, 0.95), "u", each=True)


def _snapshots(fields: Fields, times: Sequence[float], symbol: str, *, each: bool) -> Any:
    """Truth, prediction and absolute error of the median sample at these times."""
    figure = blank(8.4, 9.2 if each else 7.6, "compressed")
    axes = figure.subplots(3, 3, sharex=True, sharey=True)
    truth, mean, error = (_upright(part[_median(fields)]) for part in (fields["truth"], fields["mean"], _error(fields)))
    _draw_block(figure, axes[:2], (truth, mean), SIGNED, symbol, each=each, extent=_extent(fields))
    _draw_block(figure, axes[2:], (error,), ERROR, f"error of {symbol}", each=each, extent=_extent(fields))
    _name_axes(axes, ("a  truth\ny", "b  prediction\ny", "c  absolute error\ny"))
    for axis, time in zip(axes[0], times, strict=True):
        axis.set_title(f"t = {time:g}", loc="center")
    return figure


_PIXELS: dict[str, Any] = {"origin": "lower", "interpolation": "nearest"}


def _draw_block(
    figure: Any, axes: Any, rows: Sequence[Any], cmap: str, label: str, *, each: bool = False, **where: Any
) -> None:
    """Rows of fields on one colour scale, or on one for each column."""
    for column in range(axes.shape[1]):
        limits = _limits(cmap, *(row[column] if each else row for row in rows))
        for axis, row in zip(axes[:, column], rows, strict=True):
            image = axis.imshow(row[column], **limits, **where, **_PIXELS)
        if each:
            bar = figure.colorbar(image, ax=axes[:, column], location="bottom", pad=0.02, aspect=15, format="%.2g")
            bar.ax.locator_params(nbins=4)
            bar.set_label(label)
    if not each:
        figure.colorbar(image, ax=axes, pad=0.02, label=label, aspect=20 * len(rows))


def _limits(cmap: str, *fields: np.ndarray[Any, Any]) -> dict[str, Any]:
    """One colour scale for several fields, even about zero where they are signed."""
    top = max(float(np.abs(field).max()) for field in fields)
    return {"cmap": cmap, "vmin": -top if cmap == SIGNED else 0, "vmax": top}


def _square(axis: Any, field: np.ndarray[Any, Any], fields: Fields, *, title: str, **colours: Any) -> Any:
    axis.set(title=title, xlabel="x", ylabel="y")
    return axis.imshow(_upright(field), extent=_extent(fields), **colours, **_PIXELS)


def _extent(fields: Fields) -> tuple[float, ...]:
    return (*fields["axis_x"][[0, -1]], *fields["axis_y"][[0, -1]])


def _name_axes(axes: Any, rows: Sequence[str]) -> None:
    for axis, name in zip(axes[:, 0], rows, strict=True):
        axis.set_ylabel(name)
    for axis in axes[-1]:
        axis.set_xlabel("x")


def _name_errors(axes: Any, fields: Fields) -> None:
    for axis, name, error in zip(axes, ("least", "median", "largest"), fields["errors"], strict=True):
        axis.set_title(f"{name} error, {error:.2g}", loc="center")


def _error(fields: Fields) -> np.ndarray[Any, Any]:
    return np.asarray(fields.get("error", np.abs(fields["mean"] - fields["truth"])))


def _upright(fields: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Fields on (…, x, y) as pictures, (…, y, x)."""
    return fields.swapaxes(-1, -2)


def _median(fields: Fields) -> int:
    """Samples are ordered by error; where one alone is kept, it is the median."""
    return len(fields["truth"]) // 2
