"""Records: written to disk, read back, and asked for by what was run.

Any may be missing: whoever asks gets none, an empty list or an empty dictionary, and shows a dash.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from pcarann.files import atomic_writer

__all__ = [
    "Fields",
    "Record",
    "best_runs",
    "error_of",
    "fields_beside",
    "first",
    "is_quick",
    "learning_curve",
    "one_per_seed",
    "place_title",
    "places",
    "read_fields",
    "read_records",
    "record_name",
    "runs_of",
    "seconds_of",
    "select",
    "times_of",
    "write_record",
]

Record = dict[str, Any]
Fields = dict[str, np.ndarray[Any, Any]]


def write_record(folder: Path, record: Record, fields: Fields | None = None) -> Path:
    """Write a record, and its fields, under a name made of what was run."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record_name(record)}.json"
    with atomic_writer(path) as file:
        file.write(json.dumps(record, indent=1).encode() + b"\n")
    if fields:
        with atomic_writer(path.with_suffix(".npz")) as file:
            np.savez_compressed(file, allow_pickle=False, **fields)
    return path


def record_name(record: Record) -> str:
    """Name a record by what was run, and where."""
    what = record.get("variant") or record.get("method") or record["kind"]
    if record["kind"] in ("best", "stages"):
        seed, size, noise = f"seed{record['seeds']['data']}", f"n{record['n_train']}", f"noise{record['noise']:g}"
        details = (seed, record["change"], size, noise)
        left_out = (None, None, f"n{record['sizes'][0]}", "noise0")
        told = [part for part, usual in zip(details, left_out, strict=True) if part and part != usual]
        what = "-".join([record["kind"], *map(_plain, told)])
    if record.get("way", "best") != "best":
        what += f"-{record['way']}"
    if record["kind"] == "rough":
        what += f"-seed{record['seeds']['data']}-n{record['n_train']}"
    if record["kind"] == "noisy":
        what += f"-noise{_plain(format(record['noise'], 'g'))}"
    return f"{record['problem']}-{what}-{record['place']}"


def read_records(folder: Path) -> list[Record]:
    """Return all records in a folder, in the order of their names."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


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


def runs_of(records: Iterable[Record], problem: str, method: str) -> list[Record]:
    """Runs of one of the paper's models or of a baseline."""
    found = select(records, problem=problem)
    return select(found, kind="pcarann", variant=method) + select(found, kind="baseline", method=method)


def error_of(run: Record | None) -> float | None:
    """Error that a run ended with: that of the ensemble, where it is one of the paper's models."""
    if run is None:
        return None
    return float(run["errors"]["ensemble"] if run["kind"] == "pcarann" else run["error"])


def seconds_of(run: Record) -> float:
    """Seconds of training, of the ensemble where it is one of the paper's models."""
    return float(run["seconds"]["ensemble"] if run["kind"] == "pcarann" else run["seconds"])


def best_runs(
    records: Iterable[Record], problem: str, *, kind: str = "best", change: str | None = None, noise: float = 0.0
) -> list[Record]:
    """Runs of a problem's best model or stages, or of one with a change, on all its training samples."""
    runs = select(records, kind=kind, problem=problem, change=change, noise=noise)
    return [run for run in runs if run["n_train"] == run["sizes"][0]]


def one_per_seed(runs: Iterable[Record]) -> list[Record]:
    """Of several machines' runs on the same data seed the first, in the order of the seeds."""
    found: dict[int, Record] = {}
    for run in runs:
        found.setdefault(run["seeds"]["data"], run)
    return [found[seed] for seed in sorted(found)]


def times_of(runs: Sequence[Record]) -> dict[str, float]:
    """Seconds of training on each machine, the mean over data seeds."""
    return {place: fmean(map(seconds_of, select(runs, place=place))) for place in places(runs)}


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
            if fields := fields_beside(folder, record):
                return fields
    return None


def fields_beside(folder: Path, record: Record) -> Fields | None:
    """Return the fields that were written together with a record."""
    path = folder / f"{record_name(record)}.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def _place_order(place: str) -> tuple[bool, str]:
    return place != "cpu", place


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)
