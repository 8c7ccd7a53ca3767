"""Tables of ratios inside one run, in Markdown.

A record of one problem holds `stages`: for each stage the measurement of ours, of the literal algorithm and of the
peers; with ours the rate of matrix products around it. A ratio above 1 speaks for us, but for `ours / floor`. The
paper's times are from another machine, and the only numbers not of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from measure import SLOW

from pcarann.benchmark.paper.configurations import PROBLEMS

__all__ = ["floor_seconds", "report"]

Record = dict[str, Any]

TITLES = {
    "em": "EM ensemble fit",
    "bfgs": "BFGS ensemble fit",
    "bfgs_from_zero": "BFGS ensemble fit from η = 0",
    "single": "EM single member fit",
    "predict": "prediction of the test set",
    "calibrate": "calibration",
    "adapt": "adaptation, all members",
}
_MIB = 2.0**20


def report(records: Iterable[Record]) -> str:
    """All tables of one run."""
    listed = list(records)
    rates = [found["ours"].get("flops_per_second") for record in listed for found in record["stages"].values()]
    parts = [_heading(listed[0], [rate for rate in rates if rate]), _stage_table(listed), _refinement_table(listed)]
    parts += [_adaptation_table(listed), _prediction_table(listed)]
    if any("peers" in record for record in listed):
        parts += [_peer_table(listed), _verdict(listed)]
    return "\n\n".join(part for part in parts if part) + "\n"


def floor_seconds(record: Record, stage: str) -> float | None:
    """Counted operations of a stage over the rate of matrix products around it."""
    ours = record["stages"].get(stage, {}).get("ours", {})
    return sum(ours["flops"].values()) / ours["flops_per_second"] if "flops" in ours else None


def _heading(record: Record, rates: list[float]) -> str:
    machine = record["machine"]
    spread = f"{min(rates) / 1e9:.0f} to {max(rates) / 1e9:.0f}" if rates else "unknown"
    where = machine["accelerator"] or f"{machine['processor']}, {machine['cores']} cores"
    quick = " **Quick mode: these numbers mean nothing.**" if record["quick"] else ""
    return (
        f"One run on {where}, float64, {record['created']}, sources {machine['sources']}. Matrix products run at "
        f"{spread} Gflop/s; each floor is that of its own minutes. Median of {record['repeats']} runs; literal and "
        f"peers run once where that takes over {SLOW:g} s.{quick}"
    )


def _stage_table(records: list[Record]) -> str:
    rows = []
    for record in records:
        paper = PROBLEMS[record["problem"]].paper
        reported = {"em": paper.ensemble["energy"], "bfgs": paper.ensemble["refined"], "single": paper.single["energy"]}
        for stage, found in record["stages"].items():
            if stage not in TITLES or "seconds" not in found["ours"]:
                continue
            ours, other = found["ours"], found.get("literal", {})
            seconds = ours["seconds"]
            rows.append(
                (
                    PROBLEMS[record["problem"]].title,
                    TITLES[stage],
                    f"{seconds:.3g}",
                    _ratio(seconds, floor_seconds(record, stage)),
                    _or_reason(other, _ratio(other.get("seconds"), seconds)),
                    _ratio(reported[stage].seconds if stage in reported else None, seconds),
                    f"{ours['peak_bytes'] / _MIB:.0f}",
                    _ratio(other.get("peak_bytes"), ours["peak_bytes"]),
                )
            )
    heads = ("problem", "stage", "ours, s", "ours / floor", "literal / ours", "paper's A6000 / ours")
    return _table((*heads, "ours, peak MiB", "peak, literal / ours"), rows)


def _refinement_table(records: list[Record]) -> str:
    """The cost of one value of J: what a search costs also depends on where it stops."""
    rows = []
    for record, found in _with_stage(records, "bfgs"):
        sides = [_an_evaluation(found["ours"]), _an_evaluation(found.get("literal", {}))]
        counts = [
            side.get("refinement", {}).get("evaluations", "–") for side in (found["ours"], found.get("literal", {}))
        ]
        ours = f"{sides[0]:.3g}" if sides[0] else "–"
        rows.append((PROBLEMS[record["problem"]].title, *map(str, counts), ours, _ratio(sides[1], sides[0])))
    heads = ("problem", "values of J, ours", "values of J, literal", "ours, s a value", "literal / ours, a value")
    return _table(heads, rows)


def _an_evaluation(side: Record) -> float | None:
    """Seconds of the refinement over the values of J, gradients included."""
    count = side.get("refinement", {}).get("evaluations")
    return side["stages"]["refinement"] / count if count else None


def _adaptation_table(records: list[Record]) -> str:
    rows = []
    for record, found in _with_stage(records, "adapt"):
        ours = found["ours"]
        rows.append(
            (
                PROBLEMS[record["problem"]].title,
                f"{ours['samples']}",
                f"{ours['per_member']:.3g}",
                _ratio(found.get("literal", {}).get("batch", {}).get("seconds"), ours["seconds"]),
                _ratio(ours["batch"]["seconds"], ours["seconds"]),
                _ratio(ours["batch_least_squares"]["seconds"], ours["seconds"]),
                f"{ours['difference']:.1e}",
            )
        )
    heads = ("problem", "new samples", "s a member", "literal batch ridge refit / ours", "our batch ridge refit / ours")
    heads += ("our batch least squares / ours",)
    return _table((*heads, "largest relative difference from the ridge refit"), rows)


def _prediction_table(records: list[Record]) -> str:
    rows = []
    for record, found in _with_stage(records, "predict"):
        ours, many = found["ours"], record["stages"].get("predict_many", {}).get("ours", {})
        whole = many.get("one_call", {})
        rows.append(
            (
                PROBLEMS[record["problem"]].title,
                f"{ours['samples_per_second']:.0f}",
                f"{ours['with_std']['samples_per_second']:.0f}",
                f"{many['samples']} in {many['seconds']:.3g} s" if many.get("samples") else "–",
                f"{many['total_bytes'] / _MIB:.0f}" if many.get("samples") else "–",
                _or_reason(whole, f"{whole['working_bytes'] / _MIB:.0f}" if "working_bytes" in whole else "–"),
            )
        )
    heads = ("problem", "samples/s", "samples/s with spread", "stream of batches", "whole process, peak MiB")
    return _table((*heads, "one call, peak MiB beyond inputs and outputs"), rows)


def _peer_table(records: list[Record]) -> str:
    rows = []
    for record in records:
        em, bfgs = (record["stages"].get(stage, {}).get("ours", {}) for stage in ("em", "bfgs"))
        for name, peer in record.get("peers", {}).items():
            ratios = [_ratio(peer.get(key), ours.get(key)) for ours in (em, bfgs) for key in ("seconds", "error")]
            reason = _or_reason(peer, "")
            rows.append((PROBLEMS[record["problem"]].title, name, *ratios, reason))
    heads = ("problem", "peer", "time / our EM", "error / our EM", "time / our BFGS", "error / our BFGS", "remark")
    return _table(heads, rows)


def _verdict(records: list[Record]) -> str:
    """Name every peer that is both faster and more accurate than one of our variants."""
    beaten = []
    for record in records:
        for stage in ("em", "bfgs"):
            ours = record["stages"].get(stage, {}).get("ours", {})
            for name, peer in record.get("peers", {}).items():
                if "error" in peer and "error" in ours and all(peer[key] < ours[key] for key in ("seconds", "error")):
                    beaten.append(f"{name} beats our {TITLES[stage]} on {PROBLEMS[record['problem']].title}")
    listed = "; ".join(beaten) if beaten else "none"
    return f"Peers that are both faster and more accurate than one of our fits: {listed}."


def _with_stage(records: list[Record], stage: str) -> Iterator[tuple[Record, Record]]:
    for record in records:
        found = record["stages"].get(stage)
        if found and "seconds" in found["ours"]:
            yield record, found


def _ratio(value: float | None, unit: float | None) -> str:
    return f"{value / unit:.3g}" if value is not None and unit else "–"


def _or_reason(record: Record, text: str) -> str:
    return str(record["failed"]).replace("|", "/") if "failed" in record else text


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
