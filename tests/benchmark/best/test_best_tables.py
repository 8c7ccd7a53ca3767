"""Tables of the best models: means over seeds, ratios, curves and noise as the records have them;
any may be missing."""

import pytest

from pcarann.benchmark.best import tables as best_tables
from pcarann.benchmark.best.models import ABLATIONS
from pcarann.benchmark.best.tables import BEST, best_adaptation
from pcarann.benchmark.paper import tables
from pcarann.benchmark.paper.configurations import PROBLEMS
from pcarann.benchmark.records import write_record
from pcarann.benchmark.report import findings
from pcarann.benchmark.report.report import build_report, headline_table
from pcarann.benchmark.text import DASH

MACHINE = {"processor": "x", "accelerator": None, "cores": 2, "python": "3", "versions": {}, "commit": "abc"}
KERNEL = "PCA + kernel ridge, same symmetry and inputs"


def header(problem, place, seed=0):
    return {
        "problem": problem,
        "place": place,
        "quick": False,
        "sizes": [1000, 300, 100],
        "seeds": {"data": seed, "model": 0},
        "machine": MACHINE,
        "created": "2026-01-01",
    }


def best_record(problem, error, *, place="cpu", seed=0, change=None, n_train=1000, noise=0.0, seconds=60.0):
    record = {
        **header(problem, place, seed),
        "kind": "best",
        "change": change,
        "n_train": n_train,
        "noise": noise,
        "error": error,
        "error_std": error / 2,
        "seconds": seconds,
        "predict_seconds": 0.1,
    }
    if n_train == 1000:
        record["intervals"] = {"pooled": {"coverage": 0.95, "width": 1e-4, "whole_fields": 0.3}}
    return record


def fno_record(problem, error, method="fno_symmetric"):
    return {
        **header(problem, "h200"),
        "kind": "baseline",
        "method": method,
        "architecture": "4 layers; 8 symmetry copies",
        "parameters": 1,
        "budget": None,
        "epochs": 10,
        "seconds": 500.0,
        "error": error,
        "error_std": error,
        "curve": [[0.0, None], [500.0, None]],
    }


SEEDS = [best_record("burgers", error, seed=seed) for seed, error in enumerate((1e-4, 2e-4, 3e-4))]
RECORDS = [
    *SEEDS,
    best_record("burgers", 1e-4, place="h200", seconds=4.0),
    best_record("burgers", 5e-4, change="kernel", place="h200", seconds=2.0),
    best_record("burgers", 4e-4, change="without symmetry"),
    best_record("burgers", 9e-4, n_train=100),
    best_record("burgers", 20e-4, n_train=100, change="without symmetry"),
    best_record("darcy", 1.9e-2),
    best_record("backward_heat", 4e-3),
    best_record("backward_heat", 8e-3, noise=0.01),
    best_record("backward_heat", 9e-3, noise=0.05, change="kernel"),
    fno_record("burgers", 4e-4),
    fno_record("darcy", 1.8e-2),
]


def cells(table, *start):
    (row,) = [row for row in table.rows if row[: len(start)] == start]
    return row[len(start) :]


def test_the_best_error_is_the_mean_over_seeds_with_its_range_and_times_by_machine():
    table = best_tables.past_the_paper(RECORDS)
    assert table.header[2:6] == ("Error", "Error, least – largest", "Time CPU, s", "Time H200, s")
    found = cells(table, "Burgers", best_tables.BEST)
    assert found[:4] == ("2.00e-4 | 1.93e-3", "1.00e-4 – 3.00e-4", "60.0", "4.0")
    assert found[4:] == ("95.00 % | 94.71 %", "1.00e-4 | 1.29e-3")


def test_baselines_with_the_same_symmetry_have_rows_of_their_own():
    table = best_tables.past_the_paper(RECORDS)
    assert cells(table, "Burgers", "FNO, same symmetry and inputs")[:4] == ("4.00e-4", DASH, DASH, "500.0")
    assert cells(table, "Burgers", KERNEL)[:4] == ("5.00e-4", DASH, DASH, "2.0")
    assert not [row for row in table.rows if row[:2] == ("Backward heat", KERNEL)]


def test_of_darcy_the_best_model_is_itself_a_kernel():
    assert cells(best_tables.past_the_paper(RECORDS), "Darcy", KERNEL)[0] == "the best latent model itself"


def test_the_least_of_our_errors_is_bold():
    table = best_tables.past_the_paper(RECORDS)
    bold = {table.rows[row][:2] for row, _ in table.bold}
    assert bold == {
        ("Burgers", best_tables.BEST),
        ("Darcy", "FNO, same symmetry and inputs"),
        ("Backward heat", best_tables.BEST),
    }


def test_an_ablation_is_compared_with_the_best_on_the_same_seed():
    table = best_tables.ablations(RECORDS)
    assert cells(table, "Burgers", "none: the best latent model")[:2] == ("1.00e-4", "1 ×")
    assert cells(table, "Burgers", "without symmetry")[:2] == ("4.00e-4", "4 ×")
    assert cells(table, "Burgers", "kernel")[:4] == ("5.00e-4", "5 ×", DASH, "2.0")


