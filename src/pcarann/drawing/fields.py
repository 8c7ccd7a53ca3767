"""One field in one panel: a curve, an image, slices, a triangulation, a surface or a cloud of points.

Values are drawn in viridis, errors in a blue to red that is white at zero; both can be told apart by colour-blind
readers. Where a value is NaN the panel stays white. Nothing here knows of windows or of a current figure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

import numpy as np

from pcarann.drawing.layout import Kind, Layout, Place, Values
from pcarann.drawing.style import BLUE, DARK, GREEN, GREY, ORANGE, PURPLE

__all__ = ["draw_field", "limits_of", "proportion"]

_LINES = (BLUE, ORANGE, GREEN, PURPLE)
_LONG = 4.0  # sides of a panel may differ by this; beyond, it fills its room instead of being to scale
_COLUMNS = 16  # so few values without coordinates are those of a table, between which there is nothing
_GAP = 0.2  # between slices, as a part of the longest
_LEVEL = np.array([[0.85, 0.53, 0.0], [-0.25, 0.41, 0.88]])  # right and up on paper, seen from above in front


def draw_field(
    axis: Any,
    values: Any,
    *,
    component: int | None = None,
    limits: tuple[float, float] | None = None,
    error: bool = False,
    label: str = "",
    flat: bool = False,
    **place: Unpack[Place],
) -> Any:
    """Draw one sample's field into a Matplotlib axis, by what it lies on, and return what was drawn last.

    A grid of one axis is a curve, a few values without coordinates are dots; a grid of two axes is an image, and of
    three there are the slices through the middle. Nodal values on triangles are shaded from node to node, or `flat` on
    each; on triangles in space they cover the surface as seen from above in front; nodes without triangles are dots,
    of those in space the ones near the middle plane. A vector field shows the `component` that is asked for, else its
    magnitude (all components where these are curves).
    `limits` are those of the colours, `error` has them symmetric and red for what is too much, and `label` stands at
    the colour bar.

    >>> from pcarann.drawing import blank
    >>> axis = blank(3, 2).subplots()
    >>> image = draw_field(axis, np.ones((4, 6)), coords={"t": np.arange(4.0), "x": np.linspace(0, 1, 6)})
    >>> axis.get_xlabel(), axis.get_ylabel()
    ('x', 't')
    """
    layout = Layout.of(np.shape(values), **place)
    parts = layout.parts(values)
    if component is not None:
        parts = [parts[component]]
    if layout.kind == "curve":
        return _draw_curves(axis, parts, layout, label)
    shown = parts[0] if len(parts) == 1 else np.sqrt(sum(np.square(part, dtype=float) for part in parts))
    low, high = limits or limits_of(shown, error=error)
    look = {"cmap": _colours(error), "vmin": low, "vmax": high}
    drawn = _painters(flat)[layout.kind](axis, shown, layout, look)
    _colour_bar(axis, drawn, label)
    return drawn


def limits_of(*fields: Any, error: bool = False) -> tuple[float, float]:
    """Least and greatest finite value of all fields; of errors ± the largest.

    >>> limits_of([1.0, np.nan, 3.0]), limits_of([1.0, -3.0], error=True)
    ((1.0, 3.0), (-3.0, 3.0))
    """
    finite = np.concatenate([np.asarray(one, dtype=float)[np.isfinite(one)] for one in fields])
    if not finite.size:
        return 0.0, 1.0
    if error:
        largest = float(np.abs(finite).max()) or 1.0
        return -largest, largest
    return float(finite.min()), float(finite.max())


_Painter = Callable[[Any, Values, Layout, dict[str, Any]], Any]


def _painters(flat: bool) -> dict[Kind, _Painter]:
    shading = "flat" if flat else "gouraud"
    return {
        "image": _draw_image,
        "volume": _draw_slices,
        "triangles": partial(_draw_triangles, shading),
        "surface": partial(_draw_surface, shading),
        "cloud": _draw_cloud,
    }


def _colours(error: bool) -> Any:
    import matplotlib

    return matplotlib.colormaps["RdBu_r" if error else "viridis"].with_extremes(bad="white")


def _colour_bar(axis: Any, drawn: Any, label: str) -> None:
    """A bar exactly as high as the panel, with few ticks and one power of ten for all of them."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    room = axis.inset_axes((1.04, 0.0, 0.045, 1.0))
    few = axis.get_aspect() != "auto" and proportion(axis) < 0.4
    bar = axis.figure.colorbar(drawn, cax=room, label=label, ticks=MaxNLocator(3 if few else 5))
    numbers = ScalarFormatter(useMathText=True)
    numbers.set_powerlimits((-2, 3))
    bar.ax.yaxis.set_major_formatter(numbers)
    bar.ax.yaxis.set_offset_position("left")
    bar.ax.yaxis.OFFSETTEXTPAD = 7  # above a tick at the very top
    bar.outline.set_visible(False)


