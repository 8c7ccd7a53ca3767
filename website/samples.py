"""Write the tables of errors in docs/samples.md and docs/stages.md from the records of full runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from pcarann.benchmark.best.stage_tables import stages_table
from pcarann.benchmark.best.tables import learning_curves
from pcarann.benchmark.records import read_records
from pcarann.benchmark.rough.tables import rough_inputs

ROOT = Path(__file__).resolve().parents[1]
TABLES: dict[str, dict[str, Callable]] = {
    "samples.md": {"smooth": learning_curves, "rough": rough_inputs},
    "stages.md": {"stages": stages_table},
}
"""Tables by page, and by the mark between which they stand"""


def written(name: str) -> str:
    """The text of a page of docs/ with its tables made from the records."""
    text, records = (ROOT / "docs" / name).read_text(encoding="utf-8"), read_records(ROOT / "results" / "records")
    for mark, make in TABLES[name].items():
        table = make(records)
        lines = f"<!-- {mark} -->\n{table.markdown()}\n\n{table.note}\n<!-- end of {mark} -->"
        text = re.sub(f"<!-- {mark} -->.*<!-- end of {mark} -->", lambda _, lines=lines: lines, text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    for name in TABLES:
        (ROOT / "docs" / name).write_text(written(name), encoding="utf-8")
