"""The paper's tables, ours beside the paper's: records → text.

A cell "ours | paper's" shows a dash for what is missing on either side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pcarann.benchmark.paper.configurations import (
    BASELINES,
    LATER_WINDOW,
    PAPER_EPOCHS,
    PAPER_IMPROVEMENT,
    PROBLEMS,
    SYMMETRIC,
    VARIANTS,
)
from pcarann.benchmark.records import Record, error_of, first, place_title, places, runs_of, select, times_of
from pcarann.benchmark.text import DASH, Table, beside, count, number, percent, seconds, time_headers

__all__ = ["all_tables", "compact_table"]


def all_tables(records: Sequence[Record]) -> list[Table]:
    """Every table that has a row."""
    makers = (comparison, scale_refinement, single_and_ensemble, intervals, adaptation, architectures)
    return [table for table in (make(records) for make in makers) if table.rows]


def comparison(records: Sequence[Record]) -> Table:
    """Error and training time of every method; the least of our errors is bold."""
    where = places(records)
    rows: list[tuple[str, ...]] = []
    bold = set()
    for problem in PROBLEMS.values():
        errors = {}
        for method, title in (BASELINES | VARIANTS).items():
            runs = runs_of(records, problem.name, method)
            paper = problem.paper.results.get(method)
            if runs or paper:
                errors[len(rows)] = error_of(first(runs))
                papers = (number(paper.error), seconds(paper.seconds)) if paper else (DASH, DASH)
                rows.append((problem.title, title, number(errors[len(rows)]), *_times(runs, where), *papers))
        known = [error for error in errors.values() if error is not None]
        bold |= {(row, 2) for row, error in errors.items() if known and error == min(known)}
    return Table(
        title="Performance comparison",
        note=f"Ensembles of PCA–RaNN. {_AT_LAST_TIME} The paper’s times are those of an NVIDIA RTX A6000. {_ERRORS}",
        header=("Problem", "Method", "Error", *time_headers(where), "Paper’s error", "Paper’s time, s"),
        rows=tuple(rows),
        bold=frozenset(bold),
    )


def scale_refinement(records: Sequence[Record]) -> Table:
    """Scales before and after the refinement, and what it brings."""
    rows = []
    for problem in PROBLEMS.values():
        energy, refined = (first(records, kind="pcarann", problem=problem.name, variant=v) for v in VARIANTS)
        scales = refined["scales"] if refined else {}
        paper, before, after = problem.paper, error_of(energy), error_of(refined)
        found = scales.get("refinement") or {}
        gain = None if before is None or after is None else 1 - after / before
        row = (
            problem.title,
            beside(_pair(scales.get("energy")), _pair(paper.energy_scales)),
            beside(_pair(scales.get("used")), _pair(paper.refined_scales)),
            beside(_pair(scales.get("log_offsets"), ".2f"), _pair(paper.log_offsets, ".2f")),
            beside(count(found.get("iterations")), count(paper.iterations)),
            beside(number(before), number(paper.ensemble["energy"].error)),
            beside(number(after), number(paper.ensemble["refined"].error)),
            beside(percent(gain), percent(PAPER_IMPROVEMENT[problem.name])),
        )
        rows.append(row)
    scales_header = ("Problem", "r̄₁, r̄₂", "r₁*, r₂*", "η₁*, η₂*", "Iterations")
    header = (*scales_header, "Error, energy-matched", "Error, refined", "Gain")
    note = (
        "Ours | the paper’s. Iterations are those of BFGS. Ours starts at the best point of a coarse scan, the paper’s "
        f"at η = 0, so that r* may lie elsewhere. {_ERRORS}"
    )
    return Table("Scale refinement", note, header, tuple(rows))


def single_and_ensemble(records: Sequence[Record]) -> Table:
    """A member alone against the ensemble, with the spread over test samples."""
    rows = []
    for variant in VARIANTS:
        for problem in PROBLEMS.values():
            runs = runs_of(records, problem.name, variant)
            cells = []
            for kind, papers in (("single", problem.paper.single), ("ensemble", problem.paper.ensemble)):
                paper = papers[variant]
                errors = runs[0]["errors"] if runs else {}
                times = _each(run["seconds"][kind] for run in runs)
                cells += [
                    beside(number(errors.get(kind)), number(paper.error)),
                    beside(number(errors.get(f"{kind}_std")), number(paper.std)),
                    beside(times, seconds(paper.seconds)),
                ]
            rows.append((problem.title, variant, *cells))
    header = tuple(f"{kind}: {what}" for kind in ("Single", "Ensemble") for what in ("error", "std", "time, s"))
    where = " / ".join(place_title(place) for place in places(select(records, kind="pcarann"))) or "none"
    note = f"Ours | the paper’s. Our times: {where}. Single: mean over members; std: over test samples."
    return Table("Single member against ensemble", note, ("Problem", "Scales", *header), tuple(rows))


def intervals(records: Sequence[Record]) -> Table:
    """Coverage and width at 95 %, by the paper's rule and by the two others."""
    rows = []
    for problem in PROBLEMS.values():
        record = first(records, kind="pcarann", problem=problem.name, variant="refined")
        found = record["intervals"]["at_95"] if record else {}
        pooled, sample, whole = (found.get(method, {}) for method in ("pooled", "sample", "simultaneous"))
        rows.append(
            (
                problem.title,
                beside(percent(pooled.get("coverage"), 2), percent(problem.paper.coverage, 2)),
                beside(number(pooled.get("width")), number(problem.paper.width)),
                percent(sample.get("coverage"), 2),
                number(sample.get("width")),
                percent(whole.get("whole_fields"), 1),
                number(whole.get("width")),
            )
        )
    header = ("Pooled: coverage", "Pooled: width", "Sample: coverage", "Sample: width")
    note = (
        "Ours | the paper’s; refined ensemble. “Pooled” is the paper’s rule; “sample” counts each calibration field as "
        "one unit; “simultaneous” covers whole fields at once, and its coverage is the share of them."
    )
    ends = ("Simultaneous: whole fields", "Simultaneous: width")
    return Table("Intervals at 95 %", note, ("Problem", *header, *ends), tuple(rows))


