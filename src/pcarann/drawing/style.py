"""How pictures look and are saved: colours, safe for colour-blind readers, and letters.

The same numbers give the same bytes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, Literal

from pcarann.files import atomic_writer

__all__ = ["BLUE", "DARK", "GREEN", "GREY", "ORANGE", "PURPLE", "RED", "SKY", "blank", "save", "style"]

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"
SKY, GREEN, PURPLE, DARK, RED = "#56B4E9", "#009E73", "#CC79A7", "#333333", "#B2182B"
_STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.dpi": 150,
    "svg.hashsalt": "pcarann",
}


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Make what is drawn meanwhile look as ours, and bear the same names in every SVG."""
    try:
        import matplotlib
    except ImportError:
        raise ImportError("Pictures need matplotlib: pip install 'pcarann[figures]'.") from None
    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]
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
