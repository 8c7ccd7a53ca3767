"""Past the paper, as text: the best models beside all others, their ablations, learning curves and noise.

The best model's error is the mean over data seeds; everything else was run on the first of them. Of a run on several
machines the CPU's error counts, as errors agree but for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from pcarann.benchmark.best.models import ABLATIONS, ADAPTED, best_model, estimator_of
from pcarann.benchmark.best.noise import OTHERS
from pcarann.benchmark.best.stage_tables import far_table, stage_changes, stages_table
from pcarann.benchmark.paper.configurations import BASELINES, PROBLEMS, SYMMETRIC, VARIANTS, Problem, Result
from pcarann.benchmark.records import (
    Record,
    best_runs,
    error_of,
    first,
    learning_curve,
    one_per_seed,
    place_title,
    places,
    runs_of,
    select,
    times_of,
)
from pcarann.benchmark.text import DASH, Table, beside, number, percent, seconds, time_headers

__all__ = [
    "BEST",
    "STAGES",
    "ablations",
    "all_best_tables",
    "best_adaptation",
    "learning_curves",
    "methods_table",
    "noise",
    "past_the_paper",
]

BEST = "PCA–RaNN, best latent"
STAGES = "PCA–RaNN, stages"
_TITLES: dict[str, str] = {"stages": STAGES, "best": BEST, **dict(VARIANTS.items()), **BASELINES, **SYMMETRIC}
_METHODS = (
    "stages",
    "best",
    "refined",
    "fno",
    "fno_symmetric",
    "deeponet",
    "pca_nn",
    "kernel",
    "kernel_symmetric",
    "random_features",
)
_UNCHANGED = "none: the best latent model"
_SEEDS = "Errors of stages and of the best latent model are means over data seeds; all others are of the first seed."


@dataclass(frozen=True)
class _Entry:
    """A method on one problem; what is missing shows as a dash."""

    method: str
    errors: tuple[float, ...] = ()
    """One for each data seed"""
    times: dict[str, float] = field(default_factory=dict)
    """Seconds by machine"""
    paper: Result | None = None
    intervals: tuple[Record, ...] = ()
    """Pooled, at 95 %: one for each data seed"""
    said: str | None = None
    """In the place of an error"""

    @property
    def error(self) -> float | None:
        """Mean over data seeds."""
        return fmean(self.errors) if self.errors else None


def all_best_tables(records: Sequence[Record]) -> list[Table]:
    """Every table of the best models that has a row."""
    makers = [past_the_paper, stages_table, far_table, stage_changes, ablations, learning_curves, noise]
    makers += [best_adaptation] if select(records, kind="best_adaptation") else []
    return [table for table in (make(records) for make in makers) if table.rows]


def past_the_paper(records: Sequence[Record]) -> Table:
    """The best model beside the paper's, the reproduced one and the baselines; the least of our errors is bold."""
    where = places(
        select(records, kind="stages")
        + select(records, kind="best")
        + select(records, kind="pcarann")
        + select(records, kind="baseline")
    )
    rows: list[tuple[str, ...]] = []
    bold = set()
    for problem in _problems(records):
        entries = list(_entries(records, problem))
        bold |= {(len(rows) + i, 2) for i, entry in enumerate(entries) if entry.method in _winners(entries)}
        for entry in entries:
            ours, paper = entry.said or number(entry.error), number(entry.paper.error if entry.paper else None)
            error = beside(ours, paper) if entry.paper else ours
            times = [seconds(entry.times.get(place)) for place in where]
            rows.append(
                (problem.title, _TITLES[entry.method], error, _range(entry.errors), *times, *_bands(entry, problem))
            )
    note = (
        f"Ours | the paper’s; beside our best latent model stands the paper’s best PCA–RaNN. {_SEEDS} Coverage and "
        "width are those of the paper’s pooled rule at 95 %. “Same symmetry and inputs”: trained on copies under "
        "the same symmetry, for Navier–Stokes on the last snapshot. For kernel ridge this is the best model with a"
        " kernel in the place of its random layers; for Darcy the best model is itself a kernel. The Navier–Stokes"
        " error is that at t = 20. Stages march Burgers, from its first snapshot, and Navier–Stokes; only on Darcy"
        " and backward heat are they told the symmetry."
    )
    header = ("Problem", "Method", "Error", "Error, least – largest", *time_headers(where), "Coverage", "Width")
    return Table("Past the paper", note, header, tuple(rows), frozenset(bold))