def _draw_curves(axis: Any, parts: list[Values], layout: Layout, label: str) -> Any:
    along, name = _along(layout, len(parts[0]))
    order = np.argsort(along, kind="stable")
    drawn = None
    table = layout.points is None and len(along) <= _COLUMNS and all(points is None for _, points in layout.coords)
    look: dict[str, Any] = {"marker": "o", "ls": "none"} if table else {"lw": 1.3}
    for k, part in enumerate(parts):
        (drawn,) = axis.plot(along[order], part[order], color=_LINES[k % 4], label=f"component {k}", **look)
    if len(parts) > 1:
        axis.legend()
    axis.set(xlabel="column" if table else name, ylabel=label)
    if table:
        axis.xaxis.get_major_locator().set_params(integer=True)
    return drawn


def _along(layout: Layout, count: int) -> tuple[Values, str]:
    """Where the values of a curve stand, and the name of that axis."""
    if layout.points is not None:
        return layout.points[:, 0], "x"
    name, points = layout.coords[0] if layout.coords else ("parameter", None)
    return np.arange(count) if points is None else points, name


def _draw_image(axis: Any, values: Values, layout: Layout, look: dict[str, Any]) -> Any:
    """The last axis runs to the right and the first upwards, but one that is called x always to the right."""
    up, right = layout.coords
    if up[0] == "x":
        values, up, right = values.T, right, up
    drawn = _paint_grid(axis, values, _edges(up[1], len(values)), _edges(right[1], values.shape[1]), look)
    axis.set(xlabel=right[0], ylabel=up[0])
    _to_scale(axis)
    return drawn


def _paint_grid(axis: Any, values: Values, up: Values, right: Values, look: dict[str, Any]) -> Any:
    """Cells of a grid between these edges."""
    drawn = axis.pcolormesh(right, up, np.ma.masked_invalid(values), rasterized=True, **look)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    return drawn


def _edges(points: Values | None, count: int) -> Values:
    """Edges of the cells around points: half-way between neighbours, and as far out at the ends."""
    centres = np.arange(count, dtype=float) if points is None else np.asarray(points, dtype=float)
    if count == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    half = np.diff(centres) / 2
    return np.concatenate([[centres[0] - half[0]], centres[:-1] + half, [centres[-1] + half[-1]]])


def _to_scale(axis: Any) -> None:
    """Equal units to the right and upwards, unless the panel would be a thin stripe; fewer ticks on a short side."""
    shape = proportion(axis)
    if 1 / _LONG <= shape <= _LONG:
        axis.set_aspect("equal")
        axis.locator_params(axis="x", nbins=3 if shape > 1.5 else 5)
        axis.locator_params(axis="y", nbins=3 if shape < 0.5 else 5)


def proportion(axis: Any) -> float:
    """Height by width of what a panel shows, in its own units.

    >>> from pcarann.drawing import blank
    >>> axis = blank(2, 2).subplots()
    >>> _ = axis.set(xlim=(0, 2), ylim=(0, 1))
    >>> proportion(axis)
    0.5
    """
    return float(np.ptp(axis.get_ylim()) / np.ptp(axis.get_xlim()))


