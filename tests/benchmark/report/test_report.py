"""The report: numbers of the records in every table, nothing from outside the page, the same bytes twice."""

import base64
import copy
import re

import numpy as np
import pytest

from pcarann.benchmark.paper import tables
from pcarann.benchmark.paper.configurations import BASELINES, PROBLEMS
from pcarann.benchmark.paper.experiments import run_problem
from pcarann.benchmark.records import place_title, places, read_records, select, write_record
from pcarann.benchmark.report import findings
from pcarann.benchmark.report.report import build_report, headline_table
from pcarann.benchmark.text import DASH, number, seconds

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def folder(own_cache, tmp_path_factory):
    """Records of Burgers and Darcy in quick mode, run once; no fields for the energy-matched ones."""
    root = tmp_path_factory.mktemp("report")
    for name in ("burgers", "darcy"):
        for variant in ("energy", "refined"):
            record, fields = run_problem(PROBLEMS[name].quick(), variant, repeats=1)
            write_record(root / "records", record, fields if variant == "refined" else None)
    write_record(root / "records", adaptation_record(record))
    write_record(root / "records", baseline_record(record, "burgers", "fno", error=1e-9))
    return root / "records"


@pytest.fixture(scope="module")
def records(folder):
    return read_records(folder)


@pytest.fixture(scope="module")
def page(folder, tmp_path_factory):
    return build_report(folder, tmp_path_factory.mktemp("page"))


def header(record):
    return {key: record[key] for key in ("place", "quick", "sizes", "members", "widths", "seeds", "machine", "created")}


def adaptation_record(like):
    rows = [{"samples": 0, "error_last": 0.31, "error_mean": 0.21}]
    for n, error in ((10, 0.2), (200, 0.076)):
        times = {"recursive_seconds": 0.123, "batch_seconds": 1.23}
        errors = {
            "error_last": error,
            "error_mean": error / 2,
            "batch_error_last": error,
            "batch_error_mean": error / 2,
        }
        rows.append({"samples": n, **errors, **times})
    return {**header(like), "kind": "adaptation", "problem": "navier_stokes", "rows": rows}


def baseline_record(like, problem, method, *, error, place="h200"):
    return {
        **header(like),
        "kind": "baseline",
        "problem": problem,
        "place": place,
        "method": method,
        "architecture": "4 layers <wide> & deep",
        "parameters": 1188353,
        "budget": 600.0,
        "epochs": 250,
        "seconds": 133.4,
        "error": error,
        "error_std": error / 2,
        "curve": [[1.0, 0.5], [10.0, 0.1], [133.0, error]],
    }


def full(record, **changes):
    """The same record as of a run at full size, with some entries changed."""
    return {**copy.deepcopy(record), "quick": False, **changes}


def cells(table, *start):
    """Cells of the one row that begins so."""
    (row,) = [row for row in table.rows if row[: len(start)] == start]
    return row


def test_the_comparison_holds_our_numbers_and_the_papers(records):
    record = select(records, problem="burgers", variant="refined")[0]
    row = cells(tables.comparison(records), "Burgers", "PCA–RaNN, refined")
    ours = (number(record["errors"]["ensemble"]), seconds(record["seconds"]["ensemble"]), DASH)
    assert row[2:] == (*ours, "1.93e-3", "5.5")


def test_a_baseline_stands_in_the_column_of_its_machine(records):
    table = tables.comparison(records)
    assert table.header[3:5] == ("Time CPU, s", "Time H200, s")
    assert cells(table, "Burgers", "FNO")[2:] == ("1.00e-9", DASH, "133.4", "1.11e-2", "13468.7")


def test_the_least_of_our_errors_is_bold_and_of_the_papers_none(records):
    table = tables.comparison(records)
    bold = {table.rows[row][:2] for row, _ in table.bold}
    assert ("Burgers", "FNO") in bold
    assert {problem for problem, _ in bold} == {"Burgers", "Darcy"}
    assert {column for _, column in table.bold} == {2}


def test_scales_and_gain_are_those_of_the_records(records):
    energy, refined = (select(records, problem="darcy", variant=v)[0] for v in ("energy", "refined"))
    row = cells(tables.scale_refinement(records), "Darcy")
    first, second = refined["scales"]["energy"]
    gain = 1 - refined["errors"]["ensemble"] / energy["errors"]["ensemble"]
    assert row[1] == f"{first:.2g}, {second:.2g} | 0.00046, 0.03"
    assert row[-1] == f"{100 * gain:.1f} % | 0.2 %".replace("-", "−")


