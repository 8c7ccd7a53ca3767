"""Records, asked for by what was run.

Any may be missing: whoever asks gets none, an empty list or an empty dictionary, and shows a dash.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

__all__ = [
    "Fields",
    "Record",
    "best_runs",
    "best_times",
    "first",
    "is_quick",
    "learning_curve",
    "one_per_seed",
    "place_title",
    "places",
    "read_fields",
    "select",
]

Record = dict[str, Any]
Fields = dict[str, np.ndarray[Any, Any]]


def select(records: Iterable[Record], **wanted: object) -> list[Record]:
    """Return the records whose entries are as wanted, those of the CPU first.

    >>> select([{"place": "h200", "x": 1}, {"place": "cpu", "x": 1}, {"place": "cpu", "x": 2}], x=1)
    [{'place': 'cpu', 'x': 1}, {'place': 'h200', 'x': 1}]
    """
    found = [record for record in records if all(record.get(key) == value for key, value in wanted.items())]
    return sorted(found, key=lambda record: _place_order(record["place"]))


def first(records: Iterable[Record], **wanted: object) -> Record | None:
    """Return the first of the records as wanted: errors on CPU and GPU agree but for rounding, so one will do."""
    return next(iter(select(records, **wanted)), None)


def best_runs(
    records: Iterable[Record], problem: str, *, change: str | None = None, noise: float = 0.0
) -> list[Record]:
    """Runs of a problem's best model, or of one with a change, on all its training samples."""
    runs = select(records, kind="best", problem=problem, change=change, noise=noise)
    return [run for run in runs if run["n_train"] == run["sizes"][0]]


def one_per_seed(runs: Iterable[Record]) -> list[Record]:
    """Of several machines' runs on the same data seed the first, in the order of the seeds."""
    found: dict[int, Record] = {}
    for run in runs:
        found.setdefault(run["seeds"]["data"], run)
    return [found[seed] for seed in sorted(found)]


def best_times(runs: Sequence[Record]) -> dict[str, float]:
    """Seconds of a fit on each machine, the mean over data seeds."""
    return {place: fmean(run["seconds"] for run in select(runs, place=place)) for place in places(runs)}


def learning_curve(records: Iterable[Record], problem: str, change: str | None = None) -> dict[int, float]:
    """Error of the best model, or of one with a change, by the number of training samples, on the first data seed."""
    runs = select(records, kind="best", problem=problem, change=change, noise=0.0)
    sizes = sorted({run["n_train"] for run in runs})
    return {size: float(one_per_seed(select(runs, n_train=size))[0]["error"]) for size in sizes}


def places(records: Iterable[Record]) -> list[str]:
    """Where the records were made, the CPU first."""
    return sorted({record["place"] for record in records}, key=_place_order)


def place_title(place: str) -> str:
    """Name of a place to print.

    >>> place_title("rtx-a6000")
    'RTX A6000'
    """
    return place.replace("-", " ").upper()


def is_quick(records: Iterable[Record]) -> bool:
    """Whether any record is of quick mode."""
    return any(record["quick"] for record in records)


def read_fields(folder: Path, records: Sequence[Record], problem: str) -> Fields | None:
    """Return the fields of a problem's representative samples, those of the refined model where there are any."""
    for variant in ("refined", "energy"):
        for record in select(records, kind="pcarann", problem=problem, variant=variant):
            path = folder / f"{problem}-{variant}-{record['place']}.npz"
            if path.exists():
                with np.load(path, allow_pickle=False) as file:
                    return dict(file)
    return None


def _place_order(place: str) -> tuple[bool, str]:
    return place != "cpu", place
