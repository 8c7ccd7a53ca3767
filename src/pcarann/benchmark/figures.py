"""Pictures. Colours are safe for colour-blind readers; truth and prediction share one scale.

Here: the style of all, how they are saved, and the demonstration. Accuracy against training time is in `headline`,
the figures of the paper in `paper_figures`. The same numbers give the same bytes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from pcarann.files import atomic_writer

if TYPE_CHECKING:
    from pcarann.benchmark.demo import Demo

__all__ = ["blank", "demo_figure", "save", "style"]

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"
SKY, GREEN, PURPLE, DARK = "#56B4E9", "#009E73", "#CC79A7", "#333333"
STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.dpi": 150,
    "svg.hashsalt": "pcarann",
}


def demo_figure(demo: Demo, path: str | os.PathLike[str]) -> None:
    """Draw the demonstration: a solution, its prediction, its interval, the coverage and the adaptation."""
    with style():
        figure = blank(11, 6.2)
        axes = figure.subplots(2, 3)
        figure.suptitle("A surrogate of Burgers' equation: 100 unseen samples, the one of median error drawn", x=0.5)
        _draw_fields(figure, axes[0], demo)
        _draw_band(axes[1, 0], demo)
        _draw_reliability(axes[1, 1], demo)
        _draw_adaptation(axes[1, 2], demo)
        save(figure, path)


def _draw_fields(figure: Any, axes: Any, demo: Demo) -> None:
    limit = float(abs(demo.truth).max())
    extent = (demo.x[0], demo.x[-1], demo.t[0], demo.t[-1])
    panels = (
        (demo.truth, "a  solver, u(x, t)", {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}),
        (
            demo.mean,
            f"b  surrogate, {1e3 * demo.predict_seconds:.2g} ms a sample",
            {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit},
        ),
        (abs(demo.mean - demo.truth), "c  absolute error", {"cmap": "viridis", "vmin": 0}),
    )
    for axis, (values, title, colours) in zip(axes, panels, strict=True):
        image = axis.imshow(values, origin="lower", extent=extent, aspect="auto", **colours)
        figure.colorbar(image, ax=axis, pad=0.02)
        axis.set(title=title, xlabel="x", ylabel="t")


def _draw_band(axis: Any, demo: Demo) -> None:
    now = -1
    error, half = demo.truth[now] - demo.mean[now], (demo.upper[now] - demo.lower[now]) / 2
    axis.fill_between(demo.x, -half, half, color=BLUE, alpha=0.25, linewidth=0, label="95 % interval")
    axis.plot(demo.x, error, color=ORANGE, linewidth=1.4, label="solver − surrogate")
    top = 1.1 * max(abs(error).max(), half.max())
    axis.set(title="d  error at t = 1 and its interval", xlabel="x", ylabel="u", xlim=(0, 1), ylim=(-top, 1.9 * top))
    axis.ticklabel_format(axis="y", scilimits=(0, 0))
    axis.legend(loc="upper right")


def _draw_reliability(axis: Any, demo: Demo) -> None:
    axis.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="perfect")
    axis.plot(demo.levels, demo.coverages, color=BLUE, marker="o", markersize=3, label="measured")
    axis.set(
        title="e  do the intervals hold?", xlabel="level asked for", ylabel="share covered", xlim=(0, 1), ylim=(0, 1)
    )
    axis.legend(loc="upper left")


def _draw_adaptation(axis: Any, demo: Demo) -> None:
    axis.plot(demo.adapted, demo.new_errors, color=BLUE, marker="o", markersize=4)
    axis.axhline(demo.new_errors[0], color=GREY, linestyle="--", linewidth=1)
    axis.annotate("not adapted", (demo.adapted[-1], demo.new_errors[0]), ha="right", va="bottom", color=GREY)
    axis.set(title="f  adapting to half the viscosity", xlabel="new samples seen", ylabel="relative L² error")
    axis.set_ylim(0, 1.15 * max(demo.new_errors))


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Make what is drawn meanwhile look as ours, and bear the same names in every SVG."""
    try:
        import matplotlib
    except ImportError:
        raise ImportError("Pictures need matplotlib: pip install 'pcarann[figures]'.") from None
    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type]
        yield


def blank(width: float, height: float, layout: Literal["constrained", "compressed"] = "constrained") -> Any:
    """Return an empty figure of so many inches that belongs to no window; "compressed" is for square panels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def save(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure in the format of the file's ending, without date and versions: same picture, same bytes."""
    ending = os.fspath(path).rpartition(".")[2]
    metadata = {"Date": None} if ending == "svg" else {"Software": None} if ending == "png" else None
    with style(), atomic_writer(path) as file:
        figure.savefig(file, format=ending, metadata=metadata)
    figure.set_layout_engine("none")  # found once: a second format has the same, sooner