def test_single_and_ensemble_show_the_spread_over_samples(records):
    errors = select(records, problem="burgers", variant="energy")[0]["errors"]
    row = cells(tables.single_and_ensemble(records), "Burgers", "energy")
    assert row[2:4] == (f"{number(errors['single'])} | 4.89e-3", f"{number(errors['single_std'])} | 5.09e-3")
    assert row[5:7] == (f"{number(errors['ensemble'])} | 2.28e-3", f"{number(errors['ensemble_std'])} | 2.79e-3")


def test_intervals_show_all_three_methods(records):
    found = select(records, problem="darcy", variant="refined")[0]["intervals"]["at_95"]
    row = cells(tables.intervals(records), "Darcy")
    assert row[1] == f"{100 * found['pooled']['coverage']:.2f} % | 95.52 %"
    assert row[3] == f"{100 * found['sample']['coverage']:.2f} %"
    assert row[6] == number(found["simultaneous"]["width"])


def test_adaptation_stands_beside_the_paper_where_the_paper_has_a_number(records):
    table = tables.adaptation(records)
    assert cells(table, "200")[1:] == ("7.60e-2 | 7.90e-2", "3.80e-2 | 4.90e-2", "7.60e-2", "0.12 | 0.6", "1.2 | 4.5")
    assert cells(table, "10")[1] == f"2.00e-1 | {DASH}"


def test_what_was_not_run_leaves_a_dash(records):
    assert cells(tables.comparison(records), "Darcy", "FNO")[2:] == (DASH, DASH, DASH, "2.43e-2", "1258.6")
    assert cells(tables.scale_refinement(records), "Navier–Stokes")[5:7] == (f"{DASH} | 2.59e-2", f"{DASH} | 2.47e-2")
    alone = tables.adaptation(select(records, kind="pcarann"))
    assert [row[1] for row in alone.rows] == [f"{DASH} | 2.90e-1", f"{DASH} | 7.90e-2"]


def test_a_peer_that_the_paper_lacks_has_no_empty_row(records):
    assert not [row for row in tables.comparison(records).rows if row[1] == BASELINES["kernel"]]


def test_without_baselines_their_table_is_left_out(records):
    titles = [table.title for table in tables.all_tables(select(records, kind="pcarann"))]
    assert "Baselines as trained" not in titles
    assert "Baselines as trained" in [table.title for table in tables.all_tables(records)]


def test_a_baseline_that_beats_us_is_named_with_both_errors(records):
    (sentence,) = findings.beaten(records)
    ours = min(record["errors"]["ensemble"] for record in select(records, kind="pcarann", problem="burgers"))
    assert sentence.startswith("Burgers: FNO (1.00e-9 in 133.4 s on H200) is more accurate than PCA–RaNN")
    assert number(ours) in sentence


def test_no_baseline_and_none_that_wins_are_told_apart(records):
    ours = select(records, kind="pcarann")
    assert findings.beaten(ours) == ["No baseline has been trained for these records."]
    loser = baseline_record(ours[0], "burgers", "fno", error=10.0)
    assert findings.beaten([*ours, loser]) == [
        "No baseline trained here is more accurate than PCA–RaNN as in the paper."
    ]


@pytest.mark.parametrize(("factor", "named"), [(1.25, False), (1.35, True), (0.6, True)])
def test_rows_more_than_30_percent_from_the_paper_are_named(records, factor, named):
    paper = PROBLEMS["burgers"].paper
    record = full(select(records, problem="burgers", variant="refined")[0])
    record["errors"]["ensemble"] = factor * paper.ensemble["refined"].error
    record["errors"]["single"] = paper.single["refined"].error
    record["scales"]["energy"] = paper.energy_scales
    record["intervals"]["at_95"]["pooled"]["coverage"] = 0.95
    found = findings.differences([record])
    assert [f"{number(factor * 1.93e-3)}, {abs(factor - 1):.0%}".replace("%", " %") in line for line in found] == (
        [True] if named else []
    )
    assert all("The cause is not known." in line for line in found)


@pytest.mark.parametrize(
    ("scales", "quick", "given"), [((1, 1.5), False, True), ((1.5, 1), False, False), ((1, 1.5), True, False)]
)
def test_a_known_cause_is_given_for_its_own_difference_and_not_in_quick_mode(records, scales, quick, given):
    record = full(select(records, problem="darcy", variant="refined")[0], quick=quick)
    paper = PROBLEMS["darcy"].paper.energy_scales
    record["scales"]["energy"] = [factor * scale for factor, scale in zip(scales, paper, strict=True)]
    assert any(findings.EXPLANATIONS["darcy", "r̄₂"] in line for line in findings.differences([record])) == given


@pytest.mark.parametrize(("factor", "given"), [(0.5, True), (2.0, False)])
def test_the_cause_of_a_lower_error_is_not_given_for_a_higher_one(records, factor, given):
    record = full(select(records, problem="burgers", variant="refined")[0], problem="backward_heat")
    record["errors"] = {
        kind: factor * getattr(PROBLEMS["backward_heat"].paper, kind)["refined"].error
        for kind in ("single", "ensemble")
    }
    found = findings.differences([record])
    assert any(findings.EXPLANATIONS["backward_heat", "refined below"] in line for line in found) == given


