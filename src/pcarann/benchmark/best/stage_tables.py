"""Stages on the four problems, as text: errors over data seeds, and what becomes of them with one change."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from pcarann.benchmark.best.stages import STAGE_CHANGES
from pcarann.benchmark.paper.configurations import PROBLEMS
from pcarann.benchmark.records import Record, one_per_seed, places, select, times_of
from pcarann.benchmark.text import DASH, Table, number, percent, seconds, time_headers

__all__ = ["far_table", "stage_changes", "stages_table"]


def stages_table(records: Sequence[Record]) -> Table:
    """Errors, times and intervals of stages: all samples and few, with the symmetry and without."""
    runs = select(records, kind="stages")
    where = places(runs)
    rows = []
    kinds = dict.fromkeys((r["problem"], r["change"], r["n_train"], r["noise"]) for r in runs)
    order = list(PROBLEMS)
    for name, change, size, noise in sorted(kinds, key=lambda k: (order.index(k[0]), k[1] or "", -k[2], k[3])):
        if change not in (None, "without symmetry"):
            continue
        some = select(runs, problem=name, change=change, n_train=size, noise=noise)
        seeds = one_per_seed(some)
        errors = [run["error"] for run in seeds]
        times = times_of(some)
        told = [part for part in (change, f"noise {100 * noise:g} %" if noise else None) if part]
        span = f"{number(min(errors))} – {number(max(errors))}" if len(errors) > 1 else DASH
        rows.append(
            (
                *(PROBLEMS[name].title, ", ".join(told) or DASH, str(size), number(fmean(errors)), span),
                *(str(len(errors)), *(seconds(times.get(place)) for place in where), *_bands(seeds)),
            )
        )
    note = (
        "Means over data seeds. Burgers and Navier–Stokes are marched, without a symmetry; N counts trajectories then. "
        "Coverage and width are those of the pooled intervals at 95 %."
    )
    header = ("Problem", "Change", "N", "Error", "Least – largest", "Seeds", *time_headers(where), "Coverage", "Width")
    return Table("Stages that see space", note, header, tuple(rows))


def stage_changes(records: Sequence[Record]) -> Table:
    """What becomes of stages when one thing is changed, on the first data seed."""
    runs = [run for run in select(records, kind="stages", noise=0.0) if run["n_train"] == run["sizes"][0]]
    where = places(runs)
    rows = []
    for name, changes in STAGE_CHANGES.items():
        mine = select(runs, problem=name)
        for change in (None, *changes):
            found = one_per_seed(select(mine, change=change))
            if not found:
                continue
            run = found[0]
            same = [one for one in select(mine, change=None, place=run["place"]) if one["seeds"] == run["seeds"]]
            ratio = f"{run['error'] / same[0]['error']:.3g} ×" if same else DASH
            times = times_of([one for one in select(mine, change=change) if one["seeds"] == run["seeds"]])
            rows.append(
                (
                    *(PROBLEMS[name].title, change or "none", number(run["error"]), ratio, str(len(run["stages"]))),
                    *(seconds(times.get(place)) for place in where),
                )
            )
    header = ("Problem", "Change", "Error", "Ratio to none", "Stages", *time_headers(where))
    note = (
        "Changes on the first data seed; 1 × is no difference, more is what the thing is worth. Where channels are "
        "given, no trials settle them; rows of Navier–Stokes have one member, beside two."
    )
    return Table("What each part of the stages contributes", note, header, tuple(rows) if len(rows) > 1 else ())


def far_table(records: Sequence[Record]) -> Table:
    """Roll-outs of Navier–Stokes that go on past the times of the training."""
    runs = [run for run in select(records, kind="stages", change=None) if "far" in run]
    rows = []
    for size, t in sorted(
        {(run["n_train"], far[0]) for run in runs for far in run["far"]}, key=lambda k: (-k[0], k[1])
    ):
        found = [far for run in one_per_seed(select(runs, n_train=size)) for far in run["far"] if far[0] == t]
        errors, sizes = [far[1] for far in found], [far[2] for far in found]
        rows.append((str(size), f"{t:g}", number(fmean(errors)), f"{max(sizes):.3g} ×", str(len(found))))
    note = (
        "The training ends at t = 20. Sizes are norms of roll-outs beside those of the truth, the largest over seeds."
    )
    return Table("Stages, Navier–Stokes rolled out further", note, ("N", "t", "Error", "Size", "Seeds"), tuple(rows))


def _bands(runs: Sequence[Record]) -> tuple[str, str]:
    pooled = [run["intervals"]["pooled"] for run in runs if "intervals" in run]
    share, width = (fmean(band[key] for band in pooled) if pooled else None for key in ("coverage", "width"))
    return percent(share, 2), number(width)
