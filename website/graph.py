"""The graph of rooms as a picture: layers as rows, the ground at the bottom, arrows from a room to those it imports."""

from __future__ import annotations

import re

from house import LAYERS

__all__ = ["rooms_as_svg"]

_WIDTH, _ROW, _HEIGHT = 960, 62, 24
_NODE, _ARROW = re.compile(r'^\s+(\w+)\["(.*)"\]$', re.MULTILINE), re.compile(r"^\s+(\w+) --> (\w+)$", re.MULTILINE)
_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 1 7 4 0 7z"/></marker></defs>'
)


def rooms_as_svg(mermaid: str) -> str:
    """The Mermaid graph of docs/architecture.md, drawn in the colours of the page."""
    labels = dict(_NODE.findall(mermaid))
    layers = [[name for name in names if name in labels] for names in LAYERS.values()][::-1]
    rows = [part for names in layers for part in _broken(names)]
    places = {name: place for row, names in enumerate(rows) for name, place in _row(names, row)}
    arrows = "".join(_arrow(places[start], places[end]) for start, end in _ARROW.findall(mermaid))
    boxes = "".join(_box(*places[name], label) for name, label in labels.items())
    size, title = f"0 0 {_WIDTH} {_ROW * len(rows)}", "Rooms of the package; arrows lead to what a room imports"
    svg = f'<svg class="rooms" viewBox="{size}" role="img" aria-label="{title}">{_TIP}{arrows}{boxes}</svg>'
    return f'<div class="rooms-frame">{svg}</div>\n'


def _broken(names: list[str], most: int = 4) -> list[list[str]]:
    """Rows of a layer, the last names on top: what stands later may import what stands before."""
    return [names[start : start + most] for start in range(0, len(names), most)][::-1]


def _row(names: list[str], row: int) -> list[tuple[str, tuple[float, float]]]:
    """Middles of boxes, every other row shifted so that arrows find gaps."""
    gap = _WIDTH / (len(names) + 0.6)
    start = gap * (0.5 if row % 2 else 1.1)
    return [(name, (start + gap * k, _ROW * (row + 0.5))) for k, name in enumerate(names)]


def _box(x: float, y: float, label: str) -> str:
    width = 9 * len(label) + 14
    box = f'<rect x="{x - width / 2:.0f}" y="{y - _HEIGHT / 2:.0f}" width="{width}" height="{_HEIGHT}" rx="5"/>'
    return f'{box}<text x="{x:.0f}" y="{y + 4:.0f}">{label}</text>'


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    """A curve that leaves a box below, or beside where both stand in one row, and enters the other above."""
    (x, y), (X, Y) = start, end
    down = -1 if y > Y else 1
    bend = _ROW * 0.45 if y == Y else min(_ROW, abs(Y - y)) * 0.5 * down
    leaves, enters = y + 12 * down, Y - 13 * down if y != Y else Y + 13
    inner = Y - bend if y != Y else Y + bend
    return f'<path d="M{x:.0f} {leaves:.0f}C{x:.0f} {y + bend:.0f} {X:.0f} {inner:.0f} {X:.0f} {enters:.0f}"/>'
