"""Rough inputs as text: errors by the number of training samples, and times with the most of them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from pcarann.benchmark.records import Record, one_per_seed, places, select, times_of
from pcarann.benchmark.rough.cases import CASES
from pcarann.benchmark.rough.models import METHODS
from pcarann.benchmark.text import Table, number, seconds, time_headers

__all__ = ["rough_inputs", "rough_tables"]


def rough_tables(records: Sequence[Record]) -> list[Table]:
    """The table, where any case was run."""
    table = rough_inputs(records)
    return [table] if table.rows else []


def rough_inputs(records: Sequence[Record]) -> Table:
    """A row for each case and method, a column for each number of samples; the least error is bold."""
    runs = select(records, kind="rough")
    sizes = sorted({run["n_train"] for run in runs})
    where = places(runs)
    rows: list[tuple[str, ...]] = []
    bold = set()
    for case in CASES.values():
        errors = {(method, n): _error(runs, case.name, method, n) for method in METHODS for n in sizes}
        least = {n: min((e for m in METHODS if (e := errors[m, n]) is not None), default=None) for n in sizes}
        for method, title in METHODS.items():
            found = select(runs, problem=case.name, method=method)
            if found:
                told = [errors[method, n] for n in sizes]
                best = {j for j, n in enumerate(sizes) if told[j] is not None and told[j] == least[n]}
                bold |= {(len(rows), 2 + j) for j in best}
                times = times_of(select(found, n_train=max(run["n_train"] for run in found)))
                rows.append((case.title, title, *map(number, told), *(seconds(times.get(place)) for place in where)))
    header = ("Problem", "Method", *(f"N = {n}" for n in sizes), *time_headers(where))
    note = (
        "Inputs are rough random fields, of which no few modes are enough. No method is told a symmetry, and all "
        "choose their settings on training samples. With the fewest samples the error is the mean over data seeds; "
        "times are those with the most samples, the choice of settings included. For the two coefficients the random "
        "features know the equation (prediction and correction)."
    )
    return Table("Rough inputs", note, header, tuple(rows), frozenset(bold))


def _error(runs: Sequence[Record], problem: str, method: str, n_train: int) -> float | None:
    """Mean over data seeds."""
    found = one_per_seed(select(runs, problem=problem, method=method, n_train=n_train))
    return fmean(run["error"] for run in found) if found else None
