"""What the numbers say, in sentences: who beats whom, where we differ from the paper, and why as far as is known.

A row is named when its error is more than 30 % from the paper's, when scales are more than 20 % from the paper's,
when coverage leaves 94–96 %, and when a baseline ends above the paper's error by any amount.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

from pcarann.benchmark.paper.configurations import BASELINES, PAPER_EPOCHS, PROBLEMS, SYMMETRIC, VARIANTS, Problem
from pcarann.benchmark.records import (
    Record,
    best_runs,
    first,
    is_quick,
    one_per_seed,
    place_title,
    runs_of,
    seconds_of,
    select,
    times_of,
)
from pcarann.benchmark.text import count, number, percent, seconds

__all__ = ["agreement", "beaten", "differences"]

ERROR_TOLERANCE, SCALE_TOLERANCE = 0.3, 0.2
COVERED = (0.94, 0.96)

EXPLANATIONS = {
    ("backward_heat", "refined below"): (
        "The validation loss has separate basins with high barriers between them. On our data BFGS from η = 0, the "
        "paper’s start, stays in the first. Ours starts at the best point of a coarse scan over (η₁, η₂) and ends in a "
        "deeper one than the paper’s, at another η₂ (see the table of scales)."
    ),
    ("backward_heat", "energy below"): (
        "A separate, literal prototype of the paper’s formulas gave much the same on such data (2.2e-1 alone, 1.6e-1 "
        "as an ensemble), so that the data or the paper’s solver must differ; which is not known."
    ),
    ("darcy", "r̄₂"): (
        "Both scales lie on the lower clip, where r̄₂ = √(3τ²/(n₂ S_H)) with n₂ = 1000 and τ = 2. While tanh is "
        "linear, shifts at quantiles between 0.1 and 0.9 make the first layer’s energy S_H = 1.44 τ² = 5.8, hence "
        "r̄₂ = 0.046. So the paper’s own rule gives our value; its 0.03 would need S_H = 13, and why is not known."
    ),
    ("navier_stokes", "r̄₁ r̄₂"): (
        "r̄₁ = √(2.1 S_Y/(n₁ S_X)) follows the growth of the variance from inputs to outputs, which the prior of ω₀ "
        "decides: the paper’s covariance, read literally, gives 0.045; that of the public generator, used here, "
        "0.037; twice its amplitude 0.029. The paper’s 0.024 points to stronger fields than either has."
    ),
}
"""By problem and what differs, so that a cause is never given for another difference than its own"""


_AS_IN_PAPER, _BEST = "PCA–RaNN as in the paper", "PCA–RaNN, best latent"


def beaten(records: Sequence[Record]) -> list[str]:
    """A sentence for every problem on which a baseline is more accurate than PCA–RaNN; or one that says none is.

    First for the paper's models as reproduced, then for the best ones, where these were run.
    """
    if not select(records, kind="baseline"):
        return ["No baseline has been trained for these records."]
    found = []
    for title, beaten_on in ((_AS_IN_PAPER, _beaten_on), (_BEST, _best_beaten_on)):
        sentences = [sentence for problem in PROBLEMS.values() if (sentence := beaten_on(records, problem))]
        if title == _AS_IN_PAPER or select(records, kind="best"):
            found += sentences or [f"No baseline trained here is more accurate than {title}."]
    return found


def differences(records: Sequence[Record]) -> list[str]:
    """A sentence for every row that differs from the paper's, with its cause where one is known."""
    found = []
    for problem in PROBLEMS.values():
        for what, fact in (*_errors(records, problem), *_scales(records, problem), *_coverage(records, problem)):
            cause = EXPLANATIONS.get((problem.name, what), "The cause is not known.")
            found.append(f"{problem.title}: {fact}" if is_quick(records) else f"{problem.title}: {fact} {cause}")
        found += [f"{problem.title}: {fact}" for fact in _baselines(records, problem)]
    return found


def agreement(records: Sequence[Record]) -> str | None:
    """How far errors of the same model on several machines are apart, where there are several."""
    gaps = []
    for name in PROBLEMS:
        for variant in VARIANTS:
            runs = select(records, kind="pcarann", problem=name, variant=variant)
            errors = [run["errors"]["ensemble"] for run in runs]
            gaps += [max(errors) / min(errors) - 1] if len(errors) > 1 else []
    return f"The same model on different machines: errors at most {100 * max(gaps):.2g} % apart." if gaps else None


def _beaten_on(records: Sequence[Record], problem: Problem) -> str | None:
    ours = select(records, kind="pcarann", problem=problem.name)
    if not ours:
        return None
    best = min(ours, key=lambda run: float(run["errors"]["ensemble"]))
    error = best["errors"]["ensemble"]
    times = _listed([_time(run) for run in ours if run["variant"] == best["variant"]])
    return _winners(records, problem, BASELINES, error, f"{_AS_IN_PAPER} ({number(error)} in {times})")


