"""How far predictions may be trusted, on test samples: coverage by level and by point, errors beside novelty."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from pcarann.drawing.style import BLUE, GREY, ORANGE, RED, blank, save, style

__all__ = ["draw_trust"]

Values = np.ndarray[Any, np.dtype[Any]]

_LEAST_P = 1e-4  # p-values below stand at the edge


def draw_trust(
    path: str | os.PathLike[str] | None,
    *,
    errors: Values,
    coverage: tuple[Sequence[float], Sequence[float]] | None = None,
    inside: Values | None = None,
    level: float | None = None,
    p_values: Values | None = None,
    title: str = "",
) -> Any:
    """Draw what is known of these, and return the figure; it is written to `path` if one is given.

    `coverage` are levels and the shares covered, `inside` whether each value of each sample lies in the interval of
    `level`, (samples, values), `errors` and `p_values` those of samples.
    """
    panels = [coverage is not None, inside is not None, True]
    with style():
        figure = blank(3.4 * sum(panels), 3.2)
        axes = list(figure.subplots(1, sum(panels), squeeze=False)[0])
        if coverage is not None:
            _reliability(axes.pop(0), *coverage, len(errors))
        if inside is not None and level is not None:
            _points(axes.pop(0), inside.mean(axis=0), level)
        _novelty(axes.pop(0), errors, p_values)
        if title:
            figure.suptitle(title, x=0.01, ha="left")
        if path is not None:
            save(figure, path)
    return figure


def _reliability(axis: Any, levels: Sequence[float], shares: Sequence[float], samples: int) -> None:
    axis.plot([0, 100], [0, 100], color=GREY, linestyle="--", linewidth=1)
    axis.plot(100 * np.asarray(levels), 100 * np.asarray(shares), color=BLUE, marker="o", markersize=3.5)
    axis.set(title="coverage", xlabel="level asked for, %", ylabel="share covered, %", xlim=(0, 100), ylim=(0, 102))
    axis.text(97, 4, f"{samples} samples", ha="right", color=GREY)


def _points(axis: Any, shares: Values, level: float) -> None:
    """How many points are covered how often."""
    axis.hist(100 * shares, bins=np.linspace(0, 100, 41), color=BLUE)
    axis.axvline(100 * level, color=GREY, linestyle="--", linewidth=1)
    axis.set(title="coverage of each point", xlabel="samples in which it is covered, %", ylabel="points", xlim=(0, 101))
    worst = 100 * float(shares.min())
    axis.text(0.03, 0.95, f"worst {worst:.0f} %", transform=axis.transAxes, va="top", color=RED)


def _novelty(axis: Any, errors: Values, p_values: Values | None) -> None:
    """Errors beside p-values of the inputs, or sorted where these are not known."""
    shown = 100 * np.clip(errors, np.finfo(float).tiny, None)
    if p_values is None:
        axis.plot(np.sort(shown), color=BLUE)
        axis.set(title="errors", xlabel="samples, by error", ylabel="relative error, %", yscale="log")
        return
    p = np.clip(p_values, _LEAST_P, 1)
    far = p_values <= 0.01
    axis.scatter(p[~far], shown[~far], s=8, color=BLUE, linewidths=0)
    axis.scatter(p[far], shown[far], s=12, color=ORANGE, linewidths=0, label="p ≤ 0.01")
    if far.any():
        axis.legend(loc="best")
    axis.set(title="errors beside novelty", xlabel="p-value of the input", ylabel="relative error, %")
    axis.set(xscale="log", yscale="log", xlim=(1.3, _LEAST_P / 1.3))