def _draw_slices(axis: Any, values: Values, layout: Layout, look: dict[str, Any]) -> Any:
    """The three slices through the middle, unfolded: the first axis runs away from a slice of the last two.

    Axes that are called x, y, z come in the order z, y, x, so that x runs to the right and y upwards.
    """
    coords = layout.coords
    if coords[0][0] == "x":
        values, coords = values.T, coords[::-1]
    edges = [_edges(points, count) for (_, points), count in zip(coords, values.shape, strict=True)]
    sides = [abs(float(one[-1] - one[0])) for one in edges]
    scaled = max(sides) <= _LONG * min(sides)
    a, b, c = ((one - one.min()) / (1.0 if scaled else side) for one, side in zip(edges, sides, strict=True))
    gap = _GAP * max(a.max(), b.max(), c.max())
    i, j, k = (n // 2 for n in values.shape)
    _paint_grid(axis, values[:, j], b.max() + gap + a, c, look)
    _paint_grid(axis, values[:, :, k].T, b, c.max() + gap + a, look)
    drawn = _paint_grid(axis, values[i], b, c, look)
    levels = [_level(*one, n // 2) for one, n in zip(coords, values.shape, strict=True)]
    _tell_slices(axis, [name for name, _ in coords], levels, [float(one.max()) for one in (a, b, c)])
    return drawn


def _level(name: str, points: Values | None, index: int) -> str:
    return f"{name} = {index if points is None else points[index]:.3g}"


def _tell_slices(axis: Any, names: list[str], levels: list[str], lengths: list[float]) -> None:
    """The names of the axes at the edges of the slices, and above each the level at which it was cut."""
    a, b, c = lengths
    gap = _GAP * max(lengths)
    look = {"ha": "center", "va": "center", "color": DARK, "fontsize": 8}
    for x, y, words, turned in (
        (c / 2, -0.4 * gap, names[2], 0),
        (c + gap + a / 2, -0.4 * gap, names[0], 0),
        (-0.4 * gap, b / 2, names[1], 90),
        (-0.4 * gap, b + gap + a / 2, names[0], 90),
        (c / 2, b + 0.4 * gap, levels[0], 0),
        (c / 2, b + gap + a + 0.4 * gap, levels[1], 0),
        (c + gap + a / 2, b + 0.4 * gap, levels[2], 0),
    ):
        axis.text(x, y, words, rotation=turned, **look)
    axis.set(xlim=(-0.7 * gap, c + 1.2 * gap + a), ylim=(-0.7 * gap, b + 1.8 * gap + a))
    axis.set_axis_off()
    axis.set_aspect("equal")


def _draw_triangles(shading: str, axis: Any, values: Values, layout: Layout, look: dict[str, Any]) -> Any:
    assert layout.points is not None
    assert layout.triangles is not None
    drawn = _paint_triangles(axis, layout.points, layout.triangles, values, {**look, "shading": shading})
    return _in_the_plane(axis, layout.points, ("x", "y"), drawn)


def _paint_triangles(axis: Any, points: Values, triangles: Values, values: Values, look: dict[str, Any]) -> Any:
    """Those triangles, one after another, whose values are all known."""
    shown = triangles[np.isfinite(values[triangles]).all(axis=1)]
    finite = np.where(np.isfinite(values), values, 0.0)
    return axis.tripcolor(*points.T, shown, finite, rasterized=True, **look)


def _in_the_plane(axis: Any, points: Values, names: tuple[str, str], drawn: Any) -> Any:
    axis.set(xlabel=names[0], ylabel=names[1])
    axis.set_xlim(points[:, 0].min(), points[:, 0].max())
    axis.set_ylim(points[:, 1].min(), points[:, 1].max())
    axis.margins(0.02)
    _to_scale(axis)
    return drawn


def _draw_surface(shading: str, axis: Any, values: Values, layout: Layout, look: dict[str, Any]) -> Any:
    """Triangles in space as they are seen from above in front, those behind drawn first."""
    assert layout.points is not None
    assert layout.triangles is not None
    towards = np.cross(*_LEVEL)
    order = np.argsort(layout.points[layout.triangles].mean(axis=1) @ towards, kind="stable")
    seen = layout.points @ _LEVEL.T
    drawn = _paint_triangles(axis, seen, layout.triangles[order], values, {**look, "shading": shading})
    axis.set_aspect("equal")
    axis.set_axis_off()
    return drawn


def _draw_cloud(axis: Any, values: Values, layout: Layout, look: dict[str, Any]) -> Any:
    """Dots; of nodes in space those near the plane through the middle of the shortest side."""
    assert layout.points is not None
    points, names = layout.points, ("x", "y", "z")
    if points.shape[1] == 3:
        across = int(np.argmin(np.ptp(points, axis=0)))
        near = _near_the_middle(points[:, across])
        level = float(np.median(points[near, across]))
        kept = [k for k in range(3) if k != across]
        points, values = points[near][:, kept], values[near]
        names = (f"{names[kept[0]]}    ({names[across]} ≈ {level:.3g})", names[kept[1]], "")
    size = float(np.clip(4e3 / len(points), 1.0, 30.0))
    shown = np.isfinite(values)
    drawn = axis.scatter(*points[shown].T, c=values[shown], s=size, lw=0.2, edgecolors=GREY, rasterized=True, **look)
    return _in_the_plane(axis, points, names[:2], drawn)


def _near_the_middle(heights: Values) -> Values:
    """As many nodes as a plane of a regular mesh would have, n^(2/3), and all others as near."""
    distance = np.abs(heights - (heights.min() + heights.max()) / 2)
    wanted = min(len(heights), max(50, round(len(heights) ** (2 / 3))))
    return np.asarray(distance <= np.partition(distance, wanted - 1)[wanted - 1])
