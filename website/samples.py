"""Write the tables of docs/samples.md from the records of full runs: errors by the number of training samples."""

from __future__ import annotations

import re
from pathlib import Path

from pcarann.benchmark.best.tables import learning_curves
from pcarann.benchmark.records import read_records
from pcarann.benchmark.rough.tables import rough_inputs

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "samples.md"


def written(text: str) -> str:
    """The page with both tables between their marks."""
    records = read_records(ROOT / "results" / "records")
    for mark, table in (("smooth", learning_curves(records)), ("rough", rough_inputs(records))):
        lines = f"<!-- {mark} -->\n{table.markdown()}\n\n{table.note}\n<!-- end of {mark} -->"
        text = re.sub(f"<!-- {mark} -->.*<!-- end of {mark} -->", lambda _, lines=lines: lines, text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