def adaptation(records: Sequence[Record]) -> Table:
    """Error and time after so many samples of the later window, by recursion and by batch refit."""
    runs = select(records, kind="adaptation")
    ends = (0, LATER_WINDOW.counts[-1])
    counts = [row["samples"] for row in runs[0]["rows"]] if runs else list(ends)
    rows = []
    for samples in counts:
        found = [row for run in runs for row in run["rows"] if row["samples"] == samples]
        ours = found[0] if found else {}
        paper = dict(zip(ends, zip(LATER_WINDOW.last_time_errors, LATER_WINDOW.mean_errors, strict=True), strict=True))
        last, mean = paper.get(samples, (None, None))
        times = (LATER_WINDOW.recursive_seconds, LATER_WINDOW.batch_seconds) if samples == ends[1] else (None, None)
        rows.append(
            (
                count(samples),
                beside(number(ours.get("error_last")), number(last)),
                beside(number(ours.get("error_mean")), number(mean)),
                number(ours.get("batch_error_last")),
                beside(_each(row.get("recursive_seconds") for row in found), seconds(times[0])),
                beside(_each(row.get("batch_seconds") for row in found), seconds(times[1])),
            )
        )
    where = " / ".join(place_title(run["place"]) for run in runs) or "none"
    header = ("New samples", "Error at t = 30", "Mean error, t = 21–30", "Batch refit: error at t = 30")
    note = f"Ours | the paper’s. Navier–Stokes, from t = 11–20 to t = 21–30. Our times, all members: {where}."
    if runs:
        note += _falls(runs[0]["rows"])
    return Table("Online adaptation", note, (*header, "Recursion: time, s", "Batch refit: time, s"), tuple(rows))


def _falls(rows: Sequence[Record]) -> str:
    """By how much the errors fall from the first row to the last, beside the paper's."""
    ends = ((LATER_WINDOW.last_time_errors, "error_last"), (LATER_WINDOW.mean_errors, "error_mean"))
    parts = [
        f"{percent(1 - rows[-1][key] / rows[0][key])} (paper: {percent(1 - after / before)})"
        for (before, after), key in ends
    ]
    return f" The error at t = 30 falls by {parts[0]}, the mean error by {parts[1]}."


def architectures(records: Sequence[Record]) -> Table:
    """The baselines as they were trained."""
    rows = [
        (
            PROBLEMS[record["problem"]].title,
            title,
            str(record["architecture"]),
            count(record.get("parameters")),
            beside(count(record.get("epochs")), count(PAPER_EPOCHS.get(record["problem"], {}).get(record["method"]))),
            seconds(record["seconds"]),
            seconds(record.get("budget")),
            place_title(record["place"]),
        )
        for name in PROBLEMS
        for method, title in (BASELINES | SYMMETRIC).items()
        for record in select(records, kind="baseline", problem=name, method=method)
    ]
    header = ("Problem", "Method", "Architecture", "Parameters", "Epochs", "Time, s", "Budget, s", "Place")
    note = "Epochs: ours | the paper’s at most."
    return Table("Baselines as trained", note, header, tuple(rows))


def compact_table(records: Sequence[Record]) -> Table:
    """One row for each problem: the refined ensemble, and the best of the trained baselines."""
    where = places(select(records, kind="pcarann"))
    rows = []
    for problem in PROBLEMS.values():
        runs = runs_of(records, problem.name, "refined")
        paper = problem.paper.ensemble["refined"]
        rivals = [run for method in BASELINES for run in runs_of(records, problem.name, method)]
        best = min(rivals, key=lambda run: float(run["error"]), default=None)
        in_time = f"{number(best['error'])} in {seconds(best['seconds'])} s" if best else DASH
        rival = f"{BASELINES[best['method']]}: {in_time}" if best else DASH
        error = beside(number(error_of(first(runs))), number(paper.error))
        rows.append((problem.title, error, *_times(runs, where), seconds(paper.seconds), rival))
    header = ("Problem", "Error, ours | paper’s", *time_headers(where), "Paper’s time, s", "Best baseline, ours")
    return Table("PCA–RaNN, refined ensemble", _AT_LAST_TIME, header, tuple(rows))


_ERRORS = "Errors are mean relative L² errors on the test set."
_AT_LAST_TIME = "The Navier–Stokes error is that at t = 20."


def _pair(values: Sequence[float] | None, form: str = ".2g") -> str:
    return DASH if values is None else ", ".join(f"{value:{form}}" for value in values).replace("-", "−")


def _times(runs: Sequence[Record], where: Iterable[str]) -> list[str]:
    """Time on each machine, a cell for each."""
    times = times_of(runs)
    return [seconds(times.get(place)) for place in where]


def _each(times: Iterable[float | None]) -> str:
    """Times on several machines; one dash for none at all."""
    known = list(times)
    return DASH if all(time is None for time in known) else " / ".join(map(seconds, known))