def test_a_baseline_above_the_papers_error_has_its_training_stated(records):
    worse = full(baseline_record(records[0], "darcy", "fno", error=2.6e-2))
    better = full(baseline_record(records[0], "darcy", "pca_nn", error=3e-2))
    (line,) = findings.differences([worse, better])
    assert line.startswith("Darcy: FNO 2.60e-2, 7 % above the paper’s 2.43e-2. Trained for 250 epochs in 133.4 s")
    assert "at most 2 000 epochs" in line


def test_coverage_outside_94_to_96_percent_is_named(records):
    record = full(select(records, problem="burgers", variant="refined")[0])
    record["intervals"]["at_95"]["pooled"]["coverage"] = 0.93
    assert any("coverage at 95 % is 93.00 %" in line for line in findings.differences([record]))


def test_machines_agree_or_the_page_says_how_far_apart_they_are(records):
    record = select(records, problem="burgers", variant="energy")[0]
    other = copy.deepcopy(record) | {"place": "h200"}
    other["errors"]["ensemble"] *= 1.01
    assert findings.agreement([record]) is None
    assert "at most 1 % apart" in findings.agreement([record, other])


def test_the_cpu_comes_first():
    found = [{"place": "a100"}, {"place": "cpu"}]
    assert places(found) == ["cpu", "a100"]
    assert select(found)[0]["place"] == "cpu"
    assert place_title("rtx-a6000") == "RTX A6000"


def test_the_page_asks_for_nothing_outside_itself(page):
    html = page.read_text()
    addresses = re.findall(r"""(?:src|href|srcset)\s*=\s*["']([^"']*)|url\(([^)]*)\)""", html)
    assert addresses
    assert all((a or b).startswith("data:") for a, b in addresses)
    assert "<script" not in html
    assert "http://" not in html
    assert "https://" not in html
    assert "@import" not in html


def test_every_picture_is_embedded_whole(page):
    images = re.findall(r'data:image/(png|svg\+xml);base64,([^"]+)"', page.read_text())
    starts = {"png": b"\x89PNG\r\n\x1a\n", "svg+xml": b"<?xml ve"}
    assert len(images) == len(list((page.parent / "figures").glob("*.svg")))
    assert all(base64.b64decode(content, validate=True)[:8] == starts[kind] for kind, content in images)
    assert page.stat().st_size < 6e6


def test_text_of_records_is_escaped(page):
    html = page.read_text()
    assert "4 layers &lt;wide&gt; &amp; deep" in html
    assert "<wide>" not in html


def test_quick_mode_is_shown(page):
    assert 'class="warning"' in page.read_text()
    assert "**Quick mode.**" in (page.parent / "report.md").read_text()


def test_markdown_and_html_have_the_same_rows(page, records):
    html, markdown = page.read_text(), (page.parent / "report.md").read_text()
    found = tables.all_tables(records)
    assert html.count("<tr") == sum(len(table.rows) + 1 for table in found)
    for table in found:
        assert table.markdown() in markdown
        assert len(table.markdown().splitlines()) == len(table.rows) + 2


def test_two_builds_give_the_same_bytes(page, folder, tmp_path):
    again = build_report(folder, tmp_path)
    files = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.*"))
    assert len(files) == 2 + len(list((page.parent / "figures").iterdir()))
    for file in files:
        assert (tmp_path / file).read_bytes() == (page.parent / file).read_bytes(), file
    assert again.name == "report.html"


def test_the_page_knows_machine_versions_and_dates(page, records):
    html = page.read_text()
    assert f"numpy {np.__version__}" in html
    assert records[0]["machine"]["commit"] in html
    assert records[0]["created"][:10] in html


def test_one_record_alone_makes_a_page(records, tmp_path):
    write_record(tmp_path / "records", select(records, kind="baseline")[0])
    markdown = build_report(tmp_path / "records", tmp_path).parent / "report.md"
    assert "| Burgers | FNO | **1.00e-9** |" in markdown.read_text()
    assert sorted(path.name for path in (tmp_path / "figures").glob("*.png")) == ["headline.png", "headline_narrow.png"]


def test_a_folder_without_records_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no records"):
        build_report(tmp_path, tmp_path)


def test_the_readme_table_has_a_row_for_each_problem(records):
    lines = headline_table(records).splitlines()
    assert len(lines) == 2 + len(PROBLEMS)
    assert "FNO: 1.00e-9 in 133.4 s" in lines[2]
    assert f"{DASH} \\| 2.47e-2" in lines[4]
