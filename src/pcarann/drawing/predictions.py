"""A prediction beside the truth: both, the error, and how wide the band is.

relative L² error   ‖û − u‖ / ‖u‖, of one sample, over all points where both are finite
half-width          (upper − lower) / 2 at each point; the standard deviation where there is no band
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from pcarann.backend.arrays import to_host
from pcarann.drawing.fields import draw_field, limits_of, proportion
from pcarann.drawing.layout import Layout, Place, Values
from pcarann.drawing.style import BLUE, DARK, GREY, ORANGE, SKY, blank, save, style

__all__ = ["draw_prediction"]

_TITLES = {"truth": "truth", "mean": "prediction", "error": "prediction − truth"}


def draw_prediction(
    path: str | os.PathLike[str] | None = None,
    *,
    mean: Any,
    truth: Any = None,
    lower: Any = None,
    upper: Any = None,
    std: Any = None,
    names: Sequence[str] | None = None,
    title: str = "",
    **place: Unpack[Place],
) -> Any:
    """Draw one sample's prediction, and return the figure; it is written where a path is given (.png, .svg, .pdf).

    There is a row for each component, with `names`, and a panel for each of truth, mean, error and half-width that
    are known; truth and mean share their colours. Curves have one panel with the band, and one with the error;
    a number is a point with its interval, beside the truth. `title` stands before the relative error.

    >>> x = np.linspace(0, 1, 30)
    >>> figure = draw_prediction(mean=x**2, truth=x**2 + 0.01, lower=x**2 - 0.1, upper=x**2 + 0.1, coords={"x": x})
    >>> [axis.get_title(loc="left") for axis in figure.axes]
    ['relative L² error 2.15e-02', 'prediction − truth']
    """
    fields = {"truth": truth, "mean": mean, "lower": lower, "upper": upper, "std": std}
    given = {name: to_host(field) for name, field in fields.items() if field is not None}
    for name, field in given.items():
        if field.shape != given["mean"].shape:
            raise ValueError(f"{name} must have the shape of mean, {given['mean'].shape}, found {field.shape}.")
    if (lower is None) != (upper is None):
        raise ValueError("lower and upper belong together: one of them is missing.")
    layout = Layout.of(given["mean"].shape, **place)
    parts = {name: layout.parts(field) for name, field in given.items()}
    count = len(parts["mean"])
    if names is not None and len(names) != count:
        raise ValueError(f"names must be {count}, one for each component, found {len(names)}.")
    words = list(names) if names is not None else [f"component {k}" if count > 1 else "" for k in range(count)]
    rows = [_Row({name: part[k] for name, part in parts.items()}, words[k], layout) for k in range(count)]
    with style():
        figure = _draw_rows(rows, ", ".join(filter(None, (title, _relative_error(given)))))
        if path is not None:
            save(figure, path)
    return figure


@dataclass(frozen=True)
class _Row:
    """One component of all that is known of a sample."""

    known: dict[str, Values]
    name: str
    layout: Layout

    @property
    def error(self) -> Values | None:
        return self.known["mean"] - self.known["truth"] if "truth" in self.known else None

    @property
    def width(self) -> tuple[str, Values] | None:
        """What is known of the uncertainty, and its name."""
        if "lower" in self.known:
            return "half-width of the band", (self.known["upper"] - self.known["lower"]) / 2
        return ("standard deviation", self.known["std"]) if "std" in self.known else None

    @property
    def place(self) -> Place:
        """That of one component."""
        axes = self.layout.coords
        shape = self.known["mean"].shape[: len(axes)]
        coords = {name: np.arange(n) if a is None else a for (name, a), n in zip(axes, shape, strict=True)}
        return Place(points=self.layout.points, triangles=self.layout.triangles, coords=coords)


def _relative_error(given: dict[str, Values]) -> str:
    if "truth" not in given:
        return ""
    truth, missed = given["truth"], given["mean"] - given["truth"]
    both = np.isfinite(missed)
    size = float(np.linalg.norm(truth[both]))
    return f"relative L² error {np.linalg.norm(missed[both]) / size:.2e}" if size else "truth is zero"


def _draw_rows(rows: list[_Row], title: str) -> Any:
    if rows[0].known["mean"].size == 1:
        return _draw_numbers(rows, title)
    if rows[0].layout.kind == "curve":
        return _draw_curves(rows, title)
    panels = [_panels(row) for row in rows]
    figure = blank(3.3 * len(panels[0]), 2.9 * len(rows))
    axes = figure.subplots(len(rows), len(panels[0]), squeeze=False)
    for row, across, line in zip(rows, panels, axes, strict=True):
        for axis, (words, values, look) in zip(line, across, strict=True):
            draw_field(axis, values, **look, **row.place)
            axis.set_title(", ".join(filter(None, (row.name if axis is line[0] else "", words))))
            if axis is not line[0]:
                axis.set_ylabel("")
    wide, high = _room(axes[0, 0])
    figure.set_size_inches(wide * len(panels[0]), high * len(rows) + 0.3)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    return figure


def _room(axis: Any) -> tuple[float, float]:
    """Inches of a panel with its colour bar and letters: a large one whatever its proportions."""
    shape = 0.8 if axis.get_aspect() == "auto" else proportion(axis)
    width = min(2.3, 3.2 / shape)
    return max(width + 1.0, 2.3), width * shape + 0.75


def _panels(row: _Row) -> list[tuple[str, Values, dict[str, Any]]]:
    """Title, values and look of each panel of a row."""
    shared: dict[str, Any] = {
        "limits": limits_of(*(row.known[name] for name in ("truth", "mean") if name in row.known))
    }
    panels = [(_TITLES[name], row.known[name], shared) for name in ("truth", "mean") if name in row.known]
    if row.error is not None:
        panels.append((_TITLES["error"], row.error, {"error": True}))
    if row.width is not None:
        words, values = row.width
        panels.append((words, values, {"limits": (0.0, max(limits_of(values)[1], 0.0) or 1.0)}))
    return panels


def _draw_numbers(rows: list[_Row], title: str) -> Any:
    """A point with its interval in a panel for each row, and the truth beside it."""
    figure = blank(4.6, 1.4 * len(rows))
    for axis, row in zip(figure.subplots(len(rows), squeeze=False)[:, 0], rows, strict=True):
        if row.width is not None:
            words, half = row.width
            low, high = (edge.ravel() for edge in _band(row, half))
            axis.plot([*low, *high], [0, 0], color=SKY, lw=6, alpha=0.6, label=_band_name(words))
        axis.plot(row.known["mean"].ravel(), [0], "o", color=BLUE, label="prediction")
        if row.error is not None:
            axis.plot(row.known["truth"].ravel(), [0], "x", color=ORANGE, mew=2, label="truth")
        axis.set(yticks=[], ylabel=row.name)
        axis.legend(fontsize=8, loc="upper center", ncols=3)
    figure.axes[0].set_title(title or "prediction")
    return figure


def _draw_curves(rows: list[_Row], title: str) -> Any:
    """Curves with the band in one panel of each row, and the error with the band around zero in the next."""
    columns = 2 if rows[0].error is not None else 1
    figure = blank(4.6 * columns, 2.7 * len(rows))
    for axes, row in zip(figure.subplots(len(rows), columns, squeeze=False), rows, strict=True):
        along = draw_field(axes[0], row.known["mean"], label=row.name, **row.place)
        along.set(label="prediction", color=BLUE, zorder=3)
        order = np.argsort(_at(row), kind="stable")
        x = _at(row)[order]
        if row.width is not None:
            words, half = row.width
            low, high = _band(row, half)
            axes[0].fill_between(x, low[order], high[order], color=SKY, alpha=0.35, lw=0, label=_band_name(words))
        if row.error is not None:
            axes[0].plot(x, row.known["truth"][order], color=ORANGE, lw=1.2, ls="--", label="truth", zorder=4)
            _draw_error(axes[1], x, row, order)
        axes[0].legend(fontsize=8)
    figure.axes[0].set_title(title or "prediction")
    return figure


def _draw_error(axis: Any, x: Values, row: _Row, order: Values) -> None:
    assert row.error is not None
    if row.width is not None:
        low, high = (edge - row.known["mean"] for edge in _band(row, row.width[1]))
        axis.fill_between(x, low[order], high[order], color=SKY, alpha=0.35, lw=0)
    axis.axhline(0, color=GREY, lw=0.8)
    axis.plot(x, row.error[order], color=DARK, lw=1.2)
    axis.set(title=_TITLES["error"], xlabel=row.layout.coords[0][0] if row.layout.coords else "x")
    axis.ticklabel_format(axis="y", scilimits=(-2, 3), useMathText=True)


def _band(row: _Row, half: Values) -> tuple[Values, Values]:
    if "lower" in row.known:
        return row.known["lower"], row.known["upper"]
    return row.known["mean"] - half, row.known["mean"] + half


def _band_name(words: str) -> str:
    return "band" if words.startswith("half") else "± one standard deviation"


def _at(row: _Row) -> Values:
    """Where the values of a curve stand."""
    if row.layout.points is not None:
        return row.layout.points[:, 0]
    points = row.layout.coords[0][1] if row.layout.coords else None
    return np.arange(len(row.known["mean"])) if points is None else points
