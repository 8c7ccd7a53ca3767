"""Pictures. Colours are safe for colour-blind readers; truth and prediction share one scale."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pcarann.files import atomic_writer

if TYPE_CHECKING:
    from pcarann.benchmark.demo import Demo

__all__ = ["demo_figure"]

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"
STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.dpi": 150,
}


def demo_figure(demo: Demo, path: str | os.PathLike[str]) -> None:
    """Draw the demonstration: a solution, its prediction, its interval, the coverage and the adaptation."""
    plt = _pyplot()
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(2, 3, figsize=(11, 6.2), layout="constrained")
        figure.suptitle("A surrogate of Burgers' equation: 100 unseen samples, the one of median error drawn", x=0.5)
        _draw_fields(figure, axes[0], demo)
        _draw_band(axes[1, 0], demo)
        _draw_reliability(axes[1, 1], demo)
        _draw_adaptation(axes[1, 2], demo)
        _save(figure, path)
        plt.close(figure)


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
    for axis, (field, title, colours) in zip(axes, panels, strict=True):
        image = axis.imshow(field, origin="lower", extent=extent, aspect="auto", **colours)
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


def _save(figure: Any, path: str | os.PathLike[str]) -> None:
    with atomic_writer(path) as file:
        figure.savefig(file, format=os.fspath(path).rpartition(".")[2])


def _pyplot() -> Any:
    """Return pyplot, drawing to files alone."""
    try:
        import matplotlib
    except ImportError:
        raise ImportError("Pictures need matplotlib: pip install 'pcarann[figures]'.") from None
    matplotlib.use("Agg", force=False)
    import matplotlib.pyplot as plt

    return plt
