"""Records → one page: tables, figures and sentences, as Markdown and as one HTML file that needs nothing else.

The page is a pure function of the records: the only dates on it are theirs, and two builds give the same bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcarann.benchmark.best import figures as best_figures
from pcarann.benchmark.best.tables import all_best_tables, methods_table
from pcarann.benchmark.paper import figures as paper_figures
from pcarann.benchmark.paper.configurations import PROBLEMS
from pcarann.benchmark.paper.tables import all_tables, compact_table
from pcarann.benchmark.records import (
    Record,
    fields_beside,
    is_quick,
    place_title,
    places,
    read_fields,
    read_records,
    select,
)
from pcarann.benchmark.report.findings import agreement, beaten, differences
from pcarann.benchmark.report.headline import headline
from pcarann.benchmark.rough.tables import rough_tables
from pcarann.drawing import save
from pcarann.files import atomic_writer

__all__ = ["build_report", "headline_table"]


@dataclass(frozen=True)
class Picture:
    """A figure of the report, in its two files."""

    name: str
    caption: str
    folder: Path
    heavy: bool
    """Whether the page holds the PNG: fields of many pixels"""

    @property
    def uri(self) -> str:
        """The picture itself as an address, so that the page needs no other file."""
        ending, kind = ("png", "png") if self.heavy else ("svg", "svg+xml")
        content = (self.folder / f"{self.name}.{ending}").read_bytes()
        return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


CAPTIONS = {
    "headline": (
        "Accuracy against training time. Down and to the left is better. Filled: ours; hollow: the paper’s. Curves are "
        "the baselines’ validation error while they train and end at their test error."
    ),
    "reliability": (
        "Share of test values inside the interval against the level asked for, refined ensembles, the paper’s pooled "
        "rule. Darcy’s boundary values are exactly zero and always covered: 13 % of the grid, hence the start."
    ),
    "darcy_panel": (
        "The Darcy test sample of median error. Truth and mean share one colour scale; the interval is the paper’s."
    ),
    "adaptation": (
        "Navier–Stokes in a later time window, from t = 11–20 to t = 21–30: error with so many new samples, and the "
        "time of one update with them, by recursive least squares and by refitting the readout on old and new samples."
    ),
    "learning_curves": (
        "Error of the best models against the number of training samples, with and without their symmetry, first data "
        "seed. Diamonds: the paper’s best PCA–RaNN."
    ),
    "stages": (
        "What each stage corrects: Darcy, 200 training samples, no symmetry, a test sample of median error. Above: "
        "the mean field and what every stage adds to it; below: the error that is left, and its relative L² norm. "
        "Every panel has a scale of its own."
    ),
    "representative_burgers": "Burgers: the test samples of least, median and largest error.",
    "representative_darcy": "Darcy: the test samples of least, median and largest error.",
    "representative_navier_stokes": "Navier–Stokes: the test sample of median error at three times.",
    "representative_backward_heat": (
        "Backward heat: the test sample of median error at three times. Each time has its own scale, which truth and "
        "prediction share; the earlier the time, the worse posed."
    ),
}


def build_report(records_folder: Path, out: Path) -> Path:
    """Write report.html, report.md and figures/ under `out` from the records in a folder; return the HTML's path."""
    records = read_records(records_folder)
    if not records:
        raise FileNotFoundError(f"There are no records (*.json) in {records_folder}.")
    figures = out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    pictures = [_saved(figures, name, figure) for name, figure in _drawn(records_folder, records)]
    narrow = _saved(figures, "headline_narrow", headline(records, columns=1))
    content = _content(records, pictures)
    _write(out / "report.md", _render("report.md.j2", content))
    page = out / "report.html"
    _write(page, _render("report.html.j2", {**content, "narrow": narrow}))
    return page


def headline_table(records: Sequence[Record]) -> str:
    """For the README, in Markdown: all methods where the best models were run, else one row for each problem."""
    table = methods_table if select(records, kind="best") else compact_table
    return table(records).markdown()


def _drawn(folder: Path, records: Sequence[Record]) -> Iterator[tuple[str, Any]]:
    """Every figure that these records can give, by name."""
    yield "headline", headline(records)
    if select(records, kind="pcarann", variant="refined"):
        yield "reliability", paper_figures.reliability(records)
    if best_figures.has_learning_curves(records):
        yield "learning_curves", best_figures.learning_curves(records)
    for record in select(records, kind="corrections")[:1]:
        if corrected := fields_beside(folder, record):
            yield "stages", best_figures.stage_corrections(corrected)
    fields = {name: read_fields(folder, records, name) for name in PROBLEMS}
    if darcy := fields["darcy"]:
        yield "darcy_panel", paper_figures.darcy_panel(darcy)
    if select(records, kind="adaptation"):
        yield "adaptation", paper_figures.adaptation(records)
    for name, found in fields.items():
        if found:
            yield f"representative_{name}", getattr(paper_figures, f"representative_{name}")(found)


def _saved(folder: Path, name: str, figure: Any) -> Picture:
    for ending in ("svg", "png"):
        save(figure, folder / f"{name}.{ending}")
    return Picture(name, CAPTIONS.get(name, ""), folder, heavy=name.startswith(("representative", "darcy", "stages")))


def _content(records: Sequence[Record], pictures: Sequence[Picture]) -> dict[str, Any]:
    first, *others = pictures
    return {
        "quick": is_quick(records),
        "best": bool(select(records, kind="best")),
        "headline": first,
        "pictures": others,
        "tables": all_tables(records) + all_best_tables(records) + rough_tables(records),
        "beaten": beaten(records),
        "differences": differences(records),
        "agreement": agreement(records),
        "machines": _machines(records),
        "dates": sorted({record["created"][:10] for record in records}),
    }


def _machines(records: Sequence[Record]) -> list[str]:
    """One line for each machine and state of the code that made records."""
    lines = []
    for place in places(records):
        for record in select(records, place=place):
            machine = record["machine"]
            versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
            what = machine["accelerator"] or machine["processor"]
            cores = f"{machine['cores']} core{'s' if machine['cores'] != 1 else ''}"
            known = machine["commit"] != "unknown"
            code = f"commit {machine['commit']}" if known else f"sources {machine.get('sources', 'unknown')}"
            lines.append(f"{place_title(place)}: {what}, {cores}; Python {machine['python']}, {versions}; {code}.")
    return list(dict.fromkeys(lines))


def _render(template: str, content: Mapping[str, Any]) -> str:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise ImportError("The report needs jinja2: pip install 'pcarann[figures]'.") from None
    blocks: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    loader, escaped = PackageLoader("pcarann.benchmark.report"), template.endswith(".html.j2")
    environment = Environment(loader=loader, autoescape=escaped, undefined=StrictUndefined, **blocks)
    return environment.get_template(template).render(content)


def _write(path: Path, text: str) -> None:
    with atomic_writer(path) as file:
        file.write(text.encode())
