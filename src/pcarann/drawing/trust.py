"""How far predictions may be trusted, on test samples: coverage by level and by location, errors and novelty."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pcarann.drawing.fields import draw_field
from pcarann.drawing.layout import Layout, Place
from pcarann.drawing.style import BLUE, GREY, ORANGE, RED, blank, save, style

__all__ = ["draw_trust"]

Values = np.ndarray[Any, np.dtype[Any]]

_LEAST_P = 1e-4  # p-values below stand at the edge


def draw_trust(
    path: str | os.PathLike[str] | None,
    *,
    errors: Values,
    coverage: tuple[Sequence[float], Sequence[float]] | None = None,
    shares: Mapping[str, Values] | None = None,
    level: float | None = None,
    p_values: Values | None = None,
    title: str = "",
    place: Place | None = None,
) -> Any:
    """Draw what is known of these, and return the figure; it is written to `path` if one is given.

    `coverage` are levels and the shares covered. `shares` are the shares of samples in which the interval of `level`
    covers each value of an output, by method of the interval; each is an array with the shape of one output, drawn
    at its `place`. `errors` and `p_values` are those of samples.
    """
    shares = shares or {}
    panels = 1 + len(shares) + (coverage is not None)
    with style():
        figure = blank(3.4 * panels, 3.2)
        axes = list(figure.subplots(1, panels, squeeze=False)[0])
        if coverage is not None:
            _reliability(axes.pop(0), *coverage, len(errors))
        for method, covered in shares.items():
            _points(axes.pop(0), np.atleast_1d(covered), method, level, place or Place())
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


def _points(axis: Any, shares: Values, method: str, level: float | None, place: Place) -> None:
    """How often each point is covered; of several components the one that is covered least."""
    layout = Layout.of(shares.shape, **place)
    parts, component = layout.parts(shares), None
    if layout.kind != "curve" and len(parts) > 1:
        component = int(np.argmin([part.mean() for part in parts]))
    draw_field(axis, 100 * shares, component=component, limits=(0.0, 100.0), label="covered, % of samples", **place)
    axis.set_title(f'"{method}", each point' + (f", component {component}" if component is not None else ""))
    if layout.kind == "curve":
        axis.set_ylim(0, 102)
        if level is not None:
            axis.axhline(100 * level, color=GREY, linestyle="--", linewidth=1)
        axis.text(0.03, 0.05, f"worst {100 * float(shares.min()):.0f} %", transform=axis.transAxes, color=RED)


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