def methods_table(records: Sequence[Record]) -> Table:
    """One row for each method, one column for each problem: error and training times; the least error is bold."""
    found = [list(_entries(records, problem)) for problem in PROBLEMS.values()]
    papers = [problem.paper.ensemble["refined"] for problem in PROBLEMS.values()]
    rows: list[tuple[str, ...]] = []
    bold = set()
    for method in _METHODS:
        cells = [
            {entry.method: entry.said or _timed(entry.error, entry.times) for entry in entries}.get(method, DASH)
            for entries in found
        ]
        if set(cells) != {DASH}:
            bold |= {(len(rows), 1 + j) for j, entries in enumerate(found) if method in _winners(entries)}
            rows.append((_TITLES[method], *cells))
        if method == "refined":
            rows.append(
                (f"{_TITLES[method]}, in the paper", *(_timed(r.error, {"rtx-a6000": r.seconds}) for r in papers))
            )
    header = ("Method", *(problem.title for problem in PROBLEMS.values()))
    return Table("All methods", _SEEDS, header, tuple(rows), frozenset(bold))


def ablations(records: Sequence[Record]) -> Table:
    """What becomes of the best model when one option is changed."""
    where = places(select(records, kind="best"))
    rows = [
        _ablation(records, problem, change, where)
        for problem in _problems(records)
        for change in _changes(records, problem, noisy=False)
    ]
    header = ("Problem", "Change", "Error", "Ratio to the best", *time_headers(where), "Coverage", "Width")
    note = (
        "One option of the best model is changed at a time, on the first data seed. 1 × is no difference, more is what "
        "the option is worth; less: the change is better on this test set. "
        "Coverage and width are those of the pooled intervals at 95 %."
    )
    changed = any(row[1] != _UNCHANGED for row in rows)
    return Table("What each option contributes", note, header, tuple(rows) if changed else ())


def learning_curves(records: Sequence[Record]) -> Table:
    """Error against the number of training samples, with and without the symmetry."""
    curves = {
        (problem.title, title): curve
        for problem in PROBLEMS.values()
        for change, title in ((None, "with"), ("without symmetry", "without"))
        if len(curve := learning_curve(records, problem.name, change)) > 1
    }
    sizes = sorted({size for curve in curves.values() for size in curve})
    rows = tuple((*names, *(number(curve.get(size)) for size in sizes)) for names, curve in curves.items())
    note = "Errors of the best models, fitted to the first N training samples of the first data seed."
    return Table("Learning curves", note, ("Problem", "Symmetry", *(f"N = {size}" for size in sizes)), rows)


def noise(records: Sequence[Record]) -> Table:
    """Errors with noise on the inputs, of the best model and of its changes."""
    levels = sorted({run["noise"] for run in select(records, kind="best")})
    rows = []
    for problem in PROBLEMS.values():
        for change in _changes(records, problem, noisy=True):
            runs = [one_per_seed(best_runs(records, problem.name, change=change, noise=level)) for level in levels]
            errors = (number(found[0]["error"] if found else None) for found in runs)
            rows.append((problem.title, BEST if change is None else f"{BEST}, {change}", *errors))
        for method in OTHERS:
            others = [_noisy_error(records, problem, method, level) for level in levels]
            if any(error is not None for level, error in zip(levels, others, strict=True) if level):
                rows.append((problem.title, _TITLES[method], *map(number, others)))
    note = (
        "White noise on the inputs in training, calibration and test, relative to their root mean square; the outputs "
        "are exact. First data seed. Without noise every linear method looks better than it is."
    )
    header = ("Problem", "Model", *(f"Noise {100 * level:g} %" if level else "No noise" for level in levels))
    return Table("Noisy inputs", note, header, tuple(rows))


def _noisy_error(records: Sequence[Record], problem: Problem, method: str, level: float) -> float | None:
    if not level:
        return error_of(first(runs_of(records, problem.name, method)))
    found = first(records, kind="noisy", problem=problem.name, method=method, noise=level)
    return found["error"] if found else None


def best_adaptation(records: Sequence[Record]) -> Table:
    """The later window of Navier–Stokes: the paper's method and the best model, before and after adaptation."""
    rows = []
    runs = [(VARIANTS["refined"], select(records, kind="adaptation"))]
    runs += [(title, select(records, kind="best_adaptation", way=way)) for way, title in ADAPTED.items()]
    for title, found in runs:
        for run in found[:1]:
            for row in (run["rows"][0], run["rows"][-1]):
                errors = number(row["error_last"]), number(row["error_mean"])
                time = row.get("recursive_seconds")
                where = f" ({place_title(run['place'])})" if time is not None else ""
                rows.append((title, str(row["samples"]), *errors, f"{seconds(time)}{where}"))
    header = ("Method", "New samples", "Error at t = 30", "Mean error, t = 21–30", "Time of adaptation, s")
    note = (
        "Navier–Stokes, from t = 11–20 to t = 21–30. A step of the flow is the same at all times: marching needs less."
    )
    return Table("Adaptation of the best model", note, header, tuple(rows))