def test_an_ablation_without_its_best_model_has_no_ratio():
    table = best_tables.ablations([best_record("darcy", 0.02, change="random layers")])
    assert cells(table, "Darcy", "random layers")[:2] == ("2.00e-2", DASH)


def test_ablations_stand_in_the_order_in_which_they_are_defined():
    labels = list(ABLATIONS["darcy"])
    found = best_tables.ablations([best_record("darcy", 0.02, change=label) for label in reversed(labels)])
    assert [row[1] for row in found.rows] == labels


def test_learning_curves_end_at_all_training_samples():
    table = best_tables.learning_curves(RECORDS)
    assert table.header[2:] == ("N = 100", "N = 1000")
    assert table.rows == (("Burgers", "with", "9.00e-4", "1.00e-4"), ("Burgers", "without", "2.00e-3", "4.00e-4"))


def test_noise_has_a_column_for_each_level_and_rows_for_what_was_run_with_it():
    table = best_tables.noise(RECORDS)
    assert table.header[2:] == ("No noise", "Noise 1 %", "Noise 5 %")
    assert table.rows == (
        ("Backward heat", BEST, "4.00e-3", "8.00e-3", DASH),
        ("Backward heat", f"{BEST}, kernel", DASH, DASH, "9.00e-3"),
    )


@pytest.mark.parametrize(
    ("records", "titles"),
    [
        ([], []),
        ([fno_record("burgers", 4e-4)], []),
        (SEEDS, ["Past the paper"]),
        ([*SEEDS, best_record("burgers", 9e-4, n_train=100)], ["Past the paper", "Learning curves"]),
    ],
)
def test_tables_without_records_are_left_out(records, titles):
    assert [table.title for table in best_tables.all_best_tables(records)] == titles


def test_noise_and_samples_do_not_enter_the_best_error():
    assert cells(best_tables.past_the_paper(RECORDS), "Backward heat", best_tables.BEST)[0].startswith("4.00e-3")


def test_the_readme_table_has_a_row_for_each_method_once_the_best_models_were_run():
    lines = headline_table(RECORDS).splitlines()
    best, paper = lines[2], lines[3]
    assert best.startswith(
        "| PCA–RaNN, best latent | **2.00e-4 (CPU 60.0 s, H200 4.0 s)** | 1.90e-2 (CPU 60.0 s) | – |"
    )
    assert paper.startswith("| PCA–RaNN, refined, in the paper | 1.93e-3 (RTX A6000 5.5 s) |")
    assert headline_table([]).splitlines()[2].startswith("| Burgers |")


def test_the_papers_tables_are_the_same_with_records_of_the_best_models():
    best = [record for record in RECORDS if record["kind"] == "best"]
    fno = fno_record("burgers", 1e-3, "fno")
    for make in (tables.comparison, tables.compact_table, tables.architectures, tables.intervals):
        assert make([{**fno, "place": "cpu"}, *best[:3]]).rows == make([{**fno, "place": "cpu"}]).rows


def test_the_symmetric_baseline_is_listed_as_trained():
    assert ("Burgers", "FNO, same symmetry and inputs") in [row[:2] for row in tables.architectures(RECORDS).rows]


def test_a_baseline_that_beats_the_best_model_is_named():
    found = findings.beaten(RECORDS)
    assert found == [
        "No baseline trained here is more accurate than PCA–RaNN as in the paper.",
        "Darcy: FNO, same symmetry and inputs (1.80e-2 in 500.0 s on H200) is more accurate than PCA–RaNN, best latent "
        "(1.90e-2 in 60.0 s on CPU).",
    ]
    assert findings.differences(RECORDS) == []


def test_a_page_is_built_of_best_records_alone(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    for record in RECORDS:
        write_record(tmp_path / "records", record)
    assert len(list((tmp_path / "records").iterdir())) == len(RECORDS)
    page = build_report(tmp_path / "records", tmp_path)
    text = (page.parent / "report.md").read_text()
    for heading in ("Past the paper", "What each option contributes", "Learning curves", "Noisy inputs"):
        assert f"## {heading}" in text
    assert "`pcarann reproduce all --best`" in text
    assert (tmp_path / "figures" / "learning_curves.svg").exists()
    assert set(PROBLEMS) >= {record["problem"] for record in RECORDS}


def test_adaptation_of_the_best_model_stands_below_that_of_the_papers_method():
    def adapted(kind, *errors, way=None):
        ends = ({"samples": n, "error_last": e, "error_mean": e} for n, e in zip((0, 200), errors, strict=True))
        return {"kind": kind, "problem": "navier_stokes", "place": "cpu", "rows": list(ends), "way": way}

    found = adapted("best_adaptation", 0.02, 0.01, way="best")
    table = best_adaptation([adapted("adaptation", 0.3, 0.1), found])
    assert [(row[0], row[1], row[2]) for row in table.rows] == [
        ("PCA–RaNN, refined", "0", "3.00e-1"),
        ("PCA–RaNN, refined", "200", "1.00e-1"),
        (BEST, "0", "2.00e-2"),
        (BEST, "200", "1.00e-2"),
    ]