def _best_beaten_on(records: Sequence[Record], problem: Problem) -> str | None:
    """The same of the best model, against baselines with its symmetry too."""
    runs = best_runs(records, problem.name)
    if not runs:
        return None
    error = fmean(run["error"] for run in one_per_seed(runs))
    times = _listed([f"{seconds(time)} s on {place_title(place)}" for place, time in times_of(runs).items()])
    return _winners(records, problem, BASELINES | SYMMETRIC, error, f"{_BEST} ({number(error)} in {times})")


def _winners(
    records: Sequence[Record], problem: Problem, titles: dict[str, str], error: float, ours: str
) -> str | None:
    """A sentence on the baselines below an error, the best of them first."""
    runs: Iterable[Record] = (run for method in titles for run in runs_of(records, problem.name, method))
    below = sorted((run for run in runs if run["error"] < error), key=lambda run: float(run["error"]))
    said = [f"{titles[run['method']]} ({number(run['error'])} in {_time(run)})" for run in below]
    verb = "is" if len(said) == 1 else "are"
    return f"{problem.title}: {_listed(said)} {verb} more accurate than {ours}." if said else None


def _time(run: Record) -> str:
    return f"{seconds(seconds_of(run))} s on {place_title(run['place'])}"


def _errors(records: Sequence[Record], problem: Problem) -> Iterator[tuple[str, str]]:
    for variant, title in VARIANTS.items():
        record = first(records, kind="pcarann", problem=problem.name, variant=variant)
        papers = {"ensemble": problem.paper.ensemble[variant].error, "single": problem.paper.single[variant].error}
        ratios = {kind: record["errors"][kind] / paper for kind, paper in papers.items()} if record else {}
        apart = [kind for kind, ratio in ratios.items() if abs(ratio - 1) > ERROR_TOLERANCE]
        if apart:
            below = all(ratios[kind] < 1 for kind in apart)
            names = {"ensemble": "ensemble", "single": "single member"}
            said = [f"{names[kind]} {_against(ratios[kind] * papers[kind], papers[kind])}" for kind in apart]
            yield f"{variant} {'below' if below else 'above'}", f"{title}: {_listed(said)}."


def _scales(records: Sequence[Record], problem: Problem) -> Iterator[tuple[str, str]]:
    ours = select(records, kind="pcarann", problem=problem.name)
    record = first(ours, variant="refined") or first(ours)  # as in the table of scales
    if record is None:
        return
    pairs = zip(("r̄₁", "r̄₂"), record["scales"]["energy"], problem.paper.energy_scales, strict=True)
    apart = [(name, ours, paper) for name, ours, paper in pairs if abs(ours / paper - 1) > SCALE_TOLERANCE]
    if apart:
        said = [f"{name} = {ours:.2g} (paper: {paper:.2g})" for name, ours, paper in apart]
        yield " ".join(name for name, _, _ in apart), f"energy-matched scales {_listed(said)}."


def _coverage(records: Sequence[Record], problem: Problem) -> Iterator[tuple[str, str]]:
    record = first(records, kind="pcarann", problem=problem.name, variant="refined")
    share = record["intervals"]["at_95"]["pooled"]["coverage"] if record else None
    if share is not None and not COVERED[0] <= share <= COVERED[1]:
        yield "coverage", f"coverage at 95 % is {percent(share, 2)} (paper: {percent(problem.paper.coverage, 2)})."


def _baselines(records: Sequence[Record], problem: Problem) -> Iterator[str]:
    """Baselines that end above the paper's error: the reason is beside them, their training."""
    for method, paper in problem.paper.baselines.items():
        record = first(records, kind="baseline", problem=problem.name, method=method)
        if record and record["error"] > paper.error:
            epochs = count(PAPER_EPOCHS[problem.name][method])
            budget = record.get("budget")
            limit = "no budget set" if budget is None else f"budget {seconds(budget)} s"
            cause = EXPLANATIONS.get((problem.name, method), "")
            yield (
                f"{BASELINES[method]} {_against(record['error'], paper.error)}. Trained for "
                f"{count(record.get('epochs'))} epochs in {seconds(record['seconds'])} s ({limit}); the paper: at most "
                f"{epochs} epochs, {seconds(paper.seconds)} s. {cause}"
            ).strip()


def _against(ours: float, paper: float) -> str:
    share = abs(ours / paper - 1)
    return f"{number(ours)}, {percent(share, 0)} {'above' if ours > paper else 'below'} the paper’s {number(paper)}"


def _listed(parts: Sequence[str]) -> str:
    """Join with commas and a last "and".

    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part)