def _problems(records: Sequence[Record]) -> list[Problem]:
    """Those whose best model was run."""
    return [problem for problem in PROBLEMS.values() if select(records, kind="best", problem=problem.name)]


def _changes(records: Sequence[Record], problem: Problem, *, noisy: bool) -> list[str | None]:
    """Changes that were run on all training samples, in the order of `ABLATIONS`, none of them first."""
    runs = [run for run in select(records, kind="best", problem=problem.name) if run["n_train"] == run["sizes"][0]]
    found = dict.fromkeys(run["change"] for run in runs if bool(run["noise"]) == noisy)
    return [change for change in dict.fromkeys([None, *ABLATIONS[problem.name], *found]) if change in found]


def _ablation(records: Sequence[Record], problem: Problem, change: str | None, where: Sequence[str]) -> tuple[str, ...]:
    """A change on the first of its data seeds, beside the best model on the same seed, if possible the same machine."""
    runs = best_runs(records, problem.name, change=change)
    run = one_per_seed(runs)[0]
    same = select(best_runs(records, problem.name), seeds=run["seeds"])
    beside = select(same, place=run["place"]) or same
    times = times_of(select(runs, seeds=run["seeds"]))
    pooled = run.get("intervals", {}).get("pooled", {})
    return (
        problem.title,
        change or _UNCHANGED,
        number(run["error"]),
        f"{run['error'] / beside[0]['error']:.3g} ×" if beside else DASH,
        *(seconds(times.get(place)) for place in where),
        percent(pooled.get("coverage"), 2),
        number(pooled.get("width")),
    )


def _entries(records: Sequence[Record], problem: Problem) -> Iterator[_Entry]:
    """Every method that was run here or in the paper."""
    for method in _METHODS:
        entry = _best_entry(records, problem, method) or _other_entry(records, problem, method)
        if entry.errors or entry.paper or entry.said:
            yield entry


def _best_entry(records: Sequence[Record], problem: Problem, method: str) -> _Entry | None:
    """The best model, or that with a kernel in the place of its random layers, where it was run."""
    if method not in ("stages", "best", "kernel_symmetric"):
        return None
    kind = "stages" if method == "stages" else "best"
    runs = best_runs(records, problem.name, kind=kind, change="kernel" if method == "kernel_symmetric" else None)
    if not runs:
        is_kernel = estimator_of(best_model(problem.name)).regressor != "random"
        itself = method == "kernel_symmetric" and best_runs(records, problem.name) and is_kernel
        return _Entry(method, said="the best latent model itself") if itself else None
    seeds = one_per_seed(runs)
    return _Entry(
        method,
        errors=tuple(run["error"] for run in seeds),
        times=times_of(runs),
        paper=problem.paper.ensemble["refined"] if method == "best" else None,
        intervals=tuple(run["intervals"]["pooled"] for run in seeds if "intervals" in run),
    )


def _other_entry(records: Sequence[Record], problem: Problem, method: str) -> _Entry:
    """A reproduced model or a baseline."""
    runs = runs_of(records, problem.name, method)
    errors = tuple(error for run in runs[:1] if (error := error_of(run)) is not None)
    pooled = tuple(run["intervals"]["at_95"]["pooled"] for run in runs[:1] if "intervals" in run)
    return _Entry(method, errors, times_of(runs), problem.paper.results.get(method), pooled)


def _range(errors: Sequence[float]) -> str:
    return f"{number(min(errors))} – {number(max(errors))}" if len(errors) > 1 else DASH


def _bands(entry: _Entry, problem: Problem) -> tuple[str, str]:
    """Coverage and width, for PCA–RaNN beside the paper's."""
    share, width = (
        fmean(band[key] for band in entry.intervals) if entry.intervals else None for key in ("coverage", "width")
    )
    if entry.method not in ("best", "refined"):
        return percent(share, 2), number(width)
    return (
        beside(percent(share, 2), percent(problem.paper.coverage, 2)),
        beside(number(width), number(problem.paper.width)),
    )


def _winners(entries: Sequence[_Entry]) -> set[str]:
    """Methods of least error."""
    known = [entry.error for entry in entries if entry.error is not None]
    return {entry.method for entry in entries if known and entry.error == min(known)}


def _timed(error: float | None, times: dict[str, float]) -> str:
    """Error, and the time on each machine.

    >>> _timed(0.0019, {"cpu": 62.1, "h200": 4.23})
    '1.90e-3 (CPU 62.1 s, H200 4.2 s)'
    """
    said = ", ".join(f"{place_title(place)} {seconds(time)} s" for place, time in times.items())
    return DASH if error is None else f"{number(error)} ({said})"
